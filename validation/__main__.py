"""The start of `fadiff-validate`, and of `python -m validation` from a checkout."""

import sys

from fadiff_mapper.base.program_start import run_main


def main() -> int:
    """Runs the command line of this process; returns its exit code."""
    return run_main(f"{__package__}.cli")


if __name__ == "__main__":
    sys.exit(main())
