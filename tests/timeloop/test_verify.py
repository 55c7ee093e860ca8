"""`--verify`: real Timeloop, or a program that stands for it, is asked; what it says is never taken on trust."""

from __future__ import annotations

import json
import stat
import subprocess
import time
from pathlib import Path

import pytest

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.timeloop.find_programs import find_real
from fadiff_mapper.timeloop.launchers import write_launchers
from fadiff_mapper.timeloop.run_model import read_answer
from fadiff_mapper.timeloop.verify import MODEL, Verdict, compared, differences, numbers, real_model, verify

MESH = Path(__file__).parents[1] / "recorded" / "emit" / "mesh.yaml"
ANSWER = Path(__file__).parents[1] / "recorded" / "timeloop-model"
"""The two files that timeloop-model (commit 4cf6d4c) left for MESH, its switch set to show everything."""


@pytest.fixture(scope="module")
def spec() -> Spec:
    return load(MESH)


@pytest.fixture(scope="module")
def stats(spec: Spec) -> Stats:
    return evaluate(spec)


def program(folder: Path, script: str) -> Path:
    """A timeloop-model that does what the shell script says."""
    folder.mkdir(exist_ok=True)
    path = folder / MODEL
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def asked(spec: Spec, stats: Stats, path: Path, timeout: float = 20) -> Verdict:
    assert spec.mapping is not None
    return verify(spec, spec.mapping, stats, path, timeout)


GIVE = f"for f in {ANSWER}/*.gz; do gzip -dc $f > $(basename $f .gz); done"


def test_an_equal_answer_verifies_every_number(spec: Spec, stats: Stats, tmp_path: Path) -> None:
    found = asked(spec, stats, program(tmp_path, GIVE))
    assert found.equal and found.differences == ()
    subprocess.run(["sh", "-c", GIVE], cwd=tmp_path, check=True)
    assert found.numbers == numbers(read_answer(tmp_path, spec.problem.dataspace_names())) > 150


@pytest.mark.parametrize("change, named", [
    ("sed -i 's/^Cycles: .*/Cycles: 7/' *.stats.txt", "cycles: "),
    ("sed -i 's/^Energy: .* uJ/Energy: 0.99 uJ/' *.stats.txt", "printed.energy_uj: "),
    ("sed -i '0,/@multicast \\([0-9]*\\) @scatter \\([0-9]*\\): .*/s//@multicast \\1 @scatter \\2: 3.00/' *.stats.txt",
     "networks["),
    ("sed -i '0,/<slowdown>/s/<slowdown>[^<]*/<slowdown>0.5/' *.xml", ".slowdown: "),
])
def test_a_different_number_is_named(spec: Spec, stats: Stats, tmp_path: Path, change: str, named: str) -> None:
    found = asked(spec, stats, program(tmp_path, f"{GIVE}; {change}"))
    assert not found.equal and found.numbers > 150
    assert any(named in line for line in found.differences), found.differences


@pytest.mark.parametrize("script, said", [
    ("kill -SEGV $$", "killed by SIGSEGV"),
    ("exit 3", "exit code 3"),
    ("echo 'ERROR: couldn'\"'\"'t map level Tile: no reason' >&2; exit 1", "rejected: ERROR: couldn't map level Tile"),
    ("exit 0", "left no such file"),
    (f"{GIVE}; rm *.xml", "left no such file"),
    (f"{GIVE}; for f in *.txt *.xml; do head -c 2000 $f > half; mv half $f; done", "cut off"),
    (f"{GIVE}; head -c -12 *.stats.txt > half; mv half timeloop-model.stats.txt", "cut off"),
])
def test_a_failure_is_not_taken_for_an_answer(spec: Spec, stats: Stats, tmp_path: Path, script: str,
                                              said: str) -> None:
    found = asked(spec, stats, program(tmp_path, script))
    assert not found.equal and found.numbers == 0
    assert said in found.differences[0]


def test_a_program_that_hangs_is_ended_with_its_children(spec: Spec, stats: Stats, tmp_path: Path) -> None:
    start = time.monotonic()
    path = program(tmp_path, f"sleep 30 & echo $! > {tmp_path}/child; wait")
    found = asked(spec, stats, path, timeout=0.5)
    assert "did not end within 0.5 s" in found.differences[0] and time.monotonic() - start < 10
    child = int((tmp_path / "child").read_text())
    for _ in range(100):
        if not runs(child):
            break
        time.sleep(0.05)
    assert not runs(child)


def runs(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_the_program_sees_no_switches_of_timeloop(spec: Spec, stats: Stats, tmp_path: Path,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIMELOOP_USE_ISL", "1")
    asked(spec, stats, program(tmp_path, f"env > {tmp_path}/seen; {GIVE}"))
    seen = [line for line in (tmp_path / "seen").read_text().splitlines() if line.startswith("TIMELOOP_")]
    assert seen == ["TIMELOOP_HIDE_INCONSEQUENTIAL_STATS=0"]


def test_a_launcher_of_ours_is_never_the_judge(tmp_path: Path) -> None:
    write_launchers(tmp_path / "shim")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / MODEL).symlink_to(tmp_path / "shim" / MODEL)
    real = program(tmp_path / "real", GIVE)
    ours = f"{tmp_path}/shim:{tmp_path}/link"
    assert find_real(MODEL, ours) is None
    assert real_model(f"{ours}:{tmp_path}/real") == real
    with pytest.raises(FadiffError, match="no timeloop-model on the PATH"):
        real_model(ours)


def test_the_command_line_tells_equal_different_and_absent_apart(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def command(folder: str, *words: str) -> tuple[int, str, str]:
        monkeypatch.setenv("PATH", f"{tmp_path / folder}:/usr/bin:/bin")
        code = main(["evaluate", str(MESH), "--verify", *words])
        return code, *capsys.readouterr()

    program(tmp_path / "same", GIVE)
    program(tmp_path / "other", f"{GIVE}; sed -i 's/^Cycles: .*/Cycles: 7/' *.stats.txt")
    code, out, _ = command("same")
    assert code == 0 and "verified by timeloop-model (sha256 " in out
    code, out, err = command("other", "--json")
    assert code == 1 and "cycles: 102 instead of 7" in err and json.loads(out)["cycles"] == 102
    code, out, err = command("empty")
    assert code == 2 and "nothing to verify against" in err and not out


def test_of_several_problems_each_verdict_names_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    program(tmp_path / "bin", "echo ERROR: not today >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    layers = ["conv1x1_64_128_28_s2", "conv3x3_64_64_56_s1"]
    assert main(["map", "bundled:arch/gemmini_large", *(f"bundled:layers/resnet18/{name}" for name in layers),
                 "--effort", "light",
                 "--verify", "--quiet", "-o", str(tmp_path / "out")]) == 1
    said = [line for line in capsys.readouterr().out.splitlines() if "verified by" in line]
    assert [line.partition(": not verified by timeloop-model ")[0] for line in said] == layers


def test_differences_are_found_on_both_sides(stats: Stats, spec: Spec) -> None:
    ours = compared(stats)
    assert not list(differences(ours, ours))
    fewer = ours | {"levels": ours["levels"][:-1]}
    assert list(differences(ours, fewer)) and list(differences(fewer, ours))


@pytest.mark.skipif(find_real(MODEL) is None, reason="the real timeloop-model is not installed")
def test_the_real_program_gives_these_numbers(spec: Spec, stats: Stats) -> None:
    found = asked(spec, stats, real_model(), timeout=60)
    assert found.equal, found.differences


def test_one_number_of_the_dense_form_is_the_actual_one() -> None:
    split = {"reads": {"algorithmic": 8, "actual": 8, "gated": 0, "skipped": 0}}
    assert not list(differences({"reads": 8}, split))
    assert list(differences({"reads": 7}, split)) == ["reads: 8 instead of 7"]
