"""Best-first refinement opens the parts that could hold a better candidate, and no others."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper.search.lower_bound.refine import refine

COSTS = st.lists(st.integers(0, 99), min_size=1, max_size=40)


def refined(costs: list[int], **limits: float) -> tuple[float, float, list[tuple[int, int]]]:
    """The least cost known and the least bound at the end, and the parts opened: ranges of candidates, that are halved.

    A bound is the least cost in a range, less one a candidate; at first the last candidate is known.
    """
    def bound(part: tuple[int, int]) -> float:
        return min(costs[slice(*part)]) - (part[1] - part[0]) + 1

    left, known, opened = [(0, len(costs))], float(costs[-1]), list[tuple[int, int]]()

    def deciding() -> list[tuple[int, int]]:
        left.sort(key=bound)
        return left[:1] if left and bound(left[0]) < known else []

    def halve(part: tuple[int, int]) -> int:
        nonlocal known
        left.remove(part)
        opened.append(part)
        first, last = part
        if last - first == 1:
            known = min(known, costs[first])
        else:
            left.extend([(first, (first + last) // 2), ((first + last) // 2, last)])
        return 1

    work = refine(deciding, halve, **limits)
    assert work == len(opened)
    return known, min(map(bound, left), default=known), opened


@given(COSTS)
def test_the_end_is_a_proof(costs: list[int]) -> None:
    known, least, opened = refined(costs)
    assert known == min(costs) <= least
    for first, last in opened:
        assert min(costs[first:last]) - (last - first) + 1 < costs[-1]


@given(COSTS, st.integers(0, 20))
def test_the_bound_holds_when_the_work_is_over(costs: list[int], most: int) -> None:
    known, least, opened = refined(costs, most=most)
    assert len(opened) <= most and min(known, least) <= min(costs) <= known


def test_time_is_asked_after_every_part() -> None:
    opened = list[str]()

    def note(part: str) -> int:
        opened.append(part)
        return 1
    assert refine(lambda: "abc", note, over=lambda: len(opened) == 4) == 4
    assert opened == ["a", "b", "c", "a"]


def test_a_pass_without_work_is_the_last() -> None:
    assert refine(lambda: "ab", lambda _: 0) == 0
