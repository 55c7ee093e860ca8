"""A long attack: `python -m tests.fuzz --minutes 30`; the exit code is 1 where something was found."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of the tests are imported as the tests import them

from fuzz.all_doors import DOORS
from fuzz.attack import attack, table


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--door", action="append", choices=DOORS, help="these doors only")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="a folder for the cases with findings")
    options = parser.parse_args()
    doors = {name: DOORS[name] for name in options.door or DOORS}
    report = attack(doors, options.seed, minutes=options.minutes, keep=options.keep,
                    say=lambda line: print(line, flush=True))
    print(*table(report), f"{sum(report.outcomes.values())} cases, {len(report.findings)} findings", sep="\n")
    return int(bool(report.findings))


if __name__ == "__main__":
    sys.exit(main())
