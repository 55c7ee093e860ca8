"""The exact evaluation gives what the real `timeloop-model` gave: every count, cycle and energy, every rejection.

The recordings were made by `python -m validation.record`; a second, larger set is replayed where it is at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_cases import (
    NO_REUSE,
    OWN_DESIGNS,
    RECORDED,
    SHARED,
    SHARED_DESIGNS,
    Json,
    cases,
    document,
    mistakes,
    read,
    recording,
)

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of


def verdict(case: Json, spec: Spec, mapping: Mapping | str, found: Evaluation | None, row: int) -> Iterator[str]:
    """Differences between one row and the recorded answer, or the reason why there is no row."""
    if isinstance(mapping, str):
        # Timeloop computes the product of the factors even where one of them alone is too large.
        if case["status"] == "ok" or "product of all factors" not in case["error"]:
            yield mapping
        return
    assert found is not None
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    yield from mistakes(case, layer, found, row)


def evaluate(spec: Spec, mappings: list[Mapping]) -> Evaluation:
    """Mappings with the same reuse."""
    layer = prepare_layer(spec.arch, spec.problem, spec.tables, reuse_of(mappings[0], spec.problem.dataspace_names()))
    return evaluate_nest(layer, pack(mappings, spec.problem), details=True)


def replayed(path: Path, arch: str) -> list[str]:
    """Replays all cases of one architecture, those of one problem, with the same reuse, as one batch."""
    wrong = []
    for (problem, _), group in cases(path, arch).items():
        spec = load(document(path, arch, problem))
        mappings = [read(case, spec) for case in group]
        whole = [mapping for mapping in mappings if isinstance(mapping, Mapping)]
        found = evaluate(spec, whole) if whole else None
        row = 0
        for case, mapping in zip(group, mappings, strict=True):
            wrong += [f"{case['id']} ({problem}) {text}" for text in verdict(case, spec, mapping, found, row)]
            row += isinstance(mapping, Mapping)
    return wrong


@pytest.mark.parametrize("arch", [*bundled_files.designs(), *OWN_DESIGNS])
def test_recorded_cases_are_reproduced(arch: str) -> None:
    assert sum(map(len, cases(RECORDED, arch).values())) >= 30
    assert not replayed(RECORDED, arch)


@pytest.mark.parametrize("arch", [*bundled_files.designs(), *OWN_DESIGNS])
def test_recorded_cases_without_reuse_are_reproduced(arch: str) -> None:
    recorded = [case for group in cases(NO_REUSE, arch).values() for case in group]
    assert sum(case["status"] == "ok" for case in recorded) >= 4
    assert any("no_reuse" in one for case in recorded for one in case["mapping"])
    assert not replayed(NO_REUSE, arch)


@pytest.mark.skipif(not SHARED.exists(), reason="the larger recording is not at hand")
@pytest.mark.parametrize("arch", SHARED_DESIGNS)
def test_the_larger_recording_is_reproduced(arch: str) -> None:
    assert sum(map(len, cases(SHARED, arch).values())) >= 40
    assert not replayed(SHARED, arch)


@pytest.mark.parametrize("name", list(bundled_files.designs()))
def test_a_bundled_design_is_the_one_that_was_recorded(name: str) -> None:
    recorded = load(document(RECORDED, name, "conv3x3"))
    today = load(str(bundled_files.find(f"arch/{name}")), str(bundled_files.find("problems/conv")))
    assert today.arch == recorded.arch
    assert prepare_layer(today.arch, today.problem, today.tables).energies \
        == prepare_layer(recorded.arch, recorded.problem, recorded.tables).energies


def test_the_recording_covers_what_the_model_does() -> None:
    tool, = recording(RECORDED)["tool"].values()
    everything = list(recording(RECORDED)["case"].values())
    seen = {feature for case in everything for feature in case.get("features", ())}
    reasons = "\n".join(case.get("error", "") for case in everything)
    assert (tool["name"], len(tool["version"])) == ("timeloop-model", 40)
    assert seen == {"multicast", "spatial_reduction", "link_transfer", "partial_refill", "refetched_output",
                    "bandwidth_bound", "network_energy", "address_energy", "leakage", "clusters", "outermost_bypass"}
    for reason in ("exceeds buffer capacity", "less than constrained minimum utilization", "X expansion", "Y expansion",
                   "exceeds hardware instances", "bypassed in all storage levels"):
        assert reason in reasons
