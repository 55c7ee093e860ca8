#!/usr/bin/env python3
"""A thousand designs times ResNet-50 for real, in pieces: each mapped as `map` does, none left out for its bound.

    python benchmarks/design_thousand.py --store FOLDER [--designs N] [--space NAME] [--jobs N] [--seconds S] [-o FILE]

Random designs. Each call goes on for so many seconds where the last one ended, as all that was mapped is in the store,
and leaves a line in FOLDER/pieces.jsonl. The table has a row for each piece: designs mapped by then, and the seconds of
the piece, the reading of what earlier pieces stored among them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from provenance import add_output, heading, markdown, row
from resnet50 import write_resnet50

from fadiff_mapper import load_network, read_space
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.search_design import search_design


def main() -> None:
    """Goes on with the designs, and writes the pieces so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--designs", type=int, default=1000)
    parser.add_argument("--space", default="bundled:spaces/gemmini_large")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=170.0)
    add_output(parser)
    options = parser.parse_args()
    pieces = options.store / "pieces.jsonl"
    with tempfile.TemporaryDirectory() as folder:
        network = load_network(write_resnet50(Path(folder)))
        random = DesignOptions(fuse=False, time_limit=options.seconds, method="random", evaluations=options.designs,
                               prune=False, neighbours=False)
        question = DesignQuestion(read_space(options.space), (network,), (1.0,), random)
        start = time.monotonic()
        machine = search_design(question, DesignWorkers(options.jobs, store=options.store / "entries"))
        with pieces.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps([machine.evaluations, time.monotonic() - start]) + "\n")
    with markdown(options.output) as write:
        write(heading("piece", "designs mapped", "seconds of the piece", "seconds of all pieces"))
        total = 0.0
        for number, line in enumerate(pieces.read_text(encoding="utf-8").splitlines(), 1):
            designs, seconds = json.loads(line)
            total += seconds
            write(row(number, designs, f"{seconds:.0f}", f"{total:.0f}"))


if __name__ == "__main__":
    main()
