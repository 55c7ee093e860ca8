"""The paper's equations as printed: by hand on one nest, and beside the exact model where it is bound to agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from strategies import CONV_1D, MATMUL, UNSHARED, Case, cases

from fadiff_mapper.gradient.fadiff_as_printed import evaluate_paper
from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, Interconnect, StorageLevel
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.evaluate import Evaluation, NestEvaluation, evaluate_nest
from fadiff_mapper.model.loop_nest import Nest, nest_arrays, pack
from fadiff_mapper.model.prepared_layer import prepare_layer

ACTIONS = ("reads", "fills", "updates")


def memory(name: str, width: int = 1) -> StorageLevel:
    return StorageLevel(name, "SRAM", width, width, 1, word_bits=8, block_size=1, cluster_size=1, size=None,
                        read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None, interconnect=Interconnect(8))


TWO_LEVELS = Architecture("two levels", (memory("L0", 2), memory("L1")), Arithmetic("MAC", "mac", 2, 2, 1, word_bits=8))


def two_levels(spaces: tuple[DataSpace, ...], inner: dict[str, int], across: dict[str, int],
               outer: dict[str, int], inner_keeps: str = "") -> Case:
    """A nest on two levels with a fan-out of two between them. `inner_keeps` names data spaces; empty: all."""
    names = tuple(sorted({name for space in spaces for name in space.dimensions}))
    ones, everything = dict.fromkeys(names, 1), frozenset(space.name for space in spaces)
    kept = frozenset(inner_keeps.split()) or everything
    levels = (LevelMapping(ones | inner, names, ones, names, len(names), kept),
              LevelMapping(ones | outer, names, ones | across, names, len(names), everything))
    bounds = {name: inner.get(name, 1) * across.get(name, 1) * outer.get(name, 1) for name in names}
    return Case(TWO_LEVELS, Problem("by hand", bounds, spaces), Mapping(levels))


def paper(case: Case, *, windows: bool = False) -> NestEvaluation:
    return evaluate_paper(prepare_layer(case.arch, case.problem, Tables()), pack([case.mapping], case.problem),
                          windows=windows)


def counted(case: Case, found: Evaluation | NestEvaluation, space: str) -> dict[str, list[float]]:
    """Action -> its words per level."""
    column = case.problem.dataspace_names().index(space)
    return {action: getattr(found.counts, action)[:, column, 0].tolist() for action in ACTIONS}


PRODUCT = two_levels(MATMUL, {"M": 2, "K": 2}, {"N": 2}, {"M": 2, "K": 3, "N": 4})


@pytest.mark.parametrize("space, reads, fills, updates", [
    # 96 steps of the arithmetic; tile 2 x 2 fetched for the outer M and K: 4 * 6 (eqs. 4 and 7), N not counted
    ("A", [96, 24], [24, 0], [0, 0]),
    # a tile of 2 words in each of two memories, fetched for the outer K and N
    ("B", [96, 48], [24, 0], [0, 0]),
    # written for every step (eq. 11), written back for the outer M and N (eq. 10); K is not counted
    ("Z", [0, 0], [0, 0], [96, 32])])
def test_by_hand(space: str, reads: list[float], fills: list[float], updates: list[float]) -> None:
    assert counted(PRODUCT, paper(PRODUCT), space) == {"reads": reads, "fills": fills, "updates": updates}


def test_a_bypassed_level_sees_nothing_and_the_next_one_feeds_the_arithmetic() -> None:
    case = two_levels(MATMUL, {"M": 2, "K": 2}, {"N": 2}, {"M": 2, "K": 3, "N": 4}, inner_keeps="B Z")
    assert counted(case, paper(case), "A") == {"reads": [0, 96], "fills": [0, 0], "updates": [0, 0]}


def test_the_product_over_dimensions_overstates_a_window_and_the_box_does_not() -> None:
    case = two_levels(CONV_1D, {"P": 4, "R": 3}, {}, {"K": 2})
    assert counted(case, paper(case), "Inputs")["fills"] == [12, 0]
    assert counted(case, paper(case, windows=True), "Inputs")["fills"] == [6, 0]
    for space in ("Weights", "Outputs"):
        assert counted(case, paper(case), space) == counted(case, paper(case, windows=True), space)


def wire_free(case: Case) -> Case:
    """With levels whose networks can add up, so that eq. (12) has something to describe."""
    levels = tuple(replace(level, interconnect=Interconnect(8, reduction_supported=True)) for level in case.arch.levels)
    return replace(case, arch=replace(case.arch, levels=levels))


@given(cases(UNSHARED))
def test_without_loop_order_nothing_is_ever_fetched_again(case: Case) -> None:
    """The exact model counts at least as much, and the same where no loop stands outside a relevant one."""
    case = wire_free(case)
    layer, nest = prepare_layer(case.arch, case.problem, Tables()), pack([case.mapping], case.problem)
    exact, printed = evaluate_nest(layer, nest), evaluate_paper(layer, nest)
    assume(not exact.raw.links.any() and exact.legal.all())
    for space in case.problem.dataspaces:
        want, found = counted(case, exact, space.name), counted(case, printed, space.name)
        for action in ("updates",) if space.read_write else ("reads", "fills"):
            assert all(one <= other for one, other in zip(found[action], want[action], strict=True))
            if all_relevant(case, space):
                assert found[action] == want[action]


def all_relevant(case: Case, space: DataSpace) -> bool:
    """Whether every temporal loop of the nest moves the data space."""
    return all(name in space.dimensions for level in case.mapping.levels
               for name, bound in level.temporal.items() if bound > 1)


def test_torch_gives_what_numpy_gives_and_a_gradient() -> None:
    layer, nest = prepare_layer(PRODUCT.arch, PRODUCT.problem, Tables()), pack([PRODUCT.mapping], PRODUCT.problem)
    arrays = [torch.from_numpy(array) for array in nest_arrays(nest)]
    arrays[0].requires_grad_(True)
    found = evaluate_paper(layer, Nest(*arrays), windows=True)
    found.counts.reads.sum().backward()
    expected = evaluate_paper(layer, nest, windows=True)
    for action in ACTIONS:
        assert np.array_equal(getattr(found.counts, action).detach().numpy(), getattr(expected.counts, action))
    assert (arrays[0].grad > 0).all()
