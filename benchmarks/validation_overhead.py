"""The time that `fadiff-validate` adds to a bare `timeloop-model`, which must be on the PATH.

    python -m benchmarks.validation_overhead [--mappings 3] [--design NAME ...]

The same mappings, one after the other: by the program alone, started in a folder with its input, and by the harness,
which draws up the input, watches the run, reads and checks the answer and keeps it. CPU time of this process and of
its children; wall-clock time on a machine that does nothing else says the same.
"""

from __future__ import annotations

import argparse
import gc
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.provenance import commit, processor
from fadiff_mapper.base import bundled_files
from fadiff_mapper.timeloop.run_model import INPUT, environment
from validation.asking import ask_all
from validation.questions import Question, random_questions
from validation.store import Store
from validation.tasks import bundled_tasks
from validation.tools import PROGRAM, native


def cpu_seconds() -> tuple[float, float]:
    """(of this process, of its children that have ended)."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


def measured(work: Callable[[], object]) -> tuple[float, float, float]:
    """(CPU seconds of this process, of its children, wall-clock seconds) that some work takes."""
    gc.collect()
    before, start = cpu_seconds(), time.perf_counter()
    work()
    own, children = (after - at for after, at in zip(cpu_seconds(), before, strict=True))
    return own, children, time.perf_counter() - start


def bare(texts: Sequence[str], folder: Path) -> None:
    """Runs the program alone on inputs that stand in numbered folders already."""
    for number in range(len(texts)):
        subprocess.run([PROGRAM, INPUT], cwd=folder / str(number), env=environment(), check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mappings", type=int, default=3, help="random mappings of each kind per design and operator")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--design", nargs="*", default=list(bundled_files.designs()), help="bundled designs")
    options = parser.parse_args()
    tool = native()
    questions: list[Question] = [question for task in bundled_tasks(options.design)
                                 for question in random_questions(task, options.mappings, options.seed)]
    texts = [question.task.text(question.mapping) for question in questions]
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate(texts):
            (Path(folder) / str(number)).mkdir()
            (Path(folder) / str(number) / INPUT).write_text(text)
        alone = measured(lambda: bare(texts, Path(folder)))
        store = Store(Path(folder) / "answers.jsonl")
        harnessed = measured(lambda: ask_all(questions, tool, store, jobs=1))
    for name, (own, children, wall) in (("bare", alone), ("harness", harnessed)):
        print(f"{name:8s} {1000 * (own + children) / len(texts):7.1f} ms of CPU per mapping "
              f"(program {1000 * children / len(texts):.1f}), {1000 * wall / len(texts):.1f} ms of wall-clock time")
    print(f"{len(texts)} mappings, {processor()}, commit {commit()}: "
          f"the harness adds {harnessed[0] / harnessed[1]:.1%} to the program's CPU time")


if __name__ == "__main__":
    main()
