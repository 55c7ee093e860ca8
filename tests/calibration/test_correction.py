"""The correction: features of tiled runs, their sum, its slope, its fit."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some
from kernel_parts import parts

from fadiff_mapper.base.bundled_files import one_path
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.calibration.calibrate import fit
from fadiff_mapper.calibration.correction import Calibration, FitVerdict, predict
from fadiff_mapper.calibration.features import (
    FEATURES,
    MEANING,
    NAMES,
    PROGRAMS,
    as_mapped,
    feature_table,
    gemmini,
    tensor_roles,
)
from fadiff_mapper.inputs.load import read_document, read_spec
from fadiff_mapper.inputs.native.problem import read_problem
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem, Term
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays
from fadiff_mapper.network.one_design import with_problem
from fadiff_mapper.search.calibrated_choice import calibrated_choice
from fadiff_mapper.search.layer_family import first_of
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.refinement import chains_of, compiled_space
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.workload.operator import make_operator

GOOD = FitVerdict(10, 0.9, 0.1, 0.8, 0.2)
PRICES = tuple(float(price) for price in np.linspace(0.5, 2.0, len(NAMES)))


def convolution(**bounds: int) -> Problem:
    """A convolution with bounds of 1 but for those given."""
    return make_operator("conv", {**dict.fromkeys("NCMRSPQ", 1), **bounds}).problem


def nest(problem: Problem, outer: dict[str, int], spatial: dict[str, int]) -> Nest:
    """One mapping of two levels: loops outside, spatial loops and the rest of every bound inside."""
    names = problem.dimensions
    shape = (2, len(names), 1)
    temporal, spread = np.ones(shape), np.ones(shape)
    for d, name in enumerate(names):
        temporal[1, d], spread[0, d] = outer.get(name, 1), spatial.get(name, 1)
        temporal[0, d] = problem.bounds[name] / temporal[1, d] / spread[0, d]
    order = np.broadcast_to(np.arange(len(names))[None, :, None], shape).copy()
    return Nest(temporal, spread, order, np.ones((2, 3, 1), dtype=bool), np.zeros(shape, dtype=bool), order)


def test_the_roles_of_a_convolution_and_of_a_product() -> None:
    names = convolution().dimensions
    roles = tensor_roles(convolution(R=3, S=3))

    def named(indices: tuple[int, ...]) -> set[str]:
        return {names[d] for d in indices}

    assert (named(roles.reduced), named(roles.windows), named(roles.produced)) == ({"C"}, {"R", "S"}, {"M"})
    assert (named(roles.positions), named(roles.sliding)) == ({"N", "P", "Q"}, {"P", "Q"})
    assert roles.stream is not None and names[roles.stream] == "P"
    product = read_problem(load_file(one_path("bundled:problems/matmul"))["problem"], Where("product"))[0]
    assert [product.dimensions[d] for d in tensor_roles(product).positions] == ["N"]


def test_a_problem_with_one_operand_is_refused() -> None:
    space = DataSpace("A", ((Term("M"),),))
    with pytest.raises(FadiffError, match="found 1 operands"):
        tensor_roles(Problem("copy", {"M": 4}, (space, replace(space, name="Z", read_write=True))))


def test_the_loops_at_their_word() -> None:
    problem = convolution(C=32, M=64, P=14, Q=14)
    run = as_mapped(nest(problem, {"M": 2, "C": 2, "Q": 7}, {"C": 16, "M": 8}), list(problem.bounds.values()),
                    tensor_roles(problem))
    assert (run.tiles[0], run.partial[0], run.side[0]) == (28, 2, 16)
    assert run.steps[0] == 14 * 2 * (32 // 8)    # P, Q and the sets of output channels of one tile
    assert run.blocks[0] == 4


def test_gemmini_runs_square_outputs_and_whole_blocks() -> None:
    flat = convolution(C=16, M=16, R=3, S=3, P=40, Q=4)
    mapped = nest(flat, {"P": 4}, {"C": 16, "M": 16})
    run = gemmini(mapped, list(flat.bounds.values()), tensor_roles(flat))
    assert run.tiles[0] == 4 * 10    # as 40 x 40 pixels, in tiles of 10 x 4
    product = convolution(C=1024, M=512)
    small = nest(product, {"C": 256, "M": 128}, {"C": 4, "M": 4})
    run = gemmini(small, list(product.bounds.values()), tensor_roles(product))
    assert run.tiles[0] == 256 * 128    # a tile of 4 words is one block of the side, 4
    large = nest(product, {"C": 32, "M": 16}, {"C": 4, "M": 4})
    run = gemmini(large, list(product.bounds.values()), tensor_roles(product))
    assert run.tiles[0] == 128 * 64    # 32 words are two blocks, whatever the side


@pytest.mark.parametrize("program", PROGRAMS)
@given(data=some.data())
def test_features_are_positive_and_cycles_rise_with_every_price(program: str, data: some.DataObject) -> None:
    factor = some.sampled_from([1, 2, 4])
    outer, spatial = ({name: data.draw(factor) for name in names} for names in ("CMPQ", "CM"))
    problem = convolution(C=64, M=64, P=16, Q=16, R=3, S=3)
    tiles, table = feature_table(program, problem, nest(problem, outer, spatial), 1.0)
    assert np.isfinite(table).all() and (table >= 0).all() and (tiles >= 1).all()
    cycles = predict(tiles, table, PRICES, 3.0)
    for row in range(len(NAMES)):
        dearer = [price * (2.0 if number == row else 1.0) for number, price in enumerate(PRICES)]
        assert predict(tiles, table, dearer, 3.0)[0] >= cycles[0]


def test_a_norm_of_one_sums_the_parts_and_a_large_one_takes_the_longest() -> None:
    problem = convolution(C=64, M=64, P=16, Q=16)
    tiles, table = feature_table("as-mapped", problem, nest(problem, {"M": 4}, {"C": 16, "M": 16}), 1.0)
    prices = [0.0 if name in ("launch", "first_tile") else 1.0 for name in NAMES]
    parts = [sum(table[row, 0] for row, (part, _) in enumerate(FEATURES.values()) if part == which)
             for which in ("start-up", "compute", "streams", "memory")]
    assert predict(tiles, table, prices, 1.0)[0] == pytest.approx(tiles[0] * sum(parts))
    assert predict(tiles, table, prices, 400.0)[0] == pytest.approx(tiles[0] * max(parts), rel=1e-2)


def test_torch_computes_the_same_and_its_slope() -> None:
    problem = convolution(C=64, M=64, P=16, Q=16)
    mapped = nest(problem, {"M": 4, "Q": 2}, {"C": 16, "M": 16})
    calibration = Calibration("gemmini", ("Buffer", "DRAM"), 1.0, PRICES, 3.0, GOOD)
    temporal = torch.tensor(mapped.temporal, requires_grad=True)
    relaxed = replace(mapped, temporal=temporal, spatial=torch.tensor(mapped.spatial))
    cycles = calibration.cycles(problem, relaxed)
    assert cycles.item() == pytest.approx(calibration.cycles(problem, mapped)[0])
    cycles.sum().backward()
    assert temporal.grad is not None and torch.isfinite(temporal.grad).all() and temporal.grad.abs().sum() > 0


def test_the_fit_finds_prices_that_the_points_depend_on() -> None:
    problem = convolution(C=64, M=64, P=16, Q=16, R=3, S=3)
    nests = [nest(problem, {"C": c, "M": m, "P": p, "Q": q}, {"C": 4, "M": 4})
             for c in (1, 4, 16) for m in (1, 4, 16) for p in (1, 4, 16) for q in (1, 4, 16)]
    tables = [feature_table("as-mapped", problem, each, 1.0) for each in nests]
    tiles, table = np.concatenate([t for t, _ in tables]), np.concatenate([t for _, t in tables], axis=1)
    prices = np.full(len(NAMES), 0.6)
    prices[NAMES.index("tile")], prices[NAMES.index("steps")] = 500.0, 2.0
    measured = predict(tiles, table, prices, 4.0)
    found, norm = fit(tiles, table, measured)
    assert np.abs(predict(tiles, table, found, norm) / measured - 1).mean() < 0.02
    assert found[NAMES.index("steps")] == pytest.approx(2.0, rel=0.1)
    assert (found, norm) == fit(tiles, table, measured)


def test_a_calibration_is_useful_only_where_it_beats_the_exact_model_twice() -> None:
    calibration = Calibration("gemmini", ("DRAM",), 1.0, PRICES, 3.0, GOOD)
    assert calibration.useful and set(MEANING) == set(NAMES)
    assert not replace(calibration, unseen=replace(GOOD, spearman=0.7)).useful
    assert not replace(calibration, searched=replace(GOOD, error=0.3)).useful


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("op", "bounds", "stride"), [
    ("conv", {"N": 1, "C": 24, "M": 32, "R": 3, "S": 3, "P": 28, "Q": 14}, 1),
    ("conv", {"N": 2, "C": 3, "M": 64, "R": 7, "S": 7, "P": 56, "Q": 56}, 2),
    ("conv", {"N": 1, "C": 512, "M": 1000, "R": 1, "S": 1, "P": 1, "Q": 1}, 1),
    ("conv", {"N": 1, "C": 96, "M": 256, "R": 1, "S": 1, "P": 128, "Q": 1}, 1),
    ("depthwise", {"N": 1, "C": 1, "M": 1, "G": 32, "R": 3, "S": 3, "P": 28, "Q": 28}, 1)])
def test_searches_use_the_same_corrected_cycles(program: str, op: str, bounds: dict[str, int], stride: int) -> None:
    layer = make_operator(op, bounds, (stride, stride))
    task = mapping_task(read_spec(with_problem(read_document("bundled:arch/gemmini_small"), layer.literal)))
    space = compiled_space(task.family, 0)
    calibration = Calibration(program, task.layer.arch.level_names(), 1.5, PRICES, 2.5, GOOD)
    nest = first_of(task.family, 0)
    assert nest is not None
    for step in range(3):
        near = parts.random_neighbours(task.layer.compiled, space, nest_arrays(nest), 30, step)
        nest = joined([nest, Nest(*near[:6])])
        nest = nest.take(np.flatnonzero(score(task.layer, nest).legal)[:30])
    cycles, energy = calibration.cycles(task.layer.problem, nest), score(task.layer, nest).energy
    assert len(np.unique(cycles)) > 5
    random = np.random.default_rng(1)
    for _ in range(20):
        other = replace(calibration, word_bytes=random.uniform(0.3, 4), norm=1 + random.exponential(3),
                        coefficients=tuple(random.exponential(2.0, len(NAMES))))
        compiled = parts.corrected_cycles(task.layer.compiled, other.compiled(task.layer.problem), nest_arrays(nest))
        assert np.array_equal(compiled, other.cycles(task.layer.problem, nest))
    for row in range(nest.batch):
        chains = chains_of(task, SearchOptions(), space, correction=calibration.compiled(task.layer.problem))
        chains.start_at(nest_arrays(nest.take([row])))
        assert chains.best_value == math.log(energy[row] * cycles[row] + _kernel.TINY)


def test_the_choice_by_corrected_cycles_is_no_worse_than_its_start_or_any_neighbour() -> None:
    bounds = {"N": 1, "C": 32, "M": 64, "R": 3, "S": 3, "P": 28, "Q": 28}
    document = with_problem(read_document("bundled:arch/gemmini_small"), make_operator("conv", bounds).literal)
    task, options = mapping_task(read_spec(document)), SearchOptions()
    calibration = Calibration("gemmini", task.layer.arch.level_names(), 1.0, PRICES, 2.0, GOOD)
    (outcome,) = search_all([task], options)
    best, corrected = calibrated_choice(task, outcome.nest, calibration, options)
    near = Nest(*parts.all_neighbours(task.layer.compiled, compiled_space(task.family, 0), nest_arrays(best), 0)[:6])

    def edp(nest: Nest) -> np.ndarray:
        scores = score(task.layer, nest)
        return np.where(scores.legal, scores.energy * calibration.cycles(task.layer.problem, nest), np.inf)
    assert corrected.cycles == calibration.cycles(task.layer.problem, best)[0]
    assert edp(best)[0] <= edp(outcome.nest)[0] and edp(best)[0] <= edp(near).min() * (1 + 1e-9)
    stays, _ = calibrated_choice(task, outcome.nest, calibration, replace(options, metrics=("energy",)))
    assert stays is outcome.nest
