"""Lower bounds of sparse designs: no legal mapping of their map spaces undercuts them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from kernel_parts import parts
from recorded_cases import Json, recording
from sparse_inputs import SPARSE, recorded_specs

from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.problem import Bits
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.search.lower_bound.least_shares import least_sent, sparse_lower_bound
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.refinement import compiled_space

DESIGNS = ("mm2", "fan_cp", "rs_rle", "tensor24", "bitmask3", "gate_mac")
EACH, RANDOM = 6, 300
"""Inputs of each design, and random mappings of each input."""


def document(arch: Json, case: Json, **instance: object) -> Json:
    problem = recording(SPARSE)["problem"][case["problem"]]["problem"]
    return {arch["key"]: arch["native"], "ERT": arch["ert"], "sparse_optimizations": case["sparse_optimizations"],
            "problem": {**problem, "instance": {**problem["instance"], **(case["densities"] or {}), **instance}}}


def design_case() -> Json:
    """A case of a matrix product with the options that its design has."""
    return next(case for case in recording(SPARSE)["case"].values()
                if case["arch"] == "mm2" and case["options_from"] == "design" and case["problem"].startswith("mm"))


BITS = (None, None, None), (Bits(4, 8, 32), Bits(3), Bits(8, 0, 1, 24))
"""Bits of the tensors."""


def tasks(design: str, bits: Sequence[Bits | None]) -> Iterator[MappingTask]:
    """The first inputs of a design for which a bound is known."""
    specs = (replace(spec, problem=replace(spec.problem, dataspaces=tuple(
        replace(space, bits=own) for space, own in zip(spec.problem.dataspaces, bits, strict=True))))
        for spec in recorded_specs(design))
    known = (mapping_task(spec) for spec in specs)
    return islice((task for task in known if task.sparse and not task.sparse.skips_instances), EACH)


@pytest.mark.slow
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("design", DESIGNS)
def test_no_mapping_undercuts_the_bound_of_a_sparse_design(design: str, bits: Sequence[Bits | None]) -> None:
    compared = 0
    for task in tasks(design, bits):
        assert task.sparse is not None
        bound = sparse_lower_bound(task.sparse, task.space)
        if bound is None:
            continue
        *arrays, _, _ = parts.random_points(task.layer.compiled, compiled_space(task.family, 0), RANDOM, 3)
        scores = task.sparse.score(Nest(*arrays))
        energy, cycles = scores.energy[scores.legal], scores.cycles[scores.legal]
        compared += len(energy)
        assert bound.energy > 0
        assert (energy >= bound.energy).all()
        assert (cycles >= bound.delay).all()
        assert (energy * cycles >= bound.edp).all()
        assert (scores.last_level_accesses[scores.legal] >= bound.last_level_accesses).all()
    assert compared > 20


def test_a_sparser_tensor_lowers_the_bound() -> None:
    case, arch, bounds = design_case(), recording(SPARSE)["arch"]["mm2"], []
    for density in (1.0, 0.5, 0.25):
        task = mapping_task(load(document(arch, case, densities={"A": density, "B": 0.5})))
        assert task.sparse is not None
        bound = sparse_lower_bound(task.sparse, task.space)
        assert bound is not None
        bounds.append(bound)
    assert bounds[0].energy > bounds[1].energy > bounds[2].energy
    assert bounds[0].delay > bounds[1].delay > bounds[2].delay


@pytest.mark.parametrize(("density", "safe"), [(0.25, True), (0.02, False), (1.0, True)])
def test_rounding_that_takes_a_word_for_none_leaves_nothing(density: float, safe: bool) -> None:
    assert 1 / 49 * 49 < 1  # so a tile of 49 words with one nonzero has a least occupancy of 0 at a density of 0.02
    case = design_case()
    task = mapping_task(load(document(recording(SPARSE)["arch"]["mm2"], case, densities={
        name: {"distribution": "fixed_structured", "density": density} for name in ("A", "B")})))
    assert task.sparse is not None
    assert least_sent(task.sparse, 0) == (density if safe else 0.0)
    assert np.isfinite(task.sparse.models[0].expected([1]))
