"""Points of a space: the nearest one to given numbers, and documents that read back as the same architecture."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.base import bundled_files
from fadiff_mapper.design.space import design_architecture, design_document, nearest_value, read_space
from fadiff_mapper.inputs.load import read_document, read_spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import Map

SPACES = tuple(name for name in bundled_files.listing() if name.startswith("spaces/"))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=12, unique=True), st.floats(1e-3, 1e7))
def test_the_nearest_value_is_nearest_in_the_logarithm(values: list[int], wanted: float) -> None:
    ordered = sorted(values)
    index = nearest_value(ordered, wanted)
    distance = abs(math.log(ordered[index] / wanted))
    assert distance <= min(abs(math.log(value / wanted)) for value in ordered) + 1e-9


@given(st.lists(st.integers(-100, 100), min_size=1, max_size=8, unique=True), st.floats(-200, 200))
def test_with_values_of_any_sign_the_difference_counts(values: list[int], wanted: float) -> None:
    ordered = sorted([0, *(value for value in values if value)])
    index = nearest_value(ordered, wanted)
    assert abs(ordered[index] - wanted) <= min(abs(value - wanted) for value in ordered) + 1e-9


def test_a_value_of_its_own_is_found_again_also_in_a_long_range_and_among_words() -> None:
    for values, index in ((range(8, 10**9, 8), 12345), (["LPDDR4", "HBM2"], 1), ([0.5, 1.5], 0)):
        assert nearest_value(values, values[index]) == index  # type: ignore[index]


@pytest.mark.parametrize("name", SPACES)
def test_designs_of_the_bundled_spaces_are_ordinary_architectures(name: str) -> None:
    space = read_space(f"bundled:{name}")
    generator = random.Random(0)
    points = [tuple(0 for _ in space.parameters), tuple(len(parameter.values) - 1 for parameter in space.parameters),
              tuple(generator.randrange(len(parameter.values)) for parameter in space.parameters)]
    problem = read_document("bundled:problems/conv")["problem"]
    for point in points:
        document = design_document(space, point)
        again = load_text(dump(document))
        spec = read_spec(Map({**again, "problem": problem}, where=again.where), energy="estimate")
        assert spec.arch.levels == design_architecture(space, point).levels


def test_the_documents_of_two_points_share_nothing_that_changes() -> None:
    space = read_space("bundled:spaces/gemmini_small")
    before = dump(space.document)
    low, high = (design_document(space, tuple(end(len(parameter.values)) for parameter in space.parameters))
                 for end in (lambda count: 0, lambda count: count - 1))
    assert dump(space.document) == before != dump(low) != dump(high)


def test_the_space_of_dosa_is_its_grid_with_its_capacities_and_bandwidths() -> None:
    space = read_space("bundled:spaces/dosa_gemmini")
    assert space.size == 1_048_576 == 64 * 128 * 128
    wanted = {"side": 16, "accumulator_kb": 32, "scratchpad_kb": 128}
    point = tuple(nearest_value(parameter.values, wanted[parameter.name]) for parameter in space.parameters)
    arch = design_architecture(space, point)
    levels = {level.name: level for level in arch.levels}
    assert arch.arithmetic.instances == 16 * 16
    assert levels["Accumulator"].instances * (levels["Accumulator"].size or 0) * 4 == 32 * 1024
    assert levels["Scratchpad"].size == 128 * 1024
    assert levels["DRAM"].shared_bandwidth == 8
    assert levels["Scratchpad"].shared_bandwidth == 2 * 16
    assert levels["Accumulator"].instances * (levels["Accumulator"].shared_bandwidth or 0) == 2 * 16
