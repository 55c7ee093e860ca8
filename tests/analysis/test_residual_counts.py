"""Explanations of mappings with residuals: every count of the recorded ones is what its expression comes to."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from recorded_cases import RESIDUALS, cases, document, read

from fadiff_mapper.cli import main
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.model.evaluate import evaluate_one
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.search.explanation.count_breakdown import explain_counts
from fadiff_mapper.search.explanation.explain_run import FinishedRun, explain_run


def worth(factors: tuple[int, ...], corrections: tuple[Decimal, ...]) -> Decimal:
    product = Decimal(1)
    for factor in factors:
        product *= factor
    return product + sum(corrections)


@pytest.mark.parametrize("arch", ["eyeriss_like", "simba_like", "gemmini_small"])
def test_every_count_of_the_recorded_mappings_adds_up(arch: str) -> None:
    checked = 0
    for (problem, _), group in list(cases(RESIDUALS, arch).items())[:2]:
        spec = load(document(RESIDUALS, arch, problem))
        for case in (one for one in group if one["status"] == "ok"):
            mapping = read(case, spec)
            assert isinstance(mapping, Mapping)
            levels = {level["name"]: level["dataspaces"] for level in case["result"]["levels"]}
            for one in explain_counts(*evaluate_one(spec.arch, spec.problem, spec.tables, mapping, residuals=True)):
                checked += 1
                assert one.count == levels[one.level][one.dataspace][one.action], one.sentence()
                assert one.count == worth(tuple(factor.value for factor in one.factors),
                                          tuple(correction.value for correction in one.corrections)), one.sentence()
    assert checked >= 30


def test_the_last_runs_are_named_and_sensitivities_left_out() -> None:
    (problem, _), group = next(iter(cases(RESIDUALS, "eyeriss_like").items()))
    spec = load(document(RESIDUALS, "eyeriss_like", problem))
    mapping = next(one for case in group if case["status"] == "ok" and isinstance(one := read(case, spec), Mapping))
    explained = explain_run(FinishedRun(spec, mapping, evaluate_mapping(spec, mapping), {}))
    assert explained.sensitivities == ()
    lasts = {f"{name}={level.temporal[name]},{last}" for level in mapping.levels
             for name, last in level.temporal_last.items()}
    texts = [c.text for one in explained.counts for c in one.corrections if c.text.startswith("last runs")]
    assert texts and all(last in text for last in lasts for text in texts)


def test_a_folder_of_such_a_mapping_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    design, layer = "timeloop_specs/arch/eyeriss_like.yaml", "timeloop_specs/layers/resnet18/conv1x1_64_128_28_s2.yaml"
    assert main(["map", design, layer, "--imperfect", "-o", str(tmp_path / "out")]) == 0
    capsys.readouterr()
    assert main(["explain", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "last runs that are shorter" in said and "sensitivity" not in said
