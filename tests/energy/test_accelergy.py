"""Accelergy is asked once, with nothing that it could run, and a failure of it is one clear line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from accelergy_stand_ins import stand_in

from fadiff_mapper import load
from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.cli import main
from fadiff_mapper.energy import answer_cache, recorded_tables
from fadiff_mapper.energy.accelergy_request import request
from fadiff_mapper.energy.accelergy_tables import accelergy_tables, answer
from fadiff_mapper.energy.arithmetic_text import PLAIN
from fadiff_mapper.energy.run_accelergy import LOG, MOST_BYTES
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import RANGE, component_name

LAYER = str(bundled_files.find("problems/conv"))
WRITES = "write(ert, art)"


def design(name: str = "gemmini_small") -> Spec:
    return load(str(bundled_files.find(f"arch/{name}")), LAYER, energy="built-in")


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

@pytest.mark.parametrize("name", bundled_files.designs())
def test_the_request_holds_every_component_and_no_text_that_could_call_something(name: str) -> None:
    spec = design(name)
    text = request(spec.arch, spec.literal)
    for event in yaml.parse(text):
        if isinstance(event, yaml.ScalarEvent):
            assert event.style == '"' or PLAIN.fullmatch(RANGE.sub("", event.value))
    for level in spec.arch.level_names():
        assert f"name: {level}" in text


@pytest.mark.parametrize("text", ["__import__('os').system('true')", "{{ 7 * 7 }}", "{% include 'x' %}", "{# #}",
                                  "().__class__", "x.__class__", "9**9", "a;b", 'x"y', "a\nb", "!include x"])
def test_a_text_that_could_be_run_is_refused(text: str, tmp_path: Path) -> None:
    spec = load(with_attribute("note", text), energy="built-in")
    with pytest.raises(SpecError, match=r"Buffer: attributes.note: found .* not handed to Accelergy .*--energy"):
        accelergy_tables(spec.arch, spec.literal, stand_in(tmp_path, WRITES))


def with_class(text: str) -> Spec:
    """The small design with a compound component that has a text in it."""
    attributes = {"size": text, "a": 1, "b": 2, "c": 3}
    compound = {"version": "0.4", "classes": [{"name": "part", "attributes": attributes}]}
    return load(with_attribute("note", "x") | {"compound_components": compound}, energy="built-in")


@pytest.mark.parametrize(("text", "rebuilt"), [
    ("storage[1..width*depth]", "storage[1..width * depth]"), ("counter[0]", '"counter[0]"'),
    ("max(1, ceil(log2(depth)))", "max(1, ceil(log2(depth)))"), ("a if (b > 1) else (c)", "a if b > 1 else c"),
    ("2**10 * 3", "3072"), ("must_specify", "must_specify"), ("45nm", '"45nm"'), ("low-power", '"low-power"'),
    ("lambda: a", '"lambda: a"'), ("a.b", '"a.b"'), ("a[b]", '"a[b]"')])
def test_definitions_of_compound_components_are_rebuilt_as_arithmetic_or_quoted_words(text: str, rebuilt: str) -> None:
    spec = with_class(text)
    assert f"size: {rebuilt}\n" in request(spec.arch, spec.literal)


@pytest.mark.parametrize("text", ["__import__('os')", "{{ 7*7 }}", "open(name)", "(open)(name)", "a; b", "[f][0](x)",
                                  "[x for x in (1, 2)]", "(lambda: a)()", "max(*a)", "max(a, key=b)", "(a := 1)",
                                  "a[b] + 1", "max(f'{a}')", "ceil(().__class__)",
                                  "undeclared * 2 + 1", "9 ** 9 ** 9", "abs(a)(b)",
                                  "[a, b]", "a @ b", "~a", "a << b", "PE[0..(lambda: 1)()]", "PE[0..a][0]"])
def test_definitions_that_could_do_more_are_refused(text: str) -> None:
    spec = with_class(text)
    with pytest.raises(SpecError, match=r"compound_components\.classes\[0\]\.attributes\.size: .*not handed to Accel"):
        request(spec.arch, spec.literal)


def test_variables_are_handed_over_as_values() -> None:
    document = with_attribute("note", "x") | {"variables": {"base": 4, "twice": "2 * base", "node": "'45nm'"}}
    spec = load(document, energy="built-in")
    assert yaml.safe_load(request(spec.arch, spec.literal))["variables"] == {"base": 4, "twice": 8, "node": "45nm"}


FRAMES = "max(0, (lambda f=[], g=(q.gi_frame.f_back.f_globals for q in [a]): [g := 1])()[0])"
"""The class of an attack: characters of arithmetic, a lambda with default arguments, `:=`, a generator's frame."""

EVALUATES = """
def walk(value):
    for item in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()):
        walk(item)
    if isinstance(value, str):
        try:
            eval(value, {"a": 1, "run": lambda: pathlib.Path(__file__).with_name("ran").touch()})
        except Exception:
            pass
walk(asked)
"""
"""A stand-in that evaluates all text that it is given, as Accelergy evaluates unquoted text."""


@pytest.mark.parametrize("text", ["run()", "max(0, run())", "(lambda f=run: f())()", "max(run() for a in (1, 2))",
                                  FRAMES])
def test_nothing_runs_in_a_program_that_evaluates_what_it_is_given(text: str, tmp_path: Path) -> None:
    program = stand_in(tmp_path, EVALUATES + WRITES)
    spec = with_class(text)
    with pytest.raises(SpecError, match="not handed to Accelergy"):
        accelergy_tables(spec.arch, spec.literal, program)
    fine = with_class("max(a, 2) * size")
    accelergy_tables(fine.arch, fine.literal, program)
    assert not (tmp_path / "ran").exists()


def test_a_text_in_quotes_stays_in_quotes(tmp_path: Path) -> None:
    (tmp_path / "components.yaml").write_text(
        'compound_components: {version: 0.4, classes: [{name: part, attributes: {size: "depth", other: depth}}]}')
    spec = load(str(bundled_files.find("arch/gemmini_small")), LAYER, str(tmp_path / "components.yaml"),
                energy="built-in")
    text = request(spec.arch, spec.literal)
    assert 'size: "depth"\n' in text and "other: depth\n" in text


def test_a_name_whose_range_is_an_expression_is_refused() -> None:
    document = with_attribute("note", "x")
    document["architecture"]["subtree"][0]["name"] = "chip[0..len(open('x'))]"  # type: ignore[index]
    with pytest.raises(SpecError, match="a name in the architecture"):
        request(load(document, energy="built-in").arch, {})


# What it answers.

def test_its_tables_are_taken_with_their_source(tmp_path: Path) -> None:
    spec = design()
    tables = accelergy_tables(spec.arch, {}, stand_in(tmp_path, WRITES))
    assert {component_name(table.component) for table in tables.ert} == {"DRAM", "Scratchpad", "Accumulator",
                                                                         "WeightRegister", "MACC"}
    assert {energy for table in tables.ert for energy in table.actions.values()} == {2.5}
    assert {table.source.split()[0] for table in tables.ert} == {"Accelergy"}
    assert set(tables.art.values()) == {7.0}


COUNTS = 'pathlib.Path(__file__).with_name("runs").open("a").write("x")\n'


def test_it_is_asked_once_for_one_architecture_and_again_for_another(tmp_path: Path, own_cache: Path) -> None:
    program = stand_in(tmp_path, COUNTS + WRITES)
    spec, other = design(), design("gemmini_large")
    assert accelergy_tables(spec.arch, {}, program) == accelergy_tables(spec.arch, {}, program)
    accelergy_tables(other.arch, {}, program)
    assert len((tmp_path / "runs").read_text()) == 2
    assert len(list(own_cache.rglob("*.json"))) == 2 == len([path for path in own_cache.rglob("*") if path.is_file()])


def test_what_it_wrote_and_printed_is_part_of_the_answer(tmp_path: Path) -> None:
    program = stand_in(tmp_path, COUNTS + WRITES + "; (out / 'ERT_summary.yaml').write_text('sums'); print('asked')")
    spec = design()
    first, again = (answer(spec.arch, spec.literal, program, {"HOME": str(tmp_path)}) for _ in range(2))
    assert first == again and (tmp_path / "runs").read_text() == "x"
    assert set(first.files) == {"ERT.yaml", "ART.yaml", "ERT_summary.yaml", LOG}
    assert (first.files["ERT_summary.yaml"], first.files[LOG]) == ("sums", "asked\n")


def test_it_is_asked_again_for_other_compound_components(tmp_path: Path) -> None:
    program = stand_in(tmp_path, COUNTS + WRITES)
    for size in ("depth", "width", "depth"):
        spec = with_class(size)
        answer(spec.arch, spec.literal, program, {})
    assert (tmp_path / "runs").read_text() == "xx"


def test_it_is_asked_again_when_the_command_changes_or_the_kept_table_is_damaged(
        tmp_path: Path, own_cache: Path) -> None:
    spec = design()
    first = accelergy_tables(spec.arch, {}, stand_in(tmp_path, COUNTS + WRITES))
    whole, = (path.read_text() for path in own_cache.rglob("*.json"))
    for damaged in ("", whole[:-9], "{}", "\0", '{"ERT.yaml": 3}', '{"ERT.yaml": "ERT: 3", "ART.yaml": ""}'):
        kept, = own_cache.rglob("*.json")
        kept.write_text(damaged)
        assert accelergy_tables(spec.arch, {}, stand_in(tmp_path, COUNTS + WRITES)) == first
    accelergy_tables(spec.arch, {}, stand_in(tmp_path, COUNTS + WRITES + "  # changed"))
    assert len((tmp_path / "runs").read_text()) == 8


def test_without_a_cache_it_still_answers(tmp_path: Path, own_cache: Path) -> None:
    own_cache.write_text("a file where the folder should be")
    assert accelergy_tables(design().arch, {}, stand_in(tmp_path, WRITES)).ert
    assert own_cache.is_file()


def test_the_cache_is_under_the_home_folder_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    assert answer_cache.folder() == Path("/home/somebody/.cache/fadiff_mapper/energies")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert answer_cache.folder() == Path("/home/somebody/.cache/fadiff_mapper/energies")


# How it fails.

FAILURES = {
    "raise ValueError('no technology')": r"ended with exit code 1: ValueError: no technology",
    "sys.exit(3)": "ended with exit code 3: it printed nothing",
    "print('all is well')": "ended without writing ERT.yaml: all is well",
    "write(ert, art); (out / 'ERT.yaml').write_text('')": "ERT.yaml that cannot be read: .*empty",
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
    f"write(ert, art); (out / 'ERT.yaml').open('a').write(' ' * {MOST_BYTES})": "bytes into ERT.yaml",
    "write(ert, art); sys.exit(1)": "ended with exit code 1",
}


@pytest.mark.parametrize("script", FAILURES)
def test_a_failure_is_one_line_that_says_how_to_do_without(script: str, tmp_path: Path, own_cache: Path) -> None:
    with pytest.raises(FadiffError, match=FAILURES[script]) as caught:
        accelergy_tables(design().arch, {}, stand_in(tmp_path, script))
    assert "\n" not in str(caught.value) and "--energy bundled, estimate or built-in" in str(caught.value)
    assert not list(own_cache.rglob("*.json"))


def test_a_program_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    program = Path(stand_in(tmp_path, WRITES))
    program.write_text("#!/no/such/interpreter\n")
    with pytest.raises(FadiffError, match=r"accelergy cannot be run: No such file"):
        accelergy_tables(design().arch, {}, str(program))


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
    recorded = recorded_tables.tables_for(spec.arch)
    assert program is not None and recorded is not None
    found = accelergy_tables(spec.arch, spec.literal, program)
    assert found.ert == recorded.ert
    assert {name: area for name, area in found.art.items() if "inter_" not in name} \
        == {name: area for name, area in recorded.art.items() if "inter_" not in name}
