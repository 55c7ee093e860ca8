"""The compiled scores are those of the array form, bit for bit: on bundled designs, and on layers of every kind.

The traffic over each boundary is counted by the compiled code for both; `tests/model` holds it to Timeloop's recorded
counts, to its walk call by call and to the closed forms.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_mapping
from hypothesis import given
from hypothesis import strategies as st
from kernel_parts import parts as kernel_parts
from kernel_parts import scores_of, unrounded_scores
from strategies import WIDTHS, Case, batches, cases, switched_cases

from fadiff_mapper import load
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.inputs.spec.arch import Architecture, Interconnect, StorageLevel
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import EnergyTable, Tables
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import EXACT, UNROUNDED, Scores, evaluate_nest, score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.legality import Room
from fadiff_mapper.model.loop_nest import Nest, cut_off, joined, nest_arrays, pack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.search.layer_family import family_of
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.refinement import compiled_space

PROBLEMS = {
    "conv": ("problems/conv", {"C": 16, "M": 24, "P": 14, "Q": 14, "R": 3, "S": 3}),
    "strided": ("layers/resnet18/conv3x3_64_128_28_s2", {"C": 6, "M": 8, "P": 12, "Q": 9, "R": 5, "S": 3}),
    "gemm": ("problems/conv", {"C": 48, "M": 32, "N": 36}),
    "depthwise": ("problems/depthwise", {"G": 32, "P": 14, "Q": 14, "R": 3, "S": 3}),
    "grouped": ("problems/grouped_conv", {"G": 4, "C": 4, "M": 6, "P": 7, "Q": 7, "R": 5, "S": 3}),
    "matmul": ("problems/matmul", {"C": 48, "M": 32, "N": 36}),
    "batched": ("problems/batched_matmul", {"G": 3, "C": 96, "M": 64, "N": 32}),
}
"""Bundled shapes with small bounds, so that many random mappings fit."""

WITHOUT_WINDOWS = ("matmul", "batched")
"""Shapes that lack the dimensions which the constraints of all designs but one name."""

MERITS = ("cycles", "energy", "last_level_accesses")


def assert_equal(layer: PreparedLayer, nest: Nest, room: Room | None = None) -> Scores:
    """Compares the two forms, the hops of unpriced networks left out of the arrays and counted there.

    The octaves of broken limits agree to the rounding of a logarithm, which NumPy takes several at a time.
    """
    found = score(layer, nest, room=room)
    for details in (False, True):
        expected = scores_of(evaluate_nest(layer, nest, details=details, room=room))
        np.testing.assert_array_equal(found.legal, expected.legal)
        np.testing.assert_allclose(found.excess, expected.excess, rtol=1e-14)
        for name in MERITS:
            np.testing.assert_array_equal(getattr(found, name)[found.legal], getattr(expected, name)[found.legal], name)
    return found


def specified(design: str, name: str) -> Spec:
    """A problem on a bundled design."""
    shape, sizes = PROBLEMS[name]
    spec = load(find(f"arch/{design}"), find(shape))
    return replace(spec, problem=replace(spec.problem, bounds=dict.fromkeys(spec.problem.dimensions, 1) | sizes))


def drawn(layer: PreparedLayer, spec: Spec, count: int) -> Nest:
    """Random mappings within the constraints, and mappings that random moves lead to from the least illegal ones."""
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    table = compiled_space(family_of(layer, [space]), 0)
    nest = Nest(*kernel_parts.random_points(layer.compiled, table, count, 0)[:6])
    parts = [nest]
    for step in range(4):
        best = nest.take(np.argsort(score(layer, nest).excess, kind="stable")[:count // 4])
        near = kernel_parts.random_neighbours(layer.compiled, table, nest_arrays(best), 8, step)
        nest = joined([best, Nest(*near[:6])])
        parts.append(nest)
    return joined(parts)


@pytest.mark.parametrize(("design", "problem"), [
    (design, problem) for problem in PROBLEMS for design in designs()
    if problem not in WITHOUT_WINDOWS or design == "weight_stationary"])
def test_random_mappings_of_bundled_designs(design: str, problem: str) -> None:
    spec = specified(design, problem)
    layer = layer_of(spec)
    scores = assert_equal(layer, drawn(layer, spec, 100))
    assert scores.legal.sum() > 50 and not scores.legal.all()
    rng = random.Random(f"{design}/{problem}")
    free = pack([random_mapping(spec.arch, spec.problem, rng) for _ in range(20)], spec.problem)
    assert assert_equal(layer, free).legal.any()


@pytest.mark.parametrize("design", ["gemmini_large", "simba_like"])
def test_mappings_beside_what_lies_there_already(design: str) -> None:
    spec = specified(design, "conv")
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    nest, rng = drawn(layer, spec, 100), np.random.default_rng(3)
    size = np.array([level.usable or 1 << 30 for level in spec.arch.levels], dtype=float)[:, None]
    room = Room(np.floor(size * rng.random((len(size), nest.batch)) ** 4), rng.random(nest.keep.shape) < 0.7)
    legal = assert_equal(layer, nest, room).legal
    assert 0 < legal.sum() < score(layer, nest).legal.sum()


RATES = st.sampled_from([None, 0.5, 1.25, 3.0])
ENERGIES = st.sampled_from([0.0, 0.3, 1.7])


@st.composite
def levels(draw: st.DrawFn, level: StorageLevel, gates: list[str], names: tuple[str, ...]) -> StorageLevel:
    """The level with sizes, energies and bandwidths that Timeloop knows."""
    wires = replace(level.interconnect, energy_per_hop=draw(ENERGIES), router_energy=draw(ENERGIES),
                    energy_per_ingress=draw(ENERGIES), fill_latency=draw(st.integers(0, 3)),
                    drain_latency=draw(st.integers(0, 3)), reduction_supported=draw(st.booleans()))
    return replace(
        level, word_bits=draw(st.sampled_from([8, 12, 32])), size=draw(st.sampled_from([None, 4, 24, 160])),
        multiple_buffering=draw(st.sampled_from([1.0, 2.0])),
        min_utilization=draw(st.sampled_from([0.0, 0.0, 0.25])), block_size=draw(st.sampled_from([1, 4])),
        cluster_size=draw(st.sampled_from([n for n in (1, 2, 3) if level.instances % n == 0])),
        read_bandwidth=draw(RATES), write_bandwidth=draw(RATES), shared_bandwidth=draw(RATES),
        bandwidth_scale=draw(st.dictionaries(st.sampled_from(names), st.sampled_from([0.5, 1.5]))),
        vector_access_energy=draw(st.sampled_from([None, 2.3])), addr_gen_energy=draw(ENERGIES),
        power_gated_at=draw(st.sampled_from([None, *gates])),
        interconnect=draw(st.sampled_from([Interconnect(8), wires])))


@st.composite
def priced_designs(draw: st.DrawFn, arch: Architecture, names: tuple[str, ...]) -> tuple[Architecture, Tables]:
    """An architecture with everything that costs cycles or energy; a level is gated by one further out, if at all."""
    found = tuple(draw(levels(level, [outer.name for outer in arch.levels[at:]], names))
                  for at, level in enumerate(arch.levels))
    actions = draw(st.fixed_dictionaries({name: st.floats(0.1, 9) for name in ("read", "write", "update", "leak")}))
    ert = tuple(EnergyTable(level.name, actions) for level in draw(st.sampled_from([(), arch.levels])))
    return replace(arch, levels=found), Tables(ert)


@st.composite
def layers(draw: st.DrawFn) -> tuple[PreparedLayer, Nest]:
    """A layer of any kind and mappings of it, of which the first was not made for its sizes."""
    one: Case
    several: list[Case]
    several = draw(batches() | st.builds(lambda case: [case], cases() | switched_cases()))
    one = several[0]
    problem = replace(one.problem, dataspaces=tuple(replace(space, bits=draw(WIDTHS))
                                                    for space in one.problem.dataspaces))
    arch, tables = draw(priced_designs(one.arch, problem.dataspace_names()))
    layer = prepare_layer(arch, problem, tables, reuse_of(one.mapping, problem.dataspace_names()))
    return layer, pack([case.mapping for case in several], problem)


@given(layers())
def test_layers_of_every_kind(found: tuple[PreparedLayer, Nest]) -> None:
    assert_equal(*found)


@given(layers(), st.data())
def test_layers_of_every_kind_beside_what_lies_there_already(found: tuple[PreparedLayer, Nest], data: Any) -> None:
    layer, nest = found
    shape = len(nest.temporal), nest.batch
    words = data.draw(st.lists(st.integers(0, 60), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    flags = data.draw(st.lists(st.booleans(), min_size=nest.keep.size, max_size=nest.keep.size))
    counted = np.array(flags).reshape(nest.keep.shape)
    assert_equal(layer, nest, Room(np.array(words, dtype=float).reshape(shape), counted))


def test_a_batch_is_scored_alike_whole_in_parts_and_by_threads() -> None:
    spec = specified("eyeriss_like", "conv")
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    nest = drawn(layer, spec, 1200)
    whole = score(layer, nest)
    parts = [score(layer, nest.take(slice(first, first + 37))) for first in range(0, 370, 37)]
    threaded = score(layer, nest, threads=3)
    for name in Scores.__dataclass_fields__:
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]),
                                      getattr(whole, name)[:370])
        np.testing.assert_array_equal(getattr(threaded, name), getattr(whole, name))


def test_with_all_counts_illegal_mappings_have_the_numbers_of_the_arrays_too() -> None:
    spec = specified("gemmini_small", "conv")
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    nest = drawn(layer, spec, 100)
    out = np.empty((5, nest.batch))
    _kernel.score(layer.compiled, nest_arrays(nest), None, None, out, 0, nest.batch, True)
    expected = scores_of(evaluate_nest(layer, nest))
    homed = nest.keep.any(axis=0).all(axis=0)
    assert (homed & ~expected.legal).any()
    for row, name in enumerate(MERITS):
        np.testing.assert_array_equal(out[row, homed], getattr(expected, name)[homed])


def assert_residuals_equal(layer: PreparedLayer, nest: Nest, room: Room | None = None) -> np.ndarray:
    """Compares the two forms of mappings with residuals, rounded as in Timeloop and unrounded; returns which are legal.

    The compiled form does not look for untouched words of mappings that break another limit.
    """
    for rounding in (EXACT, UNROUNDED):
        found = score(layer, nest, room=room) if rounding is EXACT else unrounded_scores(layer, nest, room)
        evaluation = evaluate_nest(layer, nest, room=room, rounding=rounding)
        expected = scores_of(evaluation)
        np.testing.assert_array_equal(found.legal, expected.legal)
        touched = ~np.any([check.broken for check in evaluation.checks if check.constraint == "untouched"], axis=0)
        np.testing.assert_allclose(found.excess[touched], expected.excess[touched], rtol=1e-14)
        for name in MERITS:
            np.testing.assert_array_equal(getattr(found, name)[found.legal], getattr(expected, name)[found.legal], name)
    return found.legal


def regrown(nest: Nest, bounds: dict[str, int], rng: np.random.Generator) -> Nest:
    """Mappings whose factors were changed at random and cut off at the bounds, so that many have residuals."""
    def changed(factors: np.ndarray) -> np.ndarray:
        return np.where(rng.random(factors.shape) < 0.1, np.maximum(factors + rng.integers(-1, 3, factors.shape), 1),
                        factors)

    return cut_off(replace(nest, temporal=changed(nest.temporal), spatial=changed(nest.spatial)), list(bounds.values()))


@pytest.mark.parametrize(("design", "problem"), [(design, problem) for design in designs()
                                                 for problem in ("conv", "strided", "gemm")])
def test_random_mappings_with_residuals_of_bundled_designs(design: str, problem: str) -> None:
    spec = specified(design, problem)
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    nest = drawn(layer, spec, 60)
    nest = regrown(nest.take(np.flatnonzero(score(layer, nest).legal)[:80]), spec.problem.bounds,
                   np.random.default_rng(5))
    legal = assert_residuals_equal(layer, nest)
    shorter = ((nest.temporal_last < nest.temporal) | (nest.spatial_last < nest.spatial)).any(axis=(0, 1))
    assert (legal & shorter).sum() > 5 and not legal.all()


@given(layers(), st.integers(0, 1 << 30))
def test_layers_of_every_kind_with_residuals(found: tuple[PreparedLayer, Nest], seed: int) -> None:
    layer, nest = found
    rng = np.random.default_rng(seed)
    nest = regrown(joined([nest] * 4), layer.problem.bounds, rng)
    size = np.array([level.usable or 1 << 30 for level in layer.arch.levels], dtype=float)[:, None]
    room = Room(np.floor(size * rng.random((len(size), nest.batch)) ** 4), rng.random(nest.keep.shape) < 0.7)
    assert_residuals_equal(layer, nest)
    assert_residuals_equal(layer, nest, room)
