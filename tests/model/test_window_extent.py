"""The extent of a window, 1 + sum of c (p - 1): for one tile by names, for arrays of boxes, and in compiled code."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from kernel_parts import parts
from strategies import SHAPES, Case, cases

from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.loop_nest import nest_arrays, pack, project
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.tiles import rank_extent, tiles


@st.composite
def tiles_of_problems(draw: st.DrawFn) -> tuple[Problem, dict[str, int]]:
    """A problem and the points of a tile per dimension."""
    spaces = SHAPES[draw(st.sampled_from(sorted(SHAPES)))]
    names = sorted({name for space in spaces for name in space.dimensions})
    points = {name: draw(st.integers(1, 9)) for name in names}
    return Problem("tiny", points, spaces), points


@given(tiles_of_problems())
def test_arrays_of_boxes_span_what_the_named_tile_spans(problem_and_tile: tuple[Problem, dict[str, int]]) -> None:
    problem, tile = problem_and_tile
    projection = project(problem)
    boxes = np.array([tile[name] for name in problem.dimensions], dtype=float)[None, :, None]
    for array in (boxes, torch.from_numpy(boxes)):
        for t, space in enumerate(problem.dataspaces):
            extents = tuple(int(rank_extent(array, rank)[0, 0]) for rank in projection.ranks[t])
            assert extents == space.tile_extents(tile)


@given(cases())
def test_the_compiled_extent_is_that_of_the_arrays(case: Case) -> None:
    nest, projection = pack([case.mapping], case.problem), project(case.problem)
    tile, layer = tiles(nest, projection), prepare_layer(case.arch, case.problem, Tables()).compiled
    for t, ranks in enumerate(projection.ranks):
        for level in range(len(nest.temporal)):
            _, _, extent, words = parts.tile_walk(layer, nest_arrays(nest), level, t)
            below = tile.below[level][None]
            assert list(extent) == [float(rank_extent(below, rank)[0, 0]) for rank in ranks]
            assert words == tile.below_size[level, t, 0]
