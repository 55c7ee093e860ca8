"""The most that residual operands on the chip for both readers save, shared out among the links that they need.

A sum reads an operand besides the tensor that flows on (`fusion/prices.py`). Where an earlier layer of
the same group reads it, too, that read comes from the home level, and the tensor need not go to the outermost level
where it has no other reader. All links from the first reader to the layer before the sum must be fused for that. Each
of them is credited with an equal share, so that a plan that fuses only some is credited with too much, never with too
little.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise

from link_charges import HOME

from fadiff_mapper import Workload
from fadiff_mapper.fusion.prices import summed, word_costs
from fadiff_mapper.fusion.segments import Segment, segments
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.options import NetworkOptions
from fadiff_mapper.workload import OperatingPoint

Pair = tuple[str, str]
"""Two layers with a link between them."""


def credits(workload: Workload, spec: Spec) -> dict[Pair, OperatingPoint]:
    """Energy and cycles that every link is credited with.

    Args:
        workload: The network.
        spec: Any of its layers on the design.
    """
    costs, home = word_costs(spec), spec.arch.level_names().index(HOME)
    shares: dict[Pair, list[OperatingPoint]] = defaultdict(list)
    for (_, words), links in _needed(workload).items():
        saved = costs.fetched(words)
        for pair in links:
            shares[pair].append(OperatingPoint((saved.energy_pj - words * costs.read[home]) / len(links),
                                               saved.cycles / len(links)))
    return {pair: summed(points) for pair, points in shares.items()}


def kept_inside(workload: Workload) -> set[str]:
    """Layers whose tensor need not be written in some group, as the sums that read it again are in it, too."""
    return {segment.nodes[index] for segment in _segments(workload) for index in segment.read_inside}


def _needed(workload: Workload) -> dict[tuple[str, int], tuple[Pair, ...]]:
    """(sum, words of the operand) -> the fewest links that must be fused for it to stay on the chip."""
    fewest: dict[tuple[str, int], tuple[Pair, ...]] = {}
    for segment in _segments(workload):
        links = tuple(pairwise(segment.nodes))
        for other in segment.residuals:
            first = max(other.read.first - 1, 0)
            needed = links[first:max(other.read.behind, first + 1)]
            key = (other.node, other.words)
            if key not in fewest or len(needed) < len(fewest[key]):
                fewest[key] = needed
    return fewest


def _segments(workload: Workload) -> list[Segment]:
    """All segments that a plan could have as groups."""
    return [segment for segment in segments(workload, NetworkOptions().longest) if not segment.batched]
