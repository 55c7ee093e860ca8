"""The start of the command line: `fadiff-mapper` and `python -m fadiff_mapper`."""

import sys

from fadiff_mapper.base.program_start import run_main


def main() -> int:
    """Runs the command line of this process; returns its exit code."""
    return run_main("fadiff_mapper.cli")


if __name__ == "__main__":
    sys.exit(main())
