"""Many runs in one folder at once: `python -m tests.fuzz.two_writers --rounds 5`; one of them writes, none spoils it.

Sixteen runs of each command begin together in one folder. Each either ends well, or says that another run writes there;
at least one ends well, and the files are there whole. The exit code is 1 where anything was lost.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of the tests are imported as the tests import them

from fuzz.runs import COMMANDS, Figures, forked, loaded, parts, prepared, unwhole, waited

TOGETHER = 16

HELD = "another run writes to"
"""How a run says that it cannot have the folder."""


def attacked(name: str, rounds: int, place: Path) -> Figures:
    """Runs a command many times at once, and that again and again."""
    words, crowd, whole = COMMANDS[name], Figures(rounds * TOGETHER), place / "whole"
    prepared(whole, None)
    if code := waited(forked(whole, words)):
        crowd.lost.append(f"exit code {code} alone")
    finished = {path for path, _ in unwhole(whole / "out")}
    for number in range(rounds):
        folder = place / f"round{number}"
        prepared(folder, None)
        said = [place / f"said{index}" for index in range(TOGETHER)]
        codes = [waited(pid) for pid in [forked(folder, words, file) for file in said]]
        done = codes.count(0)
        refused = sum(code in (1, 2) and HELD in file.read_text() for code, file in zip(codes, said, strict=True))
        crowd.done, crowd.declined = crowd.done + done, crowd.declined + refused
        if not done or done + refused < TOGETHER:
            words_said = " ".join(file.read_text()[-200:] for file in said)
            crowd.lost.append(f"round {number}: exit codes {codes}: {words_said}")
        crowd.look(folder / "out", finished, f"round {number}")
        crowd.lost += [f"round {number}: left {part}" for part in parts(folder)]
    return crowd


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.two_writers")
    parser.add_argument("--rounds", type=int, default=5, help="of each command")
    parser.add_argument("--command", action="append", choices=COMMANDS)
    options = parser.parse_args()
    loaded()
    lost = 0
    for name in options.command or COMMANDS:
        with TemporaryDirectory(prefix="fadiff-writers-") as place:
            crowd = attacked(name, options.rounds, Path(place))
        print(f"{name:15} {crowd.runs} runs, {TOGETHER} at a time: {crowd.done} done, {crowd.declined} refused, "
              f"{crowd.read} files read, {len(crowd.lost)} lost", *crowd.lost, sep="\n  ", flush=True)
        lost += len(crowd.lost)
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
