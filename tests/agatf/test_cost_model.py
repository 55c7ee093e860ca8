"""The learned model of the cost of groups: what it is fitted to, and what its predictions are relative to."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.agatf.autoencoder import EMBEDDED
from benchmarks.agatf.embedded_space import EmbeddedSpace, architecture, capacity, lanes, shape_penalties
from benchmarks.agatf.fusion_space import FusionSpace, SpaceGroup
from fadiff_mapper import load_network
from fadiff_mapper.fusion.prices import NOTHING
from fadiff_mapper.workload import OperatingPoint

pytest.importorskip("sklearn", reason="the cost model is a random forest of scikit-learn")

from benchmarks.agatf.guide import fitted_guide


@pytest.fixture(scope="module")
def known() -> EmbeddedSpace:
    """Groups of VGG-16 that cost 10 % less for every layer more, and twice their estimate."""
    network = load_network("bundled:networks/vgg16")
    names = tuple(node.name for node in network.layers)
    alone = {name: OperatingPoint(100.0, 10.0) for name in names}
    number = {names[start:stop]: 0 for start in range(len(names)) for stop in range(start + 2, len(names) + 1)}
    number = {nodes: index for index, nodes in enumerate(number)}
    groups = []
    for nodes in number:
        exact = OperatingPoint(100.0 * len(nodes) * 0.9 ** len(nodes), 10.0 * len(nodes) * 0.9 ** len(nodes))
        groups.append(SpaceGroup(OperatingPoint(exact.energy_pj / 2, exact.cycles / 2), exact, 1, 0.0))
    rows = np.random.default_rng(0).normal(size=(len(names), EMBEDDED)).astype(np.float32)
    return EmbeddedSpace(FusionSpace(network, "gemmini_large", (names,), alone, NOTHING, number, tuple(groups)),
                         architecture("gemmini_large"), dict(zip(names, rows, strict=True)))


@pytest.mark.parametrize(("corrects", "within"), [(False, 0.1), (True, 1e-6)])
def test_predictions_come_close_to_the_groups_that_it_is_fitted_to(known: EmbeddedSpace, corrects: bool,
                                                                   within: float) -> None:
    predicted = fitted_guide([known], seed=0, corrects=corrects).points(known)
    errors = [predicted[nodes].energy_pj / known.space.group(nodes).exact.energy_pj - 1 for nodes in predicted]
    assert np.median(np.abs(errors)) < within


def test_the_same_seed_gives_the_same_predictions(known: EmbeddedSpace) -> None:
    first, again = (fitted_guide([known], seed=3).points(known) for _ in range(2))
    assert first == again


def test_penalties_grow_with_weights_beyond_the_buffers_and_idle_lanes(known: EmbeddedSpace) -> None:
    names = known.space.chains[0]
    few, many = shape_penalties(known, names[1:3]), shape_penalties(known, names[8:13])
    assert capacity(known.arch) > 0 and lanes(known.arch) == 32
    assert few[0] < many[0]
    assert shape_penalties(known, names[:2])[1] > shape_penalties(known, names[2:4])[1]    # three channels on 32 lanes
