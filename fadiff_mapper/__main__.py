"""The start of the command line: `fadiff-mapper` and `python -m fadiff_mapper`.

Ctrl-C ends it without a traceback from the first line below on. What comes before is Python's own start.
"""

import sys

try:
    from fadiff_mapper.base.program_start import run_main
except KeyboardInterrupt:
    sys.stderr.write("interrupted\n")
    sys.exit(130)


def main() -> int:
    """Runs the command line of this process; returns its exit code."""
    return run_main("fadiff_mapper.cli")


if __name__ == "__main__":
    sys.exit(main())
