"""The real `timeloop-mapper` on every layer by itself: random pruned search on one thread, stopped by a signal.

The program has no seed and prints no count of evaluations, so it runs once and is compared at equal processor time
alone, its start included. Its mappings are evaluated by our model, which gives the numbers that it prints.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load_mapping
from fadiff_mapper.inputs.native.merged_input import merged_input
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.timeloop.find_programs import find_real
from fadiff_mapper.timeloop.run_model import environment

from .course import LayerCourse, NetworkCourse
from .networks import NetworkQuestion

PROGRAM = "timeloop-mapper"

NEVER = 10 ** 9
"""Mappings after which `timeloop-mapper` would end by itself."""

LOOK_EVERY = 0.01
"""Seconds between two looks at its processor time."""

PATIENCE = 30.0
"""Seconds that it has to write its files once it was told to end."""

MAPPER = {"optimization-metrics": ["edp"], "algorithm": "random-pruned", "num-threads": 1, "live-status": False,
          "timeout": NEVER, "victory-condition": NEVER, "search-size": 0}


def installed() -> Path | None:
    """The real program on the PATH, if any."""
    return find_real(PROGRAM)


def search(question: NetworkQuestion, seconds: float) -> NetworkCourse:
    """Runs the program on every layer.

    Args:
        question: The network on its design.
        seconds: Processor time for one layer; the program tells its best mapping at its end alone.
    """
    program, joined = installed(), question.joined
    if program is None:
        raise FadiffError(f"no {PROGRAM} is on the PATH")
    courses = []
    for spec, times in zip(question.specs, question.times, strict=True):
        courses.append(LayerCourse(times))
        found = run_mapper(program, spec, seconds)
        if found is not None:
            courses[-1].note(seconds, 0, found.energy_pj, found.cycles)
        courses[-1].end(seconds, 0)
    return NetworkCourse(courses, (joined.energy_pj, joined.cycles), len(courses))


def run_mapper(program: Path, spec: Spec, seconds: float) -> Stats | None:
    """The best mapping after so many seconds of processor time; None where none was found."""
    with TemporaryDirectory() as place:
        where = Path(place)
        (where / "input.yaml").write_text(mapper_input(spec), encoding="utf-8")
        with (where / "log").open("w") as log:
            process = subprocess.Popen([str(program), "input.yaml"], cwd=where, stdout=log, stderr=log,
                                       env=environment())
        while process.poll() is None and processor_time(process.pid) < seconds:
            time.sleep(LOOK_EVERY)
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        file = where / f"{PROGRAM}.map.yaml"
        if not file.exists() or not file.stat().st_size:
            return None
        return evaluate_mapping(spec, load_mapping(file, spec))


def mapper_input(spec: Spec) -> str:
    """The layer on its design with its constraints, for the program."""
    whole = yaml.safe_load(dump(merged_input(spec))) | spec.constraints.native | {"mapper": MAPPER}
    return yaml.safe_dump(whole, sort_keys=False)


def processor_time(process: int) -> float:
    """Seconds of processor time of a running process."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
