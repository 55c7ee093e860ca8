"""Installs AccelForge from PyPI into a virtual environment of its own.

    python -m benchmarks.papers.install_accelforge FOLDER [--python python3.12]

AccelForge needs Python 3.12 or newer, as a library of its does. Prints the line that tells the part `accelforge` where
that environment is.
"""

from __future__ import annotations

import argparse
import subprocess
from pathlib import Path

VERSION = "1.0.467"

VARIABLE = "ACCELFORGE_PYTHON"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--python", default="python3.12", metavar="PROGRAM", help="Python 3.12 or newer")
    options = parser.parse_args()
    subprocess.run([options.python, "-m", "venv", str(options.folder)], check=True)
    python = options.folder.resolve() / "bin" / "python"
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", f"accelforge=={VERSION}"], check=True)
    print(f"export {VARIABLE}={python}")


if __name__ == "__main__":
    main()
