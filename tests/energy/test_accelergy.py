"""Accelergy is asked once, with nothing that it could run, and a failure of it is one clear line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelergy_stand_ins import stand_in

from fadiff_mapper import load
from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.energy import accelergy_tables, choose_source
from fadiff_mapper.inputs.energy.accelergy_components import described
from fadiff_mapper.inputs.energy.accelergy_tables import (
    LOG,
    MEMORY,
    MOST_BYTES,
    TIME_LIMIT_S,
    WORDS,
    answer,
    complete_answer,
    request,
)
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import component_name

LAYER = str(bundled_files.find("problems/conv"))
WRITES = "write(ert, art)"


def design(name: str = "gemmini_small") -> Spec:
    return load(str(bundled_files.find(f"arch/{name}")), LAYER, energy="built-in")


def with_attribute(key: str, value: object) -> dict[str, object]:
    """A small native design with one more attribute."""
    buffer = {"depth": 64, "width": 16, "word_bits": 16, key: value}
    moves, word = ["read", "write", "update"], {"word_bits": 16}
    local = [{"name": "DRAM", "class": "DRAM", "required_actions": moves, "attributes": word},
             {"name": "Buffer", "class": "SRAM", "required_actions": moves, "attributes": buffer},
             {"name": "MAC[0..3]", "class": "intmac", "required_actions": ["compute"], "attributes": word}]
    around = {"technology": "45nm", "global_cycle_seconds": 1e-9}
    return {"architecture": {"version": "0.4", "subtree": [{"name": "chip", "attributes": around, "local": local}]},
            "problem": yaml.safe_load(Path(LAYER).read_text())["problem"]}


FRAMES = "max(0, (lambda f=[], g=(q.gi_frame.f_back.f_globals for q in [1]): [g := 1])()[0])"
"""The class of an attack: characters of arithmetic, a lambda with default arguments, `:=`, a generator's frame."""


pytestmark = pytest.mark.usefixtures("own_cache")


# What Accelergy is asked.

def texts(value: Any) -> Iterator[str]:
    """All texts in a tree, keys included."""
    if isinstance(value, dict):
        yield from value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from texts(item)
    if isinstance(value, str):
        yield value


@pytest.mark.parametrize("name", bundled_files.designs())
def test_the_request_holds_every_component_and_plain_words_alone(name: str) -> None:
    spec = design(name)
    asked = json.loads(request(described(spec.arch, spec.literal)))
    assert all(WORDS.fullmatch(one) for one in texts(asked))
    local = asked["architecture"]["subtree"][0]["local"]
    assert len(local) == sum(len(tree["subtree"][0]["local"]) for tree in spec.arch.native.values())


@pytest.mark.parametrize("text", ["'{{ 7 * 7 }}'", "'{% include x %}'", "'{# #}'", "'x(y)'", "a;b", "'x\"y'", "'a\nb'",
                                  "!include x", "'[1..2]'"])
def test_a_text_that_could_be_run_is_refused(text: str, tmp_path: Path) -> None:
    spec = load(with_attribute("note", text), energy="built-in")
    with pytest.raises(SpecError, match=r'chip.Buffer: class "SRAM": note: found .* not handed to Accelergy .*--en'):
        complete_answer(spec.arch, spec.literal, stand_in(tmp_path, WRITES))


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "().__class__", "x.__class__", "(lambda: 1)()",
                                  "open('x')", "[x for x in (1, 2)]", "max(*[1])", "(a := 1)", "9 ** 9 ** 9", FRAMES])
def test_an_expression_that_is_more_than_arithmetic_is_refused(text: str, tmp_path: Path) -> None:
    spec = load(with_attribute("note", text), energy="built-in")
    with pytest.raises(SpecError, match=r"chip.Buffer: note: found .*accepted: .*arithmetic.*--energy"):
        complete_answer(spec.arch, spec.literal, stand_in(tmp_path, WRITES))


def test_variables_can_be_used_and_are_not_handed_over() -> None:
    document = with_attribute("note", "2 * twice") | {"variables": {"base": 4, "twice": "2 * base", "node": "'45nm'"}}
    spec = load(document, energy="built-in")
    asked = json.loads(request(described(spec.arch, spec.literal)))
    assert asked["architecture"]["subtree"][0]["local"][1]["attributes"]["note"] == 16
    assert "variables" not in asked and "twice" not in json.dumps(asked)


@pytest.mark.parametrize("text", ["some_function", "'/a/path'", "open('x')", "'{{ 7 * 7 }}'"])
def test_what_a_container_says_to_all_is_left_out_with_a_note_where_it_is_no_plain_value(
        text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = with_attribute("note", 1)
    document["architecture"]["subtree"][0]["attributes"]["odd"] = text  # type: ignore[index]
    spec = load(document, energy="built-in")
    assert "odd" not in request(described(spec.arch, spec.literal))
    stand_in(tmp_path, WRITES)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert load(document, energy="accelergy").notes == ("Accelergy was not told odd: no numbers or plain words",)


def test_what_a_container_must_say_is_never_left_out() -> None:
    document = with_attribute("note", 1)
    document["architecture"]["subtree"][0]["attributes"]["technology"] = "'/a/path'"  # type: ignore[index]
    spec = load(document, energy="built-in")
    with pytest.raises(SpecError, match=r"DRAM: .*technology: found '/a/path'"):
        request(described(spec.arch, spec.literal))


def test_a_name_whose_range_is_an_expression_is_refused() -> None:
    document = with_attribute("note", "x")
    document["architecture"]["subtree"][0]["local"][2]["name"] = "MAC[0..len(open('x'))]"  # type: ignore[index]
    with pytest.raises(SpecError):
        spec = load(document, energy="built-in")
        described(spec.arch, spec.literal)


SEES = """
import os
pathlib.Path(__file__).with_name("seen").write_text(json.dumps([dict(os.environ), sys.argv[1:]]))
"""


def test_variables_of_the_environment_that_change_accelergy_are_not_inherited(tmp_path: Path) -> None:
    harmful = dict.fromkeys(("ACCELERGY_MATH_FUNCTIONS", "ACCELERGY_COMPONENT_LIBRARIES", "PYTHONPATH", "LD_PRELOAD"),
                            "/tmp/x")
    spec = design()
    answer(spec.arch, spec.literal, stand_in(tmp_path, SEES + WRITES), harmful | {"HOME": "/somewhere", "PATH": "/bin"})
    seen, arguments = json.loads((tmp_path / "seen").read_text())
    assert (seen["HOME"], seen["PATH"]) == ("/somewhere", "/bin") and not harmful.keys() & seen.keys()
    assert arguments == ["input.yaml", "-o", "out", "-p", "17"]


# What it answers.

def test_its_tables_are_taken_with_their_source(tmp_path: Path) -> None:
    spec = design()
    tables = complete_answer(spec.arch, {}, stand_in(tmp_path, WRITES)).tables
    assert {component_name(table.component) for table in tables.ert} == {"DRAM", "Scratchpad", "Accumulator",
                                                                         "WeightRegister", "MACC"}
    assert {energy for table in tables.ert for energy in table.actions.values()} == {2.5}
    assert {table.source.split()[0] for table in tables.ert} == {"Accelergy"}
    assert set(tables.art.values()) == {7.0}


COUNTS = 'pathlib.Path(__file__).with_name("runs").open("a").write("x")\n'


def test_it_is_asked_once_for_one_architecture_and_again_for_another(tmp_path: Path, own_cache: Path) -> None:
    program = stand_in(tmp_path, COUNTS + WRITES)
    spec, other = design(), design("gemmini_large")
    assert complete_answer(spec.arch, {}, program) == complete_answer(spec.arch, {}, program)
    complete_answer(other.arch, {}, program)
    assert len((tmp_path / "runs").read_text()) == 2
    assert len(list(own_cache.rglob("*.json"))) == 2 == len([path for path in own_cache.rglob("*") if path.is_file()])


SUMMARIES = """
for kind, key in (("ERT", "primitive_estimation(s)"), ("ART", "primitive_estimations")):
    rows = [{"name": row["name"], key: [{"name": "part", "estimator": "Formula"}]} for row in art]
    (out / (kind + "_summary.yaml")).write_text(json.dumps({kind + "_summary": {"table_summary": rows}}))
print("asked")
"""


def test_the_files_that_it_would_write_and_what_it_printed_are_part_of_the_answer(tmp_path: Path) -> None:
    program = stand_in(tmp_path, COUNTS + WRITES + SUMMARIES)
    spec = design()
    first, again = (answer(spec.arch, spec.literal, program, {"HOME": str(tmp_path)}) for _ in range(2))
    assert first == again and (tmp_path / "runs").read_text() == "x"
    assert set(first.files) == {"ERT.yaml", "ART.yaml", "ERT_summary.yaml", "ART_summary.yaml",
                                "flattened_architecture.yaml", LOG}
    assert first.files[LOG] == "asked\n"
    row = yaml.safe_load(first.files["ERT_summary.yaml"])["ERT_summary"]["table_summary"][1]
    assert component_name(row["name"]) == "Scratchpad" and row["actions"][1]["energy"] == 2.5
    assert row["primitive_estimation(s)"] == [{"name": row["name"], "estimator": "Formula"}]


def test_it_is_asked_again_where_other_parts_follow_from_the_compound_components(tmp_path: Path) -> None:
    program = stand_in(tmp_path, COUNTS + WRITES)
    for size in ("depth", "width", "depth", "2 * depth - 64"):
        part = {"name": "part", "class": "SRAM", "attributes": {"size": size}}
        kind = {"name": "SRAM", "subcomponents": [part], "actions": [
            {"name": name, "subcomponents": [{"name": "part", "actions": [{"name": "read"}]}]}
            for name in ("read", "write", "update")]}
        inner = {"name": "part", "class": "memory", "attributes": {"size": size}}
        document = with_attribute("note", 1) | {
            "compound_components": {"version": "0.4", "classes": [kind | {"subcomponents": [inner]}]}}
        spec = load(document, energy="built-in")
        answer(spec.arch, spec.literal, program, {})
    assert (tmp_path / "runs").read_text() == "xx"


@pytest.mark.slow
def test_it_is_asked_again_when_the_command_changes_or_the_kept_table_is_damaged(
        tmp_path: Path, own_cache: Path) -> None:
    spec = design()
    first = complete_answer(spec.arch, {}, stand_in(tmp_path, COUNTS + WRITES))
    whole, = (path.read_text() for path in own_cache.rglob("*.json"))
    for damaged in ("", whole[:-9], "{}", "\0", '{"ERT.yaml": 3}', '{"ERT.yaml": "ERT: 3", "ART.yaml": ""}'):
        kept, = own_cache.rglob("*.json")
        kept.write_text(damaged)
        assert complete_answer(spec.arch, {}, stand_in(tmp_path, COUNTS + WRITES)) == first
    complete_answer(spec.arch, {}, stand_in(tmp_path, COUNTS + WRITES + "  # changed"))
    assert len((tmp_path / "runs").read_text()) == 8


def test_without_a_cache_it_still_answers(tmp_path: Path, own_cache: Path) -> None:
    own_cache.write_text("a file where the folder should be")
    assert complete_answer(design().arch, {}, stand_in(tmp_path, WRITES)).tables.ert
    assert own_cache.is_file()


def test_the_cache_is_under_the_home_folder_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert accelergy_tables.answers_folder() == Path("/home/somebody/.cache/fadiff_mapper/energies")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert accelergy_tables.answers_folder() == Path("/home/somebody/.cache/fadiff_mapper/energies")


# How it fails.

FAILURES = {
    "raise ValueError('no technology')": r"ended with exit code 1: ValueError: no technology",
    "sys.exit(3)": "ended with exit code 3: it printed nothing",
    "print('all is well')": "ended without writing ERT.yaml: all is well",
    "write(ert, art); (out / 'ERT.yaml').write_text('')": "ERT.yaml that cannot be read: .*empty",
    "write([], [])": r"a table that cannot be used: .*no figure of .*DRAM",
    "write([], art)": r"a table that cannot be used: ERT: no component has an action",
    "write(ert, art); (out / 'ERT.yaml').write_text('ERT: {tables: [')": "ERT.yaml that cannot be read",
    "write(ert, art); (out / 'ERT.yaml').write_bytes(bytes(range(256)))": "ERT.yaml that cannot be read",
    "write(ert[1:], art)": r'without energies for "DRAM" \(fill, read, update\)',
    "ert[1]['actions'] = ert[1]['actions'][:1]; write(ert, art)": r'for "Scratchpad" \(fill, update\)',
    "write(ert[:-1], art)": r'for "MACC" \(compute\)',
    "write(ert, art[1:])": r"no figure of .*DRAM",
    "ert[0]['actions'][0]['energy'] = 'much'; write(ert, art)": "a table that cannot be used: .*energy",
    "ert[0]['actions'][0]['energy'] = float('nan'); write(ert, art)": "a table that cannot be used: .*energy",
    "ert[0]['actions'][0]['energy'] = -1; write(ert, art)": "a table that cannot be used: .*energy",
    "write(ert, art); (out / 'ART.yaml').unlink()": "ended without writing ART.yaml",
    "write(ert, art); (out / 'ERT.yaml').unlink(); (out / 'ERT.yaml').mkdir()": "ended without writing ERT.yaml",
    f"write(ert, art); (out / 'ERT.yaml').open('a').write(' ' * {MOST_BYTES})": "bytes into ERT.yaml",
    "write(ert, art); sys.exit(1)": "ended with exit code 1",
}


@pytest.mark.slow
@pytest.mark.parametrize("script", FAILURES)
def test_a_failure_is_one_line_that_says_how_to_do_without(script: str, tmp_path: Path, own_cache: Path) -> None:
    with pytest.raises(FadiffError, match=FAILURES[script]) as caught:
        complete_answer(design().arch, {}, stand_in(tmp_path, script))
    assert "\n" not in str(caught.value) and "--energy bundled, estimate or built-in" in str(caught.value)
    assert not list(own_cache.rglob("*.json"))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of other processes are Linux's")
def test_one_that_takes_too_much_memory_is_ended(tmp_path: Path) -> None:
    spec = design()
    with pytest.raises(FadiffError, match="accelergy ended with exit code 1: MemoryError"):
        answer(spec.arch, spec.literal, stand_in(tmp_path, f"bytearray({MEMORY}); {WRITES}"), {})
    assert (TIME_LIMIT_S, MEMORY) == (60, 2 ** 31)


def test_one_that_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelergy_tables, "TIME_LIMIT_S", 0.5)
    spec = design()
    with pytest.raises(FadiffError, match=r"accelergy did not end within 0\.5 s"):
        answer(spec.arch, spec.literal, stand_in(tmp_path, "import time; time.sleep(60)"), {})


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_with_the_command_that_asked_it(end: signal.Signals, tmp_path: Path) -> None:
    waits = "import os, time; pathlib.Path(__file__).with_name('pid').write_text(str(os.getpid())); time.sleep(60)"
    stand_in(tmp_path, waits)
    folders = tmp_path / "folders"
    folders.mkdir()
    ours = subprocess.Popen([sys.executable, "-m", "fadiff_mapper", *CHECK], env={
        "PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path),
        "TMPDIR": str(folders)})
    pid, deadline = tmp_path / "pid", time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < deadline:
        time.sleep(0.02)
    asked = Path("/proc") / pid.read_text()
    ours.send_signal(end)
    assert ours.wait(30) == -end
    while (asked / "stat").exists() and asked.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline
        time.sleep(0.02)
    while list(folders.iterdir()):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_program_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    program = Path(stand_in(tmp_path, WRITES))
    program.write_text("#!/no/such/interpreter\n")
    with pytest.raises(FadiffError, match=r"accelergy cannot be run: No such file"):
        complete_answer(design().arch, {}, str(program))


# The command line.

Put = Callable[[str | None], None]
CHECK = ["check", "bundled:arch/gemmini_small", "bundled:problems/conv"]


@pytest.fixture
def only_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Put:
    """Puts a stand-in that runs a script on the PATH, or nothing, and takes everything else off it."""
    def put(script: str | None) -> None:
        folder = tmp_path / "bin"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if script is not None:
            stand_in(folder, script)
        monkeypatch.setenv("PATH", str(folder))
    return put


def test_auto_takes_accelergy_before_the_bundled_tables(only_on_path: Put, capsys: pytest.CaptureFixture[str]) -> None:
    only_on_path(WRITES)
    assert main(CHECK) == 0
    assert "energies: Accelergy" in capsys.readouterr().out
    assert main([*CHECK, "--energy", "bundled"]) == 0
    assert "energies: bundled with gemmini_small" in capsys.readouterr().out
    only_on_path(None)
    assert main(CHECK) == 0
    assert "energies: bundled with gemmini_small" in capsys.readouterr().out


def test_a_failing_accelergy_ends_with_code_2_and_one_line(
        only_on_path: Put, capsys: pytest.CaptureFixture[str]) -> None:
    only_on_path("sys.exit(1)")
    assert main(CHECK) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("error: ") and said.err.count("\n") == 1


def test_asking_for_accelergy_where_it_is_not_is_an_error(
        only_on_path: Put, capsys: pytest.CaptureFixture[str]) -> None:
    only_on_path(None)
    assert main([*CHECK, "--energy", "accelergy"]) == 2
    assert "there is no accelergy command on the PATH" in capsys.readouterr().err


# The real one.

@pytest.mark.skipif(shutil.which("accelergy") is None, reason="there is no Accelergy")
def test_the_real_accelergy_gives_the_bundled_tables() -> None:
    spec = design("weight_stationary")
    program = shutil.which("accelergy")
    recorded = choose_source.recorded_tables(spec.arch)
    assert program is not None and recorded is not None
    found = complete_answer(spec.arch, spec.literal, program).tables
    assert {table.component: table.actions for table in found.ert if "inter_" not in table.component} \
        == {table.component: table.actions for table in recorded.ert if "inter_" not in table.component}
    assert {name: area for name, area in found.art.items() if "inter_" not in name} \
        == {name: area for name, area in recorded.art.items() if "inter_" not in name}
