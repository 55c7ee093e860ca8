"""Runs the jobs that have no record yet."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import datetime, timezone
from multiprocessing import get_context
from pathlib import Path

from benchmarks import provenance

from . import records
from .part import Job, Part, Record


def missing_jobs(parts: Sequence[Part], folder: Path, quick: bool) -> list[tuple[str, Job]]:
    """The jobs of some parts without a record, by part, each part's in order.

    Args:
        parts: The parts; those that show another part's records have no jobs of their own.
        folder: The folder of the records.
        quick: Jobs of the quick run, or of the full one.
    """
    known = records.read(folder)
    return [(part.name, job) for part in parts if not part.source for job in part.jobs(quick)
            if (part.name, job.key) not in known]


def run_jobs(jobs: Sequence[tuple[str, Job]], folder: Path, processes: int = 1, time_limit: float | None = None,
             tell: Callable[[str], None] = print) -> int:
    """Runs jobs and records each as it ends.

    Args:
        jobs: Names of parts, and jobs.
        folder: The folder of the records.
        processes: Processes at work, each on one job.
        time_limit: Seconds by the clock after which no further job begins; None is no limit.
        tell: Told of every job that has ended.

    Returns:
        How many jobs are left.
    """
    start, done = time.monotonic(), 0

    def over() -> bool:
        return time_limit is not None and time.monotonic() - start >= time_limit

    def keep(part: str, job: Job, record: Record, seconds: float) -> None:
        nonlocal done
        today = datetime.now(timezone.utc).date().isoformat()
        records.append(folder, records.Run(part, job.key, record, seconds, provenance.commit(), provenance.processor(),
                                           today))
        done += 1
        tell(f"{part}: {', '.join(job.key)}: {seconds:.1f} s")

    if processes == 1:
        for part, job in jobs:
            if over():
                break
            if (part, job.key) in records.read(folder):     # another command has run it
                done += 1
            else:
                keep(part, job, *measured(job))
        return len(jobs) - done
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        waiting = list(jobs)
        running = [(*pair, pool.submit(measured, pair[1])) for pair in (waiting.pop(0) for _ in jobs[:processes])]
        while running:
            part, job, future = next((entry for entry in running if entry[2].done()), running[0])
            keep(part, job, *future.result())
            running = [entry for entry in running if entry[2] is not future]
            if waiting and not over():
                pair = waiting.pop(0)
                running.append((*pair, pool.submit(measured, pair[1])))
    return len(jobs) - done


def measured(job: Job) -> tuple[Record, float]:
    """Runs a job in this process.

    Returns:
        Its record, and seconds of processor time, those of programs that it started and that have ended included.
    """
    start = _processor_time()
    record = job.run(*job.arguments)
    return record, _processor_time() - start


def _processor_time() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime
