"""Constraints one by one, so that a contradiction can be traced to the few that cause it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from fadiff_mapper.mapspace.check_mapping import source
from fadiff_mapper.spec.constraints import Constraints, LoopConstraint

SIGNS = {"fixed": "=", "minimum": ">=", "maximum": "<="}


@dataclass(frozen=True)
class Claim:
    """One constraint on one level.

    `kind` is "temporal", "spatial" (then `what` is "fixed", "minimum" or "maximum" and `name` a dimension),
    "keep" or "bypass" (`name` is a data space). `place` is ` (file:line: path)` or empty.
    """

    level: int
    kind: str
    name: str
    what: str = ""
    value: int = 0
    place: str = ""

    def allows(self, factor: int) -> bool:
        return {"fixed": factor == self.value, "minimum": factor >= self.value,
                "maximum": factor <= self.value}[self.what]

    def describe(self, levels: Sequence[str]) -> str:
        if self.kind in ("keep", "bypass"):
            return f"{self.kind} {self.name} at {levels[self.level]}{self.place}"
        return f"{self.kind} {self.name}{SIGNS[self.what]}{self.value} at {levels[self.level]}{self.place}"


def claims(constraints: Constraints) -> list[Claim]:
    """All limits on factors, and what is to be kept or bypassed, innermost level first."""
    found: list[Claim] = []
    for i, level in enumerate(constraints.levels):
        found += _limits(i, "spatial", level.spatial)
        found += _limits(i, "temporal", level.temporal)
        for kind, names in (("keep", level.keep), ("bypass", level.bypass)):
            found += [Claim(i, kind, name, place=source(level.sources, f"{kind}.{name}")) for name in sorted(names)]
    return found


def _limits(level: int, kind: str, loops: LoopConstraint) -> Iterator[Claim]:
    for what, limits in (("fixed", loops.fixed), ("minimum", loops.minimum), ("maximum", loops.maximum)):
        for name, value in limits.items():
            yield Claim(level, kind, name, what, value, source(loops.sources, f"{what}.{name}"))


def cores(found: Sequence[Claim], contradict: Callable[[Sequence[Claim]], bool]) -> Iterator[list[Claim]]:
    """Irreducible contradictions that share no claim: each contradicts, and no longer does when any one is dropped.

    Adding a claim must never resolve a contradiction. An empty core contradicts without any claim.
    """
    left = list(found)
    while contradict(left):
        needed = list(left)
        for claim in left:
            rest = [other for other in needed if other is not claim]
            if contradict(rest):
                needed = rest
        yield needed
        if not needed:
            return
        left = [claim for claim in left if claim not in needed]
