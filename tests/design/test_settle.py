"""The end of a search on a fine grid: few steps to the bottom, and all designs beside it mapped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from fadiff_mapper.design.result import DesignOutcome, OutcomeTable
from fadiff_mapper.design.search_design import DesignRun, settled
from fadiff_mapper.design.space import Parameter, Point, read_space


def outcome(point: Point) -> DesignOutcome:
    """A bowl in octaves around x = 40, y = 3 and 64 values each from 1."""
    x, y = (index + 1 for index in point)
    return DesignOutcome(point, {"x": x, "y": y}, True, "", max(x / 40, 40 / x), max(y / 3, 3 / y), mapped=True)


def archive() -> OutcomeTable:
    return OutcomeTable({"x": range(1, 65), "y": range(1, 65)}, [])


def evaluated(points: Sequence[Point], rivals: Sequence[tuple[float, ...]]) -> Iterator[DesignOutcome | None]:
    return (outcome(point) for point in points)


def test_the_bottom_of_a_fine_grid_is_reached_in_octaves_first() -> None:
    space = replace(read_space("bundled:spaces/dosa_gemmini"),
                    parameters=(Parameter("x", "", range(1, 65)), Parameter("y", "", range(1, 65))))
    run = DesignRun(("edp",), 40, lambda _: None, archive())
    run.add(outcome((2, 60)))
    beside = settled(run, space, evaluated, lambda: False, True)
    assert run.front[0].point == (39, 2)
    assert {each.point for each in beside} == {(38, 2), (40, 2), (39, 1), (39, 3)}
    assert len({each.point for each in run.archive}) == len(run.archive), "each design is in the books once"
    assert len(run.archive) < 40, "of 4,096; the way there is 37 and 58 values long"


def test_a_stop_leaves_the_best_so_far() -> None:
    space = replace(read_space("bundled:spaces/dosa_gemmini"),
                    parameters=(Parameter("x", "", range(1, 65)), Parameter("y", "", range(1, 65))))
    run = DesignRun(("edp",), 1, lambda _: None, archive())
    run.add(outcome((2, 60)))
    beside = settled(run, space, evaluated, lambda: True, True)
    assert len(beside) == 4
    assert len(run.archive) == 5


def test_a_short_search_ends_after_as_many_designs_again_and_one_look_around() -> None:
    space = replace(read_space("bundled:spaces/dosa_gemmini"),
                    parameters=(Parameter("x", "", range(1, 65)), Parameter("y", "", range(1, 65))))
    run = DesignRun(("edp",), 3, lambda _: None, archive())
    run.add(outcome((2, 60)))
    beside = settled(run, space, evaluated, lambda: False, True)
    assert run.mapped <= 2 * 3 + len(beside)
    assert {each.point for each in beside} <= {each.point for each in run.archive}
