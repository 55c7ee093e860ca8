"""The search as a whole: legal, repeatable, honest about constraints, and optimal where that can be checked."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from fadiff_validation.random_mappings import random_nests
from kernel_parts import parts
from small_specs import QUICK, product, whole_space

from fadiff_mapper import FadiffError, SearchOptions, evaluate, load, map_layer, map_layers
from fadiff_mapper.base.bundled_files import designs, find
from fadiff_mapper.gradient.layer_descent import descend
from fadiff_mapper.inputs.spec.tables import EnergyTable, Tables
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, nest_arrays, unpack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.best_so_far import exact_value
from fadiff_mapper.search.layer_family import LayerFamily, family_of, first_of
from fadiff_mapper.search.lower_bound.assemble import lower_bound
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.mapspace.conflicts import check_mapping
from fadiff_mapper.search.options import Effort
from fadiff_mapper.search.refinement import POLISH_STEPS, Refinement, compiled_space
from fadiff_mapper.search.search_many import search_all

CONV = "layers/resnet18/conv3x3_64_64_56_s1"


@pytest.mark.parametrize("metric", ["edp", "energy", "delay"])
def test_the_search_finds_the_optimum_of_a_space_that_can_be_enumerated(metric: str) -> None:
    spec = product()
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    best = float(exact_value(score(layer, whole_space(spec)), (metric,)).min())
    for seed in range(3):
        stats = map_layer(spec, QUICK, metric=metric, seed=seed).stats
        found = {"edp": stats.edp, "energy": stats.energy_pj, "delay": stats.cycles}[metric]
        assert math.log(found) == pytest.approx(best, abs=1e-9)
GRADIENT = replace(QUICK, effort=replace(QUICK.schedule, descent=partial(descend, restarts=12, steps=6)))


def test_the_search_knows_what_constraints_do_not_let_it_reuse() -> None:
    """The optimum is that of mappings without these kinds of reuse, and the mapping found says so."""
    spec = product(mapspace_constraints={"targets": [
        {"target": "Buffer", "type": "temporal", "no_temporal_reuse": ["B"], "rmw_first_update": ["Z"]},
        {"target": "Buffer", "type": "bypass", "no_coalesce": ["A"]},
        {"target": "Buffer", "type": "spatial", "no_multicast_no_reduction": ["A", "Z"], "no_link_transfer": ["B"]}]})
    layer = layer_of(spec)
    best = float(exact_value(score(layer, whole_space(spec)), ("energy",)).min())
    found = map_layer(spec, QUICK, metric="energy")
    assert math.log(found.stats.energy_pj) == pytest.approx(best, abs=1e-9)
    assert found.mapping.levels[0].no_temporal_reuse == {"B"}
    assert found.mapping.levels[0].no_multicast == {"A", "Z"}
    assert found.mapping.levels[0].no_link_transfer == {"B"}
    assert found.mapping.levels[0].rmw_first_update == {"Z"}
    assert found.mapping.levels[0].no_coalesce == {"A"}
    assert found.stats.energy_pj > map_layer(product(), QUICK, metric="energy").stats.energy_pj


def test_the_search_knows_what_timeloop_forgets() -> None:
    """DRAM coalesces no A: where the buffer keeps A, DRAM is asked for none, and where it does not, A is nowhere."""
    spec = product(mapspace_constraints={"targets": [{"target": "DRAM", "type": "bypass", "no_coalesce": ["A"]}]})
    layer = layer_of(spec)
    scores = score(layer, whole_space(spec))
    assert not scores.legal[~whole_space(spec).keep[0, 0]].any()
    found = map_layer(spec, QUICK, metric="energy")
    assert math.log(found.stats.energy_pj) == pytest.approx(
        float(exact_value(scores, ("energy",)).min()), abs=1e-9)
    forgotten = found.stats.levels[1]["dataspaces"]["A"]
    assert (forgotten["reads"], forgotten["utilized_capacity"], forgotten["energy_pj_total"]) == (0, 0, 0)
    assert found.stats.energy_pj < map_layer(product(), QUICK, metric="energy").stats.energy_pj
    bound = lower_bound(layer, build_mapspace(spec.arch, spec.problem, spec.constraints))
    assert bound is not None and 0 < bound.energy <= found.stats.energy_pj


@pytest.mark.parametrize("design", designs())
@pytest.mark.parametrize("layer", [CONV, "layers/mobilenet_v1/dw3x3_256_14_s2",
                                   "layers/gpt3_6b7_block/gemm_2048_4096_4096"])
def test_results_are_legal_and_keep_to_the_constraints(design: str, layer: str) -> None:
    spec = load(find(f"arch/{design}"), find(layer))
    result = map_layer(spec, QUICK)
    assert check_mapping(build_mapspace(spec.arch, spec.problem, spec.constraints), result.mapping) == []
    assert evaluate(replace(spec, mapping=result.mapping)).edp == result.stats.edp
    assert "converged" in result.status or result.status.startswith("proved: no mapping is better")


def test_problems_on_designs_that_differ_in_the_energy_of_the_arithmetic_are_searched_apart() -> None:
    spec = product()
    dear = replace(spec, tables=Tables(ert=(EnergyTable("chip.MAC", {"compute": 1e6}),)))
    cheap, costly = search_all([mapping_task(one) for one in (spec, dear)], replace(QUICK, metrics=("energy",)))
    assert math.exp(cheap.value) < 64e6 < math.exp(costly.value)


def test_a_fully_constrained_space_returns_that_mapping() -> None:
    targets = [{"target": "DRAM", "type": "temporal", "factors": "M=2 K=1 N=4", "permutation": "MKN"},
               {"target": "Buffer", "type": "temporal", "factors": "M=1 K=2 N=1", "permutation": "KNM"},
               {"target": "Buffer", "type": "spatial", "factors": "M=2 K=2 N=1", "permutation": "MKN"},
               {"target": "Buffer", "type": "bypass", "keep": ["A", "Z"], "bypass": ["B"]}]
    mapping = map_layer(product(mapspace_constraints={"targets": targets}), QUICK).mapping
    buffer, dram = mapping.levels
    assert dram.temporal == {"M": 2, "K": 1, "N": 4} and dram.order == ("M", "K", "N")
    assert buffer.spatial == {"M": 2, "K": 2, "N": 1} and buffer.temporal == {"M": 1, "K": 2, "N": 1}
    assert buffer.keep == {"A", "Z"}


def test_the_same_seed_gives_the_same_mapping_and_seeds_differ_in_their_way() -> None:
    spec = load(find("arch/gemmini_small"), find(CONV))
    first, second = (map_layer(spec, QUICK, seed=5) for _ in range(2))
    assert first.mapping == second.mapping and first.evaluations == second.evaluations
    assert map_layer(spec, QUICK, seed=6).evaluations != first.evaluations


def test_each_part_can_be_switched_off_and_helps() -> None:
    spec = load(find("arch/gemmini_small"), find(CONV))
    full = map_layer(spec, QUICK).stats.edp
    descended = map_layer(spec, replace(GRADIENT, effort=replace(GRADIENT.schedule, searches=0))).stats.edp
    assert descended >= full
    assert map_layer(spec, GRADIENT).stats.edp <= descended
    assert map_layer(spec, replace(QUICK, effort=replace(QUICK.schedule, searches=0))).stats.edp > descended


def test_tiles_of_unlike_shape_that_fill_one_buffer_are_compared() -> None:
    """Shifts of single divisors lead from one to another through worse mappings alone; here all chains were stuck."""
    spec = load(find("arch/gemmini_small"), find("layers/gpt3_6b7_block/gemm_2048_4096_4096"))
    wide = replace(spec, problem=replace(spec.problem, bounds=spec.problem.bounds | {"M": 14336}))
    shifts_alone = SearchOptions(effort=Effort(chains_agreeing=12, resplit_rate=0.0, crossover_rate=0.0, proof=0))
    unproved = SearchOptions(effort=Effort(proof=0))
    stuck, best = (map_layer(wide, options, seed=0).stats.edp for options in (shifts_alone, unproved))
    assert stuck > 1.1 * best and best == pytest.approx(map_layer(wide, seed=1).stats.edp, rel=0.002)


def test_a_time_limit_stops_with_the_best_so_far() -> None:
    result = map_layer(load(find("arch/gemmini_large"), find(CONV)), time_limit=1e-3)
    assert "out of time" in result.status and result.stats.cycles > 0


def test_a_problem_of_one_operation_has_one_mapping() -> None:
    spec = product()
    one = replace(spec.problem, bounds=dict.fromkeys("MKN", 1))
    assert map_layer(replace(spec, problem=one), QUICK).stats.cycles >= 1


def test_a_design_without_energies_can_be_mapped() -> None:
    free = {"tables": [{"name": f"chip.{name}", "actions": [{"name": action, "energy": 0} for action in actions]}
                       for name, actions in (("DRAM", ["read", "write", "update"]),
                                             ("Buffer", ["read", "write", "update"]), ("MAC", ["compute"]))]}
    assert map_layer(product(ERT=free), QUICK, metric=["energy", "delay"]).stats.energy_pj == 0


def test_metrics_in_order_of_priority_decide_ties() -> None:
    spec = product()
    delay, both = (map_layer(spec, QUICK, metric=metric).stats for metric in ("delay", ["delay", "energy"]))
    assert both.cycles == delay.cycles and both.energy_pj <= delay.energy_pj


def test_the_mapper_section_chooses_the_metric() -> None:
    wanted = product(mapper={"optimization_metrics": ["energy"], "timeout": 100})
    assert map_layer(wanted, QUICK).options["metrics"] == ("energy",)
    assert any("mapper.timeout has no effect" in note for note in wanted.notes)


@pytest.mark.parametrize("wrong", [
    {"metrics": ("speed",)}, {"metrics": 5}, {"time_limit": 0}, {"time_limit": -1.0}, {"time_limit": "3"}, {"seed": -1},
    {"seed": 10 ** 30}, {"seed": 1.5}, {"threads": 0}, {"threads": 10 ** 13}, {"effort": "longer"}, {"effort": 3},
    {"method": "descent"}, {"model": "rough", "method": "gradient"}, {"exhaustive_limit": 0, "method": "exhaustive"}])
def test_wrong_options_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(FadiffError, match="accepted"):
        map_layer(product(), SearchOptions(**wrong))  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"metric": "speed"}, {"metric": 5}, {"time_limit": 0}, {"seed": -1}])
def test_keyword_arguments_stand_in_place_of_options_and_are_checked_alike(wrong: dict[str, object]) -> None:
    with pytest.raises(FadiffError, match="accepted"):
        map_layer(product(), **wrong)  # type: ignore[arg-type]
    result = map_layer(product(), replace(QUICK, seed=4, metrics=("edp",)), metric="energy", seed=5)
    assert (result.options["metrics"], result.options["seed"]) == (("energy",), 5)


def family(design: str, *names: str) -> LayerFamily:
    """Layers of one shape side by side on a bundled design."""
    specs = [load(find(f"arch/{design}"), find(name)) for name in names]
    layer = prepare_layer(specs[0].arch, specs[0].problem, specs[0].tables)
    return family_of(layer, [build_mapspace(spec.arch, spec.problem, spec.constraints) for spec in specs])


def drawn(of: LayerFamily, member: int, count: int, seed: int) -> Nest:
    """Random mappings of one member."""
    return random_nests(of.layer, of.spaces[member], count, seed)


SIBLINGS = ("layers/resnet18/conv3x3_64_64_56_s1", "layers/mobilenet_v1/conv1x1_64_128_56_s1",
            "layers/vgg16/conv3x3_3_64_224_s1", "layers/resnet18/fc_512_1000")


def broken(of: LayerFamily, member: int, nest: Nest) -> list[str]:
    """Constraints of their member that the mappings break, factors that do not multiply to the bound included."""
    found, space = [], of.spaces[member]
    for row in range(nest.batch):
        mapping = unpack(nest, row, space.problem)
        found += check_mapping(space, mapping)
        for name, bound in space.problem.bounds.items():
            product = math.prod(level.temporal[name] * level.spatial[name] for level in mapping.levels)
            found += [] if product == bound else [f"{name}: {product} for {bound}"]
    return found


def placed(nest: Nest) -> np.ndarray:
    """Factors by place, [P, D, B]: the spatial loops of each level, then its temporal ones."""
    return np.stack([nest.spatial, nest.temporal], axis=1).reshape(-1, *nest.temporal.shape[1:])


def numbered(of: LayerFamily, member: int, number: np.ndarray) -> np.ndarray:
    """The divisors that numbers stand for, [P, D, B]."""
    return of.factors.divisor[member][np.arange(number.shape[1])[:, None], number]


def moved(of: LayerFamily, member: int, here: Nest, tries: int, seed: int,
          resplit_rate: float = 0.0) -> tuple[Nest, np.ndarray, np.ndarray]:
    """Random neighbours: `tries` of each mapping less those that changed nothing, numbers of divisors, origins."""
    *arrays, number, row = parts.random_neighbours(of.layer.compiled, compiled_space(of, member), nest_arrays(here),
                                                     tries, seed, resplit_rate)
    return Nest(*arrays), number, row


def around(of: LayerFamily, member: int, here: Nest) -> tuple[Nest, np.ndarray, np.ndarray]:
    """All neighbours, numbers of divisors, origins."""
    *arrays, number, row = parts.all_neighbours(of.layer.compiled, compiled_space(of, member),
                                                  nest_arrays(here), 0)
    return Nest(*arrays), number, row


@pytest.mark.slow
@pytest.mark.parametrize("design", designs())
def test_moves_stay_in_the_map_space_of_their_member(design: str) -> None:
    of = family(design, *SIBLINGS)
    for member in range(len(SIBLINGS)):
        here = drawn(of, member, 20, 3)
        for seed in range(3):
            near, number, row = moved(of, member, here, 3, seed, resplit_rate=seed / 2)
            assert broken(of, member, near) == [] and len(row) > 20
            assert (placed(near) != placed(here)[..., row]).any()
            assert np.array_equal(numbered(of, member, number), placed(near))
            here = near.take(np.arange(0, near.batch, 2))
        near, number, row = around(of, member, drawn(of, member, 1, 3))
        assert broken(of, member, near) == [] and set(row) == {0}
        assert np.array_equal(numbered(of, member, number), placed(near))


@pytest.mark.parametrize("design", designs())
def test_chains_start_in_the_map_space_of_their_member(design: str) -> None:
    of = family(design, *SIBLINGS)
    for member, space in enumerate(of.spaces):
        *arrays, number, _ = parts.random_points(of.layer.compiled, compiled_space(of, member), 40, 2)
        nest = Nest(*arrays)
        assert broken(of, member, nest) == [] and len(np.unique(number, axis=-1).T) > 20
        assert np.array_equal(numbered(of, member, number), placed(nest))
        names = space.problem.dataspace_names()
        may = np.array([[name not in level.bypass for name in names] for level in space.levels])
        must = np.array([[name in level.keep for name in names] for level in space.levels])
        assert np.array_equal(nest.keep[..., 0], may), "the first keeps what it may"
        assert np.array_equal(nest.keep[:-1, :, 1], must[:-1]) and np.array_equal(nest.keep[-1, :, 1], may[-1])


@pytest.mark.parametrize("design", ["gemmini_small", "simba_like"])
def test_moves_that_change_nothing_are_left_out(design: str) -> None:
    """Loops of one iteration may stand anywhere, so mappings are compared as they are written: without them."""
    of = family(design, *SIBLINGS)

    def written(nest: Nest, index: int, member: int) -> object:
        mapping = unpack(nest, index, of.spaces[member].problem)
        return [(level.keep, [(name, level.temporal[name]) for name in level.order if level.temporal[name] > 1],
                 level.axis_factors("X"), list(level.axis_factors("X")), level.axis_factors("Y"),
                 list(level.axis_factors("Y"))) for level in mapping.levels]

    left_out = 0
    for member in range(len(SIBLINGS)):
        here = drawn(of, member, 50, 4)
        near, _, row = moved(of, member, here, 1, 0)
        left_out += here.batch - len(row)
        assert len(set(row)) == len(row)
        assert all(written(near, index, member) != written(here, origin, member) for index, origin in enumerate(row))
    assert left_out


def test_loops_of_an_overfull_axis_change_places() -> None:
    """M=4, P=2 and C=2 fill 4 x 4 units if M has one axis and the others share the other one."""
    of = family("simba_like", "layers/vgg16/conv3x3_512_512_14_s1")
    level = next(index for index, here in enumerate(of.spaces[0].levels) if here.fanout == (4, 4))
    here, names = drawn(of, 0, 60, 1), of.spaces[0].problem.dimensions
    here.spatial[level] = 1
    for name, factor in {"M": 4, "P": 2, "C": 2}.items():
        here.spatial[level, names.index(name)] = factor
    *arrays, _, _ = parts.layouts_fitted(of.layer.compiled, compiled_space(of, 0), nest_arrays(here), 0)
    before, after = here.on_y[level], Nest(*arrays).on_y[level]

    def fit(on_y: np.ndarray) -> np.ndarray:
        m, p, c = (on_y[names.index(name)] for name in "MPC")
        fits: np.ndarray = (m != p) & (m != c)
        return fits

    assert fit(before).mean() < 0.4 and fit(after).all()
    assert np.array_equal(before[:, fit(before)], after[:, fit(before)])


def test_neighbours_are_all_single_shifts() -> None:
    """Counted by hand on 4 x 4 x 4: one dimension on three places (units, buffer, DRAM)."""
    spec = product()
    layer, space = prepare_layer(spec.arch, spec.problem, spec.tables), build_mapspace(spec.arch, spec.problem,
                                                                                spec.constraints)
    of = family_of(layer, [space])
    here = drawn(of, 0, 1, 0)
    _, number, _ = around(of, 0, here)
    own = np.log2(placed(here)[:, :, 0]).astype(int)  # divisors of 4 are 1, 2, 4: a number is a logarithm
    changed = {tuple(number[:, :, row].ravel()) for row in range(number.shape[-1])} - {tuple(own.ravel())}

    def ways(number: np.ndarray) -> int:
        """Divisors of 4 are 1, 2, 4: a place with 2 gives 2, one with 4 gives 2 or 4, to either other place."""
        return int(sum(2 * digit for digit in number))

    assert len(changed) == sum(ways(own[:, d]) for d in range(3))


@pytest.mark.parametrize("design", ["gemmini_small", "eyeriss_like"])
def test_refinement_never_returns_worse(design: str) -> None:
    of = family(design, *SIBLINGS)
    options = SearchOptions(effort=Effort(rounds=5, neighbours=1, chains=8))
    for member in range(len(SIBLINGS)):
        start = drawn(of, member, 8, 5)
        first = exact_value(score(of.layer, start), ("edp",)).min()
        refinement = Refinement(MappingTask(of.layer, of.spaces[member]), options, start, watcher=lambda *_: None,
                                within=(of, member))
        assert refinement.chains.best_value == pytest.approx(first, rel=1e-15)
        refinement.anneal()
        annealed = refinement.chains.best_value
        assert annealed <= first * (1 + 1e-15)
        assert refinement.chains.polish(POLISH_STEPS) and refinement.chains.best_value <= annealed
        assert float(exact_value(score(of.layer, refinement.best()), ("edp",))[0]) == pytest.approx(
            refinement.chains.best_value, rel=1e-15)


def test_many_problems_are_mapped_at_once_and_equal_ones_once() -> None:
    names = (*SIBLINGS, "layers/mobilenet_v1/dw3x3_256_14_s2", SIBLINGS[0])
    specs = [load(find("arch/gemmini_small"), find(name)) for name in names]
    improved: dict[int, float] = {}
    results = map_layers(specs, replace(QUICK, threads=2),
                         on_better=lambda index, result: improved.update({index: result.stats.edp}))
    assert [result.spec.problem.bounds for result in results] == [spec.problem.bounds for spec in specs]
    assert results[0].mapping == results[-1].mapping
    assert improved == {index: result.stats.edp for index, result in enumerate(results)}
    alone = map_layers(specs, replace(QUICK, threads=1))
    assert [result.mapping for result in alone] == [result.mapping for result in results]
    assert [result.bound for result in alone] == [result.bound for result in results]


def test_a_warm_start_is_improved_on_and_never_lost() -> None:
    spec = load(find("arch/gemmini_large"), find(CONV))
    good = map_layer(spec, QUICK, seed=1)
    little = Effort(chains=4, rounds=10, extra_rounds=0)
    for effort in (little, replace(little, descent=partial(descend, restarts=1, steps=1))):
        better = map_layer(spec, SearchOptions(effort=effort), warm_start=good.mapping)
        assert better.stats.edp <= good.stats.edp
    kept = map_layer(spec, SearchOptions(effort=Effort(searches=0)), warm_start=good.mapping)
    assert kept.stats.edp <= good.stats.edp


def test_a_search_that_is_told_to_stop_returns_what_it_has() -> None:
    specs = [load(find("arch/gemmini_large"), find(name)) for name in SIBLINGS]
    results = map_layers(specs, stopped=lambda: True)
    assert all("interrupted" in result.status and result.stats.cycles > 0 for result in results)


def test_a_result_knows_its_history(tmp_path: Path) -> None:
    result = map_layer(product(), QUICK)
    values = [step["value"] for step in result.history if step["value"] is not None]
    assert values == sorted(values, reverse=True) and values[-1] == pytest.approx(result.stats.edp, rel=1e-9)
    result.write(tmp_path / "out")
    assert (tmp_path / "out" / "timeloop-mapper.stats.txt").read_text().startswith("# Written by fadiff_mapper")


@pytest.mark.parametrize("design", designs())
@pytest.mark.parametrize("layer", [CONV, "layers/mobilenet_v1/dw3x3_256_14_s2", "layers/vgg16/fc_4096_4096"])
def test_a_first_legal_mapping_is_there_at_once(design: str, layer: str) -> None:
    spec = load(find(f"arch/{design}"), find(layer))
    space = build_mapspace(spec.arch, spec.problem, spec.constraints)
    nest = first_of(family_of(prepare_layer(spec.arch, spec.problem, spec.tables), [space]), 0)
    assert nest is not None
    mapping = unpack(nest, 0, spec.problem)
    assert check_mapping(space, mapping) == [] and evaluate(replace(spec, mapping=mapping)).cycles > 0


@pytest.mark.parametrize("seed", [0, 4])
def test_a_search_that_ends_far_above_what_is_proved_proves_once_more(seed: int) -> None:
    spec = load("bundled:arch/simba_like", "bundled:layers/mobilenet_v1/conv1x1_512_512_14_s1")
    assert map_layer(spec, metric="last_level_accesses", seed=seed).status == "proved: no mapping is better"
