"""The branch and bound: its bounds are bounds, whole spaces agree with it, and what it says is what it knows."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_nests
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from small_specs import PRICES
from sparse_inputs import skipping_product
from strategies import SHAPES, Case, cases, packed_cases

from fadiff_mapper import FadiffError, load, map_layer
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, Term
from fadiff_mapper.inputs.spec.spec import METRICS, Spec
from fadiff_mapper.inputs.spec.tables import EnergyTable, Tables
from fadiff_mapper.kernel._kernel import LevelLoops
from fadiff_mapper.model.evaluate import Scores, score
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest, pack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.exhaustive import count, nests, whole_space
from fadiff_mapper.search.layer_family import first_of
from fadiff_mapper.search.lower_bound.assemble import lower_bound
from fadiff_mapper.search.lower_bound.proof import Loops, core_of, prove, schemes, units_below, unprovable
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace, orders_at
from fadiff_mapper.search.options import EFFORTS, SearchOptions
from fadiff_mapper.search.search_many import search_all

LAYERS = ("resnet18/conv3x3_64_64_56_s1", "resnet18/conv3x3_128_256_14_s2", "mobilenet_v1/dw3x3_256_28_s1")
MOST = 60_000


def values(scores: Scores, metric: str) -> np.ndarray:
    found = {"edp": scores.energy * scores.cycles, "energy": scores.energy, "delay": scores.cycles,
             "last_level_accesses": scores.last_level_accesses}[metric]
    return np.where(scores.legal, found, np.inf)


def scores_of(task: MappingTask, nest: Nest) -> Scores:
    """The scores of some mappings of a task, each in the task's room."""
    return score(task.layer, nest, room=task.room and Room(task.room.words[:, None].repeat(nest.batch, axis=-1),
                                                           task.room.counted[..., None].repeat(nest.batch, axis=-1)))


def best_and_worst(task: MappingTask, metric: str) -> tuple[float, Nest] | None:
    """The least value of all mappings of a space, and its worst legal mapping; None where none is legal."""
    best, worst, at = np.inf, -np.inf, None
    for nest in nests(whole_space(task.space), 1 << 14):
        found = values(scores_of(task, nest), metric)
        legal = np.where(np.isfinite(found), found, -np.inf)
        if legal.max() > worst:
            worst, at = legal.max(), nest.take(legal.argmax()[None])
        best = min(best, found.min())
    return (best, at) if at is not None else None


def agrees(task: MappingTask, metric: str) -> None:
    """Asserts that the proof from the worst mapping ends at the best one of all."""
    found = best_and_worst(task, metric)
    if found is None:
        return
    best, start = found
    proof = prove(task.layer, task.space, metric, start, room=task.room)
    assert proof.gap == 0
    assert proof.value == pytest.approx(best, rel=2e-9, abs=1e-9)
    assert values(scores_of(task, proof.nest), metric)[0] == pytest.approx(proof.value, rel=1e-12)


def tiny(case: Case, sizes: list[int], free: bool) -> MappingTask:
    """The space around a mapping: memories of some sizes, what it keeps fixed or free."""
    levels = tuple(replace(level, size=size, block_size=1 + size % 2) for level, size in
                   zip(case.arch.levels[:-1], sizes, strict=False)) + case.arch.levels[-1:]
    arch = replace(case.arch, levels=levels)
    said = [LevelConstraints(bypass=frozenset(case.problem.dataspace_names()) - level.keep, keep=level.keep)
            for level in case.mapping.levels]
    inner = [LevelConstraints()] * (len(levels) - 1) if free else said[:-1]
    return MappingTask(prepare_layer(arch, case.problem, PRICES),
                       build_mapspace(arch, case.problem, Constraints((*inner, said[-1]))))


machines = given(cases(SHAPES) | packed_cases(SHAPES), st.lists(st.integers(1, 60), min_size=3, max_size=3),
                 st.booleans(), st.sampled_from(METRICS))


@machines
def test_the_proof_ends_at_the_best_mapping_of_a_small_space(case: Case, sizes: list[int], free: bool,
                                                             metric: str) -> None:
    task = tiny(case, sizes, free)
    assume(count(task.space) <= MOST)
    agrees(task, metric)


@given(cases(SHAPES) | packed_cases(SHAPES), st.lists(st.integers(1, 60), min_size=3, max_size=3), st.booleans(),
       st.sampled_from(METRICS), st.lists(st.integers(0, 60), min_size=4, max_size=4),
       st.lists(st.booleans(), min_size=16, max_size=16))
def test_the_proof_ends_at_the_best_mapping_in_the_room_beside_other_tensors(
        case: Case, sizes: list[int], free: bool, metric: str, words: list[int], counted: list[bool]) -> None:
    task = tiny(case, sizes, free)
    assume(count(task.space) <= MOST)
    levels, spaces = len(task.space.levels), len(task.space.problem.dataspaces)
    left = np.array([*words[:levels - 1], np.inf])
    agrees(replace(task, room=Room(left, np.array(counted[:levels * spaces]).reshape(levels, spaces))), metric)


@machines
def test_no_mapping_is_below_the_bound_of_a_part_that_holds_it(case: Case, sizes: list[int], free: bool,
                                                               metric: str) -> None:
    task, nest = tiny(case, sizes, free), pack([case.mapping], case.problem)
    value = values(score(task.layer, nest), metric)[0]
    assume(np.isfinite(value))
    held(task, nest, metric, value)


def held(task: MappingTask, nest: Nest, metric: str, value: float) -> None:
    """Asserts that at each level some part with the mapping's factors has a bound of at most its value."""
    core = core_of(task.layer, task.space, metric)
    walk = schemes(task.layer, task.space)
    scheme = next(one for one in walk if one.spatial == nest.spatial.ravel().tolist()
                  and one.keep == nest.keep.ravel().tolist())
    assert core.begin(scheme, walk.layouts(scheme)) <= value * (1 + 1e-9)
    parts: list[Loops] = [()]
    for level in reversed(range(1, len(task.space.levels))):
        children = [(bound, (*outer, loops)) for outer in parts for bound, loops in core.divided(outer, np.inf)[1]
                    if loops.factors == nest.temporal[level, :, 0].tolist()]
        assert min(bound for bound, _ in children) <= value * (1 + 1e-9)
        parts = [outer for bound, outer in children if bound <= value * (1 + 1e-9)]


@pytest.mark.parametrize("design", ["eyeriss_like", "simba_like", "weight_stationary"])
@pytest.mark.parametrize("metric", ["edp", "delay", "energy", "share"])
def test_no_scheme_with_too_few_units_for_a_limit_has_a_bound_below_it(design: str, metric: str) -> None:
    task = mapping_task(shrunk(design, LAYERS[0], {"C": 8, "M": 4, "P": 4, "R": 3}))
    sums = (2e6, 300.0)
    core = core_of(task.layer, task.space, metric, sums)
    at_work = {(*scheme.spatial, *scheme.keep): math.prod(scheme.spatial) for scheme in schemes(task.layer, task.space)}

    def below(limit: float, units: float) -> dict[tuple[float, ...], float]:
        looked, found = core.begin_each(schemes(task.layer, task.space), limit, 1 << 30, units)
        assert looked == len(at_work)
        return {(*scheme.spatial, *scheme.keep): bound for bound, scheme in found}

    left_out = 0
    for limit in np.quantile(sorted(below(np.inf, 0.0).values()), [0, 0.01, 0.3, 1]):
        units = units_below(task.layer, metric, limit, sums)
        assert below(limit, units) == below(limit, 0.0)
        left_out += sum(some < units for some in at_work.values())
    if metric != "edp":     # the arithmetic has a small part of some designs' energy
        assert (left_out > 0) == (metric in ("delay", "share"))


@st.composite
def fanned_spaces(draw: st.DrawFn) -> MapSpace:
    """A map space of two levels, with meshes below both and constraints on their loops."""
    problem = Problem("tiny", dict(zip("CKPR", draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=4, max_size=4)),
                                       strict=True)), SHAPES["conv1d"])

    def limits() -> LevelConstraints:
        names, fixed = draw(st.permutations("CKPR")), draw(st.integers(0, 4))
        inner = draw(st.integers(0, fixed))
        spatial = LoopConstraint(inner=tuple(names[:inner]), outer=tuple(names[inner:fixed]),
                                 split=draw(st.none() | st.integers(0, 4)),
                                 fixed=dict.fromkeys(draw(st.sets(st.sampled_from("CKPR"), max_size=2)), 1))
        temporal = LoopConstraint(maximum=dict.fromkeys(draw(st.sets(st.sampled_from("CKPR"))), 2))
        return LevelConstraints(spatial=spatial, temporal=temporal)

    wide, high, below, along = (draw(st.integers(1, 3)) for _ in range(4))
    levels = (StorageLevel("L0", "SRAM", wide * high, wide, high, 8, 1, 1, None),
              StorageLevel("L2", "DRAM", 1, 1, 1, 8, 1, 1, None))
    arch = Architecture("tiny", levels, Arithmetic("MAC", "mac", wide * high * below * along, wide * below,
                                                   high * along, 8))
    constraints = Constraints((limits(), limits()), min_parallelism=draw(st.sampled_from([0.0, 0.0, 0.5])))
    return build_mapspace(arch, problem, constraints)


@given(fanned_spaces())
def test_schemes_and_their_layouts_are_all_combinations(space: MapSpace) -> None:
    bounds, names, dims = list(space.problem.bounds.values()), space.problem.dimensions, range(4)
    units = (space.architecture.arithmetic, space.architecture.levels[0])
    expected: dict[tuple[float, ...], set[object]] = {}
    for inner, outer in product(*(list(product(*(level.spatial.choices[name] for name in names)))
                                  for level in space.levels)):
        left = [bound // (i * o) for bound, i, o in zip(bounds, inner, outer, strict=True)]
        if any(bound % (i * o) for bound, i, o in zip(bounds, inner, outer, strict=True)):
            continue
        in_time = all(any(a * b == left[d] for a in space.levels[0].temporal.choices[name]
                          for b in space.levels[1].temporal.choices[name]) for d, name in enumerate(names))
        parallel = math.prod(inner) * math.prod(outer)
        placed = set()
        for whole in product(*(orders_at(space, 2 * level, [d for d in dims if factors[d] > 1])
                               for level, factors in enumerate((inner, outer)))):
            x = y = 1
            for unit, factors, (_, on_y) in reversed(list(zip(units, (inner, outer), whole, strict=True))):
                x *= math.prod(factors[d] for d in dims if d not in on_y)
                y *= math.prod(factors[d] for d in on_y)
                if x > unit.mesh_x or y > unit.mesh_y or x * y > unit.instances:
                    break
            else:
                placed.add(whole)
        if in_time and placed and parallel >= space.constraints.min_parallelism * space.available:
            expected[(*inner, *outer)] = placed
    walk, found = schemes(prepare_layer(space.architecture, space.problem, PRICES), space), {}
    for scheme in walk:
        loops = [[d for d in dims if scheme.spatial[4 * level + d] > 1] for level in range(2)]
        own = [tuple((tuple(layout.order[4 * level:4 * level + len(loops[level])]),
                      frozenset(d for d in loops[level] if layout.on_y[4 * level + d])) for level in range(2))
               for layout in walk.layouts(scheme)]
        assert len(own) == len(set(own))
        found.setdefault(tuple(scheme.spatial), []).append((tuple(scheme.keep), set(own)))
    assert {spatial: own[0][1] for spatial, own in found.items()} == expected
    keeps = {tuple(keep.ravel().tolist()) for keep in space.every_keep}
    assert all({keep for keep, _ in own} == keeps and len(own) == len(keeps) for own in found.values())


@machines
def test_no_mapping_of_choices_that_are_left_out_early_is_below_the_limit(case: Case, sizes: list[int], free: bool,
                                                                          metric: str) -> None:
    none_is_lost(tiny(case, sizes, free), metric, sum(sizes))


def none_is_lost(task: MappingTask, metric: str, seed: int) -> None:
    """Asserts of some divisions that the parts found below a limit are those with such bounds, and that others of them
    have no mapping below it."""
    def plain(parts: list[tuple[float, LevelLoops]]) -> list[tuple[float, list[float], list[int]]]:
        return [(bound, list(loops.factors), list(loops.order)) for bound, loops in parts]

    rng, core, walk = random.Random(seed), core_of(task.layer, task.space, metric), schemes(task.layer, task.space)
    every = list(islice(walk, 500))
    for scheme in rng.sample(every, min(5, len(every))):
        if core.begin(scheme, walk.layouts(scheme)) == np.inf:
            continue
        outer: Loops = ()
        while len(outer) < len(task.space.levels) - 1 and (parts := core.divided(outer, np.inf)[1]):
            limit = min(bound for bound, _ in parts) * rng.choice([1, 1.01, 1.2, 2, 5]) * (1 + 1e-9)
            below = [part for part in parts if part[0] < limit]
            found = plain(core.divided(outer, limit)[1])
            assert found == [part for part in plain(below) if part in found]
            for part, (_, loops) in zip(plain(below), below, strict=True):
                assert part in found or core.search((*outer, loops), np.inf, 1 << 20)[2] >= limit * (1 - 1e-9)
            outer = (*outer, rng.choice(below or parts)[1])


def test_the_last_dimension_may_be_the_one_that_slides_a_window() -> None:
    loops = {level: dict.fromkeys("CPQRS", 1) | own for level, own in enumerate(({"Q": 2}, {}, {"C": 2, "S": 2}))}
    levels = tuple(LevelMapping(loops[level], tuple("PQRSC"), dict.fromkeys("CPQRS", 1), tuple("CPQRS"), 5,
                                frozenset(kept)) for level, kept in enumerate(((), ("Inputs",), (
                                    "Weights", "Inputs", "Outputs"))))
    arch = Architecture("tiny", tuple(StorageLevel(f"L{level}", "SRAM", 1, 1, 1, 8, 1, 1, None) for level in range(3)),
                        Arithmetic("MAC", "mac", 1, 1, 1, 8))
    case = Case(arch, Problem("tiny", {"C": 2, "P": 1, "Q": 2, "R": 1, "S": 2}, SHAPES["strided"]), Mapping(levels))
    task, nest = tiny(case, [1, 4, 1], free=False), pack([case.mapping], case.problem)
    held(task, nest, "edp", values(score(task.layer, nest), "edp")[0])


def test_words_over_links_are_divided_by_the_receivers_of_all_instances() -> None:
    task = mapping_task(shrunk("eyeriss_like", LAYERS[0], {"C": 6, "M": 3, "R": 3, "S": 7, "Q": 8}))
    names, levels = task.space.problem.dimensions, len(task.space.levels)
    temporal, spatial = (np.ones((levels, len(names), 1)) for _ in range(2))
    for name, factor in {"C": 6, "R": 3, "Q": 8}.items():
        temporal[-1, names.index(name)] = factor
    spatial[3, names.index("S")], spatial[4, names.index("M")] = 7, 3  # three columns of seven neighbours each
    walk = schemes(task.layer, task.space)
    scheme = next(one for one in walk if np.array_equal(one.spatial, spatial.ravel()))
    layout = walk.layouts(scheme)[0]
    order, on_y = (np.array(part).reshape(levels, -1, 1) for part in (layout.order, layout.on_y))
    loops = np.tile(np.arange(len(names))[:, None], (levels, 1, 1))
    loops[-1, :, 0] = [names.index(name) for name in "QRCMSNP"]
    nest = Nest(temporal, spatial, loops, np.array(scheme.keep).reshape(levels, -1, 1), on_y.astype(bool), order)
    held(task, nest, "edp", values(score(task.layer, nest), "edp")[0])


def strided_window(coefficient: int) -> tuple[MappingTask, Nest]:
    """Four registers side by side, over both dimensions of a window, for 16 channels one after the other."""
    each, every = dict.fromkeys("CPR", 1), ("Inputs", "Weights", "Outputs")
    loops: tuple[tuple[dict[str, int], dict[str, int], tuple[str, ...]], ...] = (
        ({}, {}, ("Inputs",)), ({}, {"P": 2, "R": 2}, ()), ({"C": 16}, {}, every))
    levels = tuple(LevelMapping(each | temporal, tuple("CPR"), each | spatial, tuple("CPR"), 3, frozenset(kept))
                   for temporal, spatial, kept in loops)
    memories = tuple(StorageLevel(f"L{level}", "SRAM", instances, instances, 1, 8, 1, 1, None)
                     for level, instances in enumerate((4, 1, 1)))
    arch = Architecture("tiny", memories, Arithmetic("MAC", "mac", 4, 4, 1, 8))
    problem = Problem("tiny", {"C": 16, "P": 2, "R": 2}, (
        DataSpace("Inputs", ((Term("C"),), (Term("P", coefficient), Term("R"))), False),
        DataSpace("Weights", ((Term("C"),), (Term("R"),)), False), DataSpace("Outputs", ((Term("P"),),), True)))
    prices = Tables(ert=(EnergyTable("tiny.L0", {"read": 1.0, "write": 100.0, "leak": 0.0}), *(
        EnergyTable(f"tiny.L{level}", {"read": 1.0, "write": 1.0, "update": 1.0}) for level in (1, 2)),
        EnergyTable("tiny.MAC", {"compute": 0.0})))
    said = tuple(LevelConstraints(bypass=frozenset(every) - level.keep, keep=level.keep) for level in levels)
    task = MappingTask(prepare_layer(arch, problem, prices), build_mapspace(arch, problem, Constraints(said)))
    return task, pack([Mapping(levels)], problem)


@pytest.mark.parametrize("coefficient", [1, 2, 3])
def test_each_register_is_filled_with_its_own_words(coefficient: int) -> None:
    task, nest = strided_window(coefficient)
    held(task, nest, "energy", values(score(task.layer, nest), "energy")[0])


def test_a_coefficient_of_0_has_no_bound() -> None:
    task, _ = strided_window(0)
    assert unprovable(task.layer) == "a coefficient of 0"
    assert lower_bound(task.layer, task.space) is None


def test_a_loop_takes_back_one_step_of_each_loop_inside() -> None:
    """Neighbours hand words on although four taps lie inside the loop: its step goes back by one of them, not three."""
    task = mapping_task(shrunk("output_stationary", LAYERS[0], {"M": 6, "S": 4, "N": 2, "P": 20, "Q": 16}))
    names, levels = task.space.problem.dimensions, len(task.space.levels)
    temporal, spatial = (np.ones((levels, len(names), 1)) for _ in range(2))
    for level, name, factor in ((3, "M", 3), (3, "S", 4), (4, "N", 2), (4, "P", 5), (6, "Q", 2)):
        temporal[level, names.index(name)] = factor
    for name, factor in {"M": 2, "P": 4, "Q": 8}.items():
        spatial[2, names.index(name)] = factor
    walk = schemes(task.layer, task.space)
    scheme = next(one for one in walk if np.array_equal(one.spatial, spatial.ravel()))
    layout = walk.layouts(scheme)[0]
    order, on_y = (np.array(part).reshape(levels, -1, 1) for part in (layout.order, layout.on_y))
    loops = np.tile(np.array([names.index(name) for name in "SMNPQCR"])[:, None], (levels, 1, 1))
    nest = Nest(temporal, spatial, loops, np.array(scheme.keep).reshape(levels, -1, 1), on_y.astype(bool), order)
    for metric in METRICS[:2]:
        held(task, nest, metric, values(score(task.layer, nest), metric)[0])


def test_registers_side_by_side_are_bounded_by_the_loop_that_is_innermost() -> None:
    spec = load(find("arch/output_stationary"), find("layers/resnet18/conv1x1_128_256_14_s2"))
    task, start = mapping_task(spec), map_layer(spec)
    by_tiles = lower_bound(task.layer, task.space)
    assert by_tiles is not None and start.value > 1.1 * by_tiles.edp
    proof = prove(task.layer, task.space, "edp", pack([start.mapping], spec.problem), budget=30_000)
    assert proof.gap == 0


@pytest.mark.slow
@given(st.sampled_from(sorted(designs())), st.sampled_from(LAYERS), st.sampled_from(METRICS), st.integers(0, 99))
@settings(max_examples=20)
def test_no_mapping_of_a_design_is_below_the_bound_of_a_part_that_holds_it(design: str, layer: str, metric: str,
                                                                           seed: int) -> None:
    task = mapping_task(load(find(f"arch/{design}"), find(f"layers/{layer}")))
    drawn = random_nests(task.layer, task.space, 200, seed)
    found = values(score(task.layer, drawn), metric)
    for index in np.flatnonzero(np.isfinite(found))[:1]:
        held(task, drawn.take(index[None]), metric, found[index])


@pytest.mark.slow
@given(st.sampled_from(sorted(designs())), st.sampled_from(LAYERS), st.sampled_from(METRICS), st.integers(0, 99))
@settings(max_examples=20)
def test_no_mapping_of_choices_of_a_design_that_are_left_out_early_is_below_the_limit(design: str, layer: str,
                                                                                      metric: str, seed: int) -> None:
    none_is_lost(mapping_task(load(find(f"arch/{design}"), find(f"layers/{layer}"))), metric, seed)


@pytest.mark.slow
@pytest.mark.parametrize("design", sorted(designs()))
@pytest.mark.parametrize(("layer", "bounds"), [
    (LAYERS[0], {"M": 4, "C": 2, "P": 6, "R": 3}), (LAYERS[1], {"M": 2, "C": 2, "P": 3, "R": 3}),
    (LAYERS[2], {"G": 2, "P": 4, "Q": 2, "R": 3}), (LAYERS[0], {"M": 6, "C": 6, "P": 4})])
def test_the_proof_ends_at_the_best_mapping_of_a_small_layer(design: str, layer: str, bounds: dict[str, int]) -> None:
    task = mapping_task(shrunk(design, layer, bounds))
    for metric in METRICS[:3]:
        agrees(task, metric)


def shrunk(design: str, layer: str, bounds: dict[str, int]) -> Spec:
    spec = load(find(f"arch/{design}"), find(f"layers/{layer}"))
    return replace(spec, problem=replace(spec.problem, bounds={name: bounds.get(name, 1)
                                                               for name in spec.problem.bounds}))


def gemm(design: str = "gemmini_small") -> Spec:
    return load(find(f"arch/{design}"), find("layers/gpt3_6b7_block/gemm_2048_4096_4096"))


@pytest.mark.parametrize("design", ["gemmini_small", "gemmini_large"])
def test_a_matrix_product_is_proved(design: str) -> None:
    result = map_layer(gemm(design), prove=True)
    assert result.gap == 0
    assert result.status.startswith("proved: no mapping is better; ")
    assert result.value <= map_layer(gemm(design)).value * (1 + 1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_the_bound_of_a_scheme_holds_for_every_layout(metric: str) -> None:
    """Neighbours hand on words of windows, at other places in each layout."""
    task = mapping_task(load(find("arch/output_stationary"), find("layers/resnet18/conv3x3_256_256_14_s1")))
    core, walk, linked = core_of(task.layer, task.space, metric), schemes(task.layer, task.space), 0
    for scheme in walk:
        placed = walk.layouts(scheme)
        bounds = [core.begin(scheme, [layout]) for layout in placed]
        anywhere, placed_bound = (core.begin(scheme, known) for known in ([], placed))
        assert anywhere <= placed_bound <= min(bounds, default=math.inf)
        linked += anywhere < placed_bound
    assert linked > 10 or metric in ("delay", "last_level_accesses")  # words that are handed on save energy


def test_a_proof_from_any_mapping_holds_of_the_best_one_known() -> None:
    """Neighbours hand on words here, so that the bound of a scheme by one layout is above mappings in other layouts."""
    task = mapping_task(load(find("arch/output_stationary"), find("layers/resnet18/conv3x3_256_256_14_s1")))
    found = [search_all([task], SearchOptions(("edp",), threads=1, effort=replace(EFFORTS["short"], proof=budget)))[0]
             for budget in (0, 30_000)]
    assert all(outcome.least is None or outcome.least <= math.exp(min(own.value for own in found)) * (1 + 1e-9)
               for outcome in found)
    first = first_of(task.family, 0)
    assert first is not None
    proof = prove(task.layer, task.space, "edp", first, budget=100_000)
    assert proof.least <= math.exp(min(own.value for own in found)) * (1 + 1e-9)


@pytest.mark.parametrize("split", [None, 0, 1, 2])
@pytest.mark.parametrize("fanout", [(4, 1), (1, 4), (4, 4)])
def test_loops_of_one_iteration_lie_where_constraints_would_have_them_with_more(split: int | None,
                                                                               fanout: tuple[int, int]) -> None:
    """The chains go on from a mapping of the proof, and may give a loop more iterations where it lies."""
    problem, (wide, high) = Problem("tiny", dict.fromkeys("CKPR", 2), SHAPES["conv1d"]), fanout
    memory = StorageLevel("L2", "DRAM", 1, 1, 1, 8, 1, 1, None)
    arch = Architecture("tiny", (memory,), Arithmetic("MAC", "mac", wide * high, wide, high, 8))
    space = build_mapspace(arch, problem, Constraints((LevelConstraints(spatial=LoopConstraint(split=split)),)))
    wired = [d for d, name in enumerate(problem.dimensions) if space.levels[0].axes[name]]
    allowed = {on_y for _, on_y in orders_at(space, 0, wired)}
    walk = schemes(prepare_layer(space.architecture, space.problem, PRICES), space)
    found = [frozenset(d for d in wired if layout.on_y[d]) for scheme in walk for layout in walk.layouts(scheme)]
    assert found and allowed.issuperset(found)


def test_a_scheme_without_layouts_is_not_searched() -> None:
    task = mapping_task(gemm())
    core, scheme = core_of(task.layer, task.space, "edp"), next(iter(schemes(task.layer, task.space)))
    core.begin(scheme, [])
    with pytest.raises(ValueError, match="layouts: a scheme that was begun without any is bounded alone"):
        core.search((), math.inf, 10)


def test_without_time_there_is_an_answer_with_its_gap() -> None:
    task = mapping_task(gemm())
    start = map_layer(gemm(), time_limit=0.05)
    nest = pack([start.mapping], start.spec.problem)
    proof = prove(task.layer, task.space, "edp", nest, over=lambda: True)
    assert proof.gap > 0
    assert proof.nest is nest
    assert proof.least <= prove(task.layer, task.space, "edp", nest).value
    assert "above the best" in proof.sentence


def test_a_space_with_more_schemes_than_can_be_looked_at_is_left_unproved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fadiff_mapper.search.lower_bound.proof.SURE", 3)
    task, start = mapping_task(gemm()), map_layer(gemm(), time_limit=0.05)
    proof = prove(task.layer, task.space, "edp", pack([start.mapping], start.spec.problem), budget=3)
    assert (proof.least, proof.gap, proof.parts) == (0.0, math.inf, 3)
    assert proof.sentence.startswith("nothing is proved; 3 parts")


def test_of_several_metrics_the_proof_names_the_one_that_it_is_about() -> None:
    spec = load("bundled:arch/gemmini_large", "bundled:layers/resnet18/fc_512_1000")
    status = map_layer(spec, SearchOptions(metrics=("edp", "energy"), prove=True)).status
    assert status.startswith("proved: no mapping is better") and status.endswith("(in edp, the first metric)")
    assert "first metric" not in map_layer(spec, prove=True).status


def test_a_gap_ends_a_proof_early() -> None:
    whole, near = (map_layer(gemm(), prove=True, gap=gap) for gap in (0.0, 0.5))
    assert near.gap is not None
    assert near.gap <= 0.5
    assert whole.value <= near.value <= whole.value * 1.5


@pytest.mark.parametrize(("options", "said"), [
    (["--prove", "--gap", "-1"], "gap: found -1.0; accepted: a share of 0 or more, such as 0.01"),
    (["--prove", "--gap", "inf"], "gap: found inf; accepted: a share of 0 or more, such as 0.01"),
    (["--gap", "0.1"], "gap: found without prove; accepted: both, or neither"),
    (["--prove", "--imperfect"], "proof: found with imperfect factors; accepted: one of them")])
def test_a_proof_that_cannot_be_is_refused(options: list[str], said: str, tmp_path: Path,
                                           capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(find(name)) for name in ("arch/gemmini_small", "layers/resnet18/fc_512_1000")]
    assert main(["map", *files, "-o", str(tmp_path / "out"), *options]) == 2
    assert capsys.readouterr().err.strip() == f"error: {said}"
    assert not (tmp_path / "out").exists()


def test_a_sparse_design_is_refused() -> None:
    with pytest.raises(FadiffError, match="a proof is asked for, found with densities or sparse optimizations"):
        map_layer(skipping_product({"A": 0.5}), prove=True)


def test_the_gap_stands_in_the_record(tmp_path: Path) -> None:
    map_layer(gemm(), prove=True).write(tmp_path)
    record = json.loads((tmp_path / "fadiff.result.json").read_text(encoding="utf-8"))
    assert record["gap"] == 0
    assert record["bound"]["sentence"].startswith("EDP is the best possible; bound: ")
