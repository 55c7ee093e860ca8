#!/usr/bin/env python3
"""How long designs of a space take, and how much of that is the engine around the search of mappings.

    python benchmarks/design_speed.py [--designs N] [--space NAME] [--network FILE] [--jobs N ...] [-o FILE]

ResNet-50, 24 distinct layers (or another network), each mapped as `map` does, on random designs with an empty store,
none left out for its bound: `search_design` as a whole, but for the start of its workers and the design written at its
end. CPU seconds of all processes together, in parts of one and the same run, so that what other work on the machine
takes cancels: the search of mappings (what `map` would do); the rest of the evaluation of a design, which is reading
it, hashing it and its layers, and the store; and all that happens outside of evaluations, in the workers (pickled
tasks) and in the parent (proposals, messages, books). Columns in per cent are of the run's CPU seconds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from engine_stamps import Stamps, engine_stamps
from provenance import add_output, heading, markdown, row
from resnet50 import write_resnet50

from fadiff_mapper import load_network, read_space
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.search_design import DesignProgress, search_design

ROUND = 8
"""Designs of a round. The first round, in which workers start and load what they need, is not counted."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", type=int, default=48)
    parser.add_argument("--space", default="bundled:spaces/gemmini_large")
    parser.add_argument("--network", help="a network that `load_network` reads, in place of ResNet-50")
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        write(heading("processes", "designs", "layers", "CPU s per design", "search of mappings",
                      "reading, hashes, store", "outside of evaluations", "engine in all",
                      "1,000 designs on two cores, min"))
        for jobs in options.jobs:
            with tempfile.TemporaryDirectory() as folder:
                network = load_network(options.network or write_resnet50(Path(folder)))
                random = DesignOptions(fuse=False, method="random", evaluations=ROUND + options.designs, prune=False,
                                       neighbours=False, per_round=ROUND)
                question = DesignQuestion(read_space(options.space), (network,), (1.0,), random)
                spent = measured(question, options.designs, jobs, Path(folder))
            parts = (spent.searching, spent.evaluating - spent.searching, spent.everything - spent.evaluating,
                     spent.everything - spent.searching)
            each = spent.everything / options.designs
            write(row(jobs, options.designs, len(question.layers), f"{each:.3f}",
                      *(f"{part / spent.everything:.1%}" for part in parts), f"{each * 1000 / 2 / 60:.1f}"))


def measured(question: DesignQuestion, designs: int, jobs: int, folder: Path) -> Stamps:
    """The cost of so many designs after the first round; rounds end when all their designs have been evaluated."""
    told: list[Stamps] = []
    stamps = folder / "stamps"
    stamps.mkdir()
    with engine_stamps(stamps) as spent:
        def note(progress: DesignProgress) -> None:
            if progress.evaluations in (ROUND, ROUND + designs):
                told.append(spent())

        search_design(question, DesignWorkers(jobs, store=folder / "store"), on_progress=note)
    return told[1] - told[0]


if __name__ == "__main__":
    main()
