"""The design on which real Timeloop counts what tensors with bits of their own do here."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from fadiff_validation.random_mappings import random_mapping

from fadiff_mapper import InvalidMapping, Spec, load
from fadiff_mapper.base.bundled_files import designs
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.model.stats import Stats
from fadiff_mapper.timeloop.verify import twin

ONE_WIDTH = {"Weights": 4, "Inputs": 4, "Outputs": {"bits": 4, "partial": 4}}
MIXED = {"Weights": {"bits": 4, "scale": 8, "per": 32}, "Inputs": 8, "Outputs": {"bits": 8, "partial": 24}}
SMALL = {"C": 8, "M": 12, "P": 8, "Q": 6, "R": 3, "S": 3}


def small(design: str, bits: dict[str, Any]) -> Spec:
    spec = load(f"bundled:arch/{design}", "bundled:layers/resnet18/conv3x3_64_128_28_s2", bits=bits)
    bounds = dict.fromkeys(spec.problem.dimensions, 1) | SMALL
    literal = {**spec.literal["problem"], "instance": {**spec.literal["problem"]["instance"], **bounds}}
    return replace(spec, problem=replace(spec.problem, bounds=bounds), literal={**spec.literal, "problem": literal})


def counted(stats: Stats) -> list[Any]:
    return [{name: [space[count] for count in ("reads", "fills", "updates")]
             for name, space in level["dataspaces"].items()} for level in stats.levels]


@pytest.mark.slow
@pytest.mark.parametrize("design", designs())
@pytest.mark.parametrize("bits", [ONE_WIDTH, MIXED])
def test_the_twin_counts_alike_and_of_one_width_costs_alike(design: str, bits: dict[str, Any]) -> None:
    spec, found = small(design, bits), []
    for seed in range(60):
        mapping = random_mapping(spec.arch, spec.problem, random.Random(seed))
        try:
            stats = evaluate_mapping(spec, mapping)
        except InvalidMapping:
            continue
        other, priced = twin(spec, mapping)
        assert not any(space.bits for space in other.problem.dataspaces)
        expected = evaluate_mapping(other, mapping)
        assert counted(stats) == counted(expected)
        if priced:
            assert stats.cycles == expected.cycles
            assert stats.energy_pj == pytest.approx(expected.energy_pj, rel=1e-12)
        found.append(priced)
    assert len(found) > 5 and (any(found) or bits is MIXED)
