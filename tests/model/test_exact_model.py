"""The exact evaluation agrees with brute force on tiny loop nests of every kind."""

from __future__ import annotations

import math

import oracle
import pytest
from hypothesis import given
from strategies import CONV_1D, UNSHARED, Case, batches, cases, dataspace, switched_cases

from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, StorageLevel
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.model.evaluate import Evaluation, evaluate_nest
from fadiff_mapper.model.legality import violations
from fadiff_mapper.model.loop_nest import pack, unpack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of


def evaluate(*several: Case) -> Evaluation:
    first = several[0]
    layer = prepare_layer(first.arch, first.problem, Tables(), reuse_of(first.mapping, first.problem.dataspace_names()))
    return evaluate_nest(layer, pack([case.mapping for case in several], several[0].problem), details=True)


def kept(case: Case) -> list[tuple[int, int, str]]:
    """(level, index of the data space, its name) wherever a data space is kept."""
    return [(level, tensor, name) for level, here in enumerate(case.mapping.levels)
            for tensor, name in enumerate(case.problem.dataspace_names()) if name in here.keep]


def accesses(found: Evaluation, level: int, tensor: int, row: int = 0) -> tuple[int, int, int]:
    counts = found.counts
    at = level, tensor, row
    return int(counts.reads[at]), int(counts.fills[at]), int(counts.updates[at])


@given(cases() | switched_cases())
def test_counts_and_networks_are_those_of_timeloops_walk(case: Case) -> None:
    found, expected = evaluate(case), oracle.timeloop(case.arch, case.problem, case.mapping)
    for level, tensor, name in kept(case):
        if not found.held[level, tensor, 0]:  # forgotten
            assert accesses(found, level, tensor) == (0, 0, 0) and (level, name) not in expected
            continue
        want = expected[level, name]
        assert (int(found.tile.size[level, tensor, 0]), int(found.counts.partition[level, tensor, 0])) \
            == (want.tile, want.partition), (level, name)
        assert accesses(found, level, tensor) == (want.reads, want.fills, want.updates), (level, name)
    assert found.network is not None
    for (level, name), want in expected.items():
        at = level, case.problem.dataspace_names().index(name), 0
        kinds = (found.tally.multicast, found.tally.scatter, found.network.words)
        multicast, scatter, sent = (array[(slice(None), *at)] for array in kinds)
        words = {(int(m), int(s)): float(n) for m, s, n in zip(multicast, scatter, sent, strict=True) if n}
        assert words == pytest.approx({kind: n for kind, n in want.ingresses.items() if n}), at
        assert float(found.tally.links[at]) == pytest.approx(want.links), at
        total = sum(want.ingresses.values())
        assert float(found.network.hops[at]) * total == pytest.approx(want.hop_words if total else 0), at


@given(cases())
def test_the_slowest_level_sets_the_cycles(case: Case) -> None:
    assert int(evaluate(case).cycles[0]) == oracle.cycles(case.arch, case.problem, case.mapping)


@given(cases(UNSHARED, loops=5))
def test_without_windows_the_counts_are_those_of_a_machine(case: Case) -> None:
    """Where no rank is a sum, Timeloop's short walk misses nothing: every iteration, counted by sets, says the same."""
    found, expected = evaluate(case), oracle.machine(case.problem, case.mapping)
    for level, tensor, name in kept(case):
        if not found.raw.links[:, tensor].any():  # the machine has no wires between neighbours
            want = expected[level, name]
            assert accesses(found, level, tensor) == (want.reads, want.fills, want.updates), (level, name)


@given(batches())
def test_a_batch_says_of_each_mapping_what_it_says_alone(several: list[Case]) -> None:
    together = evaluate(*several)
    for row, case in enumerate(several):
        alone = evaluate(case)
        assert (together.cycles[row], together.energy[row]) == (alone.cycles[0], alone.energy[0])
        for level, tensor, _ in kept(case):
            assert accesses(together, level, tensor, row) == accesses(alone, level, tensor)


@given(cases())
def test_packing_keeps_the_mapping(case: Case) -> None:
    assert unpack(pack([case.mapping], case.problem), 0, case.problem) == case.mapping


@given(cases())
def test_used_units_and_cycles_do_all_the_work(case: Case) -> None:
    found = evaluate(case)
    units = found.tile.expansion_x[0, 0] * found.tile.expansion_y[0, 0]
    assert found.tile.compute_cycles[0] * units == case.problem.computes == math.prod(case.problem.bounds.values())


NAMES, EVERYTHING = ("C", "K", "P", "R"), frozenset({"Weights", "Inputs", "Outputs"})


def conv1d_case(bounds: dict[str, int], *levels: tuple[tuple[int, int], LevelMapping]) -> Case:
    """A one-dimensional convolution on unlimited memories, each with (meshX, meshY); one MAC below the innermost."""
    memories = tuple(StorageLevel(f"L{i}", "SRAM", x * y, x, y, 8, 1, 1, None) for i, ((x, y), _) in enumerate(levels))
    chip = Architecture("chip", memories, Arithmetic("MAC", "mac", memories[0].instances, *levels[0][0], 8))
    mapping = Mapping(tuple(level for _, level in levels))
    return Case(chip, Problem("conv1d", {"C": 1, "K": 1} | bounds, CONV_1D), mapping)


def loops(keep: frozenset[str] = EVERYTHING, order: str = "CKPR", spread: str = "", **temporal: int) -> LevelMapping:
    """A level's temporal loops, and a dimension spread over two units in X."""
    ones = dict.fromkeys(NAMES, 1)
    return LevelMapping(ones | temporal, tuple(order), ones | dict.fromkeys(spread, 2), NAMES, 4, keep)


def test_looking_at_two_iterations_only_counts_too_much() -> None:
    """P = 8, R = 3, a tile of two outputs: stepping R inside P, a machine fetches 10 inputs, Timeloop says 13."""
    case = conv1d_case({"P": 8, "R": 3}, ((1, 1), loops(P=2)), ((1, 1), loops(order="RPCK", P=4, R=3)))
    assert oracle.machine(case.problem, case.mapping)[0, "Inputs"].fills == 10
    assert oracle.timeloop(case.arch, case.problem, case.mapping)[0, "Inputs"].fills == 13
    assert accesses(evaluate(case), 0, 1)[1] == 13


def test_nothing_moves_outside_the_outermost_level_that_keeps_a_data_space() -> None:
    """The inputs stay in L0; that neighbours could hand them over below L1 counts for nothing (2 reads, measured)."""
    case = conv1d_case({"P": 2, "R": 2}, ((2, 1), loops(frozenset({"Inputs"}))),
                       ((1, 1), loops(EVERYTHING - {"Inputs"}, spread="R", P=2)))
    found = evaluate(case)
    assert oracle.timeloop(case.arch, case.problem, case.mapping)[0, "Inputs"].reads == 2
    assert accesses(found, 0, 1) == (2, 0, 0)
    assert not found.tally.links[1, 1, 0]


def test_an_output_with_words_that_nothing_touches_is_refused() -> None:
    """O[2 P] with P = 2 spans three words and touches two; Timeloop ends on an assertion."""
    spaces = (dataspace("I", "P"), dataspace("O", "2P", read_write=True))
    memory = StorageLevel("L0", "DRAM", 1, 1, 1, 8, 1, 1, None)
    level = LevelMapping({"P": 2}, ("P",), {"P": 1}, ("P",), 1, frozenset({"I", "O"}))
    found = evaluate(Case(Architecture("chip", (memory,), Arithmetic("MAC", "mac", 1, 1, 1, 8)),
                          Problem("holes", {"P": 2}, spaces), Mapping((level,))))
    assert not found.legal[0]
    assert violations(found.checks, 0)[0].reason == "1 words of an output's partition are never touched"
