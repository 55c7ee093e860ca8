"""Constraint sections, factor strings and permutations of the native dialect."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.native.constraints import read_constraints
from fadiff_mapper.inputs.native.mapping import parse_factors, parse_permutation, permutation_text
from fadiff_mapper.inputs.spec.arch import StorageLevel
from fadiff_mapper.inputs.spec.constraints import Constraints
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, Term
from fadiff_mapper.inputs.yaml.located import with_places
from fadiff_mapper.inputs.yaml.place import Where

HERE = Where("c.yaml", 3, "factors")
BOUNDS = {"C": 8, "M": 16, "P": 6}
PROBLEM = Problem("conv1x1", BOUNDS, (
    DataSpace("Weights", ((Term("C"),), (Term("M"),))),
    DataSpace("Inputs", ((Term("C"),), (Term("P"),))),
    DataSpace("Outputs", ((Term("M"),), (Term("P"),)), read_write=True)))


def storage(name: str) -> StorageLevel:
    return StorageLevel(name, "SRAM", instances=1, mesh_x=1, mesh_y=1, word_bits=8, block_size=1, cluster_size=1,
                        size=1024)


LEVELS = (storage("Reg"), storage("Buf"), storage("DRAM"))
FANOUTS = ((1, 1), (4, 2), (1, 1))


def read(text: str) -> Constraints:
    document = with_places(yaml.safe_load(text), Where("c.yaml"))
    return read_constraints(document, LEVELS, FANOUTS, PROBLEM)


def mistakes(text: str) -> list[str]:
    with pytest.raises(SpecError) as error:
        read(text)
    return list(error.value.problems)


# Factor strings.

@pytest.mark.parametrize("value", [
    "C=2 M=3", "C2 M3", "C=2,M=3", "C=2, M=3", "C 2 M 3", "C==2 M=3", "C2M3", " C=2  M=3 # a comment, P=1",
    ["C=2", "M=3"], ["C=2 M3"], [["C", "=", 2], "M=3"]])
def test_all_spellings_of_factors_mean_the_same(value: object) -> None:
    found = [(f.dimension, f.operator, f.value) for f in parse_factors(value, HERE, BOUNDS)]
    assert found == [("C", "=", 2), ("M", "=", 3)]


def test_limits_are_kept_apart_from_fixed_factors() -> None:
    found = [(f.dimension, f.operator, f.value) for f in parse_factors("C<=4 C>=2, M = 1", HERE, BOUNDS)]
    assert found == [("C", "<=", 4), ("C", ">=", 2), ("M", "=", 1)]


def test_zero_is_the_whole_dimension() -> None:
    assert parse_factors("M=0", HERE, BOUNDS)[0].value == 16


def test_dimension_names_may_be_long_or_end_in_digits() -> None:
    found = parse_factors("width2=4 batch3", HERE, {"width2": 8, "batch": 9})
    assert [(f.dimension, f.value) for f in found] == [("width2", 4), ("batch", 3)]


@pytest.mark.parametrize("empty", ["", "  ", "# nothing", []])
def test_no_factors(empty: object) -> None:
    assert parse_factors(empty, HERE, BOUNDS) == ()


@pytest.mark.parametrize(("value", "complaint"), [
    ("C=2 X=3", 'unknown dimension "X" in "X=3"; accepted: C, M, P'),
    ("P=5,3", 'the residual of "P=5,3" has no meaning in a constraint'),
    ("C=16", '"C=16" is larger than the dimension C=8'),
    ("C=2 C=4", 'found both "C=2" and "C=4"'),
    ("C<=0", 'found "C<=0"; accepted: a limit of 1 or more'),
    ("C=2 and M=3", 'found "and"'),
    ("C=2 ~ M=3", 'found "~"'),
    ("C=2.5", 'found "C=2.5"'),
    ("C=-1", 'found "C=-1"'),
    ("C", 'found "C"'),
    (7, "found a number (7); accepted: a string or a list of strings"),
    ({"C": 2}, "found a mapping"),
])
def test_what_timeloop_would_skip_is_an_error(value: object, complaint: str) -> None:
    with pytest.raises(SpecError) as error:
        parse_factors(value, HERE, BOUNDS)
    assert str(error.value).startswith("c.yaml:3: factors: ")
    assert complaint in str(error.value)


def test_a_mistake_in_a_list_names_its_entry() -> None:
    with pytest.raises(SpecError, match=r"factors\[1\]: unknown dimension"):
        parse_factors(["C=2", "Q=2"], HERE, BOUNDS)


@given(st.lists(st.tuples(st.sampled_from("CMP"), st.sampled_from(["=", "<=", ">="]), st.integers(1, 6)),
                unique_by=lambda f: f[:2]))
def test_written_factors_read_back(parts: list[tuple[str, str, int]]) -> None:
    text = " ".join(f"{name}{operator}{value}" for name, operator, value in parts)
    factors = parse_factors(text, HERE, BOUNDS)
    assert [(f.dimension, f.operator, f.value) for f in factors] == parts
    assert parse_factors(",".join(map(str, factors)), HERE, BOUNDS) == factors


# Permutations.

@pytest.mark.parametrize(("value", "inner", "outer"), [
    ("CMP", "CMP", ""), ("C M", "CM", ""), ("C_M", "C", "M"), ("_PM", "", "PM"), ("CM_", "CM", ""), ("", "", ""),
    ("CM # then P", "CM", ""), (["M", "C"], "MC", ""), (["M", "_", "C"], "M", "C"), (["CM"], "CM", "")])
def test_permutations_are_read_from_the_inside(value: object, inner: str, outer: str) -> None:
    assert parse_permutation(value, HERE, BOUNDS) == (tuple(inner), tuple(outer))


def test_long_names_stand_apart() -> None:
    assert parse_permutation("in out", HERE, ("out", "in")) == (("in", "out"), ())
    assert parse_permutation(["out", "_", "in"], HERE, ("out", "in")) == (("out",), ("in",))


def test_commas_are_read_only_where_the_front_end_reads_them() -> None:
    assert parse_permutation("C, M", HERE, BOUNDS, commas=True) == (("C", "M"), ())
    with pytest.raises(SpecError, match="found commas"):
        parse_permutation("C,M", HERE, BOUNDS)


@pytest.mark.parametrize(("value", "complaint"), [
    ("CMX", 'unknown dimension "X"'), ("CMC", '"C" stands twice'), ("C_M_P", 'found "_" 2 times'),
    (["C", "Z"], 'unknown dimension "Z"'), (3, "found a number")])
def test_wrong_permutations(value: object, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        parse_permutation(value, HERE, BOUNDS)


@given(st.permutations("CMP"), st.integers(0, 3), st.integers(0, 3))
def test_written_permutations_read_back(names: list[str], inner: int, outer: int) -> None:
    first, last = tuple(names[:inner]), tuple(names[max(inner, outer):])
    assert parse_permutation(permutation_text(first, last), HERE, BOUNDS) == (first, last)


# Sections and their forms.

BODY = "[{target: Buf, type: temporal, factors: C=2 M<=4, permutation: P_C}]"


@pytest.mark.parametrize("text", [
    f"architecture_constraints: {BODY}",
    f"arch_constraints: {{targets: {BODY}}}",
    f"mapspace: {{constraints: {BODY}}}",
    f"mapspace_constraints: {{version: 0.4, targets: {BODY}}}",
    f"mapspace: {{template: uber, constraints: mine, constraints_mine: {BODY}, constraints_other: [{{}}]}}",
    f"constraints: {{targets: {BODY}}}",
    f"architecture: {{constraints: {BODY}}}",
    "mapspace: [{name: Buf, constraints: [{type: temporal, attributes: {factors: C2 M<=4, permutation: P_C}}]}]",
    "mapspace: [{target: Buf, constraints: [{type: temporal, factors: [C=2, M<=4], permutation: [P, _, C]}]}]",
    "mapspace: [{target: Buf, type: temporal, attributes: {factors: 'C2 M<=4', permutation: P_C}}]",
])
def test_all_forms_of_a_section_mean_the_same(text: str) -> None:
    loops = read(text).levels[1].temporal
    assert (loops.fixed, loops.maximum, loops.minimum) == ({"C": 2}, {"M": 4}, {})
    assert (loops.inner, loops.outer) == (("P",), ("C",))


@pytest.mark.parametrize("text", ["{}", "mapspace: {version: 0.4, template: uber}", "mapspace_constraints: []",
                                  "architecture_constraints: {targets: []}"])
def test_no_constraints(text: str) -> None:
    assert read(text) == read("{}")


def test_every_constraint_remembers_where_it_stands() -> None:
    level = read(f"mapspace: {BODY[:-1]}, {{target: Buf, type: bypass, keep: [Inputs], bypass: [Weights]}}]").levels[1]
    assert level.temporal.sources == {"fixed.C": "c.yaml: mapspace[0].factors",
                                      "maximum.M": "c.yaml: mapspace[0].factors",
                                      "order": "c.yaml: mapspace[0].permutation"}
    assert level.sources == {"keep.Inputs": "c.yaml: mapspace[1].keep[0]",
                             "bypass.Weights": "c.yaml: mapspace[1].bypass[0]"}


def test_switches_of_reuse() -> None:
    level = read("mapspace: [{target: Buf, type: spatial, no_link_transfer: [Inputs]}, {target: Buf, type: bypass, "
                 "keep: [Outputs], no_coalesce: [Outputs]}, "
                 "{target: Buf, type: temporal, no_temporal_reuse: [Weights], rmw_first_update: [Outputs]}]").levels[1]
    assert (level.spatial.no_link_transfer, level.temporal.rmw_first_update, level.no_coalesce) == (
        {"Inputs"}, {"Outputs"}, {"Outputs"})
    assert (level.temporal.no_reuse, level.keep) == ({"Weights"}, {"Outputs"})


def test_spatial_constraints() -> None:
    buffer = read("mapspace: [{target: Buf, type: spatial, factors: C=0, split: 1, no_reuse: [Inputs]}]").levels[1]
    loops = buffer.spatial
    assert (loops.fixed, loops.split, loops.no_reuse) == ({"C": 8}, 1, frozenset({"Inputs"}))


@pytest.mark.parametrize("spelling", ["datatype", "bypass", "bypassing", "dataspace"])
def test_spellings_of_keep_and_bypass(spelling: str) -> None:
    level = read(f"mapspace: [{{target: Reg, type: {spelling}, keep: [Weights], bypass: [Inputs, Outputs]}}]").levels[0]
    assert level.keep == {"Weights"} and level.bypass == {"Inputs", "Outputs"}


@pytest.mark.parametrize("spelling", ["utilization", "parallelism"])
def test_least_parallelism(spelling: str) -> None:
    assert read(f"mapspace: [{{target: Reg, type: {spelling}, min: 0.5}}]").min_parallelism == 0.5
    assert "accepted: the innermost storage level, Reg" in mistakes(
        f"mapspace: [{{target: Buf, type: {spelling}, min: 0.5}}]")[0]


def test_default_limits_hold_for_dimensions_without_a_limit_of_their_own() -> None:
    loops = read("mapspace: [{target: Buf, type: temporal, factors: C=8 M<=2, default_max_factor: 4,"
                 " default_min_factor: 2}]").levels[1].temporal
    assert loops.maximum == {"M": 2, "C": 4, "P": 4}
    assert loops.minimum == {"C": 2, "M": 2, "P": 2}


def test_native_sections_are_written_as_timeloop_reads_them() -> None:
    native = read("arch_constraints: [{name: Buf, constraints: [{type: temporal, attributes: {factors: [C=0, M<=4],"
                  " permutation: [P, C]}}]}]\n"
                  "mapspace: [{target: Reg, type: bypass, keep: [Weights], bypass: []}]").native
    assert native == {
        "architecture_constraints": {"targets": [
            {"target": "Buf", "type": "temporal", "factors": "C=8,M<=4", "permutation": "PC"}]},
        "mapspace_constraints": {"targets": [{"target": "Reg", "type": "bypass", "keep": ["Weights"]}]}}
    assert read(yaml.safe_dump(native)).levels[1].temporal == read(
        "mapspace: [{target: Buf, type: temporal, factors: C=8 M<=4, permutation: PC}]").levels[1].temporal


# Mistakes.

@pytest.mark.parametrize(("constraint", "complaint"), [
    ("{target: Buff, type: temporal}", '(did you mean "Buf"?); accepted: Reg, Buf, DRAM'),
    ("{type: temporal}", 'the key "target" is missing'),
    ("{target: Buf}", 'the key "type" is missing'),
    ("{target: Buf, type: temporl}", '(did you mean "temporal"?)'),
    ("{target: Buf, type: temporal, factor: C=2}",
     'unknown key "factor" in a temporal constraint (did you mean "factors"?)'),
    ("{target: Buf, type: temporal, split: 1}", 'unknown key "split" in a temporal constraint'),
    ("{target: Buf, type: temporal, attributes: {factors: C=2}, permutation: C}", 'unknown key "permutation"'),
    ("{target: Buf, type: temporal, factors: C=9}", '"C=9" is larger than the dimension C=8'),
    ("{target: Buf, type: temporal, remainders: 2}", '"remainders" above 1 (imperfect factors) is not supported'),
    ("{target: Buf, type: temporal, rmw_first_update: [Output]}",
     'unknown data space "Output" (did you mean "Outputs"?)'),
    ("{target: Buf, type: max_overbooked_proportion, proportion: 0.1}", "overbooking"),
    ("{target: Buf, type: bypass, keep: [Input]}", 'unknown data space "Input" (did you mean "Inputs"?)'),
    ("{target: Buf, type: bypass, keep: Inputs}", "keep: found a string ('Inputs'); accepted: a list"),
    ("{target: Buf, type: bypass, keep: [Inputs, Inputs]}", '"Inputs" stands twice'),
    ("{target: Buf, type: spatial, no_reuse: [Psums]}", 'unknown data space "Psums"'),
    ("{target: Reg, type: spatial, factors: C=1}",
     '"Reg" has no fan-out: the arithmetic has as many instances, so there are no spatial loops; '
     "accepted: levels with a fan-out: Buf"),
])
def test_mistakes_are_named(constraint: str, complaint: str) -> None:
    (line,) = mistakes(f"mapspace: [{constraint}]")
    assert line.startswith("c.yaml: mapspace[0]")
    assert complaint in line


@pytest.mark.parametrize(("text", "complaint"), [
    ("mapspace: []\nmapspace_constraints: []", 'found "mapspace_constraints" besides "mapspace"'),
    ("arch_constraints: []\narchitecture_constraints: []",
     'found "architecture_constraints" besides "arch_constraints"'),
    ("mapspace: {template: ruby}", '"ruby" (imperfect factors) is not supported'),
    ("mapspace: {tragets: []}", 'unknown key "tragets" (did you mean "targets"?)'),
    ("mapspace: {constraints: row, constraints_rows: []}", '(did you mean "rows"?)'),
    ("mapspace: 3", "found a number (3)"),
])
def test_wrong_sections(text: str, complaint: str) -> None:
    assert complaint in mistakes(text)[0]


@pytest.mark.parametrize(("first", "second", "subject"), [
    ("type: temporal, factors: C=2", "type: temporal, factors: C=2", "the temporal factor of C"),
    ("type: temporal, factors: C<=2", "type: temporal, default_max_factor: 4", "the temporal maximum factor of C"),
    ("type: spatial, permutation: C", "type: spatial, permutation: C", "the spatial permutation"),
    ("type: spatial, split: 1", "type: spatial, split: 2", "the spatial split"),
    ("type: bypass, keep: [Inputs]", "type: datatype, bypass: [Inputs]", "the data space Inputs"),
    ("type: bypass, no_coalesce: [Inputs]", "type: bypass, no_coalesce: [Weights]", "the dataspace no_coalesce list"),
])
def test_saying_a_thing_twice_names_both_places(first: str, second: str, subject: str) -> None:
    lines = mistakes(f"arch_constraints: [{{target: Buf, {first}}}]\nmapspace: [{{target: Buf, {second}}}]")
    assert f"{subject} at Buf is already constrained at c.yaml: arch_constraints[0]." in lines[0]
    assert lines[0].startswith("c.yaml: mapspace[0].")


def test_the_outermost_level_may_be_told_twice_what_to_keep() -> None:
    keep = "[{target: DRAM, type: bypass, keep: [Inputs]}]"
    assert read(f"arch_constraints: {keep}\nmapspace: {keep}").levels[2].keep == {"Inputs"}


def test_all_mistakes_are_reported_at_once() -> None:
    assert len(mistakes("mapspace: [{target: Bu, type: temporal}, {target: Reg, type: temporal, factors: X1},"
                        " {target: DRAM, type: temporal, factors: C2},"
                        " {target: DRAM, type: temporal, factors: C4}]")) == 3


KEYS = ("target", "name", "type", "constraints", "targets", "attributes", "factors", "permutation", "keep", "bypass",
        "split", "min", "no_reuse", "default_max_factor", "remainders", "template", "proportion", "nonsense")
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 20), st.floats(),
    st.sampled_from(["Buf", "Reg", "temporal", "spatial", "bypass", "utilization", "max_overbooked_proportion",
                     "Inputs", "C=2 M<=4", "CM_P", "C,M", "P=5,3", "", "uber"]), st.text(max_size=5))
TREES = st.recursive(SCALARS, lambda inner: st.one_of(
    st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)), max_leaves=12)


@given(st.sampled_from(["mapspace", "arch_constraints", "architecture"]), TREES)
def test_whatever_is_written_there_is_never_a_traceback(section: str, tree: object) -> None:
    try:
        read_constraints(with_places({section: tree}, Where("c.yaml")), LEVELS, FANOUTS, PROBLEM)
    except SpecError as error:
        assert all(line.startswith("c.yaml: ") for line in error.problems)


@given(st.sampled_from(["temporal", "spatial", "bypass", "utilization", "max_overbooked_proportion"]),
       st.dictionaries(st.sampled_from(KEYS), TREES, max_size=4))
def test_nor_within_a_constraint(kind: str, keys: dict[str, object]) -> None:
    tree = [{"target": "Buf", "type": kind} | keys]
    try:
        read_constraints(with_places({"mapspace": tree}, Where("c.yaml")), LEVELS, FANOUTS, PROBLEM)
    except SpecError as error:
        assert all(line.startswith("c.yaml: ") for line in error.problems)
