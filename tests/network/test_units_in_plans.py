"""Plans on a design with compute units charge every operator, by itself or in a group."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, load_network, map_network, save_network
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.fusion import evaluate_group
from fadiff_mapper.fusion.segments import segments
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.model.vector_cost import vector_costs
from fadiff_mapper.network.checkpoint import batch_key
from fadiff_mapper.network.tile_mappings import SEARCH
from fadiff_mapper.output.network_files import plan_yaml
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.output.terminal.networks import print_plan
from fadiff_mapper.workload import Node, build_workload, make_operator
from fadiff_mapper.workload.operations import in_words

TPU, GEMMINI = "bundled:inference/tpu_v4i_like", "bundled:arch/gemmini_large"
TOKENS, SIZE, HEADS = 256, 64, 2


def product(name: str, *inputs: str, rows: int, summed: int, columns: int, repeat: int = HEADS) -> Node:
    layer = make_operator("gemm", {"N": rows, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1}, repeat=repeat)
    return Node(name, "gemm", inputs, layer=layer, operands=("Inputs", "Weights")[:len(inputs)])


@cache
def attention(also: str = "", tokens: int = TOKENS) -> Workload:
    """A norm, and attention with a scaled softmax; `also` is an operator behind the softmax."""
    scores = (HEADS, tokens, tokens)
    nodes = [Node("x", "input", shape=(HEADS, tokens, SIZE)), Node("k", "input", shape=(HEADS, SIZE, tokens)),
             Node("v", "input", shape=(HEADS, tokens, SIZE)),
             Node("norm", "layernorm", ("x",), (HEADS, tokens, SIZE), axes=(-1,), constants=((SIZE,), (SIZE,))),
             product("qk", "norm", "k", rows=tokens, summed=SIZE, columns=tokens),
             Node("scaled", "mul", ("qk",), scores, constants=((1,),)),
             Node("softmax", "softmax", ("scaled",), scores, axes=(-1,)),
             *([Node("also", also, ("softmax",), scores)] if also else []),
             product("av", "also" if also else "softmax", "v", rows=tokens, summed=tokens, columns=SIZE)]
    return build_workload("attention", nodes)


@cache
def plan(design: str = TPU, fuse: bool = True, tokens: int = TOKENS) -> NetworkResult:
    return map_network(attention(tokens=tokens), design, NetworkOptions(threads=1, fuse=fuse))


def test_layer_by_layer_every_operator_is_charged_by_itself() -> None:
    apart = plan(fuse=False)
    spec = apart.layers[0].spec
    costs = {own.node: vector_costs(own, spec.arch, spec.tables)[0] for own in apart.workload.vector_operators()}
    assert list(costs) == ["norm", "scaled", "softmax"]
    layers = apart.workload.totals([(each.stats.energy_pj, each.stats.cycles) for each in apart.layers])
    assert apart.stats.energy_pj == pytest.approx(layers.energy_pj + sum(own.energy_pj for own in costs.values()))
    assert apart.stats.cycles == layers.cycles + round(sum(own.cycles for own in costs.values()))
    assert [(own.node, own.group, own.unit, own.energy_pj, own.cycles) for own in apart.operators] == [
        (name, None, "VectorUnit", own.energy_pj, own.cycles) for name, own in costs.items()]


def test_a_group_has_the_operators_between_its_layers_and_others_run_by_themselves() -> None:
    fused, apart = plan(), plan(fuse=False)
    (group,) = fused.groups
    assert [(own.node, own.group) for own in fused.operators] == [("norm", None), ("scaled", 1), ("softmax", 1)]
    norm, *inside = apart.operators
    assert fused.unfused_stats == apart.stats
    assert group.unfused.energy_pj == pytest.approx(apart.stats.energy_pj - norm.energy_pj)
    assert fused.stats.energy_pj == pytest.approx(group.cost.energy_pj + norm.energy_pj)
    assert fused.stats.cycles == round(group.cost.cycles + norm.cycles)
    assert evaluate_group(fused.hardware, group.group) == group.cost
    assert sum(own.energy_pj for own in fused.operators[1:]) < sum(own.energy_pj for own in inside)
    assert group.cost.bound == "VectorUnit" and group.group.side_by_side  # 128 lanes for 65,536 multiply-accumulators
    assert group.cost.cycles == HEADS * group.cost.busy["VectorUnit"]
    assert fused.history[-1]["value"] == pytest.approx(fused.stats.edp, rel=1e-6)
    assert fused.gap is not None and 0 <= fused.gap < 0.1


def test_every_output_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fused = plan()
    fused.write(tmp_path)
    written = load_file(tmp_path / "plan.yaml")["plan"]
    assert [own["node"] for own in written["operators"]] == ["norm", "scaled", "softmax"]
    assert written["units_cost"]["VectorUnit"]["cycles"] == round(sum(own.cycles for own in fused.operators))
    norm = fused.operators[0]
    assert written["operators_cost"] == {"energy_pj": pytest.approx(norm.energy_pj), "cycles": round(norm.cycles)}
    assert (written["groups"][0]["work"], written["groups"][0]["bound"]) == ("side by side", "VectorUnit")
    assert "joined_operands_cost" not in written
    page = (tmp_path / "report.html").read_text()
    assert "Operators on compute units" in page and "work side by side; VectorUnit needs most of the time" in page
    print_plan(fused, "out")
    said = " ".join(capsys.readouterr().out.split())
    assert f"on compute units: {in_words(fused.workload.vector_operators())}" in said and "not counted" not in said
    assert f"of VectorUnit {written['units_cost']['VectorUnit']['cycles']} cycles" in said


def test_a_checkpoint_tells_groups_apart_that_have_other_room_or_steps() -> None:
    group = plan().groups[0].group
    assert group.double_buffered and not group.skips
    assert len({batch_key([own], (1.0, 1.0), SEARCH, False) for own in (
        group, replace(group, double_buffered=frozenset()), replace(group, skips=True))}) == 3


def test_without_units_operators_cost_nothing() -> None:
    spec = plan().layers[0].spec
    bare = map_network(attention(), replace(spec, arch=replace(spec.arch, units=())), NetworkOptions(threads=1))
    assert (bare.operators, bare.joined.energy_pj, bare.joined.cycles) == ((), 0, 0)
    (group,) = bare.groups
    assert (group.cost.operators, dict(group.cost.busy), group.group.double_buffered) == ((), {}, frozenset())
    assert not any(link.operators for segment in segments(attention(), 2) for link in segment.links)


@pytest.mark.slow
@pytest.mark.parametrize(("network", "design", "energy", "cycles"), [
    ("mobilenet_v1", "gemmini_large", 1128910071.5166404, 1433805),
    ("resnet18", "gemmini_small", 4224106333.1214542, 9409047)])
def test_plans_without_units_and_softmax_are_those_recorded(network: str, design: str, energy: float,
                                                            cycles: int) -> None:
    found = map_network(load_network(f"bundled:networks/{network}"), f"bundled:arch/{design}",
                        NetworkOptions(threads=1))
    assert (found.stats.energy_pj, found.stats.cycles) == (energy, cycles)


def test_operators_of_a_group_share_the_units_so_that_it_is_best() -> None:
    """One unit would work on the softmax and on the operator behind it, one after the other."""
    spec = plan().layers[0].spec
    (unit,) = spec.arch.units
    two = replace(spec, arch=replace(spec.arch, units=(unit, replace(unit, name="Second"))))
    found = map_network(attention("gelu"), two, NetworkOptions(threads=1), metric="delay")
    (group,) = found.groups
    assert {cost.unit for cost in group.cost.operators} == {"VectorUnit", "Second"}
    assert evaluate_group(found.hardware, group.group) == group.cost
    one = map_network(attention("gelu"), spec, NetworkOptions(threads=1), metric="delay")
    assert found.stats.cycles < 0.8 * one.stats.cycles
    assert found.gap is not None and one.gap is not None and found.gap >= 0 <= one.gap
    together = replace(group.group, units=("VectorUnit",) * len(group.group.units))
    assert evaluate_group(found.hardware, together).cycles > group.cost.cycles
    for units, said in ((("Third",) * len(together.units), "found 'Third'; accepted: VectorUnit, Second"),
                        (("Second",), f"found 1; accepted: one for each of {len(together.units)} parts")):
        with pytest.raises(FadiffError, match=said):
            evaluate_group(found.hardware, replace(together, units=units))


def test_a_network_file_names_the_unit_of_an_operator(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = plan().layers[0].spec
    (unit,) = spec.arch.units
    slow = replace(unit, name="Slow", lanes=1)
    two = replace(spec, arch=replace(spec.arch, units=(unit, slow)))
    named = build_workload("named", [replace(node, unit="Slow") if node.name in ("norm", "scaled") else node
                                     for node in attention().nodes])
    save_network(named, tmp_path / "named.yaml")
    read = load_network(tmp_path / "named.yaml")
    assert [own.unit for own in read.vector_operators()] == ["Slow", "Slow", ""]
    found = map_network(read, two, NetworkOptions(threads=1))
    assert [own.unit for own in found.operators] == ["Slow", "Slow", "VectorUnit"]
    assert main(["network", str(tmp_path / "named.yaml"), TPU, "-o", str(tmp_path / "out")]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert f'{tmp_path / "named.yaml"}:' in said and not (tmp_path / "out").exists()
    assert 'workload.graph[0]: norm (layernorm): the design has no unit "Slow"; accepted: VectorUnit' in said


def test_an_operation_that_no_unit_can_do_is_refused_by_name() -> None:
    spec = plan().layers[0].spec
    (unit,) = spec.arch.units
    poor = replace(unit, operations={"add": unit.operations["add"]})
    with pytest.raises(FadiffError, match=r"norm \(layernorm\): no unit of the design does div, mac, mul, sqrt "):
        map_network(attention(), replace(spec, arch=replace(spec.arch, units=(poor,))))


def test_without_a_unit_for_its_corrections_a_softmax_takes_whole_rows() -> None:
    spec = plan().layers[0].spec
    (unit,) = spec.arch.units
    poor = replace(unit, operations={name: own for name, own in unit.operations.items() if name != "mul"})
    nodes = [node for node in attention().nodes if node.name not in ("norm", "scaled")]
    bare = build_workload("bare", [replace(node, inputs=tuple(
        {"norm": "x", "scaled": "qk"}.get(name, name) for name in node.inputs)) for node in nodes])
    (group,) = map_network(bare, replace(spec, arch=replace(spec.arch, units=(poor,)))).groups
    assert not group.group.one_pass and group.cost.operators


@pytest.mark.parametrize(("also", "running"), [("", {"M"}), ("relu", set()), ("dequantize", set())])
def test_a_softmax_runs_in_one_pass_if_nothing_behind_it_needs_finished_values(also: str, running: set[str]) -> None:
    (segment,) = segments(attention(also), 2)
    assert segment.links[0].running == running
    assert segment.whole == (frozenset() if running else {"M"},)


def test_long_attention_is_fused_in_one_pass() -> None:
    """Rows of 16,384 scores fill a quarter of the scratchpad; K and V do not fit beside them."""
    fused = plan(GEMMINI, tokens=16384)
    (group,) = fused.groups
    assert group.group.one_pass and fused.gain > 0.7
    assert group.cost == evaluate_group(fused.hardware, group.group)
    assert fused.gap is not None and fused.gap >= 0
    assert "these words alone are charged, as this design has no compute units" in network_html(fused)
    assert "softmax: in one pass over C" in plan_yaml(fused)


def test_query_heads_that_share_keys_and_values_are_rows_of_one_group() -> None:
    torch = pytest.importorskip("torch")

    class Attention(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, q: object, k: object, v: object) -> object:
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    q, k = (torch.empty(1, heads, 8192, 128, device="meta") for heads in (32, 8))
    (group,) = map_network(load_network(Attention(), (q, k, k)), GEMMINI, NetworkOptions(threads=1)).groups
    assert (group.group.repeat, group.group.layers[0].problem.bounds["N"]) == (8, 4 * 8192)
    assert group.group.one_pass and group.cost.edp < group.unfused.edp * 0.75
