"""Executors of a round of evaluations: this process, processes of this machine, or a Dask or Ray cluster."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from importlib import import_module
from math import inf
from typing import Any, Protocol

from fadiff_mapper.base.deadline import handled
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.base.extras import require
from fadiff_mapper.base.worker_processes import Shared, answered, taken, usable_cores, worker_processes
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.question import DesignWorkers
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.space import Point
from fadiff_mapper.network.result import NetworkResult

LOADED = "fadiff_mapper.network.map_network"
"""The module that a worker loads while the first designs are proposed: it loads nearly all that mapping needs."""

TASKS = 16
"""Tasks of a round for each worker of a cluster, each of one design or more: few messages for the scheduler, and little
idle time at the end of a round."""

RETRIES = 2  # further workers of a Ray cluster that try a task whose worker died, as for processes of this machine


class Evaluated(Protocol):
    """Evaluates the designs of a round against rivals (see `evaluate_design`) within a time.

    After `end`, in seconds since the epoch, no design is begun, and designs being mapped are given up. With
    `first_kept` the first design is evaluated in any case, by its best mappings so far, so that there is an answer.

    Outcomes come in the order of the points, as soon as all earlier ones are ready; None for a design that was not
    begun in time, or was given up.
    """

    def __call__(self, points: Sequence[Point], rivals: Sequence[tuple[float, ...]], end: float = inf,
                 first_kept: bool = False) -> Iterator[DesignOutcome | None]: ...


Report = tuple[DesignOutcome | None, tuple[NetworkResult, ...], tuple[str, ...]]
"""A worker's report: the outcome, None if out of time; the plans, which are large, only for the best design that this
worker mapped so far; changed lines of the store."""


def _task(bench: DesignBench, point: Point, rivals: Sequence[tuple[float, ...]], end: float, kept: bool) -> Report:
    """A worker's task: evaluates one design within its time; `kept`: out of time, its best mappings so far are used."""
    def over() -> bool:
        return time.time() > end

    outcome = None
    if kept or not over():
        with suppress(OutOfTime):
            outcome = evaluate_design(bench, point, rivals, over, give_up=not kept)
    best = outcome is not None and bench.planned == point
    return outcome, bench.plans if best else (), tuple(bench.store.changed)


@contextmanager
def executor(bench: DesignBench, workers: DesignWorkers) -> Iterator[Evaluated]:
    """The workers of one run, as a context manager; yields the function that evaluates points.

    The answer depends neither on the number and order of workers nor on the worker of a design. With one process, this
    process evaluates.

    Raises FadiffError if the backend is unknown, not installed or not reachable.
    """
    most = workers.jobs or usable_cores()
    running: AbstractContextManager[Shared]
    if workers.backend != "processes":
        running = _cluster(workers.backend, most, workers.address)
    elif most > 1:
        running = worker_processes(most, LOADED)
    else:
        running = nullcontext(lambda function, calls: (function(*call) for call in calls))
    with running as shared:
        def evaluated(points: Sequence[Point], rivals: Sequence[tuple[float, ...]], end: float = inf,
                      first_kept: bool = False) -> Iterator[DesignOutcome | None]:
            found = shared(_task, [(bench, point, rivals, end, first_kept and place == 0)
                                   for place, point in enumerate(points)])
            with closing(found):  # an early exit of the caller cancels the rest
                for outcome, plans, changed in found:
                    if outcome is not None:
                        bench.keep(outcome, plans)
                    bench.store.changed |= dict.fromkeys(changed)
                    yield outcome

        yield evaluated


@dataclass(frozen=True)
class Cluster:
    """A cluster, whose scheduler gives tasks to workers; if a worker dies, another worker gets its task."""

    workers: Callable[[], float]  # number of tasks at work at a time
    submit: Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Any]  # a future of `_answers`
    result: Callable[[Any], Any]  # waits for a future
    cancel: Callable[[Sequence[Any]], Any]  # gives up futures
    killed: type[Exception]  # raised by `result` if too many workers died of a task


def _answers(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
    """A task of a cluster: several calls of a function."""
    return [answered(function, arguments) for arguments in calls]


@contextmanager
def _cluster(backend: str, jobs: int, address: str | None) -> Iterator[Shared]:
    """Shares calls among the workers of a cluster. Raises FadiffError."""
    with (_dask if backend == "dask" else _ray)(jobs, address) as cluster:
        def shared(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Generator[Any, None, None]:
            size = max(1, int(len(calls) / (TASKS * max(1.0, cluster.workers()))))
            futures = deque(cluster.submit(function, calls[start:start + size])
                            for start in range(0, len(calls), size))
            try:
                while futures:
                    for answer in cluster.result(futures[0]):
                        yield taken(answer)
                    futures.popleft()
            except cluster.killed as error:
                raise FadiffError(f"worker after worker of the cluster died of the same work: {error}; accepted: more "
                                  "memory, or fewer workers") from None
            finally:
                cluster.cancel(list(futures))

        yield shared


@contextmanager
def _dask(jobs: int, address: str | None) -> Iterator[Cluster]:
    """A Dask cluster, started on this machine with `jobs` workers if no address is given. Raises FadiffError."""
    distributed = _installed("distributed", "dask")
    with ExitStack() as stack:
        # Python processes started inside do not import from the working folder; Python 3.10 lacks an option for it.
        before = os.environ.get("PYTHONSAFEPATH")
        stack.callback(lambda: os.environ.pop("PYTHONSAFEPATH") if before is None else
                       os.environ.update(PYTHONSAFEPATH=before))
        os.environ["PYTHONSAFEPATH"] = "1"
        try:
            # A terminal sends Ctrl-C to all processes. Processes started inside ignore it, as children inherit ignored
            # signals. So does this process for milliseconds; Ctrl-C ends the run in order.
            with handled(signal.SIGINT, signal.SIG_IGN):
                client = (distributed.Client(address, timeout="20s") if address else
                          distributed.Client(n_workers=jobs, threads_per_worker=1))
        except (OSError, ValueError) as error:
            raise FadiffError(f"address: {address}: no Dask scheduler answers: {error}") from None
        stack.enter_context(client)
        yield Cluster(lambda: sum(client.ncores().values()), lambda *task: client.submit(_answers, *task, pure=False),
                      lambda future: future.result(), client.cancel, distributed.KilledWorker)


@contextmanager
def _ray(jobs: int, address: str | None) -> Iterator[Cluster]:
    """A Ray cluster, started on this machine with `jobs` workers if no address is given. Raises FadiffError."""
    ray = _installed("ray", "ray")
    with ExitStack() as stack:
        if not ray.is_initialized():
            stack.callback(ray.shutdown)
            try:
                ray.init(address=address or "local", **{} if address else {"num_cpus": jobs})
            except (ConnectionError, ValueError) as error:
                raise FadiffError(f"address: {address}: no Ray cluster answers: {error}") from None
        remote = ray.remote(max_retries=RETRIES)(_answers)

        def cancel(futures: Sequence[Any]) -> None:
            for future in futures:
                ray.cancel(future)

        yield Cluster(lambda: ray.cluster_resources().get("CPU", 1.0), remote.remote, ray.get, cancel,
                      ray.exceptions.WorkerCrashedError)


def _installed(module: str, extra: str) -> Any:
    """A module of an extra. Raises FadiffError if missing."""
    require(module, extra, f"the backend {extra}")
    return import_module(module)
