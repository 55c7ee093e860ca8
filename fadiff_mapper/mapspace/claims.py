"""Constraints one by one, so that a contradiction can be traced to the few that cause it.

The few are an irreducible infeasible subset (of constraints; also: a minimal unsatisfiable subset), found by deletion
filtering (Chinneck and Dravnieks, "Locating Minimal Infeasible Constraint Sets in Linear Programs", ORSA Journal on
Computing 3(2), 1991).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fadiff_mapper.base.deadline import Over, in_time, never
from fadiff_mapper.mapspace.check_mapping import source
from fadiff_mapper.spec.constraints import Constraints, LoopConstraint

SIGNS = {"fixed": "=", "minimum": ">=", "maximum": "<="}
"""Limit on a factor -> the operator that writes it."""


@dataclass(frozen=True)
class Claim:
    """One constraint on one level.

    Attributes:
        level: Number of the storage level.
        kind: "temporal" or "spatial" for a limit on a factor, "keep" or "bypass" for a data space.
        name: The dimension, or the data space.
        limit: "fixed", "minimum" or "maximum"; "" for a data space.
        value: The number of the limit.
        origin: ` (file:line: path)` where the constraint is written, or empty.
    """

    level: int
    kind: str
    name: str
    limit: str = ""
    value: int = 0
    origin: str = ""

    def allows(self, factor: int) -> bool:
        """Whether a factor meets the limit."""
        return {"fixed": factor == self.value, "minimum": factor >= self.value,
                "maximum": factor <= self.value}[self.limit]

    def describe(self, levels: Sequence[str]) -> str:
        """The claim in words with its origin; `levels` are the names of the storage levels."""
        if self.kind in ("keep", "bypass"):
            return f"{self.kind} {self.name} at {levels[self.level]}{self.origin}"
        return f"{self.kind} {self.name}{SIGNS[self.limit]}{self.value} at {levels[self.level]}{self.origin}"


def claims(constraints: Constraints) -> list[Claim]:
    """All limits on factors, and all data spaces to keep or to bypass, innermost level first."""
    result: list[Claim] = []
    for i, level in enumerate(constraints.levels):
        result += _limits(i, "spatial", level.spatial)
        result += _limits(i, "temporal", level.temporal)
        for kind, names in (("keep", level.keep), ("bypass", level.bypass)):
            result += [Claim(i, kind, name, origin=source(level.sources, f"{kind}.{name}")) for name in sorted(names)]
    return result


def _limits(level: int, kind: str, loops: LoopConstraint) -> Iterator[Claim]:
    for limit, values in (("fixed", loops.fixed), ("minimum", loops.minimum), ("maximum", loops.maximum)):
        for name, value in values.items():
            yield Claim(level, kind, name, limit, value, source(loops.sources, f"{limit}.{name}"))


def cores(given: Sequence[Claim], contradict: Callable[[Sequence[Claim]], bool],
          over: Over = never) -> Iterator[list[Claim]]:
    """Irreducible infeasible subsets of claims that share no claim.

    Deletion filtering: claims are dropped one after the other, and a claim is put back where the contradiction
    vanishes without it. One pass is enough, as more claims never resolve a contradiction. The claims of a subset are
    then set aside, and the rest is searched again.

    Args:
        given: The claims, in the order in which they are tried; earlier ones are dropped first.
        contradict: Whether some claims contradict each other. Must stay true when claims are added.
        over: Tells whether time is over.

    Yields:
        Subsets that contradict, and no longer do when any one claim is dropped. An empty one contradicts without any
        claim and is the last.

    Raises:
        OutOfTime: Time was over.
    """
    left = list(given)
    while contradict(left):
        needed = list(left)
        for claim in in_time(left, over):
            rest = [other for other in needed if other is not claim]
            if contradict(rest):
                needed = rest
        yield needed
        if not needed:
            return
        left = [claim for claim in left if claim not in needed]
