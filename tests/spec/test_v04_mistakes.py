"""Whatever is wrong in a v0.4 file ends in one line that names the place and what is accepted."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from v04_designs import DRAM, PROBLEM, buffer, document, to_native

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.native.arch import read_architecture
from fadiff_mapper.inputs.native.constraints import read_constraints
from fadiff_mapper.inputs.native.problem import read_problem
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import Seq

MISTAKES = {
    "unknown tag": (["!Componnent {name: X, class: SRAM}"], "",
                    'found the tag !Componnent (did you mean "!Component"?)'),
    "no tag": (["{name: X, class: SRAM}"], "", "found a mapping without a tag; accepted: !Hierarchical, !Parallel"),
    "unknown class": (["!Component {name: X, class: SRAN}"], "", 'unknown class "SRAN" (did you mean "SRAM"?)'),
    "constraint on a network": (
        ["!Component {name: X, class: XY_NoC, constraints: {temporal: {factors: [M=1]}}}"], "",
        'the network "X" has a temporal constraint'),
    "networks of a container": (["!Container {name: X, networks: [{name: N}]}"], "", "a network is a !Component"),
    "unknown key": ([buffer(more="atributes: {}")], "",
                    'unknown key "atributes" of "Buf" (did you mean "attributes"?)'),
    "no width": ([buffer(attributes="datawidth: 8, depth: 1")], "",
                 'attribute "width" of the storage "Buf" is missing'),
    "undefined name": ([buffer(attributes="width: 8, datawidth: 8, depth: size")],
                       "variables: {sise: 1}", 'the name "size" is not defined (did you mean "sise"?)'),
    "fan-out of 0": (["!Container {name: X, spatial: {meshX: 0}}"], "",
                     "spatial.meshX: found 0; accepted: a whole number"),
    "same name": ([buffer(), buffer()], "", 'the name "Buf" is already given at design.yaml:4'),
    "parallel container": (["!Parallel {nodes: [!Container {name: X}]}"], "", "stands directly under a !Parallel"),
    "parallel fan-out": ([f"!Parallel {{nodes: [{buffer(more='spatial: {meshX: 2}')}]}}"], "",
                         "a fan-out of 2 directly"),
    "no branch": ([f"!Parallel {{nodes: [{buffer()}]}}"], "", 'no branch of this !Parallel keeps the data space "A"'),
    "two branches": (
        ["!Parallel {nodes: [" + ", ".join(buffer(n, "constraints: {dataspace: {keep: ['*']}}") for n in "XY") + "]}"],
        "", 'the data space "A" is kept in 2 branches'),
    "layout": ([], "layout: [1]", "data layouts are not modelled"),
    "overbooking": ([buffer(more="constraints: {max_overbooked_proportion: {proportion: 0.5}}")], "", "overbooking"),
    "ruby": ([], "mapspace: {template: ruby}", "imperfect factors"),
    "custom functions": ([], "globals: {expression_custom_functions: [f.py]}", "call no code from files"),
    "environment": ([], "globals: {environment_variables: {TIMELOOP_X: 1}}", "it can change results"),
    "unknown section": ([], "maper: {}", 'unknown key "maper" (did you mean "mapper"?)'),
    "two mappings": ([], "mapping: []\nmy_mapping: []", 'found "my_mapping" besides "mapping"; accepted: one mapping'),
    "version": ([], "variables: {version: 0.3}", "found version 0.3; accepted: 0.4"),
    "unknown dimension": ([buffer(more="constraints: {temporal: {factors: [R=1]}}")], "", 'unknown dimension "R"'),
    "unknown data space": ([buffer(more="constraints: {dataspace: {keep: [ZZ]}}")], "", 'unknown data space "ZZ"'),
    "unknown target": ([buffer()], "constraints: {targets: [{target: Bux, type: temporal}]}", 'did you mean "Buf"?'),
    "unknown type": ([buffer()], "constraints: {targets: [{target: Buf, type: temporel}]}", 'did you mean "temporal"?'),
    "kept and bypassed": ([buffer(more="constraints: {dataspace: {keep: [A], bypass: [A]}}")], "",
                          'the data space "A" is kept here and bypassed at design.yaml:4'),
    "contradiction": ([buffer(more="constraints: {temporal: {factors: [M=2]}}")],
                      "constraints: {targets: [{target: Buf, type: temporal, factors: [M=4]}]}",
                      '"M=4" contradicts "M=2" at design.yaml:4'),
    "second permutation": ([buffer(more="constraints: {temporal: {permutation: [M]}}")],
                           "constraints: {targets: [{target: Buf, type: temporal, permutation: [K]}]}",
                           '"permutation" is given a second time'),
    "container loops": (["!Container {name: X, constraints: {temporal: {factors: [M=2]}}}"], "",
                        'the container "X" has a temporal constraint'),
    "container in a mapping": (["!Container {name: X}"], "mapping: [{target: X, type: temporal, factors: [M=2]}]",
                               'the container "X" has a temporal constraint'),
    "loops of nothing": (["!Nothing {name: X, constraints: {temporal: {factors: [M=2]}}}"], "",
                         'the nothing "X" has a temporal constraint'),
    "no fan-out": (["!Container {name: X, constraints: {spatial: {factors: [M=2]}}}"], "",
                   '"M=2" is spatial, but "X" has no fan-out'),
    "maximize without room": ([buffer(more="constraints: {temporal: {maximize_dims: [M]}}")], "",
                              "accepted: maximize_dims_capacity beside it"),
    "maximize what is fixed": (
        [buffer(more="constraints: {temporal: {factors: [M=2], maximize_dims: [M], maximize_dims_capacity: 4}}")], "",
        'cannot maximize "M": it is constrained to "M=2"'),
    "key of the native dialect": ([buffer(more="constraints: {temporal: {no_temporal_reuse: [A]}}")], "",
                                  'unknown key "no_temporal_reuse"'),
}


@pytest.mark.parametrize("nodes, sections, message", MISTAKES.values(), ids=MISTAKES)
def test_mistakes_name_place_and_remedy(nodes: list[str], sections: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        to_native(document(*nodes, sections=sections))
    assert message in str(caught.value)
    assert all(problem.startswith("design.yaml:") for problem in caught.value.problems)


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        to_native(document("!Component {name: X, class: SRAN}", buffer(more="atributes: {}")))
    assert [problem.split(": ")[0] for problem in caught.value.problems] == ["design.yaml:4", "design.yaml:5"]


def test_the_innermost_node_computes() -> None:
    with pytest.raises(SpecError, match="the innermost node is not a compute component"):
        to_native(load_text(f"architecture: {{nodes: [!Component {DRAM}]}}\n{PROBLEM}"))


@pytest.mark.parametrize("key, meant", [
    ("multiple_bufering", "multiple_buffering"), ("shared_bandwith", "shared_bandwidth"),
    ("read-bandwidth", "read_bandwidth"), ("block-size", "block_size")])
def test_misspelt_attributes_are_found_at_the_users_line(key: str, meant: str) -> None:
    with pytest.raises(SpecError, match=rf'design\.yaml:4: .*did you mean "{meant}"'):
        native = to_native(document(buffer(attributes=f"width: 8, datawidth: 8, depth: 16, {key}: 2")))
        read_architecture(native["architecture"], native.at("architecture"))


def test_later_messages_name_the_users_line() -> None:
    native = to_native(document(buffer(more="constraints: {spatial: {factors: [M=2]}}")))
    problem, *_ = read_problem(native["problem"], native.at("problem"))
    arch = read_architecture(native["architecture"], native.at("architecture"))
    with pytest.raises(SpecError, match=r'design\.yaml:4: .*"Buf" has no fan-out'):
        read_constraints(native, arch.levels, [arch.fanout(i) for i in range(len(arch.levels))], problem)


# Whatever is in the file, the answer is a native document or a SpecError

DAMAGED = document(
    '!Container {name: Chip, attributes: {a: 1, technology: "40nm"}, spatial: {meshX: a}}',
    buffer(more="constraints: {temporal: {factors_only: [M=4], permutation: [M, K]}, dataspace: {keep_only: [A]}}"),
    "!Parallel {nodes: [!Nothing {constraints: {dataspace: {keep: ['*']}}}]}",
    sections="""
variables: {version: 0.4, x: 1}
constraints: {targets: [{target: Chip, type: spatial, maximize_dims: [[N]], split: 1}]}
mapping: [{target: Buf, type: temporal, factors: [M=2]}]
globals: {environment_variables: {A: 1}}
components: {version: 0.4, classes: [{name: c}]}
""")
JUNK = st.one_of(st.none(), st.booleans(), st.integers(-2, 99), st.floats(), st.sampled_from(
    ["", "*", "M=2", "A", "x", "Chip", "1+", "a**9", "!", "spatial"]), st.just([]), st.just({}), st.just([[1]]),
    st.just({"a": {"b": 1}})).map(copy.deepcopy)


def parts(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a tree."""
    if not isinstance(node, dict | list):
        return []
    keys = list(node) if isinstance(node, dict) else list(range(len(node)))
    return [(node, key) for key in keys] + [part for key in keys for part in parts(node[key])]


@given(data=st.data())
def test_damaged_documents_never_end_in_another_error(data: st.DataObject) -> None:
    damaged = copy.deepcopy(DAMAGED)
    for _ in range(data.draw(st.integers(1, 2))):
        node, key = data.draw(st.sampled_from(parts(damaged)))
        node[key] = data.draw(JUNK)
        if isinstance(node, Seq) and data.draw(st.booleans()):
            node.append(data.draw(JUNK))
    try:
        native = to_native(damaged)
    except SpecError:
        return
    assert set(native) >= {"architecture", "architecture_constraints", "problem"}
