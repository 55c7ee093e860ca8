"""Sparse designs: what is found, beside what the real `timeloop-mapper` finds in 60 s of processor time.

    python benchmarks/sparse_quality.py --exercises DIR [--seeds 3] [--design PART] [-o FILE]

Every design of the timeloop-accelergy-exercises that has sparse optimizations is mapped as it is. `timeloop-mapper`
searched the same designs with the same energies, on one thread; its best EDPs, by our model, are recorded in
sparse_anchors.json. The search wins or ties where the ratio is at most 1.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from fadiff_validation.random_mappings import random_nests
from provenance import add_output, heading, markdown, row

from fadiff_mapper import map_layer
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.search.mapping_task import mapping_task

ANCHORS = Path(__file__).with_name("sparse_anchors.json")
"""EDPs of `timeloop-mapper`, in pJ * cycles."""
BATCH = 4096
"""Mappings of a batch whose evaluations per second are measured."""


def sparse_designs(exercises: Path) -> Iterator[tuple[str, Spec]]:
    """Name and input of every design with sparse optimizations."""
    root = exercises / "workspace/example_designs/example_designs"
    for arch in sorted(root.rglob("arch.yaml")):
        spec = load(root / "top.yaml.jinja2", jinja_data={"architecture": str(arch.parent.relative_to(root))},
                    strict=False)
        if spec.sparse is not None and spec.sparse.applied:
            yield arch.parent.name, spec


def rate(spec: Spec) -> float:
    """Sparse evaluations per second of processor time, of random legal mappings, on one thread; 0 without any."""
    task = mapping_task(spec)
    if task.sparse is None:
        return 0.0
    nest = random_nests(task.layer, task.space, BATCH)
    legal = np.flatnonzero(task.sparse.score(nest).legal)
    if not len(legal):
        return 0.0
    nest = nest.take(np.resize(legal, BATCH))
    start = time.process_time()
    task.sparse.score(nest)
    return BATCH / (time.process_time() - start)


def measured(name: str, spec: Spec, theirs: float, seeds: int) -> str:
    """A row of the table."""
    edps, seconds, evaluations = [], [], 0
    for seed in range(seeds):
        start = time.process_time()
        result = map_layer(spec, seed=seed)
        seconds.append(time.process_time() - start)
        edps.append(result.stats.edp)
        evaluations = max(evaluations, result.evaluations)
    return row(name, f"{rate(spec):,.0f}", f"{evaluations:,}", f"{max(seconds):.2f}", f"{min(edps):.6g}",
               f"{max(edps) / min(edps):.5f}", f"{theirs:.6g}", f"{max(edps) / theirs:.5f}")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercises", type=Path, required=True, metavar="DIR")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--design", default="", help="only designs whose names have this in them")
    add_output(parser)
    options = parser.parse_args()
    anchors = json.loads(ANCHORS.read_text(encoding="utf-8"))
    with markdown(options.output) as write:
        write(heading("design", "evaluations/s", "evaluations", "seconds of the search", "EDP, pJ cycles",
                      "worst seed / best", f"timeloop-mapper, {anchors['seconds']} s", "worst seed / timeloop-mapper"))
        for name, spec in sparse_designs(options.exercises):
            if options.design in name:
                write(measured(name, spec, anchors["edp_pj_cycles"][name], options.seeds))


if __name__ == "__main__":
    main()
