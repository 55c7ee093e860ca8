"""Mappings with residual factors give what the real `timeloop-model` gave: counts, cycles, energies, rejections.

The recording was made by `python -m validation.record --residuals`.
"""

from __future__ import annotations

from functools import cache

import pytest
from recorded_cases import OWN_DESIGNS, RESIDUALS, Json, cases, document, mistakes, read, recording

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.loop_nest import cut_off, pack, unpack
from fadiff_mapper.model.prepared_layer import prepare_layer

DESIGNS = (*bundled_files.designs(), *OWN_DESIGNS)


@cache
def mappings(arch: str) -> list[tuple[Spec, list[Json], list[Mapping]]]:
    """The recorded mappings of one architecture, problem by problem."""
    batches = []
    for (problem, _), group in cases(RESIDUALS, arch).items():
        spec = load(document(RESIDUALS, arch, problem))
        found = [read(case, spec) for case in group]
        assert all(isinstance(mapping, Mapping) for mapping in found), found
        batches.append((spec, group, [mapping for mapping in found if isinstance(mapping, Mapping)]))
    return batches


@pytest.mark.parametrize("arch", DESIGNS)
def test_recorded_cases_are_reproduced(arch: str) -> None:
    wrong = []
    for spec, group, batch in mappings(arch):
        layer = prepare_layer(spec.arch, spec.problem, spec.tables)
        found = evaluate_nest(layer, pack(batch, spec.problem, residuals=True), details=True)
        for row, case in enumerate(group):
            wrong += [f"{case['id']} {text}" for text in mistakes(case, layer, found, row)]
    assert wrong == []


def test_the_recording_has_enough_of_every_kind() -> None:
    recorded = recording(RESIDUALS)["case"].values()
    temporal, spatial = (
        {case["id"] for case in recorded if any("," in one.get("factors", "") for one in case["mapping"]
                                                if one["type"] == kind)} for kind in ("temporal", "spatial"))
    assert len(recorded) >= 150 and all(case["id"] in temporal | spatial for case in recorded)
    assert min(len(temporal - spatial), len(spatial - temporal), len(temporal & spatial)) >= 25
    results = [case["result"] for case in recorded if case["status"] == "ok"]
    assert any(space["link_transfers"] for result in results for network in result["networks"]
               for space in network["dataspaces"].values())


@pytest.mark.parametrize("arch", DESIGNS)
def test_the_factors_alone_decide_the_residuals(arch: str) -> None:
    for spec, _, batch in mappings(arch):
        again = cut_off(pack(batch, spec.problem, residuals=True), list(spec.problem.bounds.values()))
        assert [unpack(again, row, spec.problem) for row in range(len(batch))] == batch
