"""Certificates of proofs: the checker accepts them, and none of which one number was changed."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fadiff_validation.check_certificate import Rejected, check
from fadiff_validation.cli import main as validate

from fadiff_mapper import FadiffError, load, map_layer
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.spec.spec import Spec

GEMM, POOLED = "gpt3_6b7_block/gemm_2048_4096_4096", "mobilenet_v1/dw3x3_256_28_s1"
SHAPES = {GEMM: {"M": 64, "C": 32, "P": 16}, POOLED: {"G": 8, "P": 4, "Q": 4, "R": 3, "S": 3}}


def small(design: str, layer: str) -> Spec:
    spec = load(find(f"arch/{design}"), find(f"layers/{layer}"))
    return replace(spec, problem=replace(spec.problem, bounds={name: SHAPES[layer].get(name, 1)
                                                               for name in spec.problem.bounds}))


def certified(spec: Spec, **options: Any) -> Any:
    return json.loads(json.dumps(map_layer(spec, prove=True, **options).certificate()))


def numbers(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    if isinstance(content, dict | list):
        items = content.items() if isinstance(content, dict) else enumerate(content)
        return [place for key, value in items for place in numbers(value, (*path, key))]
    return [path] if isinstance(content, int | float) and not isinstance(content, bool) else []


def changed(content: Any, place: tuple[Any, ...], rng: random.Random) -> Any:
    """The certificate with the number at a place changed, by one or by a millionth to a half of it."""
    copy = json.loads(json.dumps(content))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    number = holder[place[-1]]
    holder[place[-1]] = (number + rng.choice((-1, 1)) if isinstance(number, int)
                         else number * (1 + rng.choice((-1, 1)) * 10 ** rng.uniform(-6, -0.3)) or 1e-6)
    return copy


@pytest.mark.slow
@pytest.mark.parametrize(("design", "layer"), [
    ("gemmini_small", GEMM), ("weight_stationary", GEMM), ("eyeriss_like", POOLED), ("output_stationary", POOLED)])
def test_the_checker_accepts_a_certificate_and_no_change_of_one_number(design: str, layer: str) -> None:
    spec, rng = small(design, layer), random.Random(7)
    content = certified(spec)
    assert "proved: no mapping has less edp than" in check(content, spec)
    places = numbers(content)
    for place in rng.sample(places, min(12, len(places))):
        with pytest.raises(Rejected):
            check(changed(content, place, rng), spec)


@pytest.mark.parametrize("metric", ["energy", "delay", "last_level_accesses"])
def test_other_metrics_and_gaps_are_certified(metric: str) -> None:
    spec = small("gemmini_small", GEMM)
    check(certified(spec, metric=metric), spec)
    check(certified(spec, metric=metric, gap=0.1), spec)


def test_a_certificate_without_one_of_its_parts_is_rejected() -> None:
    spec = small("eyeriss_like", POOLED)
    content = certified(spec)
    assert content["schemes"]
    del content["schemes"][0]
    with pytest.raises(Rejected, match="is left out"):
        check(content, spec)


def test_the_certificate_of_another_problem_is_rejected() -> None:
    content = certified(small("gemmini_small", GEMM))
    with pytest.raises(Rejected):
        check(content, small("gemmini_large", GEMM))
    for nonsense in ({}, {**content, "schemes": 3}, {**content, "mapping": None}):
        with pytest.raises(Rejected):
            check(nonsense, small("gemmini_small", GEMM))


def test_commands_write_and_check_a_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(find(name)) for name in ("arch/gemmini_small", "layers/resnet18/fc_512_1000")]
    target = tmp_path / "proof.json"
    assert main(["map", *files, "-o", str(tmp_path / "out"), "--prove", "--certificate", str(target), "--quiet"]) == 0
    assert validate(["certificate", str(target), *files]) == 0
    assert "proved: no mapping has less edp than" in capsys.readouterr().out
    content = json.loads(target.read_text(encoding="utf-8"))
    target.write_text(json.dumps({**content, "value": content["value"] * 0.99}), encoding="utf-8")
    assert validate(["certificate", str(target), *files]) == 1
    assert capsys.readouterr().err.startswith("certificate: ")


def test_a_certificate_without_a_proof_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(find(name)) for name in ("arch/gemmini_small", "layers/resnet18/fc_512_1000")]
    target = str(tmp_path / "proof.json")
    assert main(["map", *files, "-o", str(tmp_path / "out"), "--certificate", target]) == 2
    assert capsys.readouterr().err.strip() == (f"error: --certificate {target}: found without --prove; accepted: one "
                                               "problem, with --prove")
    with pytest.raises(FadiffError, match="whose proof did not end"):
        map_layer(small("gemmini_small", GEMM)).certificate()
