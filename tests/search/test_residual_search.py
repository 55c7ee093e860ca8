"""The search through residual factors: never worse, within the constraints, above its bound, the same for a seed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from fadiff_validation.random_mappings import random_nests
from kernel_parts import parts, scores_of

from fadiff_mapper import SearchOptions, evaluate, load, map_layer, map_layers
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import EXACT, UNROUNDED, evaluate_nest, score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, cut_off, nest_arrays, unpack
from fadiff_mapper.model.tiles import average_usage
from fadiff_mapper.search import residual_search
from fadiff_mapper.search.best_so_far import exact_value
from fadiff_mapper.search.lower_bound.assemble import lower_bound, residual_lower_bound
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.mapspace.build import build_mapspace, factor_ranges
from fadiff_mapper.search.mapspace.conflicts import check_mapping
from fadiff_mapper.search.options import ILLEGAL, Effort
from fadiff_mapper.search.refinement import chains_of, compiled_space

OPTIONS = SearchOptions(threads=1, imperfect=True, effort=Effort(chains=16, rounds=20, extra_rounds=0))


@pytest.fixture(autouse=True)
def a_short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual_search, "ROUNDS", (16, 4))
    monkeypatch.setattr(residual_search, "MULTIPLES", (4, 12, 14))


def pointwise(design: str = "eyeriss_like") -> Spec:
    return load(find(f"arch/{design}"), find("layers/mobilenet_v1/conv1x1_512_512_14_s1"))


@pytest.mark.slow
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
    options = replace(OPTIONS, effort=Effort(chains=4, rounds=4, extra_rounds=0, searches=1))
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
    (least, most), bounds = factor_ranges(space), spec.problem.bounds
    for more in (1, 2):
        larger = replace(spec.problem, bounds={name: size + more * (size > 7) for name, size in bounds.items()})
        nests = random_nests(layer, build_mapspace(spec.arch, larger, spec.constraints), 200, more)
        batch = cut_off(nests, list(bounds.values()))
        factors = np.stack([batch.spatial, batch.temporal], axis=1).reshape(*least.shape, -1)
        within = ((factors >= least[..., None]) & (factors <= most[..., None])).all(axis=(0, 1))
        found = evaluate_nest(layer, batch, rounding=UNROUNDED)
        rows = np.flatnonzero(found.legal & within)
        assert len(rows) >= 10
        assert (found.cycles[rows] * found.energy[rows]).min() >= bound.edp
        assert found.cycles[rows].min() >= bound.delay and found.energy[rows].min() >= bound.energy


def near(design: str, seed: int) -> tuple[MappingTask, Nest]:
    """A layer on a design, and neighbours of some of its legal mappings that have residuals."""
    task = mapping_task(pointwise(design))
    drawn = Nest(*parts.random_points(task.layer.compiled, compiled_space(task.family, 0), 20000, seed)[:6])
    here = drawn.take(np.flatnonzero(score(task.layer, drawn).legal)[:20])
    here = cut_off(here, list(task.space.problem.bounds.values()))
    space = compiled_space(task.family, 0, residuals=True)
    return task, Nest(*parts.random_neighbours(task.layer.compiled, space, nest_arrays(here), 20, seed)[:8])


@pytest.mark.parametrize("design", ["eyeriss_like", "simba_like", "gemmini_small"])
def test_moves_stay_within_the_limits_and_cover_the_bounds(design: str) -> None:
    task, found = near(design, 1)
    least, most = factor_ranges(task.space)
    bounds = list(task.space.problem.bounds.values())
    descent = parts.all_neighbours(task.layer.compiled, compiled_space(task.family, 0, residuals=True),
                                   nest_arrays(found.take(slice(0, 1))), 0)
    for nest in (found, Nest(*descent[:8])):
        factors = np.stack([nest.spatial, nest.temporal], axis=1).reshape(*least.shape, -1)
        assert nest.batch > 20 and ((factors >= least[..., None]) & (factors <= most[..., None])).all()
        for array, again in zip(nest_arrays(nest), nest_arrays(cut_off(nest, bounds)), strict=True):
            np.testing.assert_array_equal(array, again)
    for row in range(0, found.batch, 9):
        mapping = unpack(found, row, task.space.problem)
        assert mapping.imperfect and check_mapping(task.space, mapping) == []
        assert [mapping.covered(name) for name in task.space.problem.dimensions] == bounds


def test_a_mapping_is_as_good_as_the_worse_of_two_values() -> None:
    task, found = near("eyeriss_like", 2)
    exact, unrounded = (evaluate_nest(task.layer, found, rounding=rounding) for rounding in (EXACT, UNROUNDED))
    values = np.maximum(*(exact_value(scores_of(of), ("edp",)) for of in (exact, unrounded)))
    counted = average_usage(exact.tile, found)[0].computes
    values += np.log(np.maximum(task.space.problem.computes / np.maximum(counted, 1), 1))
    rows = np.flatnonzero(values < ILLEGAL)
    assert len(rows) > 20 and (counted[rows] < task.space.problem.computes).any()
    space = compiled_space(task.family, 0, residuals=True)
    for row in rows:
        chains = chains_of(task, SearchOptions(), space)
        chains.start_at(nest_arrays(found.take([row])))
        assert chains.best_value == pytest.approx(values[row], rel=1e-13)
        assert unpack(Nest(*chains.best()), 0, task.space.problem) == unpack(found, row, task.space.problem)
