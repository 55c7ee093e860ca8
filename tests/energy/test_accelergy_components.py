"""Compound components are expanded as Accelergy 0.4 does it, and nothing of their text is run."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from accelergy_stand_ins import FORMULA, PLUG_IN, stand_in

from fadiff_mapper import load
from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.energy.accelergy_components import MOST_WORK, DescribedHardware, PrimitiveComponent, described
from fadiff_mapper.inputs.energy.accelergy_tables import WORDS, answer, request
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.expressions import Literal

HERE = Path(__file__).parent
LAYER = str(bundled_files.find("problems/conv"))

CALLED = {"global_cycle_seconds": 2e-9, "action_latency_cycles": 1}
RECORDED: dict[str, tuple[dict[str, list[tuple[str, dict[str, Any], float]]], dict[str, float]]] = {
    "compound_v04": ({
        "chip.tile[0..3].MAC[0..7]": [("compute", CALLED, 0.316704), ("leak", CALLED, 8.88919)],
        "chip.DRAM": [("read", CALLED, 5.89341), ("write", CALLED, 9.42522), ("update", CALLED, 1.96248),
                      ("leak", CALLED, 18.8757)],
        "chip.tile[0..3].Buffer": [
            *(("read", {"rows_open": rows, "hit": hit}, energy) for rows, hit, energy in (
                (1, 0, 6.13499), (2, 0, 12.2434), (1, 1, 10.6378), (2, 1, 6.25468))),
            ("write", {}, 7.95547), ("update", {}, 23.8664), ("leak", {}, 71.4636)]},
        {"chip.tile[0..3].MAC[0..7]": 15.2727, "chip.DRAM": 0.325079, "chip.tile[0..3].Buffer": 710.43}),
    "compound_v03": ({
        "system.chip.Buffer[0..1]": [
            *(("transfer", {"n_rows": rows, "n_cols": cols}, energy) for rows, cols, energy in (
                (1, 1, 14.1599), (2, 1, 23.4854), (1, 2, 15.3023), (2, 2, 29.2906), (1, 3, 24.9529), (2, 3, 43.6039))),
            ("idle", {}, 3.99587)],
        "system.chip.MAC[0..3]": [("compute", {}, 4.45076)]},
        {"system.DRAM": 1.34646, "system.chip.Buffer[0..1]": 46.2837, "system.chip.MAC[0..3]": 0.336067}),
}
"""Energies and areas that Accelergy 0.4 (commit 6911d15) gives for the two files as they are, with `PLUG_IN` alone."""


def design(name: str) -> Spec:
    return load(str(HERE / f"{name}.yaml"), LAYER, energy="built-in")


pytestmark = pytest.mark.usefixtures("own_cache")


def figures(files: dict[str, str]) -> tuple[dict[str, list[tuple[str, dict[str, Any], float]]], dict[str, float]]:
    """(entries of each component in the ERT, its area in the ART), from the files of a run."""
    ert, art = (yaml.safe_load(files[f"{kind}.yaml"])[kind]["tables"] for kind in ("ERT", "ART"))
    return ({row["name"]: [(one["name"], {key: float(value) for key, value in one["arguments"].items()}, one["energy"])
                           for one in row["actions"]] for row in ert},
            {row["name"]: row["area"] for row in art})


@pytest.mark.parametrize("name", RECORDED)
def test_the_figures_are_those_of_the_real_accelergy(name: str, tmp_path: Path) -> None:
    spec = design(name)
    found = answer(spec.arch, spec.literal, stand_in(tmp_path, "write(ert, art)", FORMULA), {})
    assert figures(dict(found.files)) == RECORDED[name]
    assert list(figures(dict(found.files))[0]) == list(RECORDED[name][0])  # primitive components first


@pytest.mark.skipif(shutil.which("accelergy") is None, reason="there is no Accelergy")
@pytest.mark.parametrize("name", RECORDED)
def test_the_real_accelergy_gives_the_recorded_figures_itself_and_through_our_request(
        name: str, tmp_path: Path) -> None:
    configuration, plug_ins = tmp_path / ".config/accelergy/accelergy_config.yaml", tmp_path / "plug_ins"
    configuration.parent.mkdir(parents=True)
    plug_ins.mkdir()
    configuration.write_text(yaml.safe_dump({
        "version": "0.4", "estimator_plug_ins": [str(plug_ins)], "primitive_components": [], "compound_components": [],
        "math_functions": [], "python_plug_ins": []}))
    (plug_ins / "formula.py").write_text(PLUG_IN)
    (plug_ins / "formula.estimator.yaml").write_text("{version: 0.4, Formula: {module: formula, class: Formula}}")
    program, environment = str(shutil.which("accelergy")), {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run([program, HERE / f"{name}.yaml", "-o", "out"], cwd=tmp_path, env=environment, check=True,
                   capture_output=True)
    itself = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    assert figures(itself) == RECORDED[name]
    spec = design(name)
    ours = answer(spec.arch, spec.literal, program, environment).files
    assert figures(dict(ours)) == RECORDED[name]
    for kind in ("ERT_summary", "ART_summary"):
        assert yaml.safe_load(ours[f"{kind}.yaml"]) == yaml.safe_load(itself[f"{kind}.yaml"])
    flattened = [{row["name"]: row["attributes"] for row in yaml.safe_load(
        files["flattened_architecture.yaml"])["architecture"]["local"]} for files in (ours, itself)]
    assert flattened[0].keys() == flattened[1].keys()


# One rule at a time.

CLASS = {"name": "row_storage", "attributes": {"depth": "must_specify", "half": "depth // 2", "spare": None},
         "subcomponents": [{"name": "bank", "class": "SRAM", "attributes": {"rows": "half"}}],
         "actions": [{"name": "read", "subcomponents": [{"name": "bank", "actions": [{"name": "read"}]}]}]}


def small(*classes: dict[str, Any], version: str = "0.4", **attributes: Any) -> Spec:
    """A small design whose buffer has the class `row_storage`."""
    buffer = {"depth": 64, "width": 16, "word_bits": 16} | attributes
    local = [{"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16}},
             {"name": "Buffer", "class": "row_storage", "attributes": buffer},
             {"name": "MAC[0..3]", "class": "intmac", "attributes": {"word_bits": 16}}]
    around = {"technology": 45, "global_cycle_seconds": 1e-9}
    tree = {"version": version, "subtree": [{"name": "chip", "attributes": around, "local": local}]}
    return load({"architecture": tree, "problem": yaml.safe_load(Path(LAYER).read_text())["problem"],
                 "compound_components": {"version": version, "classes": list(classes)}}, energy="built-in")


def expanded(*classes: dict[str, Any], **attributes: Any) -> DescribedHardware:
    spec = small(*classes, **attributes)
    return described(spec.arch, spec.literal)


def bank(*classes: dict[str, Any], **attributes: Any) -> PrimitiveComponent:
    """The first part of the buffer."""
    return expanded(*classes, **attributes).compounds[0].parts[0]


def with_parts(*parts: dict[str, Any]) -> dict[str, Any]:
    return CLASS | {"subcomponents": [CLASS["subcomponents"][0] | part for part in parts]}


@pytest.mark.parametrize(("text", "value"), [
    ("half", 32), ("half * 2 + 1", 65), ("ceil(log2(depth))", 6), ("half if depth > 64 else 2.0", 2), ("45nm", "45nm"),
    ("'word'", "word"), ("[half, 2.5]", [32, 2.5]), ("None", None), ("depth == 64", True), ("2**10 * 3", 3072),
    ("spare", None), (None, None), (4.0, 4), ("true", True), ("technology", 45)])
def test_attributes_are_worked_out_with_those_around_and_before_them(text: Any, value: Any) -> None:
    assert bank(with_parts({"attributes": {"rows": text}})).attributes["rows"] == value


def test_an_older_version_takes_text_that_is_no_expression_as_a_word() -> None:
    words = with_parts({"attributes": {"rows": "unknown_word", "latency": "2ns"}})
    assert bank(words, version="0.3").attributes["rows"] == "unknown_word"
    with pytest.raises(SpecError, match=r'"row_storage": bank: rows: found .unknown_word.*is not defined'):
        bank(words)
    named = with_parts({"attributes": {"twisted": 8, "rows": "form"}})
    named |= {"attributes": CLASS["attributes"] | {"form": "twisted"}}  # type: ignore[operator]
    assert bank(named, version="0.3").attributes["rows"] == "twisted"


def test_ranges_defaults_and_scales_of_nested_classes_count_at_every_level() -> None:
    inner = {"name": "half_bank", "attributes": {"rows": 8, "words": "rows * 4"},
             "subcomponents": [{"name": "cell[1..rows // 4]", "class": "SRAM", "attributes": {"words": "words"},
                                "area_scale": 3, "energy_scale": "1 / rows"}],
             "actions": [{"name": "open", "subcomponents": [
                 {"name": "cell[1..2]", "actions": [{"name": "read", "energy_scale": 5, "repeat": 7}]}]}]}
    outer = CLASS | {"subcomponents": [{"name": "bank[0..3]", "class": "half_bank", "attributes": {"rows": "half"},
                                        "area_scale": "half", "energy_scale": 2}],
                     "actions": [{"name": "read", "energy_scale": 10, "subcomponents": [
                         {"name": "bank[0..1]", "actions": [{"name": "open", "energy_scale": "half"},
                                                            {"name": "close"}]}]}]}
    buffer = expanded(inner, outer).compounds[0]
    part, = buffer.parts
    assert (part.name, part.kind, part.attributes["words"]) == ("bank[0..3].cell[1..8]", "SRAM", 128)
    assert (part.area_scale, part.energy_scale) == (3 * 32, 2 / 32)
    step, = buffer.actions[0].steps
    assert (step.name, step.action, step.energy_scale) == ("bank[0..1].cell[1..2]", "read", 7 * 32 * 10)


def test_of_entries_with_the_same_name_the_last_one_counts() -> None:
    twice = CLASS | {"actions": [{"name": "read", "subcomponents": [
        {"name": "bank", "actions": [{"name": "read"}]}, {"name": "bank", "actions": [{"name": "write"}]}]}]}
    assert [step.action for step in expanded(twice).compounds[0].actions[0].steps] == ["write"]


def test_classes_that_no_component_has_are_not_looked_at() -> None:
    assert expanded(CLASS, {"name": "other", "attributes": 3, "subcomponents": "open('x')"}).compounds


def chain(length: int) -> list[dict[str, Any]]:
    """Classes of which each has the next one twice in it."""
    names = ["row_storage", *(f"c{i}" for i in range(length))]
    text = {"n": "1" + 900 * " "}
    return [{"name": name, "subcomponents": [{"name": half, "class": inner, "attributes": text} for half in "ab"]}
            for name, inner in zip(names, [*names[1:], "SRAM"], strict=True)]


ACTION: dict[str, Any] = CLASS["actions"][0]  # type: ignore[index]
REFUSED: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a class within itself": ([with_parts({"class": "row_storage", "attributes": {"depth": 1}})], "in each other"),
    "doubling": (chain(18), f"too much to work out; accepted: {MOST_WORK:,} values"),
    "a long range of arguments": ([CLASS | {"actions": [ACTION | {"arguments": {"n": "0..10**40"}}]}], "too much to"),
    "two long ranges": ([CLASS | {"actions": [ACTION | {"arguments": {"n": "0..999", "m": "0..999"}}]}], "too much"),
    "a range that is none": ([CLASS | {"actions": [ACTION | {"arguments": {"n": 3}}]}], "a range of whole numbers"),
    "a range of names backwards": ([with_parts({"name": "bank[3..half - 40]"})], "a range of whole numbers"),
    "a name that is run": ([with_parts({"name": "bank[0..(lambda: 1)()]"})], "subcomponents: found"),
    "a scale that is run": ([with_parts({"area_scale": "e[(lambda: 1)()]"})], "bank: area_scale: found"),
    "a scale beyond all numbers": ([with_parts({"area_scale": "10 ** 400"})], "accepted: numbers up to 1e.30"),
    "a range beyond all numbers": ([with_parts({"name": "bank[0..10 ** 400]"})], "accepted: numbers up to 1e.30"),
    "a scale that is a word": ([with_parts({"area_scale": "'two'"})], "bank: area_scale: found 'two'"),
    "an attribute without end": ([with_parts({"attributes": {"n": "depth ** depth ** 9"}})], "bank: n: found.*too lar"),
    "an attribute without room": ([with_parts({"attributes": {"n": "'x' * 10 ** 9"}})], "bank: n: found.*too long"),
    "an action's scale that is no number": ([CLASS | {"actions": [ACTION | {"repeat": "half"}]}], "found 'half'"),
    "what must be specified": ([with_parts({"class": "inner"}), {"name": "inner", "attributes": {"n": "must_specify"}}],
                               'bank: has no "n"'),
    "an unknown part": ([CLASS | {"subcomponents": []}], 'there is no subcomponent "bank"'),
    "a primitive type": ([CLASS | {"primitive_type": "SRAM"}], "primitive_type, which is not worked out"),
    "no list": ([CLASS | {"actions": "read"}], "found 'read'; accepted: a list of mappings"),
    "no mapping": ([CLASS | {"attributes": [1]}], "accepted: a mapping"),
    "no name": ([CLASS | {"actions": [{}]}], "an entry has no name"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_class_that_needs_more_is_refused_by_name(case: str) -> None:
    classes, said = REFUSED[case]
    with pytest.raises(SpecError, match=said) as caught:
        expanded(*classes)
    assert 'class "' in str(caught.value) and "accepted" in str(caught.value) and "\n" not in str(caught.value)


def test_an_architecture_must_have_what_accelergy_asks_for() -> None:
    spec = small(CLASS)
    del spec.arch.native["architecture"]["subtree"][0]["attributes"]["technology"]
    with pytest.raises(SpecError, match=r'chip.DRAM: has no "technology".*accepted: attributes: technology'):
        described(spec.arch, spec.literal)


# What is handed over.

@pytest.mark.parametrize("text", ["'a b c'", "'x-y_z.9'", "''", "[1, 'two', True]"])
def test_plain_words_are_handed_over(text: str) -> None:
    request(expanded(with_parts({"attributes": {"note": text}})))


@pytest.mark.parametrize("text", ["'{{ 7 * 7 }}'", "'{% x %}'", "'a/b'", "'a(b)'", "'a:b'", "'a  b'", "' a'", "'$x'",
                                  "'é'", "'a\\nb'", f"'{'x' * 101}'", "[[1]]", "inf", "['a/b']", "'\"'"])
def test_anything_else_is_refused_by_the_class_that_wants_it(text: str) -> None:
    hardware = expanded(with_parts({"attributes": {"note": text}}))
    with pytest.raises(SpecError, match=r'Buffer: class "row_storage": bank: class "SRAM": note: found .* not handed'):
        request(hardware)


def test_what_no_part_is_given_is_not_handed_over() -> None:
    evil = CLASS | {"attributes": CLASS["attributes"] | {"evil": "'x[{{ 7 * 7 }}]'"}}  # type: ignore[operator]
    assert "{{" not in request(expanded(evil)) and "row_storage" not in request(expanded(evil))


SNIPPETS = ("depth", "half", "(", ")", "[", "]", "{{", "}}", "{%", "lambda: ", "for x in ", "**", "9", "'", '"', ".",
            "__class__", "os", "open(", " ", ",", "..", "\n", "max(", " if ", "\\", "é", ":", "#")


def words(value: Any) -> Iterator[str]:
    """All texts in a tree, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from words(item)


def test_whatever_text_stands_in_a_class_plain_words_alone_are_handed_over() -> None:
    spec, rng, handed = small(CLASS), random.Random(0), 0
    for _ in range(1_000):
        text: str = "".join(rng.choices(SNIPPETS, k=rng.randint(1, 6)))
        text = Literal(text) if rng.random() < 0.5 else text

        def odd(usual: Any) -> Any:
            return text if rng.random() < 0.15 else usual  # noqa: B023

        name, step = odd("bank"), {"name": odd("read"), "arguments": {odd("n"): odd(1)}, "repeat": odd(1)}
        part = {"name": name, "class": odd("SRAM"), "attributes": {odd("n"): odd("half")}, "area_scale": odd(1)}
        action = {"name": odd("read"), "arguments": {"k": f"0..{odd(1)}"},
                  "subcomponents": [{"name": name, "actions": [step]}]}
        kind = CLASS | {"attributes": {"depth": 4, "half": odd(2)}, "subcomponents": [part], "actions": [action]}
        try:
            asked = request(described(spec.arch, {"compound_components": {"version": 0.4, "classes": [kind]}}))
        except SpecError as error:
            assert "accepted" in str(error)
            continue
        handed += 1
        assert all(WORDS.fullmatch(one) for one in words(json.loads(asked))), text
    assert 100 < handed < 900


@pytest.mark.parametrize("part", [{"class": "open(x)"}, {"attributes": {"a b": 1}}, {"attributes": {"a{{b": 1}}])
def test_names_are_single_plain_words(part: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="not handed to Accelergy"):
        request(expanded(with_parts(part)))
