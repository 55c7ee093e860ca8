"""Nests with residuals: what the factors cover, how they are written, and what is left of them without residuals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_nests
from hypothesis import given
from hypothesis import strategies as st

from fadiff_mapper import evaluate, load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.located import with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import cut_off, pack, unpack, without_lasts
from fadiff_mapper.model.stats import stats_of
from fadiff_mapper.output.run_files import map_txt
from fadiff_mapper.search.mapspace.build import build_mapspace


def product(m: int = 7, registers: int = 1) -> dict[str, Any]:
    """A product of m x 4 x 4 on four units below a buffer, or below registers: seven rows are runs of four and 3."""
    levels = [{"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16}},
              {"name": "Buffer", "class": "SRAM", "attributes": {"depth": 128, "width": 16, "word_bits": 16}}]
    if registers > 1:
        levels.append({"name": f"Reg[0..{registers - 1}]", "class": "regfile",
                       "attributes": {"depth": 16, "width": 16, "word_bits": 16}})
    levels.append({"name": "MAC[0..3]", "class": "mac", "attributes": {"word_bits": 16}})
    return {
        "architecture": {"version": 0.3, "subtree": [{"name": "chip", "local": levels}]},
        "problem": {"shape": {"name": "product", "dimensions": ["M", "K", "N"], "data_spaces": [
            {"name": "A", "projection": [[["M"]], [["K"]]]}, {"name": "B", "projection": [[["K"]], [["N"]]]},
            {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True}]},
            "instance": {"M": m, "K": 4, "N": 4}},
        "mapping": [{"target": "DRAM", "type": "temporal", "factors": "M=2", "permutation": "MKN"},
                    {"target": "Buffer", "type": "temporal", "factors": "K=4 N=4", "permutation": "KNM"},
                    {"target": "Buffer", "type": "spatial", "factors": "M=4,3", "permutation": "MKN"}]}


@cache
def spec_on(design: str, layer: str) -> Spec:
    return load(find(f"arch/{design}"), find(f"layers/{layer}"))


def test_a_spatial_residual_is_read_evaluated_and_written() -> None:
    spec = load(product())
    assert spec.mapping is not None and spec.mapping.imperfect and spec.mapping.covered("M") == 7
    assert spec.mapping.levels[0].spatial_last == {"M": 3}
    stats = evaluate(spec)
    assert (stats.cycles, stats.computes) == (32, 112)  # two runs of 16 cycles; 3.5 units on average
    assert "for M in [0:4,3) (Spatial-X)" in map_txt(spec, spec.mapping, stats)
    written = literal_mapping(spec.mapping, spec.arch, spec.problem)
    assert any(one.get("factors") == "M=4,3 K=1 N=1" for one in written)
    assert read_mapping(with_places(written, Where("again")), Where("again"), spec.arch, spec.problem) == spec.mapping
    assert "M=4,3" in spec.mapping.loop_nest_html(spec.arch.level_names())


def test_faults_of_timeloops_own_are_named() -> None:
    document = product(11, registers=4)
    document["mapping"][0]["factors"] = "M=2"
    document["mapping"][1]["factors"] = "M=2,1 K=4 N=4"
    stats = evaluate(load(document))  # 3.67 registers on average count as 3, of 48 computes each
    assert stats.computes == 144 and stats.cycles == 64 and len(stats.warnings) == 3
    assert "counts 144 multiply-accumulates where the problem has 176" in stats.warnings[0]
    assert stats.to_dict()["warnings"] == list(stats.warnings)
    perfect = document | {"mapping": [{"target": "DRAM", "type": "temporal", "factors": "M=11 K=4 N=4",
                                       "permutation": "MKN"}]}
    assert "warnings" not in evaluate(load(perfect)).to_dict()


def test_the_outermost_loop_of_a_dimension_has_no_spatial_residual() -> None:
    document = product(3)
    document["mapping"] = [{"target": "DRAM", "type": "temporal", "factors": "K=4 N=4", "permutation": "MKN"},
                           {"target": "Buffer", "type": "spatial", "factors": "M=4,3", "permutation": "MKN"}]
    with pytest.raises(FadiffError, match=r"outermost loop of dimension M is the spatial factor 4 with the residual 3"):
        load(document)


def test_what_does_not_model_residuals_says_so(tmp_path: Path) -> None:
    spec = load(product())
    assert spec.mapping is not None
    with pytest.raises(FadiffError, match="residual factors such as P=4,2 are not supported here"):
        pack([spec.mapping], spec.problem)
    files = [str(find("arch/gemmini_small")), str(find("layers/resnet18/conv3x3_512_512_7_s1"))]
    for flag in ("--exhaustive", "--sensitivities"):
        assert main(["map", *files, "-o", str(tmp_path / "out"), "--imperfect", flag]) == 2
    assert not (tmp_path / "out").exists()


@given(st.lists(st.integers(1, 9), min_size=6, max_size=6), st.integers(1, 300))
def test_cut_off_factors_cover_the_bound_exactly(factors: list[int], bound: int) -> None:
    spec = spec_on("gemmini_small", "resnet18/conv3x3_512_512_7_s1")
    layer, space = layer_of(spec), build_mapspace(spec.arch, spec.problem, spec.constraints)
    nest = random_nests(layer, space, 1, 0)
    temporal = nest.temporal.copy()
    temporal[:, 5, 0] = (factors * 2)[:len(temporal)]
    bounds = np.array(list(spec.problem.bounds.values()), dtype=np.float64)
    bounds[5] = bound
    mapping = unpack(cut_off(replace(nest, temporal=temporal), bounds), 0, spec.problem)
    assert [mapping.covered(name) for name in spec.problem.dimensions] == bounds.tolist()
    assert all(1 <= last < getattr(level, kind)[name] for level in mapping.levels for kind in ("temporal", "spatial")
               for name, last in getattr(level, f"{kind}_last").items())


@pytest.mark.parametrize("design", ["eyeriss_like", "simba_like", "gemmini_small"])
def test_without_residuals_the_walk_counts_what_the_dense_evaluation_counts(design: str) -> None:
    spec = spec_on(design, "resnet18/conv3x3_128_256_14_s2")
    layer = layer_of(spec)
    nest = random_nests(layer, build_mapspace(spec.arch, spec.problem, spec.constraints), 40, 1)
    dense = evaluate_nest(layer, nest, details=True)
    whole = cut_off(nest, list(spec.problem.bounds.values()))
    walked = evaluate_nest(layer, whole, details=True)
    assert without_lasts(whole).residual is False
    assert dense.legal.tolist() == walked.legal.tolist() and dense.legal.any()
    for row in np.flatnonzero(dense.legal):
        ours, theirs = (stats_of(layer, found, row).to_dict() for found in (walked, dense))
        assert _close(ours, theirs)


def _close(ours: object, theirs: object) -> bool:
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_close(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_close, ours, theirs))
    return ours == theirs or (isinstance(ours, float) and ours == pytest.approx(theirs, rel=1e-12))
