"""Sparse designs: every number and every rejection of the real `timeloop-model`, to the printed digit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from recorded_cases import Json, recording
from sparse_inputs import DESIGNS, SPARSE, sparse_document

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.model.evaluate_spec import evaluate
from fadiff_mapper.model.stats import Stats

TWO_DECIMALS = ("ingresses", "link_transfers", "spatial_reductions", "hops")


def unlike(want: Any, ours: Any, path: str = "") -> Iterator[str]:
    """Differences from the recording: counts and printed numbers must be equal, others up to their last digits."""
    if isinstance(want, dict):
        for key, value in want.items():
            yield from unlike(value, ours[key], f"{path}.{key}") if key in ours else [f"{path}.{key}: missing"]
    elif isinstance(want, list):
        if len(want) != len(ours):
            yield f"{path}: {ours} instead of {want}"
        for i, (item, own) in enumerate(zip(want, ours, strict=False)):
            yield from unlike(item, own, f"{path}[{item['name'] if isinstance(item, dict) else i}]")
    elif any(word in path for word in TWO_DECIMALS):
        if abs(want - ours) > 0.00501:
            yield f"{path}: {ours} instead of {want}"
    elif want != ours and not (isinstance(want, float) and ".printed" not in path
                               and math.isclose(want, ours, rel_tol=1e-9, abs_tol=1e-12)):
        yield f"{path}: {ours} instead of {want}"


@cache
def answers(design: str) -> list[tuple[Json, Stats | str]]:
    """The cases of one design with our statistics, or our reason."""
    found: list[tuple[Json, Stats | str]] = []
    for case in recording(SPARSE)["case"].values():
        if case["arch"] != design:
            continue
        try:
            stats = evaluate(load(sparse_document(case)))
            assert stats.sparse
            found.append((case, stats))
        except FadiffError as error:
            found.append((case, str(error)))
    return found


@pytest.mark.parametrize("design", DESIGNS)
def test_recorded_sparse_cases_are_reproduced(design: str) -> None:
    wrong = []
    for case, stats in answers(design):
        if isinstance(stats, str):
            said = case.get("error", "accepted").removeprefix("ERROR: ")
            if stats not in said and said not in stats:
                wrong.append(f'{case["id"]} rejected: {stats} instead of {said}')
        elif case["status"] != "ok":
            wrong.append(f'{case["id"]} accepted instead of {case["error"]}')
        else:
            wrong += [f'{case["id"]}{text}' for text in unlike(case["result"], stats.to_dict())]
    assert not wrong


def test_the_sparse_recording_covers_formats_densities_and_options() -> None:
    tool, = recording(SPARSE)["tool"].values()
    everything = list(recording(SPARSE)["case"].values())
    seen = {feature for case in everything for feature in case.get("features", ())}
    assert (tool["name"], len(tool["version"])) == ("timeloop-model", 40)
    assert {case["arch"] for case in everything} == set(DESIGNS)
    assert seen >= {"format_uop", "format_cp", "format_rle", "format_b", "format_ub", "density_hypergeometric",
                    "density_fixed_structured", "density_banded", "option_gating", "option_skipping",
                    "option_skipping_spatial", "compute_option", "computes_vanish", "compression_counts",
                    "fractional_instances", "wrapped", "noise"}
    assert sum(case["status"] == "rejected" for case in everything) >= 20


@pytest.mark.parametrize(("feature", "sentence"), [
    ("wrapped", "negative"), ("noise", "an access more than there are")])
def test_faults_of_timeloop_are_followed_and_named(feature: str, sentence: str) -> None:
    found = [stats for design in DESIGNS for case, stats in answers(design) if feature in case.get("features", ())]
    assert found
    for stats in found:
        assert stats.sparse
        assert any(sentence in warning for warning in stats.warnings)


def test_areas_of_a_sparse_design_are_those_of_its_tables() -> None:
    case = next(case for case in recording(SPARSE)["case"].values() if case["arch"] == "mm2" and case["status"] == "ok")
    document = sparse_document(case)
    names = [table["name"] for table in document["ERT"]["tables"]]
    spec = load(document | {"ART": {"version": "0.4", "tables": [{"name": name, "area": 2.5} for name in names]}})
    stats = evaluate(spec)
    assert stats.areas_um2 == {name: area.total for name, area in areas(spec.arch, spec.tables).items()}
    assert sum(area > 0 for area in stats.areas_um2.values()) == len(names)
    assert stats.to_dict()["area_mm2"] == stats.area_mm2
