"""Sparse designs: what is found, beside what the real `timeloop-mapper` finds in 60 s of processor time.

    python benchmarks/sparse_quality.py --exercises DIR [--mapper PROGRAM] [--seconds 60] [--seeds 3] [-o FILE]

Every design of the timeloop-accelergy-exercises that has sparse optimizations is mapped as it is. `timeloop-mapper`
gets the input that its own front end made of the same files, which lies beside each design, with our energies and
without an end of its own, so that it searches for as long as it may, on one thread. Its mapping is then evaluated by
our model, whose cycles must be those that it prints. The search wins or ties where the ratio is at most 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from provenance import add_output, heading, markdown, row

from fadiff_mapper import map_layer
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load, load_mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.refinement import compiled_space

BATCH = 4096
"""Mappings of a batch whose evaluations per second are measured."""
NEVER = 10 ** 9
"""Mappings after which `timeloop-mapper` would end by itself."""
LOOK_EVERY = 0.2
"""Seconds between two looks at the processor time of `timeloop-mapper`."""


@dataclass(frozen=True)
class Found:
    """A mapping of `timeloop-mapper`.

    Attributes:
        edp: pJ times cycles, by our model.
        cycles: Cycles, by our model.
        printed: Cycles that it prints.
    """

    edp: float
    cycles: int
    printed: int


def sparse_designs(exercises: Path) -> Iterator[tuple[str, Path, Spec]]:
    """Name, folder and input of every design with sparse optimizations."""
    root = exercises / "workspace/example_designs/example_designs"
    for arch in sorted(root.rglob("arch.yaml")):
        name = str(arch.parent.relative_to(root))
        spec = load(root / "top.yaml.jinja2", jinja_data={"architecture": name}, strict=False)
        if spec.sparse is not None and spec.sparse.applied:
            yield name, arch.parent, spec


def rate(spec: Spec) -> float:
    """Sparse evaluations per second of processor time, of random legal mappings, on one thread; 0 without any."""
    task = mapping_task(spec)
    if task.sparse is None:
        return 0.0
    *arrays, _, _ = _kernel.random_points(task.layer.compiled, compiled_space(task.family, 0), BATCH, 0)
    nest, out = Nest(*arrays), np.empty((5, BATCH))
    design = task.sparse.compiled

    def score(nest: Nest) -> None:
        _kernel.score(task.layer.compiled, nest_arrays(nest), None, None, out, 0, BATCH, False, sparse=design)

    score(nest)
    legal = np.flatnonzero(out[4])
    if not len(legal):
        return 0.0
    nest = nest.take(np.resize(legal, BATCH))
    start = time.process_time()
    score(nest)
    return BATCH / (time.process_time() - start)


def mapper_input(folder: Path, ert: Path) -> dict[str, Any]:
    """The input of `timeloop-mapper`, as its front end made it, with our energies and no end but a signal's."""
    document = load_file(folder / "ref_outputs/default_problem/parsed-processed-input.yaml")
    document.pop("ERT", None)
    mapper = {"optimization_metrics": ["edp"], "algorithm": "random", "num_threads": 1, "live_status": False,
              "timeout": NEVER, "victory_condition": NEVER, "search_size": 0}
    return {**document, "mapper": mapper, **load_file(ert)}


def run_mapper(program: str, folder: Path, spec: Spec, ert: Path, seconds: float) -> Found | None:
    """The best mapping after so many seconds of processor time; None where there is none."""
    with TemporaryDirectory() as place:
        where = Path(place)
        (where / "input.yaml").write_text(dump(mapper_input(folder, ert)), encoding="utf-8")
        with (where / "log").open("w") as log:
            process = subprocess.Popen([program, "input.yaml"], cwd=where, stdout=log, stderr=log)
            while process.poll() is None and _processor_time(process.pid) < seconds:
                time.sleep(LOOK_EVERY)
            if process.returncode is None:
                process.send_signal(signal.SIGINT)
                process.wait()
        file, stats = where / "timeloop-mapper.map.yaml", where / "timeloop-mapper.stats.txt"
        if not all(made.exists() and made.stat().st_size for made in (file, stats)):
            return None
        found = evaluate_mapping(spec, load_mapping(file, spec))
        printed = re.search(r"^Cycles: (\d+)", stats.read_text(encoding="utf-8"), re.MULTILINE)
        return Found(found.edp, found.cycles, int(printed[1]) if printed else 0)


def _processor_time(process: int) -> float:
    """Seconds of processor time of a running process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measured(name: str, folder: Path, spec: Spec, options: argparse.Namespace) -> str:
    """A row of the table."""
    edps, seconds, evaluations = [], [], 0
    with TemporaryDirectory() as place:
        for seed in range(options.seeds):
            start = time.process_time()
            result = map_layer(spec, seed=seed)
            seconds.append(time.process_time() - start)
            edps.append(result.stats.edp)
            evaluations = max(evaluations, result.evaluations)
        result.write(place)
        theirs = run_mapper(options.mapper, folder, spec, Path(place, "timeloop-mapper.ERT.yaml"), options.seconds)
    other = ("-", "-", "-") if theirs is None else (
        f"{theirs.edp:.6g}", f"{max(edps) / theirs.edp:.5f}", "yes" if theirs.cycles == theirs.printed else "**no**")
    return row(name, f"{rate(spec):,.0f}", f"{evaluations:,}", f"{max(seconds):.2f}", f"{min(edps):.6g}",
               f"{max(edps) / min(edps):.5f}", *other)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exercises", type=Path, required=True, metavar="DIR")
    parser.add_argument("--mapper", default=shutil.which("timeloop-mapper"), metavar="PROGRAM")
    parser.add_argument("--seconds", type=float, default=60, help="of processor time for timeloop-mapper (default 60)")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--design", default="", help="only designs whose names have this in them")
    add_output(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script started behind "&" ignores it, its children too
    if options.mapper is None:
        parser.error("no timeloop-mapper is on the PATH; accepted: --mapper PROGRAM")
    with markdown(options.output) as write:
        write(heading("design", "evaluations/s", "evaluations", "seconds of the search", "EDP, pJ cycles",
                      "worst seed / best", f"timeloop-mapper, {options.seconds:g} s", "worst seed / timeloop-mapper",
                      "cycles as printed"))
        for name, folder, spec in sparse_designs(options.exercises):
            if options.design in name:
                try:
                    write(measured(name, folder, spec, options))
                except FadiffError as error:
                    write(row(name, *[""] * 7, str(error)))


if __name__ == "__main__":
    main()
