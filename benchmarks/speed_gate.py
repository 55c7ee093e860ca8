"""Whether a checkout is slower than another one: both run the same commands, in turns, on the same machine.

    python benchmarks/speed_gate.py OLD NEW [--rounds N] [--most RATIO] [-o FILE]
    python benchmarks/speed_gate.py CHECKOUT [--rounds N] [-o FILE]     only the times of one

OLD and NEW are folders with checkouts whose kernel is built (`python setup.py build_ext --inplace`). Each round runs
every command once with each, and begins with the other one than the round before. Compared is the least processor time
of the rounds, start of the program included. Exits with 1 if new / old is above RATIO: 1.10, as two runs with the same
checkout differ by less, with other work on the machine too.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from provenance import add_output, heading, markdown, row

LAYER = "bundled:layers/resnet18/conv3x3_64_64_56_s1"
COMMANDS = {
    "check": ["check", "bundled:arch/gemmini_large", LAYER],
    "map, 3 levels": ["map", "bundled:arch/gemmini_small", LAYER, "--jobs", "1", "-o", "out"],
    "map, 5 levels": ["map", "bundled:arch/simba_like", LAYER, "--jobs", "1", "-o", "out"],
    "network": ["network", "bundled:networks/mobilenet_v1", "bundled:arch/gemmini_large", "--jobs", "1", "-o", "out"],
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs="+", type=Path, metavar="CHECKOUT")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--most", type=float, default=1.10, metavar="RATIO")
    add_output(parser)
    options = parser.parse_args()
    sides = [checkout.resolve() for checkout in options.checkouts]
    slow = False
    with markdown(options.output) as write:
        write(heading("command", *(["old, CPU s", "new, CPU s", "new / old"] if len(sides) > 1 else ["CPU s"])))
        for name, arguments in COMMANDS.items():
            for side in sides:
                seconds(side, arguments)  # compiles the modules and fills the caches of the disk
            times: list[list[float]] = [[] for _ in sides]
            for turn in range(options.rounds):
                for index in sorted(range(len(sides)), reverse=bool(turn % 2)):
                    times[index].append(seconds(sides[index], arguments))
            least = [min(own) for own in times]
            slow |= least[-1] / least[0] > options.most
            ratio = [least[-1] / least[0]] if least[1:] else []
            write(row(name, *(f"{value:.3f}" for value in (*least, *ratio))))
        if least[1:]:
            write(f"\n{'FAILED' if slow else 'passed'}: new / old may be {options.most:.2f} at most")
    return int(slow)


def seconds(checkout: Path, arguments: list[str]) -> float:
    """Processor time of one command, run with a checkout's package in an empty folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "fadiff_mapper", *arguments], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(checkout)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    sys.exit(main())
