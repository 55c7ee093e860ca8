#!/usr/bin/env python3
"""How many mappings per second the exact evaluation scores, on random mappings within each design's constraints.

    python benchmarks/evaluation_throughput.py [--batch N [N ...]] [--repeats N] [--threads N [N ...]]
                                               [--design NAME ...] [--legal] [-o FILE]

One row per design, layer and number of threads, all in one run: mappings per second by the clock (the best of the
repeats), and microseconds of CPU time per mapping, which other work on the machine disturbs less. "legal" is the share
of the mappings that fit the design. Eight mappings without a legal one among them cost less, so two checkouts compare
only where their shares are equal: another version may draw other mappings. With `--legal` all mappings are legal ones,
as most are that a search evaluates. The name `untuned_design` is that of the design and problem in the file beside this
script, which resemble no bundled ones.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from fadiff_validation.random_mappings import random_nests
from provenance import Write, add_output, heading, markdown, row

from fadiff_mapper import load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.search.mapspace.build import build_mapspace

DESIGNS = ("gemmini_large", "gemmini_small", "weight_stationary", "output_stationary", "eyeriss_like", "simba_like")
"""The bundled designs, from few levels to many."""

UNTUNED = "untuned_design"

LAYERS = ("resnet18/conv3x3_64_64_56_s1", "resnet18/conv3x3_128_256_14_s2")
"""A convolution, and one with a stride, whose windows slide in the array of some designs."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, nargs="+", default=[64, 4096, 65536], help="mappings per call")
    parser.add_argument("--repeats", type=int, default=5, help="calls for 65,536 mappings; more for smaller batches")
    parser.add_argument("--legal", action="store_true")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count() or 1])
    parser.add_argument("--design", nargs="+", default=(*DESIGNS, UNTUNED))
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        write(heading("design", "layer", "legal", "threads", "batch", "mappings/s", "us of CPU per mapping"))
        for design in options.design:
            for name, spec in specs_of(design):
                measure(design, name, spec, options, write)


def specs_of(design: str) -> Iterator[tuple[str, Spec]]:
    """The layers on a design, with their names."""
    if design == UNTUNED:
        spec = load(Path(__file__).with_name(f"{UNTUNED}.yaml"))
        yield spec.problem.name, spec
    else:
        yield from ((name, load(find(f"arch/{design}"), find(f"layers/{name}"))) for name in LAYERS)


def measure(design: str, name: str, spec: Spec, options: argparse.Namespace, write: Write) -> None:
    """Writes a row per size of batch and number of threads for one layer on one design."""
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    every = random_nests(layer, build_mapspace(spec.arch, spec.problem, spec.constraints), max(options.batch))
    kept = np.flatnonzero(score(layer, every).legal)
    legal = len(kept) / every.batch
    if options.legal and len(kept):
        every, legal = every.take(np.resize(kept, every.batch)), 1.0
    for batch in options.batch:
        nest = every.take(slice(0, batch))
        for threads in options.threads:
            rate, cpu = measured(layer, nest, threads, max(options.repeats, options.repeats * 65536 // batch // 4))
            write(row(design, name, f"{legal:.1%}", threads, nest.batch, f"{rate:,.0f}", f"{cpu:.2f}"))


def measured(layer: PreparedLayer, nest: Nest, threads: int, repeats: int) -> tuple[float, float]:
    """(mappings per second, microseconds of CPU time per mapping), each the best of some calls after a first one."""
    def once() -> tuple[float, float]:
        clock, cpu = time.perf_counter(), time.process_time()
        score(layer, nest, threads=threads)
        return time.perf_counter() - clock, time.process_time() - cpu

    once()
    clocks, cpus = zip(*(once() for _ in range(repeats)), strict=True)
    return nest.batch / min(clocks), min(cpus) / nest.batch * 1e6


if __name__ == "__main__":
    main()
