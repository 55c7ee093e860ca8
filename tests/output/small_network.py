"""A mapped network of three layers, two of them fused, and a name that is dangerous in HTML and in templates."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from fused_groups import gemmini, group, hardware, mapping

from fadiff_mapper.fusion.group_cost import group_cost
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.network.result import GroupInNetwork, LayerInNetwork, NetworkResult
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Node, OperatingPoint, build_workload
from fadiff_mapper.workload.operator import make_operator

HOSTILE = '<script>alert("x")</script>&{{ 7*7 }}'


def spec_of(problem: Problem) -> Spec:
    return replace(gemmini(), problem=problem)


@cache
def result(second: str = "second", fused: bool = True) -> NetworkResult:
    """Three convolutions, the first two in a group of three steps."""
    sizes = {"first": (2, 3, 14), second: (3, 2, 12), "third": (2, 2, 10)}
    layers = {name: make_operator("conv", {"N": 1, "M": m, "C": c, "P": p, "Q": 4, "R": 3, "S": 1})
              for name, (c, m, p) in sizes.items()}
    nodes = [Node("image", "input", shape=(1, 2, 16, 4))]
    for name, layer in layers.items():
        nodes.append(Node(name, "conv", (nodes[-1].name,), layer=layer, operands=("Inputs",)))
    workload = build_workload("three", nodes)
    outcomes = []
    for entry in workload.distinct():
        spec, own = spec_of(entry.layer.problem), mapping(tuple(entry.layer.problem.bounds.values()))
        found = Result(spec, own, evaluate_mapping(spec, own), "given", (), {}, 1, 0.0)
        outcomes.append(LayerInNetwork(entry.nodes, entry.times, found))
    unfused = workload.totals([(one.stats.energy_pj, one.stats.cycles) for one in outcomes])
    chain = group([layers["first"].problem, layers[second].problem], [("P", 4)], "P")
    cost = group_cost(hardware(), chain)
    before = OperatingPoint(sum(one.stats.energy_pj for one in outcomes[:2]),
                            sum(one.stats.cycles for one in outcomes[:2]))
    last = outcomes[2].stats
    planned = OperatingPoint(cost.energy_pj + last.energy_pj, round(cost.cycles) + last.cycles) if fused else unfused
    groups = (GroupInNetwork(("first", second), chain, cost, before, (1.0,)),) if fused else ()
    return NetworkResult(workload, hardware(), tuple(outcomes), groups, planned, unfused, (), {"seed": 0}, "given", 1.5)
