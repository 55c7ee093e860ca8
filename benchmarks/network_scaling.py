"""How the time of a network grows with its layers: one line per size.

    python benchmarks/network_scaling.py [--same N ...] [--distinct N ...]

The networks are chains of 3x3 and 1x1 convolutions. With --same every block has the same shapes, so few problems are
mapped; with --distinct no two layers are equal.
"""

from __future__ import annotations

import argparse
import time
from itertools import pairwise, repeat
from pathlib import Path
from tempfile import TemporaryDirectory

from fadiff_mapper import Workload, bundled, load_network, map_network

PIXELS = 14
CHANNELS = (32, 48)


def main() -> None:
    given = argparse.ArgumentParser()
    given.add_argument("--same", nargs="*", type=int, default=[10, 50, 200, 1000])
    given.add_argument("--distinct", nargs="*", type=int, default=[10, 50, 200])
    given.add_argument("--design", choices=("large", "small"), default="large")
    options = given.parse_args()
    warm_up = network(2, distinct=True)
    map_network(warm_up, bundled.find(f"arch/gemmini_{options.design}"))
    print(f"{'layers':>6} {'distinct':>8} {'s':>7} {'CPU s':>7} {'CPU s per distinct layer':>24} {'groups':>6} "
          f"{'saved':>7}")
    for count, distinct in [*zip(options.same, repeat(False)), *zip(options.distinct, repeat(True))]:
        workload = network(count, distinct)
        start = time.process_time()
        result = map_network(workload, bundled.find(f"arch/gemmini_{options.design}"))
        spent = time.process_time() - start
        print(f"{count:6} {len(result.layers):8} {result.time_s:7.1f} {spent:7.1f} {spent / len(result.layers):24.2f} "
              f"{len(result.groups):6} {result.gain:7.2%}", flush=True)


def network(count: int, distinct: bool) -> Workload:
    """A chain of so many layers, 3x3 and 1x1 by turns."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "chain.yaml"
        file.write_text(text(count, distinct))
        return load_network(file)


def text(count: int, distinct: bool) -> str:
    """The chain as a network file; where all layers are distinct, the channels grow from layer to layer."""
    widths = [CHANNELS[place % 2] + (8 * place if distinct else 0) for place in range(count + 1)]
    lines = ["workload:", "  version: 1", "  name: chain",
             f"  inputs: {{input: [1, {widths[0]}, {PIXELS}, {PIXELS}]}}", "  shapes:"]
    graph = ["  graph:"]
    for place, (channels, outputs) in enumerate(pairwise(widths)):
        kernel = 3 if place % 2 == 0 else 1
        lines.append(f"  - {{id: s{place}, op: conv, dims: {{N: 1, M: {outputs}, C: {channels}, P: {PIXELS}, "
                     f"Q: {PIXELS}, R: {kernel}, S: {kernel}}}, stride: [1, 1]}}")
        graph.append(f"  - {{name: l{place}, shape: s{place}, from: [{f'l{place - 1}' if place else 'input'}]}}")
    return "\n".join(lines + graph) + "\n"


if __name__ == "__main__":
    main()
