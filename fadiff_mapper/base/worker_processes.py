"""Worker processes on this machine, each with one piece of work at a time.

If a worker is killed, another worker takes its piece of work; when the program ends, in any way, its workers end.
Workers need neither shared memory nor semaphores, which some machines lack, and import no module from the working
folder. Pools of libraries do not have these properties: `concurrent.futures` needs semaphores and fails when a worker
dies; loky (of joblib) does so, too, and starts Python with the working folder first on its path.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import threading
import traceback
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.program_start import module_path, python_command
from fadiff_mapper.base.rare_collections import rare_collections
from fadiff_mapper.base.run_program import FinishedProgram

TRIES = 3  # workers that may die during one piece of work before it fails
PATIENCE = 1.0  # seconds that a process has to end after its connection, so that a message can say how it ended
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"), "1")
"""The environment variables that give libraries of linear algebra one thread in each worker."""
CODE = "from fadiff_mapper.base.worker_processes import serve; serve(int(sys.argv[1]), sys.argv[2])"
"""The code that a worker runs; its words are the descriptor of its connection and a module to load."""
Shared = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], Generator[Any, None, None]]
"""Calls a function of a module, in other processes, with each of several tuples of arguments.

Results come in the order of the calls, each as soon as all results before it are there; an exception of the function is
raised in place of its result. When the iterator is closed, the remaining calls are dropped.
"""


@dataclass
class Worker:
    """A worker process."""

    process: subprocess.Popen[bytes]
    connection: Connection  # to the process
    call: int | None = None  # number of the call on which it works; None: it waits for a call


@dataclass(frozen=True)
class Raised:
    """The answer of a worker whose call raised an exception."""

    error: Exception
    traceback: str  # where the exception was raised


def answered(function: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """The answer to a call: its result, or `Raised`."""
    try:
        return function(*arguments)
    except Exception as error:
        return Raised(error, traceback.format_exc())


def taken(answer: Any) -> Any:
    """The result of a call from its answer; raises the exception of a call that raised one."""
    if isinstance(answer, Raised):
        raise answer.error from RuntimeError(answer.traceback)
    return answer


def usable_cores() -> int:
    """Cores that this process may use: those that it is bound to, or fewer by the quota of its container (cgroup)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # there is no such file, or no quota: "max"
        quota, period = map(int, Path("/sys/fs/cgroup/cpu.max").read_text().split())
        cores = min(cores, math.ceil(quota / period))
    return cores


@contextmanager
def worker_processes(most: int, module: str = "") -> Iterator[Shared]:
    """Shares calls among workers, as a context manager: the first starts at once, others when there is work for them.

    There are `most` at most; the first loads `module`, which the calls will need. Arguments and results are
    pickled. Workers have this process's folder, environment and module path. Yields a function, see `Shared`, that
    raises FadiffError where no worker can be started, or `TRIES` of them died of one call.
    """
    workers: list[Worker] = []
    if module:
        with suppress(OSError):  # reported when the first call needs a worker
            workers.append(_started(module))

    def shared(function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Generator[Any, None, None]:
        waiting, answers, deaths = deque(range(len(calls))), dict[int, Any](), Counter[int]()
        try:
            for number in range(len(calls)):
                while number not in answers:
                    _hand_out(workers, most, waiting, lambda call: pickle.dumps((function, calls[call])))
                    ready = wait([worker.connection for worker in workers if worker.call is not None])
                    for worker in [worker for worker in workers if worker.connection in ready]:
                        call = worker.call
                        assert call is not None
                        try:
                            answer = worker.connection.recv_bytes()
                        except (EOFError, OSError):
                            how = _ended(workers, worker, PATIENCE)
                            deaths[call] += 1
                            if deaths[call] == TRIES:
                                raise FadiffError(f"{TRIES} worker processes died of the same work; the last one {how}"
                                                  "; accepted: more memory, or fewer workers") from None
                            waiting.appendleft(call)
                        else:
                            answers[call], worker.call = pickle.loads(answer), None
                answer = answers.pop(number)
                yield taken(answer)
        finally:
            for worker in [worker for worker in workers if worker.call is not None]:
                _ended(workers, worker)

    try:
        yield shared
    finally:
        for worker in list(workers):
            _ended(workers, worker)


def _hand_out(workers: list[Worker], most: int, waiting: deque[int], content: Callable[[int], bytes]) -> None:
    """Gives every waiting call to a waiting worker, or to a new worker while there are fewer than `most`."""
    while waiting:
        worker = next((worker for worker in workers if worker.call is None), None)
        if worker is None:
            if len(workers) >= most:
                return
            try:
                worker = _started("")
            except OSError as error:  # no more processes, memory or descriptors
                if workers:
                    return
                raise FadiffError(f"no worker process can be started: {error.strerror or error}") from None
            workers.append(worker)
        try:
            worker.connection.send_bytes(content(waiting[0]))
        except OSError:  # the worker was killed while it waited
            _ended(workers, worker)
        else:
            worker.call = waiting.popleft()


def _started(module: str) -> Worker:
    """A new worker, which loads a module if one is named. Raises OSError."""
    mine, its = Pipe()
    with its:
        try:
            process = subprocess.Popen(
                [*python_command(repr(module_path()), CODE), str(its.fileno()), module], pass_fds=[its.fileno()],
                stdin=subprocess.DEVNULL, env=os.environ | ONE_THREAD,
                start_new_session=True)  # Ctrl-C of a terminal is for the program, which ends its workers in order
        except BaseException:
            mine.close()
            raise
    return Worker(process, mine)


def _ended(workers: list[Worker], worker: Worker, patience: float = 0.0) -> str:
    """Kills a worker unless it ends by itself within `patience` seconds; returns how it ended, in words."""
    workers.remove(worker)
    worker.connection.close()
    with suppress(subprocess.TimeoutExpired):
        worker.process.wait(patience)
    worker.process.kill()
    return FinishedProgram(worker.process.wait(), "").how


@rare_collections()
def serve(descriptor: int, module: str) -> None:
    """Answers calls on a connection until it ends, because the program at its other end has ended; never returns.

    `module` is loaded at once; "": none.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection, calls = Connection(descriptor), SimpleQueue[bytes]()

    def receive() -> None:
        """Queues incoming calls, and ends this process when the connection ends, even during work."""
        try:
            while True:
                calls.put(connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(0)

    threading.Thread(target=receive, daemon=True).start()
    if module:
        import_module(module)
    while True:
        content = calls.get()
        try:
            function, arguments = pickle.loads(content)  # from the program that started this process
            answer = pickle.dumps(function(*arguments))
        except Exception as error:
            answer = pickle.dumps(Raised(error, traceback.format_exc()))
        with suppress(OSError):  # the program has ended, and this process will end, too
            connection.send_bytes(answer)
