"""Best-first refinement: the loop of every proof, be it about mappings of a layer, plans of a network or designs.

The candidates are divided into parts, and each part has a lower bound on its candidates. The part with the least bound,
or the parts of the plan that would be best if all parts cost their bounds, limit how far the best known candidate may
be from the best possible one. So these parts are opened next: divided, bounded again with more work, or evaluated. The
loop ends when no deciding part is open, which is a proof, or with its work or time; the least bound is known at every
moment. `kernel/group_bound.cpp:GroupBound::refine` is the same loop over parts of fused groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeVar

from fadiff_mapper.base.deadline import Over, never

Part = TypeVar("Part")


def refine(deciding: Callable[[], Sequence[Part]], opened: Callable[[Part], float], *, most: float = inf,
           over: Over = never) -> float:
    """Opens parts until no open part decides the least bound.

    Args:
        deciding: Gives the open parts that decide the least bound now; none once it is close enough.
        opened: Opens a part, and returns the work that it took; 0 if there was nothing to do.
        most: Work at which the loop ends.
        over: True once time is over.

    Returns:
        The work of all parts opened.
    """
    spent, before = 0.0, -1.0
    while before < spent < most and not over():
        before = spent
        for part in deciding():
            spent += opened(part)
            if spent >= most or over():
                break
    return spent
