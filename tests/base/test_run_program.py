"""Another program is not trusted to end, to be brief, or to clean up after itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError

CHILD = "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']); " \
        "pathlib.Path('child').write_text(str(child.pid)); "


def ran(script: str, folder: Path, timeout: float = 30, memory: int | None = None) -> run_program.FinishedProgram:
    code = f"import os, pathlib, signal, subprocess, sys, time; {script}"
    return run_program.run([sys.executable, "-c", code], folder, {"SEEN": "yes"}, timeout, memory)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def ended_soon(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while runs(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not runs(pid)


def test_it_sees_its_folder_its_variables_and_no_input(tmp_path: Path) -> None:
    done = ran("print(os.getcwd(), os.environ['SEEN'], 'PATH' in os.environ, repr(sys.stdin.read()))", tmp_path)
    assert done == run_program.FinishedProgram(0, f"{tmp_path} yes False ''\n")


@pytest.mark.parametrize("script, how", [
    ("sys.exit(3)", "ended with exit code 3"),
    ("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
    ("os.kill(os.getpid(), signal.SIGRTMIN + 2)", "was killed by signal 36"),
])
def test_how_it_ended_is_said(script: str, how: str, tmp_path: Path) -> None:
    assert ran(script, tmp_path).how == how


def test_one_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match="nowhere cannot be run: No such file"):
        run_program.run([str(tmp_path / "nowhere")], tmp_path, os.environ, 5)


needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")


@needs_proc
def test_one_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(FadiffError, match="did not end within 1 s"):
        ran(CHILD + "time.sleep(60)", tmp_path, timeout=1)
    assert time.monotonic() - start < 10
    assert ended_soon(int((tmp_path / "child").read_text()))


@needs_proc
def test_children_that_it_leaves_behind_do_not_keep_us_waiting(tmp_path: Path) -> None:
    start = time.monotonic()
    assert ran(CHILD + "print('done')", tmp_path).output == "done\n"
    assert time.monotonic() - start < 20
    assert ended_soon(int((tmp_path / "child").read_text()))


def test_of_endless_output_the_beginning_and_the_end_are_kept(tmp_path: Path) -> None:
    script = "print('first'); sys.stdout.flush(); [os.write(1, bytes(2 ** 20)) for _ in range(1024)]; print('last')"
    done = ran(script, tmp_path)
    assert len(done.output) < 3 * run_program.KEPT
    assert done.output.startswith("first\n") and done.output.endswith("last\n")


@pytest.mark.slow
def test_one_that_never_stops_printing_is_ended(tmp_path: Path) -> None:
    with pytest.raises(FadiffError, match="did not end within 1 s"):
        run_program.run([sys.executable, "-c", "while True: print('x' * 10000)"], tmp_path, os.environ, 1)


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of other processes are Linux's")
@pytest.mark.parametrize("grows", ["bytearray(2 ** 29)", "sys.exit(subprocess.call([sys.executable, '-c', "
                                                         "'bytearray(2 ** 29)']))"], ids=["itself", "its child"])
def test_one_that_takes_more_memory_than_its_limit_fails(grows: str, tmp_path: Path) -> None:
    assert ran(grows, tmp_path).returncode == 0
    done = ran(grows, tmp_path, memory=2 ** 28)
    assert done.returncode == 1 and done.output.endswith("MemoryError\n")


ESCAPES = {
    "in the background": "subprocess.Popen([sys.executable, '-c', CHILD]); ",
    "in a group of its own": "subprocess.Popen([sys.executable, '-c', CHILD], process_group=0); "
    if sys.version_info >= (3, 11) else "subprocess.Popen([sys.executable, '-c', CHILD], preexec_fn=os.setpgrp); ",
    "in a session of its own": "subprocess.Popen([sys.executable, '-c', CHILD], start_new_session=True); ",
    "as a daemon": "subprocess.Popen([sys.executable, '-c', 'import os, subprocess, sys; os.setsid(); '"
                   "'os.fork() and os._exit(0); ' + CHILD]); ",
}
"""How a child of a program can leave it: all with silent outputs, so that no pipe tells of them."""

QUIET_CHILD = "import os, pathlib, time; " \
              "[os.dup2(os.open(os.devnull, os.O_RDWR), to) for to in (0, 1, 2)]; " \
              "pathlib.Path('child').write_text(str(os.getpid())); time.sleep(60)"

WAITS = "\nwhile not pathlib.Path('child').exists() or not pathlib.Path('child').read_text(): time.sleep(0.01)\n"

ENDS = {"success": "sys.exit(0)", "failure": "sys.exit(3)", "a signal": "os.kill(os.getpid(), signal.SIGKILL)",
        "the time limit": "time.sleep(60)"}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked for in /proc")
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("escape", ESCAPES)
def test_no_child_outlives_the_run_wherever_it_went(escape: str, end: str, tmp_path: Path) -> None:
    script = f"CHILD = {QUIET_CHILD!r}; {ESCAPES[escape]}{WAITS}{ENDS[end]}"
    try:
        ran(script, tmp_path, timeout=2 if end == "the time limit" else 30)
    except FadiffError as error:
        assert "did not end within" in str(error)
    child = int((tmp_path / "child").read_text())
    assert ended_soon(child)


def test_processes_of_others_are_left_alone(tmp_path: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        ran("pass", tmp_path)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


PARENT = """
import os, pathlib, sys
from fadiff_mapper.base import run_program
folder = pathlib.Path.cwd() / "work"
folder.mkdir()
run_program.run([sys.executable, "-c", sys.argv[1]], folder, os.environ, 60, temporary=sys.argv[2:] == ["temporary"])
"""
"""A program of ours that runs another one, to be killed while it waits."""


@needs_proc
@pytest.mark.parametrize("folder", ["kept", "temporary"])
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("escape", ["in the background", "in a session of its own"])
def test_when_we_are_killed_the_program_and_its_children_end(escape: str, end: signal.Signals, folder: str,
                                                             tmp_path: Path) -> None:
    program = f"import os, pathlib, subprocess, sys, time; CHILD = {QUIET_CHILD!r}; {ESCAPES[escape]}" \
              "pathlib.Path('program').write_text(str(os.getpid())); time.sleep(60)"
    ours = subprocess.Popen([sys.executable, "-c", PARENT, program, folder], cwd=tmp_path)
    written = [tmp_path / "work" / "program", tmp_path / "work" / "child"]
    deadline = time.monotonic() + 30
    while not all(path.exists() and path.read_text() for path in written) and time.monotonic() < deadline:
        time.sleep(0.02)
    started = [int(path.read_text()) for path in written]
    assert all(map(runs, started))
    ours.send_signal(end)
    assert ours.wait(30) == -end
    assert all(map(ended_soon, started))
    while folder == "temporary" and (tmp_path / "work").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (tmp_path / "work").exists() == (folder == "kept")


@needs_proc
def test_nothing_is_left_of_a_run_that_ends_well(tmp_path: Path) -> None:
    def children() -> set[str]:
        return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
    before = children()
    assert ran("pass", tmp_path).returncode == 0
    assert children() == before
