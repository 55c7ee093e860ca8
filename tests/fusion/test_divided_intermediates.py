"""Intermediates that instances of a level divide among them: each instance uses the share that it has made."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import cache
from itertools import product
from math import prod

import pytest
import yaml

from fadiff_mapper import NetworkOptions, NetworkResult, load, map_network
from fadiff_mapper.fusion.fused_group import FusedGroup
from fadiff_mapper.fusion.group_legality import group_violations
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.output.looptree import beyond_looptree
from fadiff_mapper.output.network_files import plan_yaml
from fadiff_mapper.workload import Node, Workload, build_workload, make_operator


@cache
def machine(registers: int = 64, kept: str = "Inputs Weights Outputs") -> Spec:
    """DRAM, a buffer, two rows of two units each, whose registers keep some tensors."""
    def memory(name: str, entries: int, energy: float, **mesh: int) -> dict[str, object]:
        return {"name": name, "class": "SRAM", "attributes": {
            "word-bits": 16, "entries": entries, "vector-access-energy": energy, **mesh}}
    units = [memory("DRAM", 1 << 30, 200.0) | {"class": "DRAM"}, memory("Buffer", 4096, 20.0),
             memory("Row[0..1]", 64, 4.0, meshX=1), memory("Registers[0..3]", registers, 0.1, meshX=2),
             {"name": "MAC[0..3]", "class": "intmac", "attributes": {"datawidth": 16, "meshX": 2}}]
    every = ["Inputs", "Weights", "Outputs"]
    bounds = {"N": 64, "C": 4, "M": 8, "P": 1, "Q": 1, "R": 1, "S": 1}
    return load({"problem": make_operator("gemm", bounds).literal,
                 "architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": units}]},
                 "mapspace_constraints": {"targets": [{"target": "Registers", "type": "bypass", "keep": kept.split(),
                                                       "bypass": [name for name in every if name not in kept]},
                                                      {"target": "Row", "type": "bypass", "bypass": every}]}})


def products(rows: int = 64, wide: int = 8) -> Workload:
    """Two matrix products, one after the other."""
    def gemm(name: str, before: str, summed: int, columns: int) -> Node:
        bounds = {"N": rows, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1}
        return Node(name, "gemm", (before,), layer=make_operator("gemm", bounds), operands=("Inputs",))
    return build_workload("products", [Node("x", "input", shape=(rows, 4)), gemm("first", "x", 4, wide),
                                       gemm("second", "first", wide, 4)])


@cache
def planned(metric: str = "energy") -> NetworkResult:
    return map_network(products(), machine(), NetworkOptions(metric=metric, threads=1))


def divided_group() -> FusedGroup:
    (own,) = planned().groups
    return own.group


def points_by_instance(mapping: Mapping, problem: Problem, dims: tuple[str, ...],
                       home: int) -> dict[tuple[int, ...], set[tuple[int, ...]]]:
    """Instance of the level `home` -> points along some dimensions on which it works, by a walk through all loops."""
    # for each dimension its loops, innermost first: number of steps, and whether they choose an instance of the level
    loops = {dim: [(factor, chosen) for index, level in enumerate(mapping.levels)
                   for factor, chosen in ((level.spatial[dim], index > home), (level.temporal[dim], False))]
             for dim in problem.dimensions}
    places = []     # of each dimension, its points, each with the digits of its instance
    for dim in problem.dimensions:
        found = []
        for digits in product(*(range(factor) for factor, _ in loops[dim])):
            point, weight = 0, 1
            for digit, (factor, _) in zip(digits, loops[dim], strict=True):
                point, weight = point + digit * weight, weight * factor
            found.append((point, tuple(digit for digit, (_, chosen) in zip(digits, loops[dim], strict=True) if chosen)))
        places.append(found)
    result = defaultdict(set)
    for each in product(*places):
        at = dict(zip(problem.dimensions, each, strict=True))
        # digits level by level: each level divides one dimension
        instance = tuple(max(level) for level in zip(*(digits for _, digits in each), strict=True))
        result[instance].add(tuple(at[dim][0] for dim in dims))
    return dict(result)


def test_each_instance_uses_the_words_that_it_has_made() -> None:
    group, levels = divided_group(), planned().hardware.arch.level_names()
    (link,), home = group.links, levels.index("Registers")
    assert link.stay.level == "Registers" and prod(number for *_, number in link.stay.shares) == 4
    first, second = group.layers
    made_along, used_along = tuple(link.dims), tuple(link.dims.values())
    for shape, mapping in second.mappings.items():
        used = points_by_instance(mapping, second.problem, used_along, home)
        bounds = dict(zip(second.problem.dimensions, shape, strict=True))
        (making,) = (own for made, own in first.mappings.items() if all(
            dict(zip(first.problem.dimensions, made, strict=True))[own] == bounds[theirs]
            for own, theirs in link.dims.items()))
        made = points_by_instance(making, first.problem, made_along, home)
        assert made == used and len(made) == 4
        assert len(set().union(*made.values())) == sum(map(len, made.values()))     # no word is in two instances


def test_no_word_of_the_intermediate_leaves_the_registers() -> None:
    (own,), words = planned().groups, 64 * 8
    first, second = own.cost.layers
    for level in ("Row", "Buffer", "DRAM"):
        assert (level, "Outputs") not in first.traffic and (level, "Inputs") not in second.traffic
    assert first.traffic["Registers", "Outputs"].updates == words * 4     # one for each summand
    assert second.traffic["Registers", "Inputs"].reads == words * 4       # one for each multiply-accumulate
    assert second.traffic["Registers", "Inputs"].fills == 0


def test_a_plan_with_divided_intermediates_is_better_and_above_its_bound() -> None:
    """Where constraints keep outputs out of the registers, nothing can be divided."""
    for metric in ("energy", "edp", "delay"):
        plan = planned(metric)
        value = {"energy": plan.stats.energy_pj, "edp": plan.stats.edp, "delay": plan.stats.cycles}[metric]
        assert plan.bound is not None and plan.bound <= value
    other = map_network(products(), machine(kept="Inputs Weights"), NetworkOptions(metric="energy", threads=1))
    assert planned().stats.energy_pj < other.stats.energy_pj
    assert not any(link.stay.shares for own in other.groups for link in own.group.links)


def test_the_plan_names_the_shares() -> None:
    (intermediate,) = yaml.safe_load(plan_yaml(planned()))["plan"]["groups"][0]["intermediates"]
    assert [own["instances"] for own in intermediate["shares"]] == [2, 2]
    reasons = beyond_looptree(divided_group(), planned().hardware, False)
    assert reasons == ["instances of a level divide an intermediate among them"]


@pytest.mark.parametrize(("change", "constraint"), [
    (lambda stay: replace(stay, shares=()), "level"),
    (lambda stay: replace(stay, shares=stay.shares[:1]), "share"),
    (lambda stay: replace(stay, shares=((stay.shares[0][0], stay.shares[0][1], 4), stay.shares[1])), "share"),
    (lambda stay: replace(stay, shares=tuple(("Registers", *share[1:]) for share in stay.shares[:1])), "share"),
    (lambda stay: replace(stay, shares=tuple((level, "C", number) for level, _, number in stay.shares)), "share")])
def test_groups_are_refused_whose_instances_work_on_other_shares(change: object, constraint: str) -> None:
    group = divided_group()
    assert not group_violations(planned().hardware, group)
    (link,) = group.links
    broken = replace(group, links=(replace(link, stay=change(link.stay)),))     # type: ignore[operator]
    assert group_violations(planned().hardware, broken)[0].constraint == constraint


def test_a_share_needs_room_in_its_instance() -> None:
    group, hardware = divided_group(), planned().hardware
    small = replace(hardware, arch=machine(registers=4).arch)
    assert "capacity" in {violation.constraint for violation in group_violations(small, group)}


def test_layers_that_use_windows_of_the_intermediate_do_not_divide_it_along_these() -> None:
    group = divided_group()
    (link,) = group.links
    (dim, *_) = (dim for _, dim, _ in link.stay.shares)
    padded = replace(link, padding={link.dims[dim]: 1})
    broken = group_violations(planned().hardware, replace(group, links=(padded,)))
    assert any("slide" in violation.reason for violation in broken if violation.constraint == "share")
