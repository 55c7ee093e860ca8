"""Sliding windows in time: worked examples that Timeloop was measured on, and its rule spelled out in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_parts import parts
from small_specs import chip, storage
from strategies import CONV_1D, STRIDED, TWO_RANKS, UNSHARED, Case, cases

from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.access_counts import demand
from fadiff_mapper.model.evaluate import exact_traffic
from fadiff_mapper.model.loop_nest import Nest, nest_arrays, pack, project
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.tiles import tiles

SLIDING = {"conv1d": CONV_1D, "strided": STRIDED, "two_ranks": TWO_RANKS}
"""Problems with ranks that are sums of dimensions."""


BUFFER: Architecture = chip(storage("Buf", size=None), storage("DRAM", size=None, kind="DRAM"), macs=(1, 1))


def conv_1d(tile: str, loops: str) -> Case:
    """Inputs[C, P + R] under a buffer that holds `tile`, with `loops` (innermost first) at the level outside it.

    "P2 R3" is P = 2 and R = 3.
    """
    names = ("K", "C", "R", "P")

    def level(text: str) -> LevelMapping:
        given = {part[0]: int(part[1:]) for part in text.split()}
        order = (*given, *(name for name in names if name not in given))
        ones = dict.fromkeys(names, 1)
        return LevelMapping(ones | given, order, ones, names, len(names), frozenset({"Weights", "Inputs", "Outputs"}))

    mapping = Mapping((level(tile), level(loops)))
    bounds = {name: mapping.levels[0].temporal[name] * mapping.levels[1].temporal[name] for name in names}
    return Case(BUFFER, Problem("conv", bounds, CONV_1D), mapping)


def prepared(case: Case) -> PreparedLayer:
    """The layer of a case for the compiled kernel."""
    return prepare_layer(case.arch, case.problem, Tables())


def words_demanded(case: Case, *, everywhere: bool = False) -> np.ndarray:
    """Demand of one receiver below every boundary, [L, T]; `everywhere`: walked also where nothing is kept below."""
    _, wanted, _ = exact_traffic(prepared(case), pack([case.mapping], case.problem), everywhere)
    return np.asarray(wanted[..., 0])


def repeats_and_rest(bounds: list[int], moves: np.ndarray, extent: np.ndarray) -> tuple[float, float]:
    """Words of the calls that repeat no delivery, and of all others, from the compiled walk."""
    plain, repeated = parts.walk_held(np.array(bounds, dtype=float), moves, extent)
    return plain, float(repeated.sum())


@pytest.mark.parametrize(("tile", "loops", "fills"), [
    ("P2 R3", "P4", 10),             # 4 words, then 2 new ones per step
    ("P2 R3", "P4 K4", 40),          # every K starts over
    ("P2 R3", "K4 P4", 10),          # K inside P leaves the window in place
    ("P2 R3", "C2 P4", 32),          # steps along C break the slide: 8 whole tiles
    ("P2 R3", "P4 C2", 20),
    ("P2", "P4 R3", 24),             # a step of 2 over a tile of 2 has no overlap
    ("P2", "R3 P4", 13),             # walking every iteration would give 10
])
def test_fills_of_a_sliding_window_as_measured(tile: str, loops: str, fills: int) -> None:
    inputs = 1
    assert words_demanded(conv_1d(tile, loops))[1, inputs] == fills


def walked(bounds: list[int], moves: np.ndarray, extent: np.ndarray) -> tuple[int, list[int]]:
    """Timeloop's rule, call by call: iterations 0 and 1 of every loop, the second with weight n - 1.

    `moves` [S, R] says by how much the tile moves when loop s advances and the loops inside it start again. The words
    delivered, and for each loop those of its calls that deliver as many words as the call before.
    """
    calls = [(-1, 1)]                                     # (loop that advanced, how often this call counts)
    for loop, bound in enumerate(bounds):
        calls = calls + [(loop if i == 0 else inner, weight * (bound - 1)) for i, (inner, weight) in enumerate(calls)]
    size, v, total = int(np.prod(extent)), None, 0
    repeated, before = [0] * len(bounds), 0
    for loop, weight in calls:
        move = tuple(moves[loop]) if loop >= 0 else None
        if move is None or (any(move) and v is not None and v != move):
            v, words = None, size
        elif any(move):
            v, words = move, size - int(np.prod(np.maximum(extent - np.abs(move), 0)))
        else:
            words = 0
        total += weight * words
        if words == before:
            repeated[loop] += weight * words
        before = words
    return total, repeated


@st.composite
def walks(draw: st.DrawFn) -> tuple[list[int], np.ndarray, np.ndarray]:
    """Loops, moves that follow from their steps, and the extent of a tile in two ranks."""
    count = draw(st.integers(0, 5))
    bounds = draw(st.lists(st.integers(2, 4), min_size=count, max_size=count))
    steps = np.array(draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=count, max_size=count)),
                     dtype=float).reshape(count, 2)
    extent = np.array(draw(st.tuples(st.integers(1, 6), st.integers(1, 4))), dtype=float)
    return bounds, steps - (np.cumsum(steps, axis=0) - steps), extent


@given(walks())
def test_the_walk_over_states_is_the_walk_over_calls(walk: tuple[list[int], np.ndarray, np.ndarray]) -> None:
    bounds, moves, extent = walk
    plain, repeated = parts.walk_held(np.array(bounds, dtype=float), moves, extent)
    total, repeats = walked(bounds, moves, extent)
    assert plain + repeated.sum() == total
    assert repeated.tolist() == repeats, "only these words may be at a neighbour"


@given(st.lists(st.integers(2, 5), max_size=5))
def test_what_is_not_held_is_sent_in_every_iteration(bounds: list[int]) -> None:
    plain, repeated = parts.walk_unheld(np.array(bounds, dtype=float), np.zeros((len(bounds), 1)), np.array([3.0]))
    assert plain == 3 and plain + repeated.sum() == 3 * np.prod(bounds)


@given(cases(UNSHARED))
def test_without_windows_the_closed_form_is_exact(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    closed_form = demand(nest, projection, tiles(nest, projection))[..., 0]
    for everywhere in (False, True):
        np.testing.assert_array_equal(words_demanded(case, everywhere=everywhere), closed_form)


@given(cases(SLIDING))
def test_where_one_loop_moves_each_window_the_closed_form_is_the_walk(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    closed_form, layer = demand(nest, projection, tiles(nest, projection)), prepared(case).compiled
    demanded = words_demanded(case, everywhere=True)
    for level in range(1, len(nest.temporal)):
        moving = (nest.temporal[level:, :, 0] > 1).sum(axis=0)
        for t, ranks in enumerate(projection.ranks):
            bounds, moves, extent, _ = parts.tile_walk(layer, nest_arrays(nest), level, t)
            words = sum(repeats_and_rest(bounds, moves, extent))
            assert demanded[level, t] == words == walked([int(bound) for bound in bounds], moves, extent)[0]
            if not any(len(rank) > 1 and sum(moving[d] for d, _ in rank) > 1 for rank in ranks):
                assert closed_form[level, t, 0] == words


@pytest.mark.parametrize("loops", ["P4", "K3 P4", "P4 K3", "C2 P4", "K2 P2 C3"])
@pytest.mark.parametrize("tile", ["P1", "P2 R3", "R3", "P3 R2 C2"])
def test_with_one_loop_that_slides_the_closed_form_is_the_walk(tile: str, loops: str) -> None:
    case = conv_1d(tile, loops)
    projection, nest = project(case.problem), pack([case.mapping], case.problem)
    closed_form = demand(nest, projection, tiles(nest, projection))[1, 1, 0]
    assert closed_form == walked(*sliding_loops(case, nest))[0]


def sliding_loops(case: Case, nest: Nest) -> tuple[list[int], np.ndarray, np.ndarray]:
    """The loops outside the buffer, their moves of Inputs[C, P + R], and the extent of its tile."""
    tile, outer = case.mapping.levels[0].temporal, case.mapping.levels[1]
    loops = [name for name in outer.order if outer.temporal[name] > 1]
    steps = np.array([[tile["C"] * (name == "C"), tile[name] * (name in "PR")] for name in loops], dtype=float)
    extent = np.array([tile["C"], tile["P"] + tile["R"] - 1], dtype=float)
    return [outer.temporal[name] for name in loops], steps - (np.cumsum(steps, axis=0) - steps), extent
