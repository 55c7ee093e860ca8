"""Parts that no row of a batch makes use of are left out of the array work, and no result changes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from strategies import Case, batches

from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.access_counts import delivery, demand
from fadiff_mapper.model.evaluate import evaluate_nest, score
from fadiff_mapper.model.loop_nest import active_parts, pack, project
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.tiles import tiles


@given(batches())
def test_tiles_and_closed_forms(several: list[Case]) -> None:
    problem = several[0].problem
    nest, projection = pack([case.mapping for case in several], problem), project(problem)
    active = active_parts(nest)
    everything, used = tiles(nest, projection), tiles(nest, projection, active)
    for name in ("below", "across", "size", "below_size", "across_size"):
        np.testing.assert_array_equal(getattr(used, name), getattr(everything, name))
    wanted, asked = demand(nest, projection, everything), demand(nest, projection, used, active)
    served = np.concatenate([np.ones_like(active.counted[:1]), active.counted[:-1]])  # what lies below is kept
    np.testing.assert_array_equal(asked[served], wanted[served])
    for name in ("words", "multicast", "scatter", "fan"):
        np.testing.assert_array_equal(getattr(delivery(nest, projection, wanted, active), name),
                                      getattr(delivery(nest, projection, wanted), name))


@given(batches())
def test_a_score_is_what_the_full_evaluation_says(several: list[Case]) -> None:
    layer = prepare_layer(several[0].arch, several[0].problem, Tables())
    nest = pack([case.mapping for case in several], several[0].problem)
    quick, full = score(layer, nest, threads=2), evaluate_nest(layer, nest, details=True)
    np.testing.assert_array_equal(quick.legal, full.legal)
    np.testing.assert_array_equal(quick.cycles[full.legal], full.cycles[full.legal])
    np.testing.assert_array_equal(quick.energy[full.legal], full.energy[full.legal])
