"""Densities and sparse optimizations in both dialects, and mistakes in them."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from recorded_cases import RECORDED, Json, recording

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.load import load, merged_input
from fadiff_mapper.inputs.spec.sparse_optimizations import BANDED, DENSE, FIXED, HYPERGEOMETRIC, Density
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump

SPARSE = RECORDED.with_name("timeloop_sparse.jsonl.gz")


def native(design: str, problem: str, **instance: Any) -> Json:
    line, layer = recording(SPARSE)["arch"][design], recording(SPARSE)["problem"][problem]["problem"]
    found = {line["key"]: line["native"], "problem": {**layer, "instance": {**layer["instance"], **instance}},
             "ERT": line["ert"], "sparse_optimizations": line["sparse_optimizations"]}
    return copy.deepcopy({key: value for key, value in found.items() if value is not None})


@pytest.mark.parametrize(("design", "problem"), [
    ("dot1", "dot_32"), ("mm2", "mm_8"), ("fan_cp", "mm_8"), ("tensor24", "mm_8"), ("rs_rle", "conv3x3"),
    ("bitmask3", "conv3x3")])
def test_the_official_form_says_what_its_translation_says(design: str, problem: str, tmp_path: Path) -> None:
    line = recording(SPARSE)["arch"][design]
    (tmp_path / "arch.yaml").write_text(line["v04"], encoding="utf-8")
    (tmp_path / "rest.yaml").write_text(yaml.safe_dump({key: value for key, value in native(
        design, problem, densities={"A": {"distribution": "fixed_structured", "density": "(1 / 2)"}}
        if "A" in str(recording(SPARSE)["problem"][problem]) else {}).items() if key in ("problem", "ERT")}),
        encoding="utf-8")
    official, translated = load(tmp_path / "arch.yaml", tmp_path / "rest.yaml"), load(native(design, problem))
    assert official.arch == translated.arch
    assert official.sparse == translated.sparse is not None


def density(**instance: Any) -> dict[str, Density]:
    return load(native("dot1", "dot_32", **instance)).problem.densities


def test_every_distribution_is_read() -> None:
    assert density(densities={"A": 0.25, "B": {"distribution": "hypergeometric", "density": 0.5}}) == {
        "A": Density(FIXED, 0.25), "B": Density(HYPERGEOMETRIC, 0.5)}
    assert density(densities={"A": {"distribution": "diagonal", "band_width": 2, "workload_tensor_size": None}}) == {
        "A": Density(BANDED, 1.0, 2)}
    assert density(commonDensity=0.75) == dict.fromkeys("ABZ", Density(FIXED, 0.75))
    assert load(native("dot1", "dot_32", densities={})).problem.density("A") == DENSE


def rewritten(spec: Spec) -> Spec:
    return load(yaml.safe_load(dump(merged_input(spec))))


def test_what_is_written_out_is_read_again() -> None:
    spec = load(native("mm2", "mm_8", densities={"A": 0.5, "B": {"distribution": "banded", "band_width": 1}}))
    again = rewritten(spec)
    assert (again.problem, again.sparse, again.arch.levels) == (spec.problem, spec.sparse, spec.arch.levels)


def test_a_key_that_timeloop_passes_over_changes_nothing() -> None:
    """Timeloop never rewrites `payload-word-bits`, as `word-bits` is rewritten first: it takes its default width."""
    plain = native("rs_rle", "conv3x3")
    old = copy.deepcopy(plain)
    stored = next(target["representation_format"] for target in old["sparse_optimizations"]["targets"]
                  if "representation_format" in target)
    stored["data_spaces"][0]["ranks"][0]["payload-word-bits"] = 7
    with pytest.raises(SpecError, match='unknown key "payload-word_bits" of a rank'):
        load(old)
    lenient = load(old, strict=False)
    assert lenient.sparse == load(plain).sparse
    assert [text.split(": ", 2)[2] for text in lenient.warnings] == [
        'unknown key "payload-word_bits" of a rank (did you mean "payload_word_bits"?): Timeloop ignores it']


BAD = [
    ({"densities": {"A": 1.5}}, {}, "found a density of 1.5; accepted: a number from 0 to 1"),
    ({"densities": {"Q": 0.5}}, {}, 'unknown data space "Q"'),
    ({"densities": {"A": {"distribution": "normal", "density": 0.5}}}, {}, 'unknown distribution "normal"'),
    ({"densities": {"A": {"distribution": "hypergeometric"}}}, {}, 'the key "density" of the hypergeometric'),
    ({}, {"name": "Bufer", "action_optimization": []}, 'unknown storage level "Bufer" (did you mean "Buffer"?)'),
    ({}, {"name": "Buffer", "action_optimization": [{"type": "spatial_skipping", "target": "A",
                                                     "condition_on": ["B"]}]}, "Timeloop aborts on this word"),
    ({}, {"name": "Buffer", "action_optimization": [{"type": "gating", "target": "A"}]}, '"condition_on" is missing'),
    ({}, {"name": "Buffer", "representation_format": {"data_spaces": [{"name": "A", "ranks": [{"format": "CSR"}]}]}},
     'unknown format "CSR"; accepted: CP, RLE, B, UB, UOP'),
    ({}, {"name": "Buffer", "representation_format": {"data_spaces": [
        {"name": "A", "ranks": [{"format": "CP"}, {"format": "UOP"}]}]}}, "lower rank uncompressed"),
    ({}, {"name": "Buffer", "representation_format": {"data_spaces": [
        {"name": "A", "ranks": [{"format": "CP", "metadata_word_bits": 9}]}]}}, "metadata storage width at Buffer"),
    ({}, {"name": "Buffer", "compute_optimization": [{"type": "gating"}]}, 'the arithmetic, "mac"'),
]


@pytest.mark.parametrize(("instance", "target", "sentence"), BAD)
def test_a_mistake_gets_one_clear_line(instance: Json, target: Json, sentence: str) -> None:
    document = native("dot1", "dot_32", **instance)
    if target:
        document["sparse_optimizations"] = {"targets": [target]}
    with pytest.raises(SpecError) as caught:
        load(document)
    assert sentence in str(caught.value)
    assert len(caught.value.problems) == 1
