"""The map space: what is open, which constraints a mapping breaks, why a space is empty, how large it is."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_specs import GRID, chip, matmul, space, storage

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.search.mapspace.build import MapSpace, divisors, factorization_count, factorizations, reachable, size
from fadiff_mapper.search.mapspace.conflicts import check_mapping, conflicts

# As the front end writes a fan-out: a dummy level of one word above the row.
ROW = chip(storage("Reg", (4, 1), 2), storage("inter_PE_spatial", size=1, kind="dummy_storage"),
           storage("DRAM", size=None, kind="DRAM"), macs=(4, 1))


# Divisors and factorizations.

@given(st.integers(1, 5000))
def test_divisors_by_definition(number: int) -> None:
    assert divisors(number) == tuple(d for d in range(1, number + 1) if number % d == 0)


@given(st.integers(1, 60), st.lists(st.lists(st.integers(1, 12), unique=True, max_size=4), max_size=4))
def test_factorizations_by_enumeration(bound: int, choices: list[list[int]]) -> None:
    counted = Counter(math.prod(picked) for picked in itertools.product(*choices))
    found = factorizations(bound, tuple(map(tuple, choices)))
    assert found == {p: ways for p, ways in counted.items() if bound % p == 0}


@given(st.dictionaries(st.sampled_from([2, 3, 5, 7]), st.integers(1, 5), max_size=3), st.integers(1, 6))
def test_free_factorizations_are_binomials_of_prime_multiplicities(powers: dict[int, int], slots: int) -> None:
    bound = math.prod(p ** m for p, m in powers.items())
    expected = math.prod(math.comb(m + slots - 1, slots - 1) for m in powers.values())
    assert factorizations(bound, (divisors(bound),) * slots)[bound] == expected


@st.composite
def limited_choices(draw: st.DrawFn) -> tuple[int, list[tuple[int, ...]]]:
    """A bound, and for some places the divisors that they allow: one, several, all or none."""
    bound = draw(st.sampled_from([1, 7, 12, 36, 64, 210, 720]))
    subsets = st.lists(st.sampled_from(divisors(bound)), unique=True).map(tuple)
    return bound, draw(st.lists(subsets | st.just(divisors(bound)), max_size=6))


@given(limited_choices())
def test_counts_and_reach_are_those_of_all_factorizations(case: tuple[int, list[tuple[int, ...]]]) -> None:
    bound, choices = case
    every = factorizations(bound, tuple(map(tuple, choices)))
    assert factorization_count(bound, choices) == every.get(bound, 0)
    assert reachable(bound, choices) == set(every)


@pytest.mark.slow
def test_bounds_of_any_size_are_divided_soon_or_refused() -> None:
    assert divisors(2 ** 53 - 111) == (1, 2 ** 53 - 111)
    assert len(divisors(2 ** 53)) == 54
    with pytest.raises(FadiffError, match=r"6064949221531200 has 40320 divisors.*accepted: at most 1024"):
        divisors(6064949221531200)


# What is open.

def test_without_constraints_everything_that_the_hardware_allows_is_open() -> None:
    l1, l2, dram = space().levels
    assert l2.temporal.choices["K"] == divisors(256)
    assert l2.spatial.choices["K"] == (1, 2, 4, 8)
    assert l1.spatial.choices["K"] == (1, 2)
    assert dram.spatial.choices["K"] == (1,)
    assert (l1.axes["M"], l2.axes["M"], dram.axes["M"]) == ("Y", "XY", "")
    assert l1.open == {"A", "B", "Z"} and dram.keep == {"A", "B", "Z"}


def test_factors_are_fixed_or_lie_between_limits_and_divide_the_bound() -> None:
    choices = space("[{target: L2, type: temporal, factors: 'M=8 K>=3 K<=50'}]").levels[1].temporal.choices
    assert choices == {"M": (8,), "K": (4, 8, 16, 32), "N": divisors(64)}


def test_a_permutation_fixes_the_inside_and_the_outside() -> None:
    _, l2, dram = space("[{target: L2, type: temporal, permutation: K_M},"
                        " {target: DRAM, type: temporal, permutation: N}]").levels
    assert (l2.temporal.inner, l2.temporal.between, l2.temporal.outer) == (("K",), ("N",), ("M",))
    assert (dram.temporal.inner, dram.temporal.between, dram.temporal.outer) == (("N",), ("M", "K"), ())


def test_orders_that_cannot_matter_are_not_open() -> None:
    below_dram = space(arch=chip(storage("Buf"), storage("DRAM", size=None), macs=(1, 1))).levels
    assert below_dram[0].temporal.between == () and below_dram[1].temporal.between == ("M", "K", "N")
    on_one_axis, on_two = space().levels[:2]
    assert on_one_axis.spatial.between == () and on_two.spatial.between == ("M", "K", "N")


@pytest.mark.parametrize(("constraint", "axes"), [
    ("permutation: MKN, split: 1", {"M": "X", "K": "Y", "N": "Y"}),
    ("permutation: MKN, split: 999", {"M": "X", "K": "X", "N": "X"}),
    ("permutation: _N, split: 2", {"M": "X", "K": "X", "N": "Y"}),
    ("permutation: _N, split: 1", {"M": "XY", "K": "XY", "N": "Y"}),
    ("permutation: N, split: 2", {"M": "XY", "K": "XY", "N": "X"}),
    ("split: 0", {"M": "Y", "K": "Y", "N": "Y"}),
])
def test_a_split_puts_dimensions_on_axes(constraint: str, axes: dict[str, str]) -> None:
    level = space(f"[{{target: L2, type: spatial, {constraint}}}]").levels[1]
    assert level.axes == axes
    assert {max(level.spatial.choices[name]) for name, on in axes.items() if on == "Y"} <= {4}


def test_a_split_of_a_row_follows_the_order_of_the_shape() -> None:
    assert space("[{target: L1, type: spatial, split: 2}]").levels[0].axes == {"M": "", "K": "", "N": "Y"}


def test_a_dummy_level_holds_nothing_unless_told_to() -> None:
    dummy = space(arch=ROW).levels[1]
    assert set(dummy.temporal.choices.values()) == {(1,)} and dummy.bypass == {"A", "B", "Z"}
    assert dummy.spatial.choices["K"] == (1, 2, 4)
    told = space("[{target: inter_PE_spatial, type: temporal, factors: K<=2},"
                 " {target: inter_PE_spatial, type: dataspace, keep: [Z]}]", arch=ROW).levels[1]
    assert told.temporal.choices == {"M": (1,), "K": (1, 2), "N": (1,)}
    assert told.keep == {"Z"} and told.bypass == {"A", "B"}


def test_other_levels_of_a_dummy_levels_class_are_memories() -> None:
    """As to the real mapper, and as CiMLoop writes its analog parts."""
    cell = space(arch=chip(storage("Cell", (4, 1), 2, kind="dummy_storage"), storage("DRAM", size=None, kind="DRAM"),
                           macs=(4, 1))).levels[0]
    assert cell.temporal.choices["K"][:3] == (1, 2, 4) and cell.open == {"A", "B", "Z"}


# Which constraints a mapping breaks.

def level(temporal: dict[str, int], order: str = "MKN", spatial: dict[str, int] | None = None,
          spatial_order: str = "MKN", split: int = 3, keep: str = "ABZ") -> LevelMapping:
    ones = dict.fromkeys("MKN", 1)
    return LevelMapping(ones | temporal, tuple(order), ones | (spatial or {}), tuple(spatial_order), split,
                        frozenset(keep))


MAPPING = Mapping((
    level({"K": 8}, spatial={"K": 2}, split=0, keep="AZ"),
    level({"M": 4, "K": 2, "N": 2}, "KNM", {"M": 8, "N": 4}, "MNK", 1, keep="AB"),
    level({"M": 4, "K": 8, "N": 8}, "NKM")))


def broken(constraint: str) -> list[str]:
    return check_mapping(space(f"[{{{constraint}}}]"), MAPPING)


@pytest.mark.parametrize("met", [
    "target: L2, type: temporal, factors: M=4 K>=2 N<=2, permutation: K_M",
    "target: L2, type: temporal, permutation: KNM",
    "target: L2, type: spatial, factors: K1, permutation: MKN, split: 1",
    "target: L2, type: spatial, permutation: _N, split: 2",
    "target: L1, type: temporal, permutation: NMK",
    "target: L1, type: bypass, keep: [A], bypass: [B]",
    "target: L1, type: utilization, min: 1.0",
])
def test_constraints_that_are_met(met: str) -> None:
    assert broken(met) == []


@pytest.mark.parametrize(("constraint", "sentence"), [
    ("target: L2, type: temporal, factors: M=8", "temporal M=4 at L2 breaks M=8 (c.yaml: mapspace[0].factors)"),
    ("target: L2, type: temporal, factors: M>=8", "temporal M=4 at L2 breaks M>=8 (c.yaml: mapspace[0].factors)"),
    ("target: L2, type: spatial, factors: M<=4", "spatial M=8 at L2 breaks M<=4 (c.yaml: mapspace[0].factors)"),
    ("target: L2, type: temporal, permutation: MK",
     "temporal order of L2 is K, N, M (innermost first), but M, K must be innermost (c.yaml: mapspace[0].permutation)"),
    ("target: L2, type: temporal, permutation: _N",
     "temporal order of L2 is K, N, M (innermost first), but N must be outermost (c.yaml: mapspace[0].permutation)"),
    ("target: L2, type: spatial, permutation: MNK, split: 2",
     "spatial N=4 at L2 lies on Y, but split=2 does not allow it (c.yaml: mapspace[0].split)"),
    ("target: L2, type: spatial, permutation: N",
     "spatial order of L2 is M, N (innermost first), but N must be innermost (c.yaml: mapspace[0].permutation)"),
    ("target: L1, type: bypass, keep: [B]", "B bypasses L1, which must keep it (c.yaml: mapspace[0].keep[0])"),
    ("target: L2, type: bypass, bypass: [A]", "A is kept at L2, which it must bypass (c.yaml: mapspace[0].bypass[0])"),
])
def test_a_broken_constraint_is_a_sentence_with_its_place(constraint: str, sentence: str) -> None:
    assert broken(constraint) == [sentence]


def test_least_parallelism_is_the_used_share_of_all_fanouts() -> None:
    idle = Mapping((replace(MAPPING.levels[0], spatial=dict.fromkeys("MKN", 1)), *MAPPING.levels[1:]))
    assert check_mapping(space("[{target: L1, type: utilization, min: 0.6}]"), idle) == [
        "parallelism 0.5 (32 of 64) is less than 0.6 (c.yaml: mapspace[0].min)"]


def test_a_split_counts_the_freely_ordered_dimensions_on_each_axis() -> None:
    crowded = Mapping((MAPPING.levels[0], level({}, spatial={"M": 4, "N": 2}, spatial_order="MNK", split=3),
                       MAPPING.levels[2]))
    assert check_mapping(space("[{target: L2, type: spatial, split: 1}]"), crowded) == [
        "spatial loops M, N at L2 lie on X, but split=1 does not allow it (c.yaml: mapspace[0].split)"]


# Why a space is empty.

def why(constraints: str, problem: Problem | None = None, arch: Architecture = GRID) -> list[str]:
    return conflicts(space(constraints, problem, arch))


def test_no_conflict_without_constraints() -> None:
    assert why("[]") == [] == why("[]", arch=ROW)


def test_a_factor_that_does_not_divide() -> None:
    assert why("[{target: L2, type: temporal, factors: M=8 K=3}]") == [
        "K=256 cannot be split: temporal K=3 at L2 (c.yaml: mapspace[0].factors) alone does not divide it"]


def test_only_the_factors_that_cause_the_conflict_are_named() -> None:
    (sentence,) = why("[{target: L1, type: temporal, factors: M=16 K=4},"
                      " {target: L2, type: temporal, factors: M=16 K=2},"
                      " {target: DRAM, type: temporal, factors: K<=8}]")
    assert sentence == ("M=128 cannot be split: temporal M=16 at L1 (c.yaml: mapspace[0].factors) and"
                        " temporal M=16 at L2 (c.yaml: mapspace[1].factors) multiply to 256, which does not divide it")


def test_fixed_factors_that_leave_a_rest() -> None:
    arch = chip(storage("Buf"), storage("DRAM", size=None), macs=(1, 1))
    (sentence,) = why("[{target: Buf, type: temporal, factors: M=4}, {target: DRAM, type: temporal, factors: M=8}]",
                      arch=arch)
    assert sentence == ("M=128 cannot be split: temporal M=4 at Buf (c.yaml: mapspace[0].factors) and"
                        " temporal M=8 at DRAM (c.yaml: mapspace[1].factors) multiply to 32,"
                        " which leaves 4 that no level can take")


def test_independent_conflicts_are_all_named() -> None:
    assert why("[{target: L2, type: temporal, factors: M=3}, {target: L2, type: spatial, factors: M=64}]") == [
        "M=128 cannot be split: temporal M=3 at L2 (c.yaml: mapspace[0].factors) alone does not divide it",
        "spatial M=64 at L2 (c.yaml: mapspace[1].factors) does not fit on the fan-out of 8 x 4"]


def test_limits_that_contradict() -> None:
    assert why("[{target: L1, type: temporal, factors: N>=16}, {target: DRAM, type: temporal, factors: N>=8}]") == [
        "N=64 cannot be split: no factors of it meet temporal N>=16 at L1 (c.yaml: mapspace[0].factors) and"
        " temporal N>=8 at DRAM (c.yaml: mapspace[1].factors)"]
    assert why("[{target: L1, type: temporal, factors: N=4 N<=2}]") == [
        "N=64 cannot be split: no factors of it meet temporal N=4 at L1 (c.yaml: mapspace[0].factors) and"
        " temporal N<=2 at L1 (c.yaml: mapspace[0].factors)"]


def test_spatial_factors_beyond_the_fanout() -> None:
    assert why("[{target: L2, type: spatial, factors: M=16}]") == [
        "spatial M=16 at L2 (c.yaml: mapspace[0].factors) does not fit on the fan-out of 8 x 4"]
    assert why("[{target: L2, type: spatial, factors: M=8, permutation: M, split: 0}]") == [
        "spatial M=8 at L2 (c.yaml: mapspace[0].factors) does not fit on the fan-out of 8 x 4 with split=0"
        " (c.yaml: mapspace[0].split)"]
    assert why("[{target: L2, type: spatial, factors: M=8 K=8 N=2}]") == [
        "spatial M=8 at L2 (c.yaml: mapspace[0].factors) and spatial K=8 at L2 (c.yaml: mapspace[0].factors)"
        " do not fit together on the fan-out of 8 x 4"]
    assert why("[{target: L2, type: spatial, factors: M=8 K=4}]") == []


def test_a_forced_tile_beyond_a_capacity() -> None:
    (sentence,) = why("[{target: L1, type: temporal, factors: M=32 N=4}, {target: L1, type: bypass, keep: [A]},"
                      " {target: L1, type: spatial, factors: K=2}, {target: L2, type: temporal, factors: K>=2},"
                      " {target: DRAM, type: temporal, factors: K=8}, {target: L2, type: spatial, factors: K=1}]",
                      matmul(128, 256, 64), chip(replace(GRID.levels[0], size=40), *GRID.levels[1:], macs=(8, 8)))
    assert sentence == ("L1 has room for 40 words, but A needs at least 64 (tile M=32 K=2), forced by spatial K=2 at L1"
                        " (c.yaml: mapspace[2].factors), temporal M=32 at L1 (c.yaml: mapspace[0].factors) and"
                        " keep A at L1 (c.yaml: mapspace[1].keep[0])")


def test_a_tile_is_forced_by_what_is_fixed_outside_too() -> None:
    arch = chip(storage("Buf", size=100), storage("DRAM", size=None), macs=(1, 1))
    (sentence,) = why("[{target: DRAM, type: temporal, factors: M=2 K=2 N=2},"
                      " {target: DRAM, type: bypass, bypass: [A]}]", matmul(16, 32, 2), arch)
    assert sentence == ("Buf has room for 100 words, but A needs at least 128 (tile M=8 K=16), forced by"
                        " temporal M=2 at DRAM (c.yaml: mapspace[0].factors), temporal K=2 at DRAM"
                        " (c.yaml: mapspace[0].factors) and bypass A at DRAM (c.yaml: mapspace[1].bypass[0])")


def test_a_data_space_that_is_kept_nowhere() -> None:
    bypass = ", ".join(f"{{target: {name}, type: bypass, bypass: [A]}}" for name in ("L1", "L2", "DRAM"))
    assert why(f"[{bypass}]") == [
        "A is kept nowhere: bypass A at L1 (c.yaml: mapspace[0].bypass[0]), bypass A at L2"
        " (c.yaml: mapspace[1].bypass[0]) and bypass A at DRAM (c.yaml: mapspace[2].bypass[0])"]


def test_a_parallelism_out_of_reach() -> None:
    assert why("[{target: L1, type: utilization, min: 0.6}, {target: L1, type: spatial, factors: M=1 K=1 N=1},"
               " {target: L2, type: spatial, factors: M=8}]") == [
        "parallelism of 0.6 (c.yaml: mapspace[0].min) is out of reach: at most 0.5 can be used under spatial M=1 at L1"
        " (c.yaml: mapspace[1].factors), spatial K=1 at L1 (c.yaml: mapspace[1].factors) and spatial N=1 at L1"
        " (c.yaml: mapspace[1].factors)"]
    assert why("[{target: L1, type: utilization, min: 0.9}]", matmul(3, 5, 7)) == [
        "parallelism of 0.9 (c.yaml: mapspace[0].min) is out of reach: at most 0.328125 can be used for these fan-outs"
        " and dimensions"]


@st.composite
def limits(draw: st.DrawFn) -> str:
    """Random limits on the factors of a small matmul on a 2 x 2 grid."""
    kinds = [("Reg", "temporal"), ("Buf", "temporal"), ("Buf", "spatial"), ("DRAM", "temporal")]
    entries = []
    for target, kind in kinds:
        factors = draw(st.dictionaries(st.sampled_from("MKN"), st.sampled_from(["=1", "=2", "=3", "=4", "<=2", ">=2"])))
        parts = " ".join(f"{name}{limit}" for name, limit in factors.items())
        entries.append(f"{{target: {target}, type: {kind}, factors: '{parts}'}}")
    entries.append(f"{{target: Reg, type: bypass, {draw(st.sampled_from(['keep', 'bypass']))}: [A, Z]}}")
    return f"[{', '.join(entries)}]"


SMALL = chip(storage("Reg", (2, 2), 6), storage("Buf"), storage("DRAM", size=None), macs=(2, 2))


def some_mapping_exists(space: MapSpace) -> bool:
    """By brute force over all factors: the bounds are met, the grid is not overfilled, and Reg is large enough."""
    reg, buf, dram = space.levels
    problem = space.problem
    splits = [[(r, b, s, d) for r in reg.temporal.choices[n] for b in buf.temporal.choices[n]
               for s in buf.spatial.choices[n] for d in dram.temporal.choices[n] if r * b * s * d == bound]
              for n, bound in problem.bounds.items()]
    for picked in itertools.product(*splits):
        tile = {name: factors[0] for name, factors in zip(problem.bounds, picked, strict=True)}
        words = sum(math.prod(ds.tile_extents(tile)) for ds in problem.dataspaces if ds.name in reg.keep)
        if words <= 6 and math.prod(factors[2] for factors in picked) <= 4:
            return True
    return False


@given(limits())
def test_a_conflict_is_never_a_false_alarm(constraints: str) -> None:
    small = space(constraints, matmul(4, 4, 4), SMALL)
    assert not (conflicts(small) and some_mapping_exists(small))


# Size. The numbers are those that timeloop-mapper (commit 4cf6d4cd) prints for these designs and constraints.

@pytest.mark.parametrize(("constraints", "printed"), [
    ("[]", (34303500, 1296, 64, 16)),
    ("[{target: L2, type: spatial, factors: M=8 N<=4, permutation: NM, split: 1},"
     " {target: L1, type: temporal, factors: K>=2, permutation: K}, {target: DRAM, type: temporal, permutation: _K},"
     " {target: L1, type: bypass, keep: [A], bypass: [Z]}]", (2021250, 24, 16, 4)),
    ("[{target: L2, constraints: [{type: spatial, attributes: {factors: K1, default_max_factor: 8}}, {type: temporal,"
     " attributes: {factors: 'K==4,M 2'}}]}, {name: L1, type: spatial, permutation: K}]", (404040, 2592, 64, 16)),
])
def test_size_is_what_timeloop_prints(constraints: str, printed: tuple[int, int, int, int]) -> None:
    counted = size(space(constraints))
    assert (counted.factorizations, counted.permutations, counted.bypass, counted.splits) == printed
    assert counted.total == math.prod(printed)
