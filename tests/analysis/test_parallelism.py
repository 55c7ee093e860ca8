"""The parallelism that bounds take for any mapping is at least that of each."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from fadiff_mapper.base.deadline import never
from fadiff_mapper.search.lower_bound import parallel
from fadiff_mapper.search.lower_bound.parallel import SpatialLoop

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
        found = parallel._states.__wrapped__(loops, TENSORS, never)
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
