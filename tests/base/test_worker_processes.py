"""Worker processes: whatever becomes of one of them, every call is answered; none outlives the program."""

from __future__ import annotations

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worker_calls import killed_once, pid_after, refused

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.worker_processes import usable_cores, worker_processes


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody asked about does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return False


def gone(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(map(alive, pids))


def test_answers_come_in_the_order_of_the_calls_from_as_many_processes_as_there_are_calls() -> None:
    with worker_processes(10 ** 12) as shared:
        first, *others = shared(pid_after, [(0.3,), (0.0,), (0.0,)])
        assert len({first, *others, os.getpid()}) >= 3
        assert list(shared(math.sqrt, [(4,), (9,), (16,)])) == [2, 3, 4]
        assert set(shared(pid_after, [(0.0,)] * 3)) <= {first, *others}  # workers stay for the next round
    assert gone([first, *others], 5)


def test_an_exception_is_raised_in_the_place_of_its_answer() -> None:
    with worker_processes(1) as shared:
        answers = shared(refused, [("no such file",)])
        with pytest.raises(FadiffError, match="no such file") as caught:
            next(answers)
        assert "in refused" in str(caught.value.__cause__)
        assert list(shared(math.sqrt, [(4,)])) == [2]


def test_the_call_of_a_killed_worker_is_answered_by_another(tmp_path: Path) -> None:
    with worker_processes(2) as shared:
        assert list(shared(killed_once, [(str(tmp_path / "mark"), number) for number in range(6)])) == list(range(6))
        idle = next(shared(pid_after, [(0.0,)]))
        os.kill(idle, signal.SIGKILL)
        assert list(shared(math.sqrt, [(4,)] * 3)) == [2] * 3


def test_a_call_that_kills_every_worker_is_named_with_the_signal() -> None:
    with worker_processes(2) as shared, pytest.raises(FadiffError, match=r"3 worker processes died .* killed by SIGKIL"
                                                                         r"L; accepted: more memory"):
        list(shared(signal.raise_signal, [(signal.SIGKILL,)]))


def test_calls_that_nobody_waits_for_are_given_up() -> None:
    with worker_processes(2) as shared:
        begun = time.monotonic()
        answers = shared(pid_after, [(0.0,), (60.0,), (60.0,)])
        next(answers)
        answers.close()
        assert list(shared(math.sqrt, [(9,)])) == [3]
    assert time.monotonic() - begun < 30


PROGRAM = """
import time
from fadiff_mapper.base.worker_processes import worker_processes
with worker_processes(2) as shared:
    print(*shared(getpid, [(), ()]), flush=True)
    list(shared(time.sleep, [(0.0,), (600.0,)]))
"""


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_the_program_however_it_ends(how: signal.Signals) -> None:
    """One of them is at work then, and one waits for work."""
    with subprocess.Popen([sys.executable, "-c", f"from os import getpid{PROGRAM}"], stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout
        pids = list(map(int, process.stdout.readline().split()))
        time.sleep(0.1)
        assert len(set(pids)) == 2 and all(map(alive, pids))
        process.send_signal(how)
        assert process.wait(timeout=10) == -how
    assert gone(pids, 5)


def test_neither_semaphores_nor_shared_memory_are_needed(tmp_path: Path) -> None:
    """A system without `sem_open`, and so without what /dev/shm is for."""
    code = ("import math, _multiprocessing; del _multiprocessing.SemLock; "
            "from fadiff_mapper.base.worker_processes import worker_processes\n"
            "with worker_processes(2) as shared: print(*shared(math.sqrt, [(4,), (9,)]))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("2.0 3.0\n", "")


def test_no_module_comes_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pickle", "linecache", "multiprocessing", "subprocess", "planted"):
        (tmp_path / f"{name}.py").write_text("open('ran', 'a').write(__name__)\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")  # as in an interactive session
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with worker_processes(1) as shared:
        assert list(shared(math.sqrt, [(4,)])) == [2]
        with pytest.raises(ModuleNotFoundError):
            list(shared(__import__, [("planted",)]))
    assert not (tmp_path / "ran").exists()


def test_a_machine_that_gives_no_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with worker_processes(2) as shared, pytest.raises(FadiffError, match="no worker process can be started: No such"):
        list(shared(math.sqrt, [(4,)]))


def test_cores_are_those_that_a_process_is_bound_to() -> None:
    bound = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(bound)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, bound)
    assert 1 <= usable_cores() <= len(bound)
