"""Executors of a round of evaluations: this process, processes of this machine, or a Dask or Ray cluster by joblib."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from importlib import import_module
from math import inf
from typing import Any, Protocol

from fadiff_mapper.base.errors import FadiffError, OutOfTime, listed
from fadiff_mapper.base.extras import require
from fadiff_mapper.base.worker_processes import Shared, usable_cores, worker_processes
from fadiff_mapper.design.evaluate_design import DesignBench, evaluate_design
from fadiff_mapper.design.result import DesignOutcome
from fadiff_mapper.design.space import Point
from fadiff_mapper.network.result import NetworkResult

BACKENDS = ("processes", "dask", "ray")  # processes of this machine, and the two kinds of cluster

LOADED = "fadiff_mapper.network.map_network"
"""The module that a worker loads while the first designs are proposed: it loads nearly all that mapping needs."""

WHOLE = ("ray",)  # backends that return the outcomes of a round together: joblib's generators do not support them


class Evaluated(Protocol):
    """Evaluates the designs of a round against rivals (see `evaluate_design`) within a time.

    After `end`, in seconds since the epoch, no design is begun, and designs being mapped are given up; with
    `first_kept` the first design is evaluated even then, by its best mappings so far, so that there is an answer.

    Outcomes come in the order of the points, each as soon as it and all before it are ready (all at once with `WHOLE`
    backends); None for a design that was not begun in time, or given up.
    """

    def __call__(self, points: Sequence[Point], rivals: Sequence[tuple[float, ...]], end: float = inf,
                 first_kept: bool = False) -> Iterator[DesignOutcome | None]: ...


Report = tuple[DesignOutcome | None, tuple[NetworkResult, ...], tuple[str, ...]]
"""A worker's report: the outcome, None out of time; the plans if it is the best design that this worker mapped, as
plans are large; changed lines of the store."""


def _task(bench: DesignBench, point: Point, rivals: Sequence[tuple[float, ...]], end: float, kept: bool) -> Report:
    """A worker's task: evaluates one design within its time; `kept`: then by its best mappings so far."""
    def over() -> bool:
        return time.time() > end

    outcome = None
    if kept or not over():
        with suppress(OutOfTime):
            outcome = evaluate_design(bench, point, rivals, over, give_up=not kept)
    best = outcome is not None and bench.planned == point
    return outcome, bench.plans if best else (), tuple(bench.store.changed)


@contextmanager
def executor(bench: DesignBench, jobs: int | None = None, backend: str = "processes",
             address: str | None = None) -> Iterator[Evaluated]:
    """The workers of one run, as a context manager; yields the function that evaluates points.

    The answer depends neither on the number and order of workers nor on the worker of a design. One of `jobs` is this
    process; None: one for each core, or as many as the cluster has. Without an address, such as `tcp://host:8786`, the
    cluster is started on this machine. Raises FadiffError if the backend is unknown, not installed or not reachable.
    """
    if backend not in BACKENDS:
        raise FadiffError(f"backend: found {backend!r}; accepted: {listed(BACKENDS)}")
    workers: AbstractContextManager[Shared]
    if backend != "processes":
        workers = _cluster(backend, jobs, address)
    elif address is not None:
        raise FadiffError(f"address: found {address!r} with the backend processes, which are of this machine; "
                          "accepted: an address with the backends dask and ray")
    else:
        most = jobs or usable_cores()
        workers = worker_processes(most, LOADED) if most > 1 else nullcontext(
            lambda function, calls: (function(*call) for call in calls))
    with workers as shared:
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


@contextmanager
def _cluster(backend: str, jobs: int | None, address: str | None) -> Iterator[Shared]:
    """Shares calls among the machines of a cluster. Raises FadiffError."""
    joblib = _installed("joblib", backend)
    with ExitStack() as stack:
        if backend == "dask":
            distributed = _installed("distributed", backend)
            # Python processes started inside do not import from the working folder; Python 3.10 lacks an option for it.
            before = os.environ.get("PYTHONSAFEPATH")
            stack.callback(lambda: os.environ.pop("PYTHONSAFEPATH") if before is None else
                           os.environ.update(PYTHONSAFEPATH=before))
            os.environ["PYTHONSAFEPATH"] = "1"
            try:
                with _interrupts_kept_from_workers():
                    client = (distributed.Client(address, timeout="20s") if address else
                              distributed.Client(threads_per_worker=1))
            except (OSError, ValueError) as error:
                raise FadiffError(f"address: {address}: no Dask scheduler answers: {error}") from None
            stack.enter_context(client)
        else:
            ray = _installed("ray", backend)
            try:
                ray.init(address=address, ignore_reinit_error=True)
            except (ConnectionError, ValueError) as error:
                raise FadiffError(f"address: {address}: no Ray cluster answers: {error}") from None
            import_module("ray.util.joblib").register_ray()
        stack.enter_context(joblib.parallel_config(backend, n_jobs=jobs or -1))
        # One task a message: a design takes seconds, so batches of tasks gain nothing.
        pool = stack.enter_context(joblib.Parallel(return_as="list" if backend in WHOLE else "generator", batch_size=1))

        def shared(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Generator[Any, None, None]:
            # Such a backend blocks here until the end of the round, during which Ctrl-C must not be lost.
            with nullcontext() if backend in WHOLE else _interrupts_kept_from_workers():
                found = pool(joblib.delayed(function)(*call) for call in calls)
            try:
                yield from found
            finally:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if backend not in WHOLE:
                        found.close()

        yield shared


def _installed(module: str, extra: str) -> Any:
    """A module of an extra. Raises FadiffError if missing."""
    require(module, extra, f"the backend {extra}")
    return import_module(module)


@contextmanager
def _interrupts_kept_from_workers() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which a terminal sends to all: this process ends the run in order.

    This process ignores it inside, too, for milliseconds, as children inherit ignored signals.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set this
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
