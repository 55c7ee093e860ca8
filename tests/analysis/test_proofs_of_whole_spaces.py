"""Whole map spaces, evaluated to the last mapping: the branch and bound ends at the best one of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from small_specs import PRICES
from strategies import SHAPES, cases, dataspace, packed_cases

from fadiff_mapper.inputs.spec.constraints import Constraints, LevelConstraints, LoopConstraint
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.model.loop_nest import Nest, joined, unpack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.exhaustive import count, nests, whole_space
from fadiff_mapper.search.lower_bound.proof import TOLERANCE, MappingProof, prove, unprovable
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.mapspace.build import LevelSpace, build_mapspace
from fadiff_mapper.search.mapspace.conflicts import check_mapping
from tests.analysis.test_proof import scores_of, values

DEPTHWISE = (dataspace("Weights", "G", "R"), dataspace("Inputs", "G", "2P+R"),
             dataspace("Outputs", "G", "P", read_write=True))
KINDS = SHAPES | {"depthwise": DEPTHWISE}

FEW, MOST = 30, 20_000
"""Mappings of a space at least and at most, illegal ones included."""

MAPPINGS = st.sampled_from(sorted(KINDS)).flatmap(lambda kind: cases({kind: KINDS[kind]}, loops=8, memories=4)
                                                  | packed_cases({kind: KINDS[kind]}, loops=8, memories=4))
MEMORIES = st.fixed_dictionaries({"size": st.integers(1, 60), "block_size": st.integers(1, 2),
                                  "multiple_buffering": st.sampled_from([1, 1, 2])})
WIRES = st.fixed_dictionaries({"wire_energy": st.sampled_from([0.0, 0.0, 0.01]), "tile_width": st.just(100.0),
                               "fill_latency": st.sampled_from([0.0, 0.0, 3.0])})
FACTORS = st.dictionaries(st.integers(0, 3), st.sampled_from(["fixed", "minimum", "maximum"]), max_size=2)
ENDS = st.tuples(st.integers(0, 4), st.integers(0, 4)).map(sorted)


@st.composite
def limits(draw: st.DrawFn, factors: dict[str, int], order: tuple[str, ...],
           split: int | None = None) -> LoopConstraint:
    """Limits that the loops of a level meet: on some factors, on the innermost and the outermost loops."""
    said, (inner, outer) = draw(FACTORS), draw(ENDS)
    return LoopConstraint(**{limit: {name: factors[name] for d, name in enumerate(order) if said.get(d) == limit}
                             for limit in ("fixed", "minimum", "maximum")},
                          inner=order[:inner], outer=order[max(inner, outer):], split=split)


@st.composite
def small_tasks(draw: st.DrawFn) -> MappingTask:
    """The space of a layer under constraints that a mapping meets, on memories of some sizes."""
    case = draw(MAPPINGS)
    every = frozenset(case.problem.dataspace_names())
    levels, said = [], []
    for level, own in zip(case.arch.levels, case.mapping.levels, strict=True):
        outermost = level is case.arch.levels[-1]
        levels.append(replace(level, **({} if outermost else draw(MEMORIES)),
                              interconnect=replace(level.interconnect, **draw(WIRES))))
        here = LevelConstraints()
        if outermost or draw(st.booleans()):
            here = replace(here, keep=own.keep, bypass=every - own.keep)
        if draw(st.booleans()):
            split = own.split if draw(st.booleans()) else None
            here = replace(here, temporal=draw(limits(own.temporal, own.order)),
                           spatial=draw(limits(own.spatial, own.spatial_order, split)))
        said.append(here)
    arch = replace(case.arch, levels=tuple(levels))
    constraints = Constraints(tuple(said), min_parallelism=draw(st.sampled_from([0.0, 0.0, 0.3])))
    return MappingTask(prepare_layer(arch, case.problem, PRICES), build_mapspace(arch, case.problem, constraints))


def proofs_of(task: MappingTask, metric: str, nest: Nest, found: np.ndarray) -> tuple[MappingProof, MappingProof]:
    """The proofs from the worst mapping of a space and from the one next to the best, which end at the best one of all.

    The second one shows bounds that are a little too high, and divides parts down to the innermost level.
    """
    ranked = np.argsort(found)[:np.isfinite(found).sum()]
    best = found[ranked[0]]
    worse = ranked[found[ranked] > best * (1 + 2 * TOLERANCE)]
    next_best, worst = (worse if worse.size else ranked)[[0, -1]]
    searched = prove(task.layer, task.space, metric, nest.take(worst[None]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fadiff_mapper.search.lower_bound.proof.BUDGET", 1)
        divided = prove(task.layer, task.space, metric, nest.take(next_best[None]))
    for proof in (searched, divided):
        assert proof.gap == 0
        assert proof.value == pytest.approx(best, rel=2 * TOLERANCE, abs=0)
        assert proof.least <= best * (1 + TOLERANCE)
        assert values(scores_of(task, proof.nest), metric) == pytest.approx(proof.value, rel=1e-12)
        assert check_mapping(task.space, unpack(proof.nest, 0, task.space.problem)) == []
    return searched, divided


@pytest.mark.hypothesis  # as the spaces are drawn within
@pytest.mark.parametrize("number", [50, pytest.param(615, marks=pytest.mark.slow)])
def test_the_proof_ends_at_the_best_mapping_of_every_enumerated_space(number: int) -> None:
    spaces: list[tuple[Problem, tuple[LevelSpace, ...]]] = []
    kinds: set[tuple[object, ...]] = set()
    depths: set[int] = set()
    seen: Counter[str] = Counter()

    @given(small_tasks())
    @settings(max_examples=number, suppress_health_check=[HealthCheck.filter_too_much])
    def enumerate_and_prove(task: MappingTask) -> None:
        space = task.space
        assume(FEW <= count(space) <= MOST and (space.problem, space.levels) not in spaces)
        nest = joined(list(nests(whole_space(space), MOST)))
        scores, units = scores_of(task, nest), nest.spatial.prod(axis=(0, 1))
        legal = scores.legal & (units >= space.constraints.min_parallelism * space.available)
        assume(legal.any())
        assert nest.batch == count(space)
        assert unprovable(task.layer) is None
        for metric in METRICS:
            found = values(replace(scores, legal=legal), metric)
            searched, divided = proofs_of(task, metric, nest, found)
            seen["improved"] += int(found[legal].max() > searched.value * (1 + TOLERANCE))
            seen["evaluated"] += searched.mappings > 0
            seen["divided"] += divided.parts > searched.parts
        seen["legal"] += int(legal.sum())
        seen["partly legal"] += not legal.all()
        spaces.append((space.problem, space.levels))
        kinds.add(tuple(dataspace.ranks for dataspace in space.problem.dataspaces))
        depths.add(len(space.levels))

    enumerate_and_prove()
    assert len(spaces) == number
    assert len(kinds) > len(KINDS) / 2
    assert depths >= {2, 3, 4}
    assert seen["legal"] > 100 * number
    assert seen["partly legal"] > number / 2
    assert min(seen[what] for what in ("improved", "evaluated", "divided")) > len(METRICS) * number / 2
