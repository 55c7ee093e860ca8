"""Sparse inputs for tests: recorded and drawn ones, and the scores of the full evaluation."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from kernel_parts import scores_of
from recorded_cases import RECORDED, Json, recording

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.problem import DataSpace
from fadiff_mapper.inputs.spec.sparse_optimizations import (
    BANDED,
    FIXED,
    FORMATS,
    HYPERGEOMETRIC,
    ConditionedAccess,
    Density,
    LevelOptimizations,
    RankFormat,
    Representation,
    SparseOptimizations,
)
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.evaluate import Scores, evaluate_nest
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.sparse_accesses import evaluate_sparse
from fadiff_mapper.model.sparse_design import SparseDesign

SPARSE = RECORDED.with_name("timeloop_sparse.jsonl.gz")
DESIGNS = ("dot1", "mm2", "fan_cp", "rs_rle", "tensor24", "bitmask3", "dram_only", "gate_mac", "tight_md")


def sparse_document(case: Json) -> Json:
    """The whole input of a recorded case."""
    arch, problem = recording(SPARSE)["arch"][case["arch"]], recording(SPARSE)["problem"][case["problem"]]["problem"]
    options = {} if case["sparse_optimizations"] is None else {"sparse_optimizations": case["sparse_optimizations"]}
    instance = {**problem["instance"], **(case["densities"] or {})}
    return {arch["key"]: arch["native"], "ERT": arch["ert"], "problem": {**problem, "instance": instance},
            "mapping": case["mapping"], **options}


def recorded_specs(design: str) -> Iterator[Spec]:
    """The recorded inputs of a design with optimizations, one for each problem, densities and options."""
    seen = set()
    for case in recording(SPARSE)["case"].values():
        key = json.dumps([case["problem"], case["densities"], case["sparse_optimizations"]])
        if case["arch"] == design and case["sparse_optimizations"] is not None and key not in seen:
            seen.add(key)
            try:
                yield load(sparse_document(case))
            except FadiffError:
                continue


def skipping_product(densities: dict[str, float]) -> Spec:
    """A matrix product below one buffer that skips B where A is empty."""
    arch, problem = recording(SPARSE)["arch"]["gate_mac"], recording(SPARSE)["problem"]["mm_8"]["problem"]
    options = {"targets": [{"name": "Loc", "action_optimization": [
        {"type": "skipping", "target": "B", "condition_on": ["A"]}]}]}
    return load({"architecture": arch["native"], "ERT": arch["ert"], "sparse_optimizations": options, "problem": {
        **problem, "instance": {**problem["instance"], "densities": densities}}})


def full_scores(design: SparseDesign, nest: Nest) -> Scores:
    """Scores of a batch from the whole evaluation of each mapping; what Timeloop refuses or aborts on is illegal."""
    illegal = np.array(scores_of(evaluate_nest(design.layer, nest)).excess) + _kernel.REJECTED
    cycles, energy, last = np.zeros((3, nest.batch))
    legal, excess = np.zeros(nest.batch, dtype=np.bool_), illegal
    for row in range(nest.batch):
        try:
            found = evaluate_sparse(design, evaluate_nest(design.layer, nest.take([row])),
                                    unpack(nest, row, design.layer.problem))
        except FadiffError:
            continue
        legal[row], excess[row], cycles[row], energy[row] = True, 0.0, math.floor(found.cycles[0]), found.energy[0]
        words = found.counts.reads[-1] + found.counts.updates[-1] + found.counts.fills[-1]
        last[row] = np.trunc(found.average[-1, :, None] * words).sum()
    return Scores(cycles, energy, last, legal, excess)


def drawn_spec(base: Spec, rng: random.Random) -> Spec:
    """A design whose densities, formats, optimizations, blocks and conversions are drawn from all that there are."""
    names, dims = base.problem.dataspace_names(), base.problem.dimensions

    def density(space: DataSpace) -> Density:
        extents = space.tile_extents(base.problem.bounds)
        square = len(extents) == 2 and extents[0] == extents[1]
        kind = rng.choice((FIXED, HYPERGEOMETRIC, *([BANDED] * square)))
        return Density(kind, 1.0 if kind == BANDED else rng.choice((0.0, 0.1, 0.25, 0.5, 0.9, 1.0, rng.random())),
                       rng.randrange(extents[0]) if kind == BANDED else 0)

    def representation() -> Representation:
        ranks = []
        for _ in range(rng.choice((1, 1, 2, 2, 3, 5))):
            group = tuple(rng.sample(dims, rng.randint(1, len(dims))))
            ranks.append(RankFormat(rng.choice(FORMATS), (group,) if rng.random() < 0.6 else (),
                                    rng.choice((0, 2, 4, 9)), rng.choice((0, 3, 8))))
        return Representation(tuple(ranks), inner_to_outer=rng.random() < 0.4)

    def choices(most: int) -> tuple[tuple[ConditionedAccess, ...], ...]:
        found = []
        for _ in range(rng.choice((0, 0, 1, 2))):
            found.append(tuple(ConditionedAccess(rng.choice(names), tuple(rng.sample(names, rng.choice((1, 1, 2)))))
                               for _ in range(rng.randint(1, most))))
        return tuple(found)

    spatial = rng.random() < 0.4
    shared = {name: representation() for name in names if rng.random() < 0.5}  # formats that levels have in common
    levels = tuple(LevelOptimizations(
        {name: shared.get(name) or representation() for name in names
         if rng.random() < (0.7 if name in shared else 0.15)},
        choices(2), choices(2), choices(1) if spatial else ()) for _ in base.arch.levels)
    arch = replace(base.arch, levels=tuple(replace(
        level, block_size=rng.choice((1, 1, 2, 3, 4)), compresses=rng.random() < 0.8, decompresses=rng.random() < 0.8,
        size=None if rng.random() < 0.5 else level.size) for level in base.arch.levels))
    problem = replace(base.problem, densities={space.name: density(space) for space in base.problem.dataspaces})
    return replace(base, arch=arch, problem=problem, sparse=SparseOptimizations(
        levels, gates_computes=rng.random() < 0.5, skips_computes=rng.random() < 0.5))
