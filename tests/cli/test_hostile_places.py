"""Commands as real processes: in folders with planted modules, on machines that give little, and where workers die."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from design_texts import SPACE

from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.design.layer_entries import OUT_OF_TIME
from fadiff_mapper.timeloop.launchers import command

ARCHITECTURE = SPACE.partition("design_space")[0]
LIBRARIES = ("array_api_compat", "distributed", "jinja2", "markupsafe", "matplotlib", "numpy", "onnx", "rich",
             "scipy", "torch", "yaml")
BY_SCRIPT = [sys.executable, "-c", "import sys; sys.path[:1] = []; from fadiff_mapper.__main__ import main; "
             "sys.exit(main())"]
"""What the installed script does, whose own folder Python puts where the working folder stands here."""
BY_MODULE = [sys.executable, "-m", "fadiff_mapper"]
DESIGN = ["design", "space.yaml", "net.yaml", "-o", "out", "--method", "exhaustive", "--no-fusion", "--quiet",
          "--jobs", "2"]
TWO = "design_space: {version: 0.1, parameters: {columns: {path: Columns.spatial.meshX, values: [4, 8]}}}"
SIX = "design_space: {version: 0.1, parameters: {columns: {path: Columns.spatial.meshX, range: [3, 8], step: 1}}}"
NETWORK = """
workload:
  version: 1
  name: one
  inputs: {input: [1, 4, 8, 8]}
  shapes: [{id: point, op: conv, dims: {N: 1, M: 8, C: 4, P: 8, Q: 8, R: 1, S: 1}, stride: [1, 1]}]
  graph: [{name: conv, shape: point, from: [input]}]
"""
COMMANDS = {
    "check by module": [*BY_MODULE, "check", "space.yaml"],
    "check by script": [*BY_SCRIPT, "check", "space.yaml"],
    "design by module": [*BY_MODULE, *DESIGN],
    "launcher": [*command("timeloop-mapper", ["--time-limit=0.2"]), str(find("arch/gemmini_small")),
                 str(find("problems/conv"))],
}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A working folder with a space of two designs and a network of one layer."""
    (tmp_path / "space.yaml").write_text(f"{ARCHITECTURE}{TWO}")
    (tmp_path / "net.yaml").write_text(NETWORK)
    return tmp_path


def python_itself(folder: Path) -> set[str]:
    """What `python -m` imports before it comes to any package: that no package can help."""
    said = subprocess.run([sys.executable, "-c", "import runpy, sys; print(*sys.modules)"], cwd=folder, text=True,
                          capture_output=True, check=True).stdout
    return {name.split(".")[0] for name in said.split()}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_no_module_of_the_working_folder_runs(name: str, place: Path) -> None:
    for module in {*sys.stdlib_module_names, *LIBRARIES} - {*sys.builtin_module_names} - python_itself(place):
        (place / f"{module}.py").write_text(f"open({str(place / 'ran')!r}, 'a').write(__name__ + ' ')\n")
    (place / "distributed.py").unlink()
    (place / "distributed").mkdir()
    (place / "distributed" / "__init__.py").write_text(f"open({str(place / 'ran')!r}, 'a').write('distributed ')\n")
    done = subprocess.run(COMMANDS[name], cwd=place, capture_output=True, text=True, timeout=120, check=False)
    assert not (place / "ran").exists(), (place / "ran").read_text()
    assert done.returncode == 0, done.stderr


BIG = "design_space: {version: 0.1, parameters: {" + ", ".join(
    f"{name}: {{path: {memory}.attributes.depth, range: [1, 1000000], step: 1}}"
    for name, memory in (("first", "Scratchpad"), ("second", "Accumulator"))) + "}}"


@pytest.mark.slow
def test_a_search_of_too_many_designs_for_its_time_ends_with_what_it_has(place: Path) -> None:
    """Judged by processor time, as other programs may be at work: 3 s, workers included; 14 s in all without a limit on
    the first design and on the report."""
    (place / "space.yaml").write_text(BIG)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*BY_MODULE, "design", "space.yaml", "bundled:networks/mobilenet_v1", "--arch",
                           "bundled:arch/gemmini_large", "-o", "out", "--time-limit", "1"], cwd=place,
                          capture_output=True, text=True, timeout=120, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, done.stderr
    assert "1,000,000,000,000 designs, 1 proposed, 1 mapped" in done.stdout
    assert "out of time after 1 s: the best designs so far" in done.stdout
    assert done.stderr.splitlines() == [
        "warning: there was no time to search the mappings of the best design to the end",
        "warning: no sensitivities: there was no time"]
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 7
    assert json.loads((place / "out" / "mobilenet_v1" / "fadiff.network.json").read_text())["status"] == OUT_OF_TIME


def unshared(script: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Runs a shell script with a view of the file systems of its own."""
    return subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh", *words], cwd=cwd,
                          capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_machine_without_shared_memory_designs(jobs: str, place: Path) -> None:
    read_only = "mount -t tmpfs -o ro none /dev/shm"
    if not Path("/dev/shm").is_dir() or unshared(read_only, cwd=place).returncode:
        pytest.skip("may not mount here")
    done = unshared(f'{read_only}; exec "$@"', *BY_MODULE, *DESIGN[:-1], jobs, cwd=place)
    assert (done.returncode, done.stderr) == (0, "")
    assert (place / "out" / "architecture.yaml").exists()


def workers_of(program: int) -> list[int]:
    """The worker processes of a program."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            if int(fields[1]) == program and fields[0] != "Z" and b"worker_processes" in (
                    folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # ended meanwhile
            pass
    return found


def until(true: Callable[[], object], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true() and time.monotonic() < deadline:
        time.sleep(0.005)
    return bool(true())


def figures(folder: Path) -> object:
    record = json.loads((folder / "fadiff.design.json").read_text())
    return record["front"], record["mapped"], record["history"]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_killed_worker_changes_nothing(place: Path) -> None:
    (place / "space.yaml").write_text(f"{ARCHITECTURE}{SIX}")
    words = [*BY_MODULE, *DESIGN]
    assert subprocess.run(words, cwd=place, check=False).returncode == 0
    expected = figures(place / "out")
    (place / "out").rename(place / "undisturbed")
    with subprocess.Popen(words, cwd=place, stderr=subprocess.PIPE, text=True) as process:
        assert until(lambda: len(workers_of(process.pid)) == 2)
        victims = workers_of(process.pid)
        assert until(lambda: list(place.glob("out/store/*.jsonl")))  # they are at work
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        said = process.communicate(timeout=120)[1]
    assert (process.returncode, said) == (0, "")
    assert figures(place / "out") == expected


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_no_worker_outlives_a_killed_program(place: Path) -> None:
    (place / "space.yaml").write_text(f"{ARCHITECTURE}{SIX}")
    with subprocess.Popen([*BY_MODULE, *DESIGN], cwd=place) as process:
        assert until(lambda: list(place.glob("out/store/*.jsonl")))
        workers = workers_of(process.pid)
        process.kill()
    assert len(workers) == 2
    assert until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers), 10)
