"""The package in Timeloop's place: launchers, command lines, files, and Python functions."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from io import StringIO
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml
from accelergy_stand_ins import stand_in

from fadiff_mapper import FadiffError, call_mapper, call_model, evaluate, load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.cli import main
from fadiff_mapper.timeloop.calls import CallFailed
from fadiff_mapper.timeloop.find_programs import PROGRAMS
from fadiff_mapper.timeloop.launchers import command
from fadiff_mapper.timeloop.programs import read_arguments

MESH = Path(__file__).parents[1] / "recorded" / "emit" / "mesh.yaml"
EMPTY_PATH = "/usr/bin:/bin"


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of launchers, with a space in its name."""
    folder = tmp_path_factory.mktemp("a shim")
    assert main(["shim", str(folder), "--time-limit", "0.5"]) == 0
    return folder


def launched(shim: Path, name: str, *words: object, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """As a script runs it: found on the PATH, from any folder, with any PYTHONPATH."""
    environment = {"PATH": f"{shim}:{EMPTY_PATH}", "HOME": os.environ.get("HOME", "/"), **variables}
    return subprocess.run([name, *map(str, words)], cwd=cwd, env=environment, executable=str(shim / name),
                          capture_output=True, text=True, timeout=120, check=False)


# Launchers.

def test_the_model_launcher_leaves_timeloops_files(shim: Path, tmp_path: Path) -> None:
    (tmp_path / "yaml.py").write_text("raise SystemExit('a file of the user was imported')")
    out = tmp_path / "out"
    out.mkdir()
    done = launched(shim, "timeloop-model", MESH, "-o", "out", "timeloop-mapper.map.yaml", cwd=tmp_path,
                    PYTHONPATH=str(tmp_path), TIMELOOP_USE_ISL="1")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in out.iterdir()} == {f"timeloop-model.{end}" for end in
                                                     ("map.txt", "stats.txt", "ERT.yaml", "ART.yaml")}
    stats = evaluate(load(MESH))
    assert re.search(rf"^Utilization = 0\.71 \| pJ/Compute = +9\.741 \| Cycles = {stats.cycles}$", done.stdout, re.M)
    assert "TIMELOOP_USE_ISL=1 is ignored" in done.stdout
    assert "WARNING: found timeloop-mapper.map.yaml in input file list, ignoring." in done.stdout
    assert (out / "timeloop-model.stats.txt").read_text().startswith("# Written by fadiff_mapper ")


@pytest.mark.slow
def test_the_mapper_launcher_leaves_timeloops_files(shim: Path, tmp_path: Path) -> None:
    done = launched(shim, "timeloop-mapper", MESH, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Summary stats for best mapping found by mapper:\n  Utilization = " in done.stdout
    endings = ("map.yaml", "map.txt", "stats.txt", "ERT.yaml", "ART.yaml")
    assert {path.name for path in tmp_path.iterdir()} == {*(f"timeloop-mapper.{ending}" for ending in endings),
                                                          "fadiff.input.yaml", "fadiff.result.json"}
    assert json.loads((tmp_path / "fadiff.result.json").read_text())["options"]["time_limit"] == 0.5
    merged = load(tmp_path / "fadiff.input.yaml")
    assert f"Cycles: {evaluate(merged).cycles}\n" in (tmp_path / "timeloop-mapper.stats.txt").read_text()


def test_a_failed_run_exits_with_1_and_leaves_no_older_result(shim: Path, tmp_path: Path) -> None:
    for name in ("timeloop-model.stats.txt", "timeloop-model.map+stats.xml", "timeloop-mapper.stats.txt"):
        (tmp_path / name).write_text("of an earlier run")
    bad = tmp_path / "bad.yaml"
    bad.write_text("architecture: {}\nproblem: {}\n")
    done = launched(shim, "timeloop-model", bad, cwd=tmp_path)
    assert done.returncode == 1 and done.stderr.startswith("ERROR: ") and "Traceback" not in done.stderr
    assert {path.name for path in tmp_path.iterdir()} == {"bad.yaml", "timeloop-mapper.stats.txt"}


@pytest.mark.slow
@pytest.mark.parametrize("bad", ["architecture: {}\n", "mapping: 5\n"])
def test_a_failed_run_removes_no_input_and_every_file_of_an_earlier_search(shim: Path, tmp_path: Path,
                                                                           bad: str) -> None:
    (tmp_path / "bad.yaml").write_text(bad)
    (tmp_path / "timeloop-mapper.ERT.yaml").write_text("ERT: {version: 0.4, tables: []}\n")
    for name in ("timeloop-mapper.ART.yaml", "fadiff.result.json", "fadiff.input.yaml", "notes.txt"):
        (tmp_path / name).write_text("of an earlier run")
    done = launched(shim, "timeloop-mapper", "bad.yaml", tmp_path / "timeloop-mapper.ERT.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert {path.name for path in tmp_path.iterdir()} == {"bad.yaml", "timeloop-mapper.ERT.yaml", "notes.txt"}


CALL = "from fadiff_mapper import call_mapper; import sys; call_mapper(sys.argv[1:3], sys.argv[3])"


@pytest.mark.slow
@pytest.mark.parametrize("program, code", [("the launcher", 0), ("the function", -signal.SIGINT)])
def test_ctrl_c_ends_the_search_with_the_best_mapping_so_far(shim: Path, tmp_path: Path, program: str,
                                                             code: int) -> None:
    files = [str(find("arch/gemmini_large")), str(find("layers/resnet18/conv3x3_64_64_56_s1"))]
    words = ([*command("timeloop-mapper"), *files, "-o", str(tmp_path)] if program == "the launcher"
             else [sys.executable, "-c", CALL, *files, str(tmp_path)])
    environment = os.environ | {"PATH": EMPTY_PATH}
    with subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "timeloop-mapper.map.yaml").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == code, process.stderr and process.stderr.read()
    found = json.loads((tmp_path / "fadiff.result.json").read_text())
    assert found["status"] == "interrupted: the best mapping so far"
    cycles = evaluate(load(tmp_path / "fadiff.input.yaml")).cycles
    assert f"Cycles: {cycles}\n" in (tmp_path / "timeloop-mapper.stats.txt").read_text()


def test_launchers_are_executable_name_the_interpreter_and_go_away(tmp_path: Path,
                                                                   capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shim", str(tmp_path)]) == 0 and main(["shim", str(tmp_path)]) == 0, "our own are replaced"
    assert f"export PATH={tmp_path}:" in capsys.readouterr().out
    for name in PROGRAMS:
        assert os.access(tmp_path / name, os.X_OK) and f"exec {sys.executable} -E" in (tmp_path / name).read_text()
    (tmp_path / "other").write_text("stays")
    assert main(["shim", "--remove", str(tmp_path)]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


@pytest.mark.parametrize("foreign", ["a program", "a link"])
def test_a_foreign_file_is_neither_overwritten_nor_removed(tmp_path: Path, foreign: str,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "timeloop-model"
    path.write_text("#!/bin/sh\n") if foreign == "a program" else path.symlink_to("nowhere")
    for words in (["shim", str(tmp_path)], ["shim", "--remove", str(tmp_path)]):
        assert main(words) == 2
        assert "it is no launcher of fadiff-mapper" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["timeloop-model"]


def test_a_bad_option_writes_no_launcher(tmp_path: Path) -> None:
    assert main(["shim", str(tmp_path), "--time-limit", "-1"]) == 2
    assert not list(tmp_path.iterdir())


# The command line of Timeloop's programs.

def test_arguments_are_read_as_timeloop_reads_them(tmp_path: Path) -> None:
    files, output = read_arguments(["a.yaml", "-o", str(tmp_path), "b.yaml"])
    assert files == ["a.yaml", "b.yaml"] and output == tmp_path
    assert read_arguments(["a.yaml", "-o", "."], tmp_path) == (["a.yaml"], tmp_path)


@pytest.mark.parametrize("words, said", [
    ([], "no input files"), (["-o"], "no folder follows"), (["a.yaml", "-o", "nowhere"], "cannot access output"),
    (["--help"], 'unknown option "--help"'), (["timeloop-mapper.map.yaml"], "no input files")])
def test_a_bad_command_line_is_one_line(words: list[str], said: str) -> None:
    with pytest.raises(FadiffError, match=said):
        read_arguments(words)


# Functions.

def test_call_model_returns_what_the_files_say(tmp_path: Path) -> None:
    log = StringIO()
    found = call_model(str(MESH), tmp_path, log_to=log, environment={"TIMELOOP_X": "1"})
    exact = evaluate(load(MESH))
    assert (found.cycles, found.computes, found.stats) == (exact.cycles, exact.computes, exact)
    assert found.energy == pytest.approx(exact.energy_pj * 1e-12)
    assert found.energy == pytest.approx(sum(found.per_component_energy.values()))
    assert found.percent_utilization == pytest.approx(exact.utilization * 100)
    assert found.latency == pytest.approx(exact.cycles * found.cycle_seconds)
    assert found.per_compute("energy") == pytest.approx(found.energy / found.computes)
    assert found.mapping == (tmp_path / "timeloop-model.map.txt").read_text()
    assert "TIMELOOP_X=1 is ignored" in log.getvalue()


def test_a_dict_an_extra_file_and_an_output_word_are_taken(tmp_path: Path) -> None:
    document: dict[str, Any] = yaml.safe_load(MESH.read_text())
    (tmp_path / "mapping.yaml").write_text(yaml.safe_dump({"mapping": document.pop("mapping")}))
    (tmp_path / "out" / "deep").mkdir(parents=True)
    call_model(document, tmp_path / "out", extra_input_files=[str(tmp_path / "mapping.yaml")],
               extra_args=["-o", "deep"], log_to=tmp_path / "log")
    assert (tmp_path / "out" / "deep" / "timeloop-model.stats.txt").exists()
    assert (tmp_path / "out" / "parsed-processed-input.yaml").exists() and "Cycles = " in (tmp_path / "log").read_text()


def test_call_mapper_searches(tmp_path: Path) -> None:
    found = call_mapper([MESH], tmp_path, log_to=StringIO(), seed=1, time_limit=0.3)
    assert found.cycles == evaluate(load(tmp_path / "fadiff.input.yaml")).cycles


def test_fixed_factors_that_divide_nothing_give_a_shorter_last_run(tmp_path: Path) -> None:
    """Timeloop's mapper goes on with them ("imperfect constraint"), whatever its kind of map space."""
    log, constraint = StringIO(), {"target": "Scratchpad", "type": "temporal", "factors": ["P=3"]}
    (tmp_path / "more.yaml").write_text(yaml.safe_dump({"constraints": {"targets": [constraint]}}))
    found = call_mapper([find("arch/gemmini_small"), find("layers/resnet18/conv3x3_64_64_56_s1"),
                         tmp_path / "more.yaml"], tmp_path / "out", log_to=log, time_limit=0.3)
    assert "WARNING: fixed factors do not divide P=56: the mapping has residual factors" in log.getvalue()
    assert "P=3" in (tmp_path / "out" / "timeloop-mapper.map.yaml").read_text()
    assert found.cycles == evaluate(load(tmp_path / "out" / "fadiff.input.yaml")).cycles


def test_return_proc_gives_the_process(tmp_path: Path) -> None:
    with call_model(MESH, tmp_path, return_proc=True, log_to=tmp_path / "log") as process:
        assert process.wait(timeout=60) == 0
    assert (tmp_path / "timeloop-model.stats.txt").exists() and "Cycles = " in (tmp_path / "log").read_text()


def test_a_failure_is_the_error_that_scripts_expect(tmp_path: Path) -> None:
    for bad in (tmp_path / "nowhere.yaml", 3, {"architecture": {}}):
        with pytest.raises(RuntimeError) as caught:
            call_model(bad, tmp_path / "out", log_to=StringIO())
        assert isinstance(caught.value, CallFailed)
    assert not list((tmp_path / "out").glob("timeloop-*"))


def front_end(text: str) -> Any:
    """A specification as Timeloop's front end hands it over: known by its module and its two private functions."""
    calls = ModuleType("front.common.backend_calls")
    calls._specification_to_yaml_string = lambda specification, for_model: text  # type: ignore[attr-defined]
    kind = type("Specification", (), {
        "__module__": "front.v4.specification",
        "_parse_timeloop_output": lambda self, folder, prefix: (Path(folder) / f"{prefix}.stats.txt").read_text()})
    return kind(), {"front": ModuleType("front"), "front.common": ModuleType("front.common"), calls.__name__: calls}


def test_an_object_of_the_front_end_is_read_back_by_its_own_reader(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    specification, modules = front_end(MESH.read_text())
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    assert "Cycles: 102\n" in call_model(specification, tmp_path, log_to=StringIO())
    assert (tmp_path / "parsed-processed-input.yaml").read_text() == MESH.read_text()


def test_energies_of_a_front_ends_result_are_not_rounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specification, modules = front_end(MESH.read_text())
    read = SimpleNamespace(per_component_energy={}, energy=1.0, computes_per_joule=1.0, cycles=102)
    monkeypatch.setattr(type(specification), "_parse_timeloop_output", lambda self, folder, prefix: read)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    found, exact = call_model(specification, tmp_path, log_to=StringIO()), evaluate(load(MESH))
    assert found is read and found.energy == pytest.approx(exact.energy_pj * 1e-12)
    assert found.computes_per_joule == pytest.approx(exact.computes / found.energy)
    assert found.per_component_energy == pytest.approx(
        {name: pj * 1e-12 for name, pj in exact.component_energies().items() if pj})


# Accelergy.

UNPRICED = {key: value for key, value in yaml.safe_load(MESH.read_text()).items() if key not in ("ERT", "ART")}
UNPRICED["architecture"]["subtree"][0]["attributes"] = {"technology": 45, "global_cycle_seconds": 1e-9}
for component in UNPRICED["architecture"]["subtree"][0]["local"]:
    component["required_actions"] = ["compute"] if component["name"] == "Mac" else ["read", "write", "update"]


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("variable", ["PATH", "ACCELERGYPATH"])
def test_accelergy_is_asked_where_timeloop_would_ask_it(tmp_path: Path, variable: str) -> None:
    stand_in(tmp_path, "write(ert, art); print('asked')")
    out, environment = tmp_path / "out", {"PATH": EMPTY_PATH}
    environment[variable] = f"{tmp_path}:{EMPTY_PATH}"
    found = call_model(UNPRICED, out, environment=environment, log_to=StringIO())
    tables = {kind: yaml.safe_load((out / f"timeloop-model.{kind}.yaml").read_text())[kind] for kind in ("ERT", "ART")}
    assert {entry["energy"] for row in tables["ERT"]["tables"] for entry in row["actions"]} == {2.5}
    assert found.energy == pytest.approx(evaluate(load(UNPRICED | tables)).energy_pj * 1e-12)
    assert (out / "timeloop-model.accelergy.log").read_text() == "asked\n"
    assert "architecture" in yaml.safe_load((out / "timeloop-model.flattened_architecture.yaml").read_text())


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("script, said", [("print('no plug-in'); sys.exit(1)", "exit code 1: no plug-in"),
                                          ("sys.exit(0)", "without writing ERT.yaml")])
def test_a_failing_accelergy_is_named(tmp_path: Path, script: str, said: str) -> None:
    stand_in(tmp_path, script)
    with pytest.raises(CallFailed, match=said):
        call_model(UNPRICED, tmp_path / "out", environment={"PATH": f"{tmp_path}:{EMPTY_PATH}"}, log_to=StringIO())


@pytest.mark.usefixtures("own_cache")
def test_accelergy_is_handed_nothing_that_it_could_run(tmp_path: Path) -> None:
    stand_in(tmp_path, "sys.exit(9)")
    components = {"version": "0.4", "classes": [{"name": "DRAM", "attributes": {"evil": "(lambda: 1)()"}}]}
    with pytest.raises(CallFailed, match=r"evil: found .*accepted: .*arithmetic"):
        call_model(UNPRICED | {"compound_components": components}, tmp_path / "out",
                   environment={"PATH": f"{tmp_path}:{EMPTY_PATH}"}, log_to=StringIO())


@pytest.mark.parametrize("own_process", [False, True])
def test_accelergy_gets_the_input_of_a_front_ends_object_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                                  own_process: bool) -> None:
    """The front end has evaluated it with Python already: lists, functions and plug-ins are Accelergy's to read."""
    tables = yaml.safe_load(MESH.read_text())
    for kind in ("ERT", "ART"):
        (tmp_path / kind).write_text(yaml.safe_dump({kind: tables[kind]}))
    program = tmp_path / "accelergy"
    program.write_text(f"#!/bin/sh\ncp $1 {tmp_path}/handed\n"
                       f"cp {tmp_path}/ERT out/ERT.yaml && cp {tmp_path}/ART out/ART.yaml\n")
    program.chmod(0o755)
    text = yaml.safe_dump(UNPRICED | {"globals": {"expression_custom_functions": ["f.py"]}, "compound_components": {
        "version": "0.4", "classes": [{"name": "cell", "attributes": {"histogram": "f([1, 2])"}}]}})
    specification, modules = front_end(text)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    found = call_model(specification, tmp_path / "out", environment={"PATH": f"{tmp_path}:{EMPTY_PATH}"},
                       log_to=tmp_path / "log", return_proc=own_process)
    if own_process:
        with found as process:
            assert process.wait(timeout=60) == 0, (tmp_path / "log").read_text()
    assert (tmp_path / "handed").read_text() == text
    stats = (tmp_path / "out" / "timeloop-model.stats.txt").read_text()
    assert f"Energy: {evaluate(load(MESH)).energy_pj / 1e6:.2f} uJ" in stats
    assert (tmp_path / "out" / "timeloop-model.ERT.yaml").read_text() == (tmp_path / "ERT").read_text()
