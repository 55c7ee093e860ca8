"""Operators on compute units, by hand."""

from __future__ import annotations

import dataclasses

import pytest

from fadiff_mapper import load
from fadiff_mapper.model.vector_cost import vector_cost
from fadiff_mapper.workload.node import Node
from fadiff_mapper.workload.operations import vector_operator

TPU = "bundled:inference/tpu_v4i_like"
LAYER = "bundled:layers/llama3_8b_decode/fc_4096_1024"


def test_an_operator_takes_the_time_of_the_slowest_and_the_energy_of_all() -> None:
    spec = load(TPU, LAYER)
    softmax = vector_operator(Node("s", "softmax", ("x",), (1000, 2924), axes=(-1,)), [(1000, 2924)])
    cost, points = vector_cost(softmax, spec.arch, spec.tables), 1000 * 2924
    assert (cost.unit, cost.bound) == ("VectorUnit", "VectorUnit")  # 1 max, 2 add, 1 exp of 6 cycles, 1 div of 4
    assert cost.cycles == points * (1 + 2 + 6 + 4) / 128
    dram, buffer = 2 * 112.48, 2 * 30.08 + 2 * 37.76  # in and out, each written and read again on the way
    assert cost.energy_pj == pytest.approx(points * (0.00014 + 2 * 0.0408 + 0.504 + 0.177 + dram + buffer))
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
    assert vector_cost(sums, arch, spec.tables).unit == "VectorUnit"
