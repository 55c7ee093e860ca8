"""Words that cross every boundary, exactly: the compiled kernel's counts of a whole batch.

Closed forms where they hold; elsewhere the walk of sliding windows (`kernel/window_walk.hpp`) and the count receiver by
receiver (`kernel/receivers.hpp`), which have no smooth form.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.access_counts import Delivery
from fadiff_mapper.model.loop_nest import Nest, nest_arrays
from fadiff_mapper.model.prepared_layer import PreparedLayer


@dataclass(frozen=True)
class ExactTraffic:
    """Traffic of a batch as if every level kept every data space.

    Attributes:
        wanted: [L, T, B]. Words that one receiver below each boundary asks for over the whole run.
        delivery: The tally of every boundary, of as many kinds as some mapping needs.
    """

    wanted: np.ndarray
    delivery: Delivery


def exact_traffic(layer: PreparedLayer, nest: Nest, with_hops: bool) -> ExactTraffic:
    """Counts the traffic of a batch as Timeloop does.

    Args:
        layer: The prepared layer.
        nest: B mappings of it.
        with_hops: Whether to count the hops of every fan-out (0 otherwise), and windows in full below levels that
            bypass the data space too: bypassing rescales their words, not their hops.

    Returns:
        Demand and tally.
    """
    wanted, words, multicast, scatter, hop_words, fan, links = _kernel.traffic(layer.compiled, *nest_arrays(nest),
                                                                               with_hops)
    return ExactTraffic(wanted, Delivery(words, multicast, scatter, fan, links, hop_words))
