"""Small map spaces, walked through to the last mapping: what is in them, and that the search finds their optimum."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from small_specs import matmul, product, space, whole_space

from fadiff_mapper import FadiffError, SearchOptions, load, map_layer
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, joined, unpack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.best_so_far import exact_value
from fadiff_mapper.search.exhaustive import count, nests
from fadiff_mapper.search.exhaustive import whole_space as laid_out
from fadiff_mapper.search.layer_family import family_of
from fadiff_mapper.search.mapspace.build import MapSpace, build_mapspace
from fadiff_mapper.search.mapspace.conflicts import check_mapping
from fadiff_mapper.search.options import Effort

CONV, STRIDED = "layers/resnet18/conv3x3_64_64_56_s1", "layers/resnet18/conv3x3_128_256_14_s2"
DEPTHWISE, MATMUL = "layers/mobilenet_v1/dw3x3_256_28_s1", "layers/gpt3_6b7_block/gemm_2048_4096_4096"
SMALL = ((CONV, {"M": 4, "C": 2, "P": 6}), (STRIDED, {"C": 4, "P": 3, "R": 3}), (DEPTHWISE, {"G": 4, "P": 2, "R": 3}),
         (MATMUL, {"M": 4, "C": 4, "N": 2}))


LITTLE = SearchOptions(effort=Effort(chains=32, rounds=30, extra_rounds=0))
"""An effort far below the default."""


def shrunk(design: str, layer: str, bounds: dict[str, int]) -> Spec:
    """A bundled layer with other bounds, 1 where none is given."""
    spec = load(find(f"arch/{design}"), find(layer))
    return replace(spec, problem=replace(spec.problem, bounds={n: bounds.get(n, 1) for n in spec.problem.bounds}))


def space_of(spec: Spec) -> MapSpace:
    return build_mapspace(spec.arch, spec.problem, spec.constraints)


def everything(of: MapSpace, size: int = 1000) -> Nest:
    return joined(list(nests(laid_out(of), size)))


def essence(mapping: Mapping) -> tuple[object, ...]:
    """A mapping without its loops of one iteration."""
    return tuple((tuple((n, level.temporal[n]) for n in level.order if level.temporal[n] > 1),
                  tuple(level.axis_factors("X").items()), tuple(level.axis_factors("Y").items()), level.keep)
                 for level in mapping.levels)


def essences(of: MapSpace, nest: Nest) -> list[tuple[object, ...]]:
    return [essence(unpack(nest, row, of.problem)) for row in range(nest.batch)]


# What is in a space.

def fixed_keeps(constraints: str, problem: Problem) -> MapSpace:
    """A space with further constraints in which only loops are open."""
    return space("[{target: L1, type: bypass, keep: [A, B, Z]}, {target: L2, type: bypass, bypass: [A, B, Z]}"
                 f"{constraints}]", problem)


SPACES = {
    "free": fixed_keeps("", matmul(2, 2, 2)),
    "order partly given": fixed_keeps(", {target: L2, type: spatial, permutation: N}", matmul(2, 4, 1)),
    "split, one free loop on X": fixed_keeps(", {target: L2, type: spatial, permutation: N, split: 2}",
                                             matmul(2, 2, 2)),
    "all on Y": fixed_keeps(", {target: L2, type: spatial, split: 0}", matmul(2, 2, 2)),
    "orders": fixed_keeps(", {target: L2, type: temporal, permutation: K_M},"
                          " {target: L1, type: temporal, factors: M1 K1}", matmul(2, 2, 2)),
    "keeps": space("[{target: L1, type: bypass, keep: [A], bypass: [Z]}, {target: DRAM, type: temporal, factors: M4}]",
                   matmul(4, 1, 2)),
}


@pytest.mark.parametrize("name", SPACES)
def test_every_mapping_comes_once_is_counted_and_meets_the_constraints(name: str) -> None:
    of = SPACES[name]
    nest = everything(of, size=777)
    found = essences(of, nest)
    assert len(found) == len(set(found)) == count(of)
    assert all(check_mapping(of, unpack(nest, row, of.problem)) == [] for row in range(0, nest.batch, 97))
    products = (nest.temporal * nest.spatial).prod(axis=0).T
    assert (products == list(of.problem.bounds.values())).all()


def test_nothing_is_missing_from_a_space_written_down_by_hand() -> None:
    spec = product()
    nest = whole_space(spec)
    place = np.argsort(nest.order, axis=1)
    ahead = (nest.temporal[:, None] > 1) & (place[:, None] < place[:, :, None])    # real loops inside of each loop
    rank = np.where(nest.temporal > 1, ahead.sum(axis=2), 0)
    rows = np.concatenate([part.reshape(-1, nest.batch) for part in (nest.temporal, nest.spatial, rank, nest.keep)])
    assert len(np.unique(rows.T, axis=0)) == count(space_of(spec))


@pytest.mark.parametrize("split", [0, 1, 2, 3])
@pytest.mark.parametrize("order", ["", ", permutation: N", ", permutation: N_K"])
def test_a_split_leaves_exactly_what_the_check_of_constraints_accepts(split: int, order: str) -> None:
    few = ", {target: L2, type: temporal, factors: M1 K1 N1}, {target: L1, type: temporal, factors: M1 K1 N1}"
    wide = fixed_keeps(few, matmul(2, 2, 2))
    narrow = fixed_keeps(f"{few}, {{target: L2, type: spatial, split: {split}{order}}}", matmul(2, 2, 2))
    free = everything(wide)
    mappings = [unpack(free, row, wide.problem) for row in range(free.batch)]
    accepted = {essence(mapping) for mapping in mappings if check_mapping(narrow, mapping) == []}
    assert accepted == set(essences(narrow, everything(narrow)))


def test_counting_needs_no_enumeration() -> None:
    assert count(space("[]", matmul(4096, 4096, 4096))) > 10 ** 12
    assert count(space("[]", matmul(1, 1, 1))) == 2 ** 6


# The optimum.

@pytest.mark.parametrize("metric", ["edp", "energy", "delay"])
def test_the_optimum_is_that_of_an_enumeration_by_hand(metric: str) -> None:
    spec = product()
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    best = float(exact_value(score(layer, whole_space(spec)), (metric,)).min())
    result = map_layer(spec, SearchOptions(method="exhaustive"), metric=metric)
    assert math.log(result.value) == pytest.approx(best, abs=1e-12)
    assert result.status == f"optimal: all {count(space_of(spec))} mappings evaluated"
    assert result.evaluations == count(space_of(spec))


@pytest.mark.parametrize("design", designs())
def test_the_search_finds_the_true_optimum_of_small_spaces(design: str) -> None:
    for (layer, bounds), metric in zip(SMALL, ("edp", "energy", "edp", "delay"), strict=True):
        spec = shrunk(design, layer, bounds)
        best = map_layer(spec, SearchOptions(method="exhaustive"), metric=metric)
        found = map_layer(spec, LITTLE, metric=metric)
        assert "optimal" in best.status
        assert found.value == pytest.approx(best.value, rel=1e-9), (layer, metric)


@pytest.mark.parametrize("design", ["gemmini_small", "weight_stationary", "eyeriss_like"])
@pytest.mark.parametrize(("layer", "bounds"), [(CONV, {"C": 2, "P": 2, "R": 3, "Q": 2}),
                                               (DEPTHWISE, {"G": 2, "P": 4, "R": 3}),
                                               (STRIDED, {"M": 2, "C": 2, "P": 2, "Q": 2})])
def test_the_orders_that_the_search_looks_at_hold_an_optimum_over_all_orders(
        design: str, layer: str, bounds: dict[str, int]) -> None:
    spec = shrunk(design, layer, bounds)
    of, prepared = space_of(spec), prepare_layer(spec.arch, spec.problem, spec.tables)
    nest, family = everything(of, 1 << 14), family_of(prepared, [space_of(spec)])
    known = np.ones(nest.batch, dtype=bool)
    for level, candidates in enumerate(family.orders):
        real = nest.temporal[level] > 1
        looked_at = {(mask.tobytes(), tuple(d for d in order if mask[d])) for order in candidates[0]
                     for mask in np.unique(real, axis=1).T}
        known &= [(mask.tobytes(), tuple(d for d in order if mask[d])) in looked_at
                  for mask, order in zip(real.T, nest.order[level].T, strict=True)]
    assert known.any() and not known.all()
    for metric in ("edp", "energy"):
        values = exact_value(score(prepared, nest), (metric,))
        assert values[known].min() == pytest.approx(values.min(), abs=1e-12)


# Limits.

def test_a_space_above_the_limit_is_refused_with_its_size(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = count(space_of(product()))
    with pytest.raises(FadiffError, match=f"has {size:,} mappings; an exhaustive search is limited to 100"):
        map_layer(product(), SearchOptions(method="exhaustive", exhaustive_limit=100))
    files = [str(find("arch/gemmini_small")), str(find(CONV))]
    assert main(["map", *files, "-o", str(tmp_path / "out"), "--exhaustive"]) == 2
    said = capsys.readouterr().err.strip()
    assert "limited to 20,000,000" in said and "\n" not in said
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_a_walk_that_is_stopped_says_how_far_it_came() -> None:
    spec = shrunk("gemmini_small", CONV, {"M": 4, "C": 4, "P": 4, "Q": 2})
    result = map_layer(spec, SearchOptions(method="exhaustive", time_limit=1e-3, threads=1))
    assert f"of {count(space_of(spec))} mappings" in result.status and "out of time" in result.status
    assert result.evaluations < count(space_of(spec))


def test_a_seed_is_accepted_and_changes_nothing() -> None:
    spec = shrunk("gemmini_small", *SMALL[-1])
    first, other = (map_layer(spec, SearchOptions(method="exhaustive", seed=seed, threads=1)) for seed in (0, 5))
    assert first.mapping == other.mapping and first.status == other.status
