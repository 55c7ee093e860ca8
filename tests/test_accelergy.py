"""Accelergy is asked once, with nothing that it could run, and a failure of it is one clear line."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from accelergy_stand_ins import stand_in

from fadiff_mapper import bundled, load
from fadiff_mapper.cli import main
from fadiff_mapper.energy import cache
from fadiff_mapper.energy.accelergy import MOST_TABLE_BYTES, accelergy_tables
from fadiff_mapper.energy.process import KEPT_BYTES, run_program
from fadiff_mapper.energy.request import request
from fadiff_mapper.errors import FadiffError, SpecError
from fadiff_mapper.inputs import Spec
from fadiff_mapper.spec.tables import component_name

LAYER = str(bundled.find("problems/conv"))
WRITES = "write(ert, art)"


def design(name: str = "gemmini_small") -> Spec:
    return load(str(bundled.find(f"arch/{name}")), LAYER, energy="built-in")


def with_attribute(key: str, value: object) -> dict[str, object]:
    """A small native design with one more attribute."""
    buffer = {"depth": 64, "width": 16, "word_bits": 16, "technology": "45nm", key: value}
    local = [{"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16}},
             {"name": "Buffer", "class": "SRAM", "attributes": buffer},
             {"name": "MAC[0..3]", "class": "intmac", "attributes": {"word_bits": 16}}]
    return {"architecture": {"version": "0.4", "subtree": [{"name": "chip", "local": local}]},
            "problem": yaml.safe_load(Path(LAYER).read_text())["problem"]}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


# What Accelergy is asked.

@pytest.mark.parametrize("name", bundled.designs())
def test_the_request_holds_every_component_and_every_text_in_it_is_quoted(name: str) -> None:
    spec = design(name)
    text = request(spec.arch)
    for event in yaml.parse(text):
        if isinstance(event, yaml.ScalarEvent) and event.style is None:
            assert not isinstance(json.loads(event.value), str)
    for level in spec.arch.level_names():
        assert f'"{level}' in text


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "{{ 7 * 7 }}", "{% include 'x' %}", "{# #}",
                                  "().__class__", "9**9", "a;b", 'x"y', "a\nb", "!include x"])
def test_a_text_that_could_be_run_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match=r"Buffer: attributes.note: found .* not handed to Accelergy .*--energy"):
        request(load(with_attribute("note", text), energy="built-in").arch)


def test_a_name_whose_range_is_an_expression_is_refused() -> None:
    document = with_attribute("note", "x")
    document["architecture"]["subtree"][0]["name"] = "chip[0..len(open('x'))]"  # type: ignore[index]
    with pytest.raises(SpecError, match="a name in the architecture"):
        request(load(document, energy="built-in").arch)


# What it answers.

def test_its_tables_are_taken_with_their_source(tmp_path: Path) -> None:
    spec = design()
    tables = accelergy_tables(spec.arch, stand_in(tmp_path, WRITES))
    assert {component_name(table.component) for table in tables.ert} == {"DRAM", "Scratchpad", "Accumulator",
                                                                         "WeightRegister", "MACC"}
    assert {energy for table in tables.ert for energy in table.actions.values()} == {2.5}
    assert {table.source.split()[0] for table in tables.ert} == {"Accelergy"}
    assert set(tables.art.values()) == {7.0}


COUNTS = 'pathlib.Path(__file__).with_name("runs").open("a").write("x")\n'


def test_it_is_asked_once_for_one_architecture_and_again_for_another(tmp_path: Path, own_cache: Path) -> None:
    program = stand_in(tmp_path, COUNTS + WRITES)
    spec, other = design(), design("gemmini_large")
    assert accelergy_tables(spec.arch, program) == accelergy_tables(spec.arch, program)
    accelergy_tables(other.arch, program)
    assert len((tmp_path / "runs").read_text()) == 2
    assert len(list(own_cache.rglob("*.yaml"))) == 2 == len([path for path in own_cache.rglob("*") if path.is_file()])


def test_it_is_asked_again_when_the_command_changes_or_the_kept_table_is_damaged(
        tmp_path: Path, own_cache: Path) -> None:
    spec = design()
    first = accelergy_tables(spec.arch, stand_in(tmp_path, COUNTS + WRITES))
    for damaged in ("", "ERT: {", "ERT: {tables: []}\nART: {tables: []}\n", "\0", "ERT: 3\n"):
        kept, = own_cache.rglob("*.yaml")
        kept.write_text(damaged)
        assert accelergy_tables(spec.arch, stand_in(tmp_path, COUNTS + WRITES)) == first
    accelergy_tables(spec.arch, stand_in(tmp_path, COUNTS + WRITES + "  # changed"))
    assert len((tmp_path / "runs").read_text()) == 7


def test_without_a_cache_it_still_answers(tmp_path: Path, own_cache: Path) -> None:
    own_cache.write_text("a file where the folder should be")
    assert accelergy_tables(design().arch, stand_in(tmp_path, WRITES)).ert
    assert own_cache.is_file()


def test_the_cache_is_under_the_home_folder_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert cache.folder() == Path("/home/somebody/.cache/fadiff_mapper/energies")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache.folder() == Path("/home/somebody/.cache/fadiff_mapper/energies")


# How it fails.

FAILURES = {
    "raise ValueError('no technology')": r"ended with exit code 1: ValueError: no technology",
    "sys.exit(3)": "ended with exit code 3: it printed nothing",
    "print('all is well')": "ended without writing ERT.yaml: all is well",
    "(out / 'ERT.yaml').write_text('')": "ERT.yaml that cannot be read: .*empty",
    "write([], [])": "left no table in ERT.yaml",
    "write(ert, art); (out / 'ERT.yaml').write_text('ERT: {tables: [')": "ERT.yaml that cannot be read",
    "write(ert, art); (out / 'ERT.yaml').write_bytes(bytes(range(256)))": "ERT.yaml that cannot be read",
    "write(ert[1:], art)": r'without energies for "DRAM" \(fill, read, update\)',
    "ert[1]['actions'] = ert[1]['actions'][:1]; write(ert, art)": r'for "Scratchpad" \(fill, update\)',
    "write(ert[:-1], art)": r'for "MACC" \(compute\)',
    "ert[0]['actions'][0]['energy'] = 'much'; write(ert, art)": "a table that cannot be used: .*energy",
    "ert[0]['actions'][0]['energy'] = float('nan'); write(ert, art)": "a table that cannot be used: .*energy",
    "ert[0]['actions'][0]['energy'] = -1; write(ert, art)": "a table that cannot be used: .*energy",
    "write(ert, art); (out / 'ART.yaml').unlink()": "ended without writing ART.yaml",
    "write(ert, art); (out / 'ERT.yaml').unlink(); (out / 'ERT.yaml').mkdir()": "ended without writing ERT.yaml",
    f"write(ert, art); (out / 'ERT.yaml').open('a').write(' ' * {MOST_TABLE_BYTES})": "bytes into ERT.yaml",
    "write(ert, art); sys.exit(1)": "ended with exit code 1",
}


@pytest.mark.parametrize("script", FAILURES)
def test_a_failure_is_one_line_that_says_how_to_do_without(script: str, tmp_path: Path, own_cache: Path) -> None:
    with pytest.raises(FadiffError, match=FAILURES[script]) as caught:
        accelergy_tables(design().arch, stand_in(tmp_path, script))
    assert "\n" not in str(caught.value) and "--energy bundled, estimate or built-in" in str(caught.value)
    assert not list(own_cache.rglob("*.yaml"))


def test_a_program_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    program = Path(stand_in(tmp_path, WRITES))
    program.write_text("#!/no/such/interpreter\n")
    with pytest.raises(FadiffError, match=r"accelergy cannot be run: No such file"):
        accelergy_tables(design().arch, str(program))


HANGS = """
import subprocess, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path(__file__).with_name("child").write_text(str(child.pid))
time.sleep(60)
"""


def runs(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat")
    try:
        return status.read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks into /proc")
def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    start = time.monotonic()
    with pytest.raises(FadiffError, match="did not end within 1 s"):
        accelergy_tables(design().arch, stand_in(tmp_path, HANGS), time_limit=1)
    assert time.monotonic() - start < 10
    deadline = time.monotonic() + 5
    while runs(int((tmp_path / "child").read_text())) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not runs(int((tmp_path / "child").read_text()))


def test_a_program_that_leaves_children_behind_does_not_keep_us_waiting(tmp_path: Path) -> None:
    start = time.monotonic()
    script = 'import subprocess; subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])\n' + WRITES
    assert accelergy_tables(design().arch, stand_in(tmp_path, script)).ert
    assert time.monotonic() - start < 20


def test_of_endless_output_only_the_end_is_kept(tmp_path: Path) -> None:
    script = "import os\nfor _ in range(512): os.write(1, b'x' * 65536)\nprint('ValueError: at last'); sys.exit(1)"
    (tmp_path / "loud").write_text(f"import sys\n{script}")
    ended = run_program([sys.executable, str(tmp_path / "loud")], tmp_path, 60)
    assert ended.code == 1 and len(ended.output) <= KEPT_BYTES and ended.output.endswith("ValueError: at last\n")


def test_a_program_that_never_stops_printing_is_ended(tmp_path: Path) -> None:
    ended = run_program([sys.executable, "-c", "while True: print('x' * 10000)"], tmp_path, 1)
    assert ended.code is None


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
    recorded = bundled.tables_for(spec.arch)
    assert program is not None and recorded is not None
    found = accelergy_tables(spec.arch, program)
    assert found.ert == recorded.ert
    assert {name: area for name, area in found.art.items() if "inter_" not in name} \
        == {name: area for name, area in recorded.art.items() if "inter_" not in name}
