"""The search through residual factors: never worse, within the constraints, above its bound, the same for a seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from fadiff_mapper import SearchOptions, evaluate, load, map_layer, map_layers
from fadiff_mapper.analysis.lower_bound import lower_bound, residual_lower_bound
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.imperfect.evaluate_residuals import averaged, walk_residuals
from fadiff_mapper.imperfect.residual_nest import cut_off
from fadiff_mapper.mapspace import build_mapspace, check_mapping
from fadiff_mapper.model.exact.evaluate_spec import layer_of
from fadiff_mapper.search import residual_search
from fadiff_mapper.search.layer_family import random_nests
from fadiff_mapper.search.options import Effort
from fadiff_mapper.search.residual_moves import factor_limits, within
from fadiff_mapper.spec.spec import Spec

OPTIONS = SearchOptions(threads=1, imperfect=True, effort=Effort(chains=16, rounds=20, extra_rounds=0))


@pytest.fixture(autouse=True)
def a_short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual_search, "ROUNDS", 8)
    monkeypatch.setattr(residual_search, "NEIGHBOURS", 48)
    monkeypatch.setattr(residual_search, "MULTIPLES", (4, 12, 14))


def pointwise(design: str = "eyeriss_like") -> Spec:
    return load(find(f"arch/{design}"), find("layers/mobilenet_v1/conv1x1_512_512_14_s1"))


def test_residuals_fill_an_array_that_no_divisor_fills() -> None:
    spec = pointwise()
    without = map_layer(spec, replace(OPTIONS, imperfect=False))
    found, again = map_layer(spec, OPTIONS), map_layer(spec, OPTIONS)
    assert found.mapping.imperfect and found.stats.edp < 0.75 * without.stats.edp
    assert all(found.mapping.covered(name) == bound for name, bound in spec.problem.bounds.items())
    assert check_mapping(build_mapspace(spec.arch, spec.problem, spec.constraints), found.mapping) == []
    assert evaluate(replace(spec, mapping=found.mapping)).to_dict() == found.stats.to_dict()
    assert found.bound is not None and found.bound.edp <= found.stats.edp
    assert found.mapping == again.mapping and found.evaluations == again.evaluations


def test_fixed_factors_that_divide_nothing_are_kept_and_cut_off() -> None:
    """As `timeloop-mapper` takes them: 14 rows by a fixed 3 leave 5 to the free factors; the last run is shorter."""
    spec = pointwise()
    outermost = spec.constraints.levels[-1]
    temporal = replace(outermost.temporal, fixed={**outermost.temporal.fixed, "P": 3})
    spec = replace(spec, constraints=replace(spec.constraints, levels=(
        *spec.constraints.levels[:-1], replace(outermost, temporal=temporal))))
    with pytest.raises(FadiffError, match="P=14 cannot be split: temporal P=3 at DRAM alone does not divide it"):
        map_layer(spec, replace(OPTIONS, imperfect=False))
    better: list[dict[str, object]] = []
    found, = map_layers([spec], OPTIONS, on_better=lambda _, result: better.append(result.stats.to_dict()))
    assert found.mapping.imperfect and found.mapping.levels[-1].temporal["P"] == 3
    assert all(found.mapping.covered(name) == bound for name, bound in spec.problem.bounds.items())
    assert evaluate(replace(spec, mapping=found.mapping)).to_dict() == found.stats.to_dict() == better[-1]
    assert len(better) > 1 and all(stats["computes"] == found.stats.computes for stats in better)
    with pytest.raises(FadiffError, match="warm start: found with constraints whose factors do not divide"):
        map_layer(spec, OPTIONS, warm_start=found.mapping)


def test_the_command_writes_residuals_that_can_be_evaluated_again(tmp_path: Path) -> None:
    files = [str(find("arch/eyeriss_like")), str(find("layers/mobilenet_v1/conv1x1_512_512_14_s1"))]
    assert main(["map", *files, "-o", str(tmp_path), "--imperfect", "--quiet", "--effort", "light"]) == 0
    spec = load(tmp_path / "fadiff.input.yaml")
    assert spec.mapping is not None and spec.mapping.imperfect
    written = yaml.safe_load((tmp_path / "timeloop-mapper.map.yaml").read_text(encoding="utf-8"))["mapping"]
    assert any("," in one.get("factors", "") for one in written)
    assert f"Cycles: {evaluate(spec).cycles}\n" in (tmp_path / "timeloop-mapper.stats.txt").read_text(encoding="utf-8")


def test_a_mapping_whose_walk_would_be_too_long_is_kept() -> None:
    """Residuals are walked call by call, up to 2^24 calls; a mapping without residuals needs no walk."""
    names = "ABCDEFGHIJKLM"
    spec = load({
        "architecture": {"version": "0.3", "subtree": [{"name": "chip", "local": [
            {"name": "DRAM", "class": "DRAM", "attributes": {"word_bits": 16}},
            {"name": "MAC", "class": "mac", "attributes": {"word_bits": 16}}]}]},
        "problem": {"shape": {"name": "large", "dimensions": list(names), "data_spaces": [
            {"name": "A", "projection": [[[name]] for name in names[::2]]},
            {"name": "B", "projection": [[[name]] for name in names[::3]]},
            {"name": "Z", "projection": [[[name]] for name in names[1::2]], "read_write": True}]},
            "instance": dict.fromkeys(names, 4)}})
    options = replace(OPTIONS, chains=4, rounds=4, searches=1)
    found, without = map_layer(spec, options), map_layer(spec, replace(options, imperfect=False))
    assert found.stats.edp == without.stats.edp and found.stats.computes == 4 ** 13


def test_sparse_designs_are_refused_by_name() -> None:
    spec = pointwise()
    spec = replace(spec, problem=replace(spec.problem, densities={"Inputs": object()}))
    with pytest.raises(FadiffError, match="imperfect: found with densities"):
        map_layer(spec, OPTIONS)


@pytest.mark.parametrize("design", ["eyeriss_like", "output_stationary", "gemmini_small"])
def test_no_mapping_with_residuals_is_below_the_bound(design: str) -> None:
    spec = pointwise(design)
    layer, space = layer_of(spec), build_mapspace(spec.arch, spec.problem, spec.constraints)
    bound, of_divisors = residual_lower_bound(layer, space), lower_bound(layer, space)
    assert bound is not None and of_divisors is not None and bound.edp <= of_divisors.edp
    limits, bounds = factor_limits(space), spec.problem.bounds
    for more in (1, 2):
        larger = replace(spec.problem, bounds={name: size + more * (size > 7) for name, size in bounds.items()})
        nests = random_nests(layer, build_mapspace(spec.arch, larger, spec.constraints), 200, more)
        batch = cut_off(nests, limits.bounds)
        found = averaged(layer, walk_residuals(layer, batch))
        rows = np.flatnonzero(found.legal & within(batch, limits))
        assert len(rows) >= 10
        assert (found.cycles[rows] * found.energy[rows]).min() >= bound.edp
        assert found.cycles[rows].min() >= bound.delay and found.energy[rows].min() >= bound.energy
