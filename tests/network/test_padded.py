"""Layers with padded bounds, whose lanes tiles can fill where the whole layer cannot."""

from __future__ import annotations

from math import prod

from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper import SearchOptions, load, map_layer
from fadiff_mapper.fusion.estimates import layer_base
from fadiff_mapper.network.map_network import padded, padded_layers
from fadiff_mapper.search.mapspace.build import divisors
from fadiff_mapper.search.result import Result


@given(st.integers(1, 10 ** 6))
def test_padded_bounds_are_the_next_with_many_divisors(bound: int) -> None:
    result = padded(bound)
    assert bound <= result < 1.5 * bound
    assert set(divisors(result)) <= {odd << shift for odd in (1, 3) for shift in range(21)}
    assert not any(padded(between) == between for between in range(bound, min(result, bound + 100)))


def mapped(layer: str, design: str = "simba_like") -> Result:
    return map_layer(load(f"bundled:arch/{design}", f"bundled:layers/mobilenet_v1/{layer}"))


def test_a_layer_of_7_x_7_points_could_run_faster_in_tiles() -> None:
    result = mapped("dw3x3_1024_7_s1")
    (found,) = padded_layers([result], SearchOptions(effort="light"), lambda: False)
    assert [(own.spec.problem.bounds["P"], own.spec.problem.bounds["Q"]) for own in found] == [
        (7, 7), (8, 8), (8, 7), (7, 8)]
    alone, known = layer_base(result), layer_base(result, found)
    assert known.known[0].compute < alone.known[0].compute / 2
    assert known.known[-1] == alone.known[0]
    assert known.whole == alone.whole


def test_bounds_with_many_divisors_are_not_padded() -> None:
    result = mapped("conv3x3_3_32_112_s2")
    (found,) = padded_layers([result], SearchOptions(effort="light"), lambda: False)
    assert {own.spec.problem.bounds["C"] for own in found} == {3}
    assert {own.spec.problem.bounds["M"] for own in found} == {32}


def test_bounds_that_no_units_divide_are_not_padded() -> None:
    result = mapped("dw3x3_1024_7_s1", "gemmini_small")
    (found,) = padded_layers([result], SearchOptions(effort="light"), lambda: False)
    assert [own.spec.problem.bounds for own in found] == [result.spec.problem.bounds]
    assert found[0].stats.cycles <= result.stats.cycles


def test_a_layer_that_words_from_outside_hold_up_is_mapped_as_if_these_came_at_once() -> None:
    result = mapped("conv1x1_32_64_112_s1", "gemmini_large")
    (found,) = padded_layers([result], SearchOptions(effort="light"), lambda: False)
    at_least = prod(result.spec.problem.bounds.values()) / result.spec.arch.arithmetic.instances
    assert result.stats.cycles > 1.5 * at_least
    assert layer_base(result, found).known[0].compute == at_least
