#!/usr/bin/env python3
"""Whether the memory of a search of designs stays flat over thousands of designs.

    python benchmarks/design_memory.py [--designs N] [-o FILE]

Random designs of the bundled space over `eyeriss_like` with the layers of MobileNetV1, in one process. All parts of the
engine run but two: a formula over the parameters takes the place of a layer's search and of its bound, as memory, not
mappings, is measured. A row has the resident memory after so many designs, and the CPU seconds that each design cost
the engine.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from provenance import add_output, heading, markdown, row

from fadiff_mapper import load_network, read_space
from fadiff_mapper.design import evaluate_design, layer_entries
from fadiff_mapper.design import search_design as design_search
from fadiff_mapper.design.question import DesignOptions, DesignQuestion, DesignWorkers
from fadiff_mapper.design.search_design import DesignProgress, search_design
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.search.options import SearchOptions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", type=int, default=10_000)
    add_output(parser)
    options = parser.parse_args()
    random = DesignOptions(fuse=False, method="random", evaluations=options.designs, prune=False, neighbours=False)
    question = DesignQuestion(read_space("bundled:spaces/eyeriss_like"),
                              (load_network("bundled:networks/mobilenet_v1"),), (1.0,), random)
    with markdown(options.output) as write, tempfile.TemporaryDirectory() as folder:
        write(heading("designs", "resident MiB", "CPU ms per design"))

        def told(progress: DesignProgress) -> None:
            if progress.evaluations in (1, 100) or progress.evaluations % (options.designs // 10) == 0:
                gc.collect()
                each = time.process_time() / progress.evaluations * 1000
                write(row(progress.evaluations, f"{resident_mib():.1f}", f"{each:.1f}"))

        with mock.patch.object(evaluate_design, "layer_entries", by_formula), \
                mock.patch.object(evaluate_design, "layer_bounds", lambda *_: None), \
                mock.patch.object(layer_entries, "layer_bounds", lambda *_: None), \
                mock.patch.object(evaluate_design.DesignBench, "networks_at", lambda *_, **__: ()), \
                mock.patch.object(design_search, "disagreement", lambda *_: ""):
            search_design(question, DesignWorkers(1, store=folder), on_progress=told)


def by_formula(specs: Sequence[Spec], options: SearchOptions, *_: object) -> list[layer_entries.LayerEntry]:
    """Stand-ins for searched layers: energy falls and area grows with capacity; the hashes are computed as ever."""
    design = layer_entries.design_digest(specs[0])
    words = sum(level.instances * (level.size or 0) for level in specs[0].arch.levels)
    return [layer_entries.LayerEntry(spec.problem.computes * (1 + 1e6 / (words + 1)),
                                     spec.problem.computes / spec.arch.arithmetic.instances, [{"key": key}])
            for spec in specs for key in [layer_entries.layer_key(design, spec, options)]]


def resident_mib() -> float:
    """Resident memory of this process."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


if __name__ == "__main__":
    main()
