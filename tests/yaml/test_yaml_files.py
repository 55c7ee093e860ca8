"""YAML comes in as architects mean it, with places, within bounds, and goes out so that every reader agrees."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.base.standard_streams import printable
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.expressions import Expression, Literal
from fadiff_mapper.inputs.yaml.load import load_files, load_text
from fadiff_mapper.inputs.yaml.located import CONTROL, Map, Seq, plain
from fadiff_mapper.inputs.yaml.place import Where

SHARED = Path(__file__).parents[3] / "shared"


def refusal(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        load_text(text, "arch.yaml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


class TestScalars:
    @pytest.mark.parametrize(("text", "value"), [
        ("1e-9", 1e-9), ("1.0e+3", 1000.0), (".5", 0.5), ("-7", -7), ("+7", 7), ("0x1F", 31), ("0.40", 0.4),
        ("true", True), ("False", False), ("~", None), ("", None), ("null", None), (".inf", math.inf),
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("N", "N"), ("y", "y"), ("0777", "0777"), ("0o17", "0o17"),
        ("1:30", "1:30"), ("2024-01-01", "2024-01-01"), ("1_000", "1_000"), ("40nm", "40nm"), ("C=2 M=3", "C=2 M=3"),
        ("PE[0..15]", "PE[0..15]"), ("!!str 5", "5"), ("!!float 5", 5.0), ("'5'", "5"),
    ])
    def test_values(self, text: str, value: object) -> None:
        read = load_text(f"a: {text}")["a"]
        assert read == value
        assert isinstance(read, type(value))

    def test_keys_are_the_text_that_is_written(self) -> None:
        assert list(load_text("{N: 1, y: 2, no: 3, 4: 5, 1e-9: 6}")) == ["N", "y", "no", "4", "1e-9"]

    def test_quoting_is_remembered_because_quoted_text_is_no_expression(self) -> None:
        tree = load_text("a: 'width'\nb: width\nc: |\n  width")
        assert [isinstance(tree[key], Literal) for key in "abc"] == [True, False, False]


class TestPlaces:
    TEXT = "arch:\n  nodes:\n  - !Component\n    name: a\n  - {x: [1,\n      2]}\n"

    def test_every_entry_knows_file_line_and_path(self) -> None:
        tree = load_text(self.TEXT, "a.yaml")
        nodes = tree["arch"]["nodes"]
        assert str(nodes.at(0)) == "a.yaml:3: arch.nodes[0]"
        assert str(nodes[0].at("name")) == "a.yaml:4: arch.nodes[0].name"
        assert str(nodes[1]["x"].at(1)) == "a.yaml:6: arch.nodes[1].x[1]"

    def test_tags_of_timeloop_are_kept(self) -> None:
        nodes = load_text("a: [!Component {n: 1}, !Nothing , !Parallel [1], {n: 2}]")["a"]
        assert [node.tag for node in nodes] == ["!Component", "!Nothing", "!Parallel", None]
        assert nodes[1] == {}


class TestMerging:
    BASE = "base: &base {k: 1, m: {p: 1, l: [1]}, l: [1], n: [7]}\n"

    def test_shallow_merge_completes_the_mapping(self) -> None:
        assert load_text(self.BASE + "x: {<<: *base, k: 2, m: {q: 2}}")["x"] == {
            "k": 2, "m": {"q": 2}, "l": [1], "n": [7]}

    def test_of_several_the_first_wins(self) -> None:
        assert load_text("x: {<<: [{a: 1}, {a: 2, b: 2}]}")["x"] == {"a": 1, "b": 2}

    def test_deep_merge_goes_into_mappings_and_joins_lists(self) -> None:
        assert load_text(self.BASE + "x: {l: [3], n: !nomerge [3], m: {q: 2, l: [2]}, <<<: *base}")["x"] == {
            "k": 1, "m": {"q": 2, "p": 1, "l": [2, 1]}, "l": [3, 1], "n": [3]}

    def test_a_list_after_the_merge_key_stands_as_it_does_in_the_front_end(self) -> None:
        assert load_text(self.BASE + "x: {<<<: *base, l: [3]}")["x"]["l"] == [3]

    def test_the_nomerge_tag_does_not_outlive_the_document(self) -> None:
        assert load_text("x: !nomerge [1]")["x"].tag is None

    def test_entries_of_lists_know_their_lines_whether_the_list_takes_one_or_several(self) -> None:
        tree = load_text("a: [1, [2, 3]]\nb:\n  [4,\n   5]\nc:\n- 6\n- {d: 7}\n", "arch.yaml")
        assert [tree["a"].at(index) for index in range(2)] == [
            Where("arch.yaml", 1, "a[0]"), Where("arch.yaml", 1, "a[1]")]
        assert tree["a"][1].at(1) == Where("arch.yaml", 1, "a[1][1]")
        assert [tree["b"].at(index).line for index in range(2)] == [3, 4]
        assert tree["c"].at(0).line == 6 and tree["c"][1].at("d") == Where("arch.yaml", 7, "c[1].d")

    def test_merged_values_keep_their_places(self) -> None:
        tree = load_text(self.BASE + "x:\n  <<<: *base\n")
        assert str(tree["x"].at("k")) == "<text>:1: base.k"

    def test_only_mappings_merge(self) -> None:
        assert refusal("a: {<<: 5}") == (
            "arch.yaml:1: a.<<: found a number (5); accepted: a mapping or a list of mappings")


class TestRefusals:
    @pytest.mark.parametrize(("text", "message"), [
        ("a: 1\nb: 2\na: 3", 'arch.yaml:3: a: the key "a" is given twice (first in line 1); accepted: each key once'),
        ("a:\n\t- b", "arch.yaml:2: a tab in the indentation; accepted: spaces"),
        ("a: [1,\nb: }", "arch.yaml:2: YAML syntax: "),
        ("a: 'x", "arch.yaml:1: YAML syntax: "),
        ("", "arch.yaml: the file is empty"),
        ("# nothing", "arch.yaml: the file is empty"),
        ("- 1", "arch.yaml:1: found a list; accepted: a mapping"),
        ("a: 1\n---\nb: 2", "arch.yaml:2: a second YAML document"),
        ("a: 1\nb: \x01", "arch.yaml:2: a character that YAML does not allow"),
        ("a: !!python/object/apply:os.system [ls]", 'arch.yaml:1: a: the tag "!!python/object/apply:os.system"'),
        ("a: !python/name:os.system", 'arch.yaml:1: a: the tag "!python/name:os.system"'),
        ("a: !!binary aGk=", 'arch.yaml:1: a: the tag "!!binary"'),
        ("a: !include x.yaml", 'arch.yaml:1: a: the tag "!include" is not supported'),
        ("a: !include_loaded 0", 'arch.yaml:1: a: the tag "!include_loaded"'),
        ("a: !!int x", 'arch.yaml:1: a: found "x"; accepted: !!int'),
        ("{[1]: 2}", "arch.yaml:1: a key that is not a simple text"),
        ("a: *b", "arch.yaml:1: a: the alias *b has no anchor"),
        ("a: &a [*a]", "arch.yaml:1: a[0]: the alias *a stands inside its own anchor"),
        ("a: " + "[" * 5000, "arch.yaml:1: nested too deeply; accepted: at most 100 levels"),
        ("a: " + "{b: " * 5000, "arch.yaml:1: nested too deeply; accepted: at most 100 levels"),
        ("a: \ud800", "arch.yaml: the text is not valid Unicode"),
    ])
    def test_one_line_names_the_place(self, text: str, message: str) -> None:
        assert refusal(text).startswith(message)

    def test_alias_bombs_are_counted_as_if_written_out(self) -> None:
        levels = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
        assert "arch.yaml:6: a5[6]: too many values" in refusal("\n".join(["a0: &a0 [lol]", *levels]))

    def test_aliases_cannot_nest_beyond_the_bound_either(self) -> None:
        chain = [f"a{i}: &a{i} {'[' * 20}{f'*a{i - 1}' if i else ''}{']' * 20}" for i in range(9)]
        assert "nested too deeply, aliases written out" in refusal("\n".join(chain))

    @given(st.one_of(st.text(), st.text(alphabet="ab: -[]{}&*!<>|'\"\n\t#%,?01.e~\\")))
    def test_no_text_raises_anything_but_a_spec_error(self, text: str) -> None:
        try:
            load_text(text)
        except FadiffError as error:
            assert str(error).startswith("<text>")


class TestFiles:
    def test_a_file_that_cannot_be_read_is_named(self, tmp_path: Path) -> None:
        write(tmp_path, {"arch.yaml": "a: 1", "empty.yaml": "", "huge.yaml": "#" * (10 << 20)})
        (tmp_path / "latin.yaml").write_bytes(b"a: 1\nb: \xe9")
        (tmp_path / "binary.yaml").write_bytes(b"a\0b")
        os.mkfifo(tmp_path / "pipe.yaml")
        for name, reason in {
            "arhc.yaml": ': no such file (did you mean "arch.yaml"?)', "empty.yaml": ": the file is empty",
            "huge.yaml": ": has 10.0 MiB; accepted: at most 4 MiB", "latin.yaml": ":2: is not UTF-8 text",
            "binary.yaml": ":1: is a binary file", ".": ": is a folder", "pipe.yaml": ": is not a regular file",
            "x" * 5000: ": cannot be read: ", "\0": ": cannot be read: ",
        }.items():
            with pytest.raises(SpecError) as caught:
                load_files([tmp_path / name])
            assert str(caught.value).startswith(f"{printable(str(tmp_path / name))}{reason}")
        with pytest.raises(SpecError, match="no input files"):
            load_files([])

    def test_several_files_become_one_tree(self, tmp_path: Path) -> None:
        write(tmp_path, {"a.yaml": "v: {version: 0.4, t: [1], e: }\nx: 1",
                         "b.yaml": 'v: {version: "0.4", t: [2], e: {k: 3}}'})
        tree = load_files([tmp_path / "a.yaml", str(tmp_path / "b.yaml"), tmp_path / "a.yaml"])
        assert tree == {"v": {"version": 0.4, "t": [1, 2], "e": {"k": 3}}, "x": 1}
        assert str(tree["v"]["t"].at(1)) == f"{tmp_path / 'b.yaml'}:1: v.t[0]"

    def test_a_contradiction_between_files_names_both_places(self, tmp_path: Path) -> None:
        write(tmp_path, {"a.yaml": "v:\n  n: 1", "b.yaml": "v: {n: 2}"})
        with pytest.raises(SpecError) as caught:
            load_files([tmp_path / "a.yaml", tmp_path / "b.yaml"])
        assert str(caught.value) == (
            f"{tmp_path}/b.yaml:1: v.n: found a number (2), but {tmp_path}/a.yaml:2: v.n gives a number (1); "
            "accepted: the same value in both files")


FILES = {
    "top.yaml.jinja2": "{{add_to_path(cwd() ~ '/lib')}}\narch: {{include(name, 'architecture.nodes')}}\n"
                       "classes: {{include_all('parts/*.yaml', 'c')}}\nwhere: '{{cwd()}}'\n"
                       "{% if path_exists('no.yaml') %}\nno: 1\n{% endif %}\nlast: {{ find_path('arch.yaml') }}\n",
    "lib/arch.yaml": "architecture:\n  nodes:\n  - !Component {bits: {{ bits | default(8) }}}\n",
    "parts/b.yaml": "c: [2]", "parts/a.yaml": "c: [1]",
    "base.txt": "base: &base {k: 1}\n",
    "text.yaml": "{{include_text('base.txt')}}\nx:\n  <<<: *base\n  bad: {{ 1 + 1 }}\n",
    "loop.yaml": "a: {{ include('loop.yaml') }}",
}


class TestTemplatedFiles:
    def test_functions_of_the_front_end(self, tmp_path: Path) -> None:
        top = write(tmp_path, FILES) / "top.yaml.jinja2"
        tree = load_files([top], jinja_data={"name": "arch.yaml", "bits": 16})
        assert tree == {"arch": [{"bits": 16}], "classes": [1, 2], "where": str(tmp_path),
                        "last": str(tmp_path / "lib/arch.yaml")}
        assert tree["arch"][0].tag == "!Component"
        assert str(tree["arch"].at(0)) == f"{tmp_path}/lib/arch.yaml:3: architecture.nodes[0]"

    def test_included_text_shares_its_anchors_and_keeps_its_places(self, tmp_path: Path) -> None:
        tree = load_files([write(tmp_path, FILES) / "text.yaml"])
        assert tree["x"] == {"bad": 2, "k": 1}
        assert str(tree["base"].at("k")) == f"{tmp_path}/base.txt:1: base.k"
        assert str(tree["x"].at("bad")) == f"{tmp_path}/text.yaml:4: x.bad"

    def test_included_text_can_include_trees_of_its_own(self, tmp_path: Path) -> None:
        write(tmp_path, {"a.yaml": "k: 1", "b.yaml": "k: 2", "t.txt": "two: {{ include('b.yaml') }}",
                         "top.yaml": "one: {{ include('a.yaml') }}\n{{ include_text('t.txt') }}"})
        assert load_files([tmp_path / "top.yaml"]) == {"one": {"k": 1}, "two": {"k": 2}}

    @pytest.mark.parametrize(("text", "message"), [
        ("\na: {{ include('nothing.yaml') }}", ':2: template: there is no "nothing.yaml" in'),
        ("a: {{ include('lib/arch.yaml', 'architecture.node') }}", 'there is no "node" (did you mean "nodes"?)'),
        ("a: {{ include('parts/*.yaml') }}", "accepted: one file, or include_all"),
        ("a: {{ include_text('key.pem') }}", '"key.pem" cannot be included; accepted: names that end in .yaml'),
        ("a: {{ setenv('A', 'b') }}", "setenv() is not supported"),
        ("a: {{ include('loop.yaml') }}", "files include one another more than 20 deep"),
        ("{{ include_text('me.yaml') }}", "files include one another more than 20 deep"),
        ("a: {{ include(3) }}", "found a number (3); accepted: the name of a file"),
        ("a: {% for i in range(9999) %}{{ include('parts/a.yaml') }}{% endfor %}", "the template does too much work"),
    ])
    def test_what_a_template_may_not_do(self, tmp_path: Path, text: str, message: str) -> None:
        write(tmp_path, {**FILES, "me.yaml": text, "key.pem": "secret"})
        with pytest.raises(SpecError) as caught:
            load_files([tmp_path / "me.yaml"])
        assert message in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.slow
    def test_inclusions_count_like_aliases(self, tmp_path: Path) -> None:
        doubling = {f"f{i}.yaml": f"a: {{{{ include('f{i + 1}.yaml') }}}}\nb: {{{{ include('f{i + 1}.yaml') }}}}"
                    for i in range(19)}
        write(tmp_path, {**doubling, "f19.yaml": "a: 1"})
        with pytest.raises(SpecError, match="too much work"):
            load_files([tmp_path / "f0.yaml"])


TEXT = st.text().filter(lambda text: not CONTROL.search(text))

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-2**63, 2**63), st.floats(allow_nan=False), TEXT,
                    st.sampled_from(["no", "Yes", "on", "N", "1e-9", "0777", "1:30", "~", "null", ".inf", "-", "a: b",
                                     "x #", " a", "a ", "[", "0x1F", "2024-01-01", "<<", "=", "1_0", "é", "", "- a"]))
KEYS = TEXT.filter(lambda key: key not in ("<<", "<<<") and "\n" not in key)
TREES = st.recursive(SCALARS, lambda inner: st.one_of(
    st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)))


class TestDump:
    @given(st.dictionaries(st.sampled_from("abN"), TREES))
    def test_what_is_written_is_read_back(self, value: dict[str, Any]) -> None:
        assert plain(load_text(dump(value))) == value

    @given(SCALARS)
    def test_readers_of_yaml_1_1_agree(self, value: object) -> None:
        read = yaml.safe_load(dump({"a": [value]}))["a"][0]
        assert read == value
        assert type(read) is type(value)

    def test_the_text_is_what_a_person_would_write(self) -> None:
        component = Map({"name": "PE[0..3]", "spatial": {"meshX": 4}}, where=Where("x"), tag="!Component")
        value = {"version": 0.4, "nodes": Seq([component, Map(where=Where("x"), tag="!Nothing")], where=Where("x")),
                 "e": 1e-9, "tech": Literal("45nm"), "factors": "C=2 M=3", "projection": [[["C"]], [["P", "Wstride"]]],
                 "none": [], "empty": {}, "long": ["x" * 60, "y" * 60]}
        assert dump(value) == (
            'version: 0.4\nnodes:\n  - !Component\n    name: "PE[0..3]"\n    spatial:\n      meshX: 4\n'
            '  - !Nothing {}\ne: 1.0e-09\ntech: "45nm"\nfactors: C=2 M=3\nprojection: [[[C]], [[P, Wstride]]]\n'
            f"none: []\nempty: {{}}\nlong:\n  - {'x' * 60}\n  - {'y' * 60}\n")
        assert load_text(dump(value))["nodes"][0].tag == "!Component"

    def test_other_types_are_a_programming_error(self) -> None:
        with pytest.raises(TypeError, match="cannot write object"):
            dump({"a": object()})


@pytest.mark.skipif(not SHARED.exists(), reason="needs the reference material beside the project")
def test_reference_specifications_survive_reading_and_writing() -> None:
    for path in sorted([*SHARED.glob("specs/*.yaml"), *SHARED.glob("workloads/*.yaml")]):
        tree = load_files([path])
        assert load_text(dump(tree)) == tree


@pytest.mark.parametrize("text", ["max(a, 16)", "a if b else 'c'", "[1, 2]", "5", "plain + 1", " padded", "true"])
def test_expressions_stay_expressions_where_quotes_would_make_them_strings(text: str) -> None:
    value = {"key": Expression(text), "list": [Expression(text), 1, {"inner": Expression(text)}], "own": Literal(text)}
    read = load_text(dump(value))
    assert read == value
    assert isinstance(read["own"], Literal)
    for found in (read["key"], read["list"][0], read["list"][2]["inner"]):
        assert not isinstance(found, Literal) or text == " padded"
