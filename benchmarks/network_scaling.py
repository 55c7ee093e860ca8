"""How the time and memory of a network grow with its layers: one row per size, each in a process of its own.

    python benchmarks/network_scaling.py [--same N ...] [--distinct N ...] [--design large|small] [--threads N]
                                         [-o FILE]

The networks are chains of 3x3 and 1x1 convolutions. With --same every block has the same shapes, so few problems are
mapped; with --distinct no two layers are equal, and all have between 64 and 320 channels, so that a layer of a short
network takes as long as one of a long one.
"""

from __future__ import annotations

import argparse
import random
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise, repeat
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

from provenance import add_output, heading, markdown, row

from fadiff_mapper import NetworkOptions, Workload, load_network, map_network
from fadiff_mapper.base import bundled_files

PIXELS = 14
"""Rows and columns of every feature map."""

SAME = (32, 48)
"""Channels of a chain of equal blocks, by turns."""

CHANNELS = range(64, 321, 8)
"""Channels of a chain in which all layers differ."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--same", nargs="*", type=int, default=[10, 50, 200, 1000])
    parser.add_argument("--distinct", nargs="*", type=int, default=[10, 50, 200])
    parser.add_argument("--design", choices=("large", "small"), default="large")
    parser.add_argument("--threads", type=int)
    add_output(parser)
    options = parser.parse_args()
    with (markdown(options.output) as write,
          ProcessPoolExecutor(1, get_context("spawn"), max_tasks_per_child=1) as pool):
        write(heading("layers", "distinct", "s", "CPU s", "CPU s per distinct layer", "MB", "groups", "saved"))
        for count, distinct in [*zip(options.same, repeat(False)), *zip(options.distinct, repeat(True))]:
            write(pool.submit(measured, count, distinct, options.design, options.threads).result())


def measured(count: int, distinct: bool, design: str, threads: int | None) -> str:
    """Maps a chain of `count` layers and returns its row of the table; MB is the process's peak memory."""
    file = bundled_files.find(f"arch/gemmini_{design}")
    map_network(network(2, distinct=True), file)  # loads and compiles all code, so that the timing excludes that
    workload = network(count, distinct)
    start = time.process_time()
    result = map_network(workload, file, NetworkOptions(threads=threads))
    spent, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return row(count, len(result.layers), f"{result.time_s:.1f}", f"{spent:.1f}", f"{spent / len(result.layers):.2f}",
               memory, len(result.groups), f"{result.gain:.2%}")


def network(count: int, distinct: bool) -> Workload:
    """A chain of `count` layers, 3x3 and 1x1 by turns; with `distinct` no layer comes twice."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "chain.yaml"
        file.write_text(text(distinct_widths(count) if distinct else [SAME[index % 2] for index in range(count + 1)]))
        return load_network(file)


def distinct_widths(count: int) -> list[int]:
    """Channels along a chain in which no layer comes twice: a random walk over pairs of them not yet met."""
    rng = random.Random(0)
    widths, met = [CHANNELS[0]], set[tuple[int, int, int]]()
    while len(widths) <= count:
        kernel = len(widths) % 2
        widths.append(rng.choice([more for more in CHANNELS if (kernel, widths[-1], more) not in met]))
        met.add((kernel, widths[-2], widths[-1]))
    return widths


def text(widths: list[int]) -> str:
    """The chain with these channels as a network file."""
    lines = ["workload:", "  version: 1", "  name: chain",
             f"  inputs: {{input: [1, {widths[0]}, {PIXELS}, {PIXELS}]}}", "  shapes:"]
    graph = ["  graph:"]
    for index, (channels, outputs) in enumerate(pairwise(widths)):
        kernel = 3 if index % 2 == 0 else 1
        lines.append(f"  - {{id: s{index}, op: conv, dims: {{N: 1, M: {outputs}, C: {channels}, P: {PIXELS}, "
                     f"Q: {PIXELS}, R: {kernel}, S: {kernel}}}, stride: [1, 1]}}")
        graph.append(f"  - {{name: l{index}, shape: s{index}, from: [{f'l{index - 1}' if index else 'input'}]}}")
    return "\n".join(lines + graph) + "\n"


if __name__ == "__main__":
    main()
