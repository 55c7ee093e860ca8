"""Proposers of designs: new designs only, until the space is empty, the same for the same seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_spaces import small_question

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.design.proposers import BLACK_BOX, ExhaustiveDesigns, all_points
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.result import DesignOutcome, LeastFigures
from fadiff_mapper.design.space import parameter_values

LARGE = """\
design_space:
  version: 0.1
  parameters:
    columns: {path: PEColumns.spatial.meshX, range: [1, 64], step: 1}
    rows: {path: PERows.spatial.meshY, range: [1, 64], step: 1}
    depth: {path: Scratchpad.attributes.depth, range: [64, 65536], step: 64}
"""

SHAPED = [name for name in BLACK_BOX if name != "exhaustive"]


def judged(question: DesignQuestion, point: tuple[int, ...]) -> DesignOutcome:
    """A stand-in for an evaluation: infeasible at the first value, pruned at the second, else best at indices of 40."""
    parameters = parameter_values(question.space, point)
    if point[0] == 0:
        return DesignOutcome(point, parameters, False, "too small")
    if point[0] == 1:
        return DesignOutcome(point, parameters, False, "bound", area_mm2=1.0, bounds=LeastFigures(1e9, 1e9, 1e9))
    distance = sum((index - 40) ** 2 for index in point)
    return DesignOutcome(point, parameters, True, "", 1e6 + 1e3 * distance, 1e5 + distance, 1.0, mapped=True)


def run(question: DesignQuestion, method: str, rounds: int) -> list[DesignOutcome]:
    proposer, archive = BLACK_BOX[method](question), []
    for _ in range(rounds):
        points = proposer.propose(8, archive)
        assert len(points) == len(set(points)) <= 8
        archive += [judged(question, point) for point in points]
    return archive


@pytest.fixture(autouse=True)
def _with_optuna(request: pytest.FixtureRequest) -> None:
    if {"tpe", "nsga2"} & set(request.node.callspec.params.values() if hasattr(request.node, "callspec") else ()):
        pytest.importorskip("optuna")


@pytest.mark.slow
@pytest.mark.parametrize("method", BLACK_BOX)
def test_every_design_of_a_small_space_is_proposed_once(method: str, tmp_path: Path) -> None:
    question = small_question(tmp_path)
    points = [outcome.point for outcome in run(question, method, 4)]
    assert sorted(points) == list(all_points(question.space))


@pytest.mark.parametrize("method", SHAPED)
@pytest.mark.parametrize("metrics", [("edp",), ("energy", "delay")])
def test_the_seed_decides(method: str, metrics: tuple[str, ...], tmp_path: Path) -> None:
    first, again, other = (run(small_question(tmp_path, LARGE, metrics=metrics, seed=seed), method, 2)
                           for seed in (0, 0, 1))
    assert first == again
    assert first != other


@pytest.mark.slow
@pytest.mark.parametrize(("method", "rounds"), [("tpe", 10), ("nsga2", 24)])
def test_methods_that_learn_come_closer_than_chance(method: str, rounds: int, tmp_path: Path) -> None:
    def mean_of_last(method: str) -> float:
        last = [run(small_question(tmp_path, LARGE, seed=seed), method, rounds)[-16:] for seed in range(2)]
        near = [abs(index - 40) for archive in last for outcome in archive for index in outcome.point[:2]]
        return sum(near) / len(near)

    assert mean_of_last(method) < 0.8 * mean_of_last("random")


def test_a_space_too_large_to_enumerate_is_refused(tmp_path: Path) -> None:
    question = small_question(tmp_path, LARGE)
    with pytest.raises(FadiffError, match="exhaustive would evaluate 4,194,304 designs"):
        ExhaustiveDesigns(question.space, question.options.seed)


def test_optuna_missing_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "optuna", None)
    with pytest.raises(FadiffError, match=r'pip install "fadiff-mapper\[design\]"'):
        BLACK_BOX["tpe"](small_question(tmp_path))


def test_words_are_proposed_as_well(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    section = LARGE + "    memory: {path: DRAM.attributes.type, values: [LPDDR4, HBM2]}\n"
    question = small_question(tmp_path, section)
    assert {outcome.point[3] for outcome in run(question, "tpe", 3)} == {0, 1}
