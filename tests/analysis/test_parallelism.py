"""The parallelism that bounds take for any mapping is at least that of each, in one state for too many, too."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest
from small_specs import matmul, space, whole_space
from small_specs import product as matrix_product

from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.search.lower_bound import parallel
from fadiff_mapper.search.lower_bound.assemble import lower_bound
from fadiff_mapper.search.lower_bound.parallel import SpatialLoop, most_instances, most_units, parallelism, spread_of
from fadiff_mapper.search.mapspace.build import build_mapspace

TENSORS = 3


def drawn_loops(random: Random) -> tuple[SpatialLoop, ...]:
    """Up to four loops, from outer levels to inner ones, whose meshes are at least as large."""
    mesh, loops = (random.choice((1, 4, 6)), random.choice((1, 4))), list[SpatialLoop]()
    for _ in range(random.randint(1, 4)):
        if random.random() < 0.3:
            mesh = mesh[0] * random.choice((1, 2)), mesh[1] * random.choice((1, 3))
        factors = (1, *sorted(random.sample(range(2, 9), random.randint(1, 4))))
        loops.append(SpatialLoop(factors, random.choice(("X", "Y", "XY")), mesh,
                                 tuple(random.random() < 0.5 for _ in range(TENSORS))))
    return tuple(loops)


@pytest.mark.parametrize("most", [3000, 4])
def test_every_choice_of_factors_has_a_state_that_reaches_it(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too many states are one with the most of each quantity, whatever loops are still to come."""
    monkeypatch.setattr(parallel, "MOST_STATES", most)
    random, merged = Random(0), 0
    for _ in range(60):
        loops = drawn_loops(random)
        found = parallel._states.__wrapped__(loops, TENSORS)
        merged += len(found.macs) == 1
        for choice in product(*(product(loop.factors, loop.axes) for loop in loops)):
            units, sharing, fits = {"X": 1, "Y": 1}, np.ones(TENSORS), True
            for loop, (factor, axis) in zip(loops, choice, strict=True):
                units[axis] *= factor
                fits &= units["X"] <= loop.mesh[0] and units["Y"] <= loop.mesh[1]
                sharing *= np.where(loop.shared, factor, 1)
            if fits:
                assert ((found.macs >= units["X"] * units["Y"]) & (found.sharing >= sharing).all(axis=1)).any()
    assert most == 3000 or merged > 20


def test_a_word_goes_to_all_units_along_a_dimension_that_does_not_move_it() -> None:
    """Four units in a row share A along N, B along M, and sums of Z along K, two and two or all four."""
    spec = matrix_product()
    own = build_mapspace(spec.arch, spec.problem, spec.constraints)
    found = parallelism(own, spread_of(own), (0, 0, 0))     # the buffer keeps all data spaces
    full = {tuple(map(int, sharing)) for macs, sharing in zip(found.macs, found.sharing, strict=True) if macs == 4}
    assert full == {(n, m, k) for m, k, n in product((1, 2, 4), repeat=3) if m * k * n == 4}
    assert found.macs.max() == 4


def test_with_one_state_in_place_of_too_many_the_bound_is_looser_and_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = matrix_product()
    layer, own = layer_of(spec), build_mapspace(spec.arch, spec.problem, spec.constraints)
    scores = score(layer, whole_space(spec))
    least = {name: float(values[scores.legal].min()) for name, values in {
        "edp": scores.energy * scores.cycles, "energy": scores.energy, "delay": scores.cycles,
        "last_level_accesses": scores.last_level_accesses}.items()}
    exact = lower_bound(layer, own)
    monkeypatch.setattr(parallel, "MOST_STATES", 1)
    monkeypatch.setattr(parallel, "_states", parallel._states.__wrapped__)  # nothing remembered
    loose = lower_bound(layer, own)
    assert exact and loose
    assert all(loose.of(metric) <= exact.of(metric) <= value for metric, value in least.items())


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
