#!/usr/bin/env python3
"""How long designs of a space take, and how much of that is not the search of mappings.

    python benchmarks/design_speed.py [--designs N] [--space NAME] [--network FILE] [--jobs N] [-o FILE]

ResNet-50, 24 distinct layers (or another network), each mapped as `map` does, on random designs, none left out for its
bound. Rows, all of one run and in turns: the search of the mappings alone, of specs that have been read; the evaluation
called directly, without a store; and through the engine with a store, in one process and in several. Seconds are of CPU
time, of all processes together without their start, which other work on the machine disturbs less. "overhead": of the
direct evaluation against the search alone; of the engine against the direct evaluation in as many processes, because
processes at once slow each other down. The last column is 1,000 designs on two cores at this rate.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from provenance import Write, add_output, heading, markdown, row
from resnet50 import write_resnet50

from fadiff_mapper import load_network, read_space
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.evaluation.work_force import work_force
from fadiff_mapper.design.proposers.random_designs import RandomDesigns
from fadiff_mapper.design.space import Point
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.search_many import search_all

SHARE = 6
"""Designs that are evaluated in one way after the other before the next ones: machines are faster at times."""

WARMING_SEED = 1
"""Seed of the designs that are mapped before seconds are counted; those measured have seed 0."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", type=int, default=50)
    parser.add_argument("--space", default="bundled:spaces/gemmini_large")
    parser.add_argument("--network", help="a network that `load_network` reads, in place of ResNet-50")
    parser.add_argument("--jobs", type=int, default=2)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        network = load_network(options.network or write_resnet50(Path(folder)))
        question = DesignQuestion(read_space(options.space), (network,), (1.0,), fuse=False)
        points = RandomDesigns(question.space, 0).propose(options.designs, [])
        write(heading("what", "designs", "layers", "CPU s per design", "overhead", "1,000 designs on two cores, min"))
        measure(question, points, options.jobs, Path(folder), write)


def measure(question: DesignQuestion, points: list[Point], jobs: int, folder: Path, write: Write) -> None:
    """Writes one row for each way to evaluate the points, a few of which go through all ways before the next few."""
    bench = DesignBench(question, None)
    bench.reader.specs(points[0])

    def search(share: list[Point]) -> float:
        designs = [bench.reader.specs(point) for point in share]
        return seconds_of(lambda: [search_all([mapping_task(spec) for spec in specs], question.layer_options)
                                   for specs in designs])

    def direct(share: list[Point]) -> float:
        return seconds_of(lambda: [evaluate_design(bench, point) for point in share])

    with ExitStack() as stack:
        one, several = (stack.enter_context(Engine(question, number, folder / str(number))) for number in (1, jobs))
        ways: list[tuple[str, Callable[[list[Point]], float], int]] = [
            ("the search alone", search, 0),
            ("evaluated directly", direct, 0),
            ("engine with a store, 1 process", one.seconds, 1),
            (f"evaluated directly, {jobs} processes at once", lambda share: seconds_at_once(bench, share, jobs), 1),
            (f"engine with a store, {jobs} processes", several.seconds, 3)]
        seconds = [0.0] * len(ways)
        for first in range(0, len(points), SHARE):
            for number, (_, way, _) in enumerate(ways):
                seconds[number] += way(points[first:first + SHARE])
    for (what, _, base), spent in zip(ways, seconds, strict=True):
        each = spent / len(points)
        write(row(what, len(points), len(question.layers), f"{each:.3f}", f"{spent / seconds[base] - 1:+.1%}",
                  f"{each * 1000 / 2 / 60:.1f}"))


def seconds_at_once(bench: DesignBench, points: list[Point], processes: int) -> float:
    """CPU seconds of processes at once that evaluate their shares of the points directly, together."""
    fork = get_context("fork")
    spent = fork.SimpleQueue()

    def evaluate(share: list[Point]) -> None:
        spent.put(seconds_of(lambda: [evaluate_design(bench, point) for point in share]))

    workers = [fork.Process(target=evaluate, args=(points[first::processes],)) for first in range(processes)]
    for worker in workers:
        worker.start()
    total = sum(spent.get() for _ in workers)
    for worker in workers:
        worker.join()
    return total


def seconds_of(work: Callable[[], object]) -> float:
    """CPU seconds of this process."""
    start = time.process_time()
    work()
    return time.process_time() - start


@dataclass
class Engine:
    """Workers that have been started.

    Attributes:
        question: The question.
        jobs: Processes.
        folder: The store.
    """

    question: DesignQuestion
    jobs: int
    folder: Path

    def __enter__(self) -> Engine:
        self.force = work_force(DesignBench(self.question, self.folder), self.jobs)
        self.evaluated = self.force.__enter__()
        # All processes are up, and have loaded what an evaluation needs.
        list(self.evaluated(RandomDesigns(self.question.space, WARMING_SEED).propose(2 * self.jobs, []), []))
        return self

    def __exit__(self, *_: object) -> None:
        self.force.__exit__(None, None, None)

    def seconds(self, points: list[Point]) -> float:
        """CPU seconds of this process and its workers for the points."""
        start = all_seconds()
        list(self.evaluated(points, []))
        return all_seconds() - start


def all_seconds() -> float:
    """CPU seconds of this process and all processes below it, running ones included."""
    ticks, total = os.sysconf("SC_CLK_TCK"), 0
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parents[int(entry.parent.name)] = int(fields[1]), int(fields[11]) + int(fields[12])
    for process, (_, spent) in parents.items():
        above = process
        while above in parents and above != os.getpid():
            above = parents[above][0]
        total += spent if above == os.getpid() else 0
    return total / ticks


if __name__ == "__main__":
    main()
