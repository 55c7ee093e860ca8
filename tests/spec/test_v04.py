"""The v0.4 dialect becomes the native one just as Timeloop's Python front end makes it."""

from __future__ import annotations

import gzip
import itertools
import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from v04_designs import DRAM, MAC, PROBLEM, buffer, constraints, document, levels, to_native

from fadiff_mapper.inputs.native.arch import read_architecture
from fadiff_mapper.inputs.native.constraints import read_constraints
from fadiff_mapper.inputs.native.problem import read_problem
from fadiff_mapper.inputs.v04.constraints import fill_greedily
from fadiff_mapper.inputs.v04.document import is_v04, translate
from fadiff_mapper.inputs.yaml.load import load_files, load_text
from fadiff_mapper.inputs.yaml.located import plain
from fadiff_mapper.inputs.yaml.place import Leniency

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "timeloop_specs"
CORPUS = ROOT.parent / "shared" / "timeloop_reference" / "cases.jsonl.gz"


def temporal(more: str) -> dict[str, Any]:
    """The native document's part about the temporal loops of a buffer with this constraint."""
    return constraints(to_native(document(buffer(more=f"constraints: {{temporal: {more}}}"))), "Buf", "temporal")


# Whole designs

def test_a_nodes_tree_is_v04_and_a_subtree_is_not() -> None:
    assert is_v04(document())
    assert not is_v04(to_native(document()))
    assert not is_v04(load_text("problem: {}"))


def test_gemmini_small_has_the_constraints_that_timeloopfe_writes() -> None:
    """Literal output of timeloopfe (commit b8aaf2c, April 2025) for a 3x3 convolution."""
    native = to_native(load_files([SPECS / "arch/gemmini_small.yaml", SPECS / "problems/conv.yaml"]))
    assert plain(native["architecture_constraints"]["targets"]) == [
        {"target": "DRAM", "type": "temporal", "permutation": "N"},
        {"target": "Scratchpad", "type": "bypass", "keep": ["Inputs", "Weights"], "bypass": ["Outputs"]},
        {"target": "Scratchpad", "type": "temporal", "permutation": "N"},
        {"target": "inter_PEColumns_spatial", "type": "spatial", "factors": "N=1,C=1,P=1,Q=1,R=1,S=1",
         "permutation": "SRQPCN"},
        {"target": "inter_PEColumns_spatial", "type": "temporal", "factors": "C=1,M=1,R=1,S=1,N=1,P=1,Q=1",
         "permutation": "CMRSNPQ"},
        {"target": "inter_PEColumns_spatial", "type": "bypass", "bypass": ["Weights", "Inputs", "Outputs"]},
        {"target": "Accumulator", "type": "bypass", "keep": ["Outputs"], "bypass": ["Inputs", "Weights"]},
        {"target": "Accumulator", "type": "temporal", "permutation": "N"},
        {"target": "inter_PERows_spatial", "type": "spatial", "factors": "N=1,M=1,P=1,Q=1,R=1,S=1",
         "permutation": "SRQPMN"},
        {"target": "inter_PERows_spatial", "type": "temporal", "factors": "C=1,M=1,R=1,S=1,N=1,P=1,Q=1",
         "permutation": "CMRSNPQ"},
        {"target": "inter_PERows_spatial", "type": "bypass", "bypass": ["Weights", "Inputs", "Outputs"]},
        {"target": "WeightRegister", "type": "bypass", "keep": ["Weights"], "bypass": ["Inputs", "Outputs"]},
        {"target": "WeightRegister", "type": "temporal", "permutation": "N"}]


@pytest.mark.parametrize("design", sorted(path.stem for path in (SPECS / "arch").glob("*.yaml")))
def test_bundled_designs_are_readable_in_the_native_dialect(design: str) -> None:
    native = to_native(load_files([SPECS / f"arch/{design}.yaml", SPECS / "problems/conv.yaml"]))
    problem, *_ = read_problem(native["problem"], native.at("problem"))
    arch = read_architecture(native["architecture"], native.at("architecture"))
    fanouts = [arch.fanout(i) for i in range(len(arch.levels))]
    read = read_constraints(native, arch.levels, fanouts, problem)
    dummies = [i for i, level in enumerate(arch.levels) if level.is_dummy]
    assert dummies == [i for i, (x, y) in enumerate(fanouts) if x * y > 1]
    assert all(read.levels[i].bypass == set(problem.dataspace_names()) for i in dummies)


def corpus() -> list[dict[str, Any]]:
    if not CORPUS.exists():
        return []
    with gzip.open(CORPUS, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in itertools.islice(lines, 40)]


def comparable(value: Any) -> Any:
    """Plain data without what two readers of the same YAML see differently: the type of 1e-9, the order of a set."""
    if isinstance(value, dict):
        return {key: sorted(item) if key == "required_actions" else comparable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [comparable(item) for item in value]
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return str(value)
    return value


@pytest.mark.skipif(not CORPUS.exists(), reason="the reference corpus is not here")
@pytest.mark.parametrize("record", [r for r in corpus() if r["kind"] == "arch" and r["v04"]], ids=lambda r: r["id"])
def test_architectures_equal_those_of_the_front_end(record: dict[str, Any]) -> None:
    problem = next(r["problem"] for r in corpus() if r["kind"] == "problem" and r["id"] == "conv3x3")
    technology = "40nm" if "gemmini" in record["id"] else "SET ME"
    native = to_native(load_text(
        f'{record["v04"]}\nvariables: {{version: 0.4, technology: "{technology}", global_cycle_seconds: 1e-9}}\n'
        f"problem: {json.dumps(problem)}\n"))
    assert comparable(plain(native["architecture"])) == comparable(record["native"])


# Levels and attributes

def test_a_fanout_becomes_a_dummy_level_before_what_lies_inside() -> None:
    native = to_native(document("!Container {name: Array, spatial: {meshX: 4, meshY: 2}}",
                                buffer(more="spatial: {meshX: 3}")))
    found = [(level["name"], level["attributes"]["meshX"], level["attributes"]["meshY"]) for level in levels(native)]
    assert found == [
        ("DRAM[1..1]", 1, 1), ("inter_Array_spatial[1..1]", 1, 1), ("inter_Buf_spatial[1..8]", 4, 2),
        ("Buf[1..24]", 12, 2), ("MAC[1..24]", 12, 2)]


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), max_size=6))
def test_instances_are_the_product_of_all_fanouts(meshes: list[tuple[int, int]]) -> None:
    nodes = [f"!Container {{name: F{i}, spatial: {{meshX: {x}, meshY: {y}}}}}" for i, (x, y) in enumerate(meshes)]
    native = to_native(document(*nodes))
    arch = read_architecture(native["architecture"], native.at("architecture"))
    assert arch.arithmetic.instances == math.prod(x * y for x, y in meshes)
    assert [arch.fanout(i) for i in reversed(range(len(arch.levels) - 1))] == [m for m in meshes if m != (1, 1)]


def test_container_attributes_are_handed_inwards_and_own_ones_win() -> None:
    native = to_native(document(
        '!Container {name: Chip, attributes: {technology: "40nm", read_bandwidth: 4}}', buffer("Outer"),
        '!Container {name: Inner, attributes: {technology: "7nm"}}',
        buffer("In", attributes="width: 8, datawidth: 8, depth: 16, read_bandwidth: 8")))
    found = {level["name"]: level["attributes"] for level in levels(native)}
    assert "technology" not in found["DRAM[1..1]"]
    assert (found["Outer[1..1]"]["technology"], found["Outer[1..1]"]["read_bandwidth"]) == ("40nm", 4)
    assert (found["In[1..1]"]["technology"], found["In[1..1]"]["read_bandwidth"]) == ("7nm", 8)


def test_expressions_use_variables_containers_earlier_attributes_and_other_nodes() -> None:
    native = to_native(document(
        "!Container {name: Chip, attributes: {lanes: 2 * base}, spatial: {meshX: lanes}}",
        buffer(attributes='width: 8 * lanes, datawidth: 8, depth: width // 2, label: "width"'),
        buffer("Next", attributes="width: Buf.attributes.width, datawidth: 8, depth: len(spec.problem.instance)"),
        sections="variables: {version: 0.4, base: 3, unused: base + 1}"))
    found = {level["name"]: level["attributes"] for level in levels(native)}
    assert {key: found["Buf[1..6]"][key] for key in ("width", "depth", "label")} == {
        "width": 48, "depth": 24, "label": "width"}
    assert found["Next[1..6]"]["width"] == 48
    assert found["Next[1..6]"]["depth"] == 4, "three dimensions, and the densities that the front end adds"


def test_disabled_components_vanish() -> None:
    native = to_native(document(buffer(more="enabled: size > 3"), sections="variables: {size: 2}"))
    assert [level["name"] for level in levels(native)] == ["DRAM[1..1]", "MAC[1..1]"]


def test_an_outermost_container_names_the_tree_and_nothing_else_does() -> None:
    def root(first: str) -> Any:
        text = f"architecture: {{nodes: [{first}!Component {DRAM}, !Component {MAC}]}}\nvariables: {{x: 1}}\n"
        return plain(to_native(load_text(text + PROBLEM)))["architecture"]["subtree"][0]
    named = root("!Container {name: Chip, attributes: {a: 1}}, ")
    assert (named["name"], named["attributes"]["a"], named["attributes"]["x"]) == ("Chip_top_level", 1, 1)
    assert (root("")["name"], root("")["attributes"]) == ("top_level", {"version": "0.4", "x": 1})


def test_power_gating_reaches_the_levels_after_the_gated_one() -> None:
    gated = "width: 8, datawidth: 8, depth: 16, has_power_gating: true"
    native = to_native(document(buffer("A", attributes=gated), buffer("B"), buffer("C")))
    assert [level["attributes"]["power_gated_at"] for level in levels(native)] == ["DRAM", "A", "B", "B", "B"]


# Constraints and macros

@pytest.mark.parametrize("written, factors", [
    ("{factors: [M=4, K<=8]}", "M=4,K<=8"),
    ("{factors: M=4 K>=2}", "M=4,K>=2"),
    ("{factors: M=0}", "M=64"),
    ("{factors_only: [M=4]}", "M=4,N=1,K=1"),
    ("{factors_only: []}", "M=1,N=1,K=1"),
    ("{factors: [K=2], factors_only: [M<=4]}", "K=2,M<=4,N=1"),
    ("{no_iteration_over_dataspaces: [B]}", "N=1,K=1"),
    ("{must_iterate_over_dataspaces: [A]}", "N=1"),
    ("{maximize_dims: [M, N], maximize_dims_capacity: 2 * 8}", "M=16,N=1"),
    ("{maximize_dims: [[K], [N, M]], maximize_dims_capacity: 24}", "K=24,N=1,M=1"),
])
def test_factors_and_their_macros(written: str, factors: str) -> None:
    assert temporal(written)["factors"] == factors


@pytest.mark.parametrize("written, permutation", [
    ("{permutation: [K, M]}", "KM"),
    ("{permutation: 'K,M'}", "KM"),
    ("{permutation: KM_N}", "KM_N"),
    ("{permutation: [K], factors: [M=1]}", "MK"),
    ("{permutation: [M, K], factors: [M=1]}", "MK"),
])
def test_permutations_get_the_unit_loops_they_do_not_mention(written: str, permutation: str) -> None:
    assert temporal(written)["permutation"] == permutation


@pytest.mark.parametrize("written, keep, bypass", [
    ("{keep: [A], bypass: [B]}", ["A"], ["B"]),
    ("{keep_only: [A]}", ["A"], ["B", "Z"]),
    ("{keep_only: []}", [], ["A", "B", "Z"]),
    ("{bypass_only: [A]}", ["B", "Z"], ["A"]),
    ("{keep: ['*']}", ["A", "B", "Z"], []),
])
def test_data_spaces_and_their_macros(written: str, keep: list[str], bypass: list[str]) -> None:
    found = constraints(to_native(document(buffer(more=f"constraints: {{dataspace: {written}}}"))), "Buf", "bypass")
    assert (found.get("keep", []), found.get("bypass", [])) == (keep, bypass)


def test_a_spatial_constraint_belongs_to_the_dummy_level_of_its_fanout() -> None:
    native = to_native(document(
        "!Container {name: Array, spatial: {meshX: 4},"
        " constraints: {spatial: {maximize_dims: [[M]], split: 1, no_reuse: [A]}}}"))
    assert constraints(native, "inter_Array_spatial", "spatial") == {
        "factors": "M=4", "split": 1, "no_reuse": ["A"]}
    assert constraints(native, "inter_Array_spatial", "temporal")["factors"] == "M=1,N=1,K=1"


def test_inner_nodes_maximize_first_and_leave_the_rest_to_outer_ones() -> None:
    wanted = "constraints: {spatial: {maximize_dims: [[N]]}}"
    native = to_native(document(f"!Container {{name: Outer, spatial: {{meshX: 8}}, {wanted}}}",
                                f"!Container {{name: Inner, spatial: {{meshX: 8}}, {wanted}}}"))
    assert constraints(native, "inter_Inner_spatial", "spatial")["factors"] == "N=8"
    assert constraints(native, "inter_Outer_spatial", "spatial")["factors"] == "N=2"


def test_targets_join_the_inline_constraints_of_their_node() -> None:
    inline = "constraints: {temporal: {factors: [M=2]}, dataspace: {keep: [A]}}"
    native = to_native(document(buffer(more=inline), sections="""
constraints: {version: 0.4, targets: [{target: Buf, type: temporal, factors: [K=3], permutation: [K]}]}
more_constraints: {targets: [{target: Buf, type: dataspace, bypass: [Z]}]}"""))
    assert constraints(native, "Buf", "temporal") == {"factors": "M=2,K=3", "permutation": "K"}
    assert constraints(native, "Buf", "bypass") == {"keep": ["A"], "bypass": ["Z"]}


def test_each_data_space_takes_one_branch_of_a_parallel() -> None:
    native = to_native(document(
        "!Parallel\n    nodes:"
        f"\n    - {buffer('ForA', 'constraints: {dataspace: {keep: [A]}}')}"
        f"\n    - !Hierarchical\n      nodes:"
        f"\n      - {buffer('ForB', 'constraints: {dataspace: {keep: [B]}}')}"
        f"\n      - {buffer('BelowB')}"
        "\n    - !Nothing {constraints: {dataspace: {keep: [Z]}}}"))
    assert [level["name"] for level in levels(native)][1:4] == ["ForA[1..1]", "ForB[1..1]", "BelowB[1..1]"]
    assert constraints(native, "ForA", "bypass") == {"keep": ["A"], "bypass": ["B", "Z"]}
    assert constraints(native, "ForB", "bypass") == {"keep": ["B"], "bypass": ["A", "Z"]}
    assert constraints(native, "BelowB", "bypass") == {"bypass": ["A", "Z"]}


def test_long_dimension_names_stay_a_list() -> None:
    problem = PROBLEM.replace("M", "Rows")
    node = document(buffer(more="constraints: {temporal: {permutation: [K, Rows]}}"), problem=problem)
    native = translate(node, Leniency(strict=False))[0]
    assert constraints(native, "Buf", "temporal") == {"permutation": ["K", "Rows"]}


@given(bounds=st.dictionaries(st.sampled_from("ABC"), st.integers(1, 48), min_size=1), capacity=st.integers(1, 48))
def test_greedy_filling_uses_as_much_as_the_best_choice_of_divisors(bounds: dict[str, int], capacity: int) -> None:
    chosen = fill_greedily(bounds, capacity)
    divisors = [[d for d in range(1, bound + 1) if bound % d == 0] for bound in bounds.values()]
    products = (math.prod(choice) for choice in itertools.product(*divisors))
    assert sorted(chosen) == sorted(bounds)
    assert max(p for p in products if p <= capacity) <= math.prod(chosen.values()) <= capacity


def test_a_dimension_larger_than_the_room_is_cut_into_equal_rounds() -> None:
    assert fill_greedily({"P": 97}, 32) == {"P": 25}, "97 = 25 + 25 + 25 + 22"


# Mappings

MAPPED = (buffer(more="constraints: {dataspace: {keep_only: [A]},"
                      " temporal: {factors: [N=1, K<=8], permutation: [N, K]}}"),
          "!Container {name: Array, spatial: {meshX: 8}, constraints: {spatial: {factors: [K=1]}}}")


def test_a_mapping_lies_on_top_of_the_constraints_of_the_design() -> None:
    native = to_native(document(*MAPPED, sections="""
mapping:
- {target: Buf, type: temporal, factors: [M=4, K=6], permutation: [K, M]}
- {target: Array, type: spatial, factors: [M=8], split: 1}
"""))
    assert constraints(native, "Buf", "temporal", "mapping") == {"factors": "M=4,K=6,N=1", "permutation": "NKM"}
    assert constraints(native, "Buf", "bypass", "mapping") == {"keep": ["A"], "bypass": ["B", "Z"]}
    assert constraints(native, "inter_Array_spatial", "spatial", "mapping")["factors"] == "M=8,K=1"
    assert constraints(native, "Buf", "temporal") == {"factors": "N=1,K<=8", "permutation": "NK"}


def test_a_mapping_overrules_what_the_design_keeps() -> None:
    """Whether that is allowed is for the check against the constraints, which stay as they are."""
    native = to_native(document(*MAPPED, sections="mapping: [{target: Buf, type: dataspace, keep: [Z], bypass: [A]}]"))
    assert constraints(native, "Buf", "bypass", "mapping") == {"keep": ["Z"], "bypass": ["A", "B"]}
    assert constraints(native, "Buf", "bypass") == {"keep": ["A"], "bypass": ["B", "Z"]}


def test_a_native_mapping_is_left_alone() -> None:
    native = to_native(document(*MAPPED, sections="""
mapping:
- {target: inter_Array_spatial, type: spatial, factors: M=8, permutation: MNK}
"""))
    assert plain(native["mapping"]) == [
        {"target": "inter_Array_spatial", "type": "spatial", "factors": "M=8", "permutation": "MNK"}]


# Other sections

def test_other_sections_are_handed_on() -> None:
    native = to_native(document(sections="""
ERT: {version: 0.4, tables: []}
components: {version: 0.4, classes: [{name: a}, [{name: b}]]}
compound_components: {classes: [{name: c}]}
mapper: {algorithm: random}
mapspace: {template: uber}
shape_ignore: {anything: goes}
"""))
    assert plain(native["compound_components"]) == {
        "version": "0.4", "classes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}
    assert plain(native["mapper"]) == {"algorithm": "random"}
    assert plain(native["ERT"]) == {"version": 0.4, "tables": []}
    assert not {"mapspace", "shape_ignore", "components"} & set(native)


def test_the_instance_may_hold_expressions() -> None:
    problem = PROBLEM.replace("K: 24", "K: 6 * size")
    native = to_native(document(sections="variables: {size: 4}", problem=problem))
    assert native["problem"]["instance"]["K"] == 24
