"""Kills at random moments: `python -m tests.fuzz.kills --kills 200`; every file that a killed run leaves is whole.

For each command the run is started in a fresh folder and killed (SIGKILL) after a random time, and every file that was
left is read: YAML by the package's own reader, JSON as JSON, others as text that ends with a line. Every tenth folder
is then given to the same command again, which must end by itself. The exit code is 1 where anything was lost.
"""

from __future__ import annotations

import argparse
import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.yaml.load import load_text

LAYER, DESIGN = "bundled:layers/resnet18/fc_512_1000", "bundled:arch/gemmini_small"

COMMANDS = {
    "map": ("map", DESIGN, LAYER, "-o", "out", "--quiet", "--energy", "bundled"),
    "map of many": ("map", DESIGN, "bundled:layers/resnet18", "-o", "out", "--quiet", "--energy", "bundled"),
    "network": ("network", "bundled:networks/gpt3_6b7_block", DESIGN, "-o", "out", "--quiet", "--energy", "bundled"),
    "import": ("import", "bundled:networks/vgg16", "-o", "out.yaml"),
    "shim": ("shim", "out"),
}


def started(folder: Path, words: Sequence[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "fadiff_mapper", *words], cwd=folder, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def broken(folder: Path) -> list[str]:
    """Files of a folder that are not whole; hidden ones are locks and parts that no reader looks at."""
    wrong = []
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or any(part.startswith(".") for part in path.relative_to(folder).parts):
            continue
        text = path.read_text(encoding="utf-8")
        try:
            if path.suffix == ".json":
                json.loads(text)
            elif path.suffix == ".yaml":
                load_text(text, path.name)
            if not text.endswith("\n"):
                wrong.append(f"{path.name}: ends within a line")
        except (ValueError, FadiffError) as error:
            wrong.append(f"{path.name}: {error}")
    return wrong


def attacked(name: str, kills: int, rng: random.Random) -> tuple[int, int, list[str]]:
    """(runs that were killed before their end, folders that were gone on with, findings)."""
    killed, repeated, findings = 0, 0, []
    with TemporaryDirectory() as root:
        start = time.monotonic()
        started(Path(root), COMMANDS[name]).wait()
        whole = time.monotonic() - start
        for number in range(kills):
            folder = Path(root) / str(number)
            folder.mkdir()
            process = started(folder, COMMANDS[name])
            try:
                process.wait(rng.uniform(0.1, 1.05) * whole)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGKILL)
                killed += 1
                process.wait()
            findings += [f"{name} {number}: {line}" for line in broken(folder)]
            if number % 10 == 0:
                repeated += 1
                code = started(folder, COMMANDS[name]).wait()
                findings += [f"{name} {number}: exit code {code} when gone on with"] if code else []
                findings += [f"{name} {number}: {line}, when gone on with" for line in broken(folder)]
    return killed, repeated, findings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.kills")
    parser.add_argument("--kills", type=int, default=200, help="of each command")
    parser.add_argument("--command", action="append", choices=COMMANDS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    lost = 0
    for name in options.command or COMMANDS:
        killed, repeated, findings = attacked(name, options.kills, random.Random(f"{options.seed} {name}"))
        print(f"{name:12} {options.kills} runs, {killed} killed before their end, {repeated} gone on with, "
              f"{len(findings)} findings", *findings, sep="\n  ", flush=True)
        lost += len(findings)
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
