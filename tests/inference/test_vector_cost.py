"""Operators on compute units, by hand, and beside the plan of a network."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fadiff_mapper import load, load_network, map_network
from fadiff_mapper.inference.vector_cost import costs_by_unit, vector_cost
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.output.terminal.networks import print_plan
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operations import vector_operator

TPU = "bundled:inference/tpu_v4i_like"
LAYER = "bundled:layers/llama3_8b_decode/fc_4096_1024"


def test_an_operator_takes_the_time_of_the_slowest_and_the_energy_of_all() -> None:
    spec = load(TPU, LAYER)
    softmax = vector_operator(Node("s", "softmax", ("x",), (1000, 2924), axes=(-1,)), [(1000, 2924)])
    cost, points = vector_cost(softmax, spec.arch, spec.tables), 1000 * 2924
    assert (cost.unit, cost.bound) == ("VectorUnit", "VectorUnit")  # 1 max, 2 add, 1 exp of 7 cycles, 1 div of 4
    assert cost.cycles == points * (1 + 2 + 7 + 4) / 128
    dram, buffer = 2 * 112.48, 2 * 30.08 + 2 * 37.76  # in and out, each written and read again on the way
    assert cost.energy_pj == pytest.approx(points * (0.00014 + 2 * 0.0408 + 0.545 + 0.177 + dram + buffer))
    sums = vector_operator(Node("a", "add", ("x", "y"), (1000,)), [(1000,), (1000,)])
    assert vector_cost(sums, spec.arch, spec.tables).cycles == pytest.approx(3000 / 292.38)  # DRAM, shared
    assert vector_cost(sums, spec.arch, spec.tables).bound == "DRAM"


def test_the_fastest_unit_takes_an_operator() -> None:
    spec = load(TPU, LAYER)
    (slow,) = spec.arch.units
    softmax = vector_operator(Node("s", "softmax", ("x",), (64, 64), axes=(-1,)), [(64, 64)])
    fast = dataclasses.replace(slow, name="Fast", lanes=4096)
    half = dataclasses.replace(slow, name="Half", lanes=2 ** 20, operations={"add": slow.operations["add"]})
    arch = dataclasses.replace(spec.arch, units=(slow, half, fast))
    assert vector_cost(softmax, arch, spec.tables).unit == "Fast"
    sums = vector_operator(Node("a", "add", ("x", "y"), (64,)), [(64,), (64,)])  # DRAM bounds all of them
    assert costs_by_unit([softmax, sums], arch, spec.tables).keys() == {"Fast", "VectorUnit"}


@pytest.mark.slow
def test_a_plan_says_what_its_other_operators_cost_on_units(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    network = load_network("bundled:networks/llama3_8b_decode")
    result = map_network(network, TPU, time_limit=5, output=tmp_path)
    spec = load(TPU, LAYER)
    (cycles, energy), = costs_by_unit(network.vector_operators(), spec.arch, spec.tables).values()
    plan = load_file(tmp_path / "plan.yaml")["plan"]
    assert plan["units_cost"] == {"VectorUnit": {"energy_pj": pytest.approx(energy), "cycles": pytest.approx(cycles)}}
    print_plan(result, "out")
    assert f"on VectorUnit, unfused: {energy / 1e6:.6g} uJ, {cycles:.0f} cycles" in " ".join(
        capsys.readouterr().out.split())
