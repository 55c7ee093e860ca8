"""States of parallelism: all that no other one dominates, or one that dominates all; bounds hold with both."""

from __future__ import annotations

from itertools import product as every

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_specs import matmul, product, space, whole_space

from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.search.lower_bound import parallel
from fadiff_mapper.search.lower_bound.assemble import lower_bound
from fadiff_mapper.search.lower_bound.parallel import most_instances, most_units, parallelism, spread_of
from fadiff_mapper.search.mapspace.build import build_mapspace

METRICS = ("edp", "energy", "delay", "last_level_accesses")
INNERMOST = (0, 0, 0)   # the buffer keeps all data spaces


def test_a_word_goes_to_all_units_along_a_dimension_that_does_not_move_it() -> None:
    """Four units in a row share A along N, B along M, and sums of Z along K, two and two or all four."""
    spec = product()
    own = build_mapspace(spec.arch, spec.problem, spec.constraints)
    found = parallelism(own, spread_of(own), INNERMOST)
    full = {tuple(map(int, sharing)) for macs, sharing in zip(found.macs, found.sharing, strict=True) if macs == 4}
    assert full == {(n, m, k) for m, k, n in every((1, 2, 4), repeat=3) if m * k * n == 4}
    assert found.macs.max() == 4


@given(st.lists(st.tuples(*[st.integers(1, 4)] * 5), min_size=1, max_size=300))
def test_a_state_is_left_out_where_another_one_of_the_same_units_shares_no_less(rows: list[tuple[int, ...]]) -> None:
    states = set(rows)
    kept = parallel._undominated(states, lambda: False)
    assert kept == {state for state in states if not any(
        other != state and other[:2] == state[:2] and all(a >= b for a, b in zip(other, state, strict=True))
        for other in states)}


@pytest.mark.parametrize("innermost", [(0, 0, 0), (1, 0, -1), (1, 1, 1)])
@pytest.mark.parametrize("sizes", [(128, 256, 64), (6, 6, 6), (2, 256, 3)])
def test_one_state_in_place_of_too_many_has_the_most_of_everything(
        sizes: tuple[int, int, int], innermost: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    own = space(problem=matmul(*sizes))
    exact = parallelism(own, spread_of(own), innermost)
    for most in (1, 10):
        monkeypatch.setattr(parallel, "MOST_STATES", most)
        loose = parallelism(own, spread_of(own), innermost)
        assert len(loose.macs) == 1 < len(exact.macs)
        assert loose.macs[0] >= exact.macs.max() and (loose.sharing[0] >= exact.sharing.max(axis=0)).all()


def test_with_one_state_in_place_of_too_many_the_bound_is_looser_and_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = product()
    layer, own = layer_of(spec), build_mapspace(spec.arch, spec.problem, spec.constraints)
    scores = score(layer, whole_space(spec))
    least = dict(zip(METRICS, (float(values[scores.legal].min()) for values in (
        scores.energy * scores.cycles, scores.energy, scores.cycles, scores.last_level_accesses)), strict=True))
    exact = lower_bound(layer, own)
    monkeypatch.setattr(parallel, "MOST_STATES", 1)
    loose = lower_bound(layer, own)
    assert exact and loose
    assert all(loose.of(metric) <= exact.of(metric) <= least[metric] for metric in METRICS)


def test_units_and_instances_along_some_dimensions_are_what_factors_and_meshes_allow() -> None:
    """An 8 x 4 grid of L1s below L2, and two units below each: M of 2 has two at both places, N of 3 three at one."""
    own = space(problem=matmul(2, 256, 3))
    spread = spread_of(own)
    units = {dims: most_units(own, spread, frozenset(dims)) for dims in ("MKN", "M", "N", "")}
    assert units == {"MKN": 64, "M": 4, "N": 3, "": 1}
    instances = {dims: most_instances(spread, 0, frozenset(dims)) for dims in ("M", "N", "")}
    assert instances == {"M": 2, "N": 3, "": 1}
    assert most_instances(spread, 1, frozenset("MKN")) == 1
    assert np.array_equal(spread.instances, [32, 1, 1])
