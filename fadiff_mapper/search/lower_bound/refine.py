"""Best-first refinement: the loop of every proof, be it about mappings of a layer, plans of a network or designs.

The candidates are divided into parts, and each part has a bound that no candidate in it undercuts. The part of the
least bound, or the parts of the plan that would be best if all parts cost their bounds, decide how far the best known
candidate may be from the best possible one. So these are opened next: divided, bounded again with more work, or
evaluated. The loop ends where nothing that decides is open, which is a proof, or with its work or time; the least bound
is known all the while. `kernel/group_bound.cpp:GroupBound::refine` is the same loop over parts of fused groups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TypeVar

from fadiff_mapper.base.deadline import Over, never

Part = TypeVar("Part")


def refine(deciding: Callable[[], Sequence[Part]], opened: Callable[[Part], float], *, most: float = inf,
           over: Over = never) -> float:
    """Opens parts until none that decides is open.

    Args:
        deciding: The open parts that decide the least bound, as bounds are now; none once it is close enough.
        opened: Opens a part, and returns the work that it took; 0 where there was nothing to do.
        most: Work at which the loop ends.
        over: Tells whether time is over.

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
