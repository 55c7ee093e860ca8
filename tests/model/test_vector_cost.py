"""Operators on compute units, by hand."""

from __future__ import annotations

import dataclasses

import pytest

from fadiff_mapper import SpecError, load
from fadiff_mapper.fusion.prices import on_best_unit
from fadiff_mapper.model.vector_cost import vector_costs
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operations import vector_operator

TPU = "bundled:inference/tpu_v4i_like"
LAYER = "bundled:layers/llama3_8b_decode/fc_4096_1024"


def test_an_operator_takes_the_time_of_the_slowest_and_the_energy_of_all() -> None:
    spec = load(TPU, LAYER)
    softmax = vector_operator(Node("s", "softmax", ("x",), (1000, 2924), axes=(-1,)), [(1000, 2924)])
    (cost,), points = vector_costs(softmax, spec.arch, spec.tables), 1000 * 2924
    assert (cost.unit, cost.bound) == ("VectorUnit", "VectorUnit")  # 1 max, 2 add, 1 exp of 6 cycles, 1 div of 4
    assert cost.cycles == points * (1 + 2 + 6 + 4) / 128
    dram, buffer = 2 * 112.48, 2 * 30.08 + 2 * 37.76  # in and out, each written and read again on the way
    assert cost.energy_pj == pytest.approx(points * (0.00014 + 2 * 0.0408 + 0.504 + 0.177 + dram + buffer))
    sums = vector_operator(Node("a", "add", ("x", "y"), (1000,)), [(1000,), (1000,)])
    (cost,) = vector_costs(sums, spec.arch, spec.tables)
    assert (cost.cycles, cost.bound) == (pytest.approx(3000 / 292.38), "DRAM")  # shared by reads and writes


def test_an_operator_goes_to_the_unit_that_is_best_in_the_metric_accesses_included() -> None:
    spec = load(TPU, LAYER)
    (near,) = spec.arch.units  # takes its operands from the buffer
    fast = dataclasses.replace(near, name="Fast", lanes=4096)
    far = dataclasses.replace(near, name="Far", level=len(spec.arch.levels) - 1, lanes=32)  # from DRAM
    half = dataclasses.replace(near, name="Half", lanes=2 ** 20, operations={"add": near.operations["add"]})
    arch = dataclasses.replace(spec.arch, units=(far, near, half, fast))
    softmax = vector_operator(Node("s", "softmax", ("x",), (64, 64), axes=(-1,)), [(64, 64)])
    costs = vector_costs(softmax, arch, spec.tables)
    assert [cost.unit for cost in costs] == ["Far", "VectorUnit", "Fast"]
    assert costs[1].energy_pj - costs[0].energy_pj == pytest.approx(2 * 64 * 64 * (30.08 + 37.76))  # by the buffer
    assert [on_best_unit(costs, metric).unit for metric in ("energy", "delay", "edp")] == ["Far", "Fast", "Fast"]
    named = dataclasses.replace(softmax, unit="VectorUnit")
    assert [cost.unit for cost in vector_costs(named, arch, spec.tables)] == ["VectorUnit"]
    with pytest.raises(SpecError, match=r's \(softmax\): the design has no unit "Vector"; accepted: Far, Vec'):
        vector_costs(dataclasses.replace(softmax, unit="Vector"), arch, spec.tables)
    with pytest.raises(SpecError, match=r"no unit of the design does div, exp, max .*found: Half with add"):
        vector_costs(dataclasses.replace(softmax, unit="Half"), arch, spec.tables)
