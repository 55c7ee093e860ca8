"""The compiled scores of sparse designs beside those of the full evaluation, bit for bit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from kernel_parts import parts
from sparse_inputs import DESIGNS, drawn_spec, full_scores, recorded_specs

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.problem import Bits
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.loop_nest import Nest, joined, pack
from fadiff_mapper.model.sparse_design import SparseDesign
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.search.refinement import compiled_space

RANDOM = 6
"""Random mappings of each design, densities and problem, besides the recorded ones."""


def random_mappings(task: MappingTask, count: int, seed: int) -> Nest:
    *arrays, _, _ = parts.random_points(task.layer.compiled, compiled_space(task.family, 0), count, seed)
    return Nest(*arrays)


def legal_ones(task: MappingTask, nest: Nest, name: str) -> int:
    """How many of some mappings are legal, after both forms were found to agree on every number of all of them."""
    assert task.sparse is not None
    ours, full = task.sparse.score(nest), full_scores(task.sparse, nest)
    for what in ("legal", "cycles", "energy", "last_level_accesses"):
        np.testing.assert_array_equal(getattr(ours, what), getattr(full, what), err_msg=f"{name}: {what}")
    np.testing.assert_allclose(ours.excess, full.excess, rtol=1e-12)
    return int(full.legal.sum())


@pytest.mark.parametrize("design", DESIGNS)
def test_compiled_scores_are_those_of_the_full_evaluation(design: str) -> None:
    legal: Counter[bool] = Counter()
    for spec in recorded_specs(design):
        task = mapping_task(spec)
        if task.sparse is not None and spec.mapping is not None:
            nest = joined([pack([spec.mapping], spec.problem), random_mappings(task, RANDOM, 1)])
            legal[task.sparse.skips_instances] += legal_ones(task, nest, design)
    assert legal.total() > 5
    assert legal[True] > 2 or design in ("dot1", "dram_only")  # these have no fan-out


@pytest.mark.slow
def test_compiled_scores_of_drawn_designs_are_those_of_the_full_evaluation() -> None:
    rng, legal = random.Random(33), Counter[bool]()
    bases = [next(spec for spec in recorded_specs(design) if spec.mapping is not None) for design in DESIGNS]
    for number in range(60):
        spec = drawn_spec(bases[number % len(bases)], rng)
        task = mapping_task(spec)
        assert task.sparse is not None
        legal[task.sparse.skips_instances] += legal_ones(task, random_mappings(task, 16, number), f"design {number}")
    assert legal[False] > 30
    assert legal[True] > 10


def with_bits(spec: Spec, draw: Callable[[int], Bits | None]) -> Spec:
    """A design with bits of its tensors, by the width of the innermost words."""
    bits = spec.arch.levels[0].word_bits
    spaces = tuple(replace(space, bits=draw(bits)) for space in spec.problem.dataspaces)
    return replace(spec, problem=replace(spec.problem, dataspaces=spaces))


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_compiled_scores_of_tensors_with_bits_are_those_of_the_full_evaluation(design: str) -> None:
    rng, legal = random.Random(design), 0
    for spec in list(recorded_specs(design))[:12]:
        def any_bits(word: int) -> Bits | None:
            return rng.choice([None, Bits(max(word // 2, 1)), Bits(word), Bits(3), Bits(4, 8, 32), Bits(2 * word)])

        task = mapping_task(with_bits(spec, any_bits))
        if task.sparse is not None and spec.mapping is not None:
            nest = joined([pack([spec.mapping], spec.problem), random_mappings(task, RANDOM, 1)])
            legal += legal_ones(task, nest, design)
    assert legal > 2


@pytest.mark.slow
@pytest.mark.parametrize("design", DESIGNS)
def test_bits_of_the_words_change_no_number_of_a_sparse_design(design: str) -> None:
    for spec in list(recorded_specs(design))[:12]:
        levels = tuple(replace(level, word_bits=16) for level in spec.arch.levels)
        plain = replace(spec, arch=replace(spec.arch, levels=levels))
        tasks = [mapping_task(each) for each in (plain, with_bits(plain, Bits))]
        if tasks[0].sparse is not None and spec.mapping is not None:
            nest = joined([pack([spec.mapping], spec.problem), random_mappings(tasks[0], RANDOM, 1)])
            scores = [task.sparse.score(nest) for task in tasks if task.sparse]
            for name in ("legal", "cycles", "energy", "last_level_accesses"):
                np.testing.assert_array_equal(*(getattr(one, name) for one in scores))


def design_with(spec: Spec, ranks: int) -> SparseDesign:
    """A recorded design, its first format with so many ranks."""
    assert spec.sparse is not None
    levels = list(spec.sparse.levels)
    at = next(i for i, level in enumerate(levels) if level.formats)
    name, own = next(iter(levels[at].formats.items()))
    formats = {**levels[at].formats, name: replace(own, ranks=own.ranks[:1] * ranks)}
    levels[at] = replace(levels[at], formats=formats)
    task = mapping_task(replace(spec, sparse=replace(spec.sparse, levels=tuple(levels))))
    assert task.sparse is not None
    return task.sparse


def test_a_design_beyond_the_tables_of_the_kernel_is_refused() -> None:
    spec = next(spec for spec in recorded_specs("mm2") if spec.sparse and spec.sparse.formatted)
    assert design_with(spec, _kernel.MOST_RANKS).compiled
    with pytest.raises(FadiffError, match=f"{_kernel.MOST_RANKS + 1} ranks.*accepted: at most {_kernel.MOST_RANKS}"):
        assert design_with(spec, _kernel.MOST_RANKS + 1).compiled
