"""Hypothesis strategies: tiny architectures, problems, and mappings of one onto the other."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from fadiff_mapper.inputs.spec.arch import Architecture, Arithmetic, Interconnect, StorageLevel
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Bits, DataSpace, Problem, Term


@dataclass(frozen=True)
class Case:
    """A mapping of a problem onto an architecture."""

    arch: Architecture
    problem: Problem
    mapping: Mapping


def dataspace(name: str, *ranks: str, read_write: bool = False) -> DataSpace:
    """`dataspace("Inputs", "C", "2P+R")`: one text per rank, terms with a leading coefficient."""
    def term(text: str) -> Term:
        dimension = text.lstrip("0123456789")
        return Term(dimension, int(text.removesuffix(dimension) or 1))
    return DataSpace(name, tuple(tuple(map(term, rank.split("+"))) for rank in ranks), read_write)


MATMUL = (dataspace("A", "M", "K"), dataspace("B", "K", "N"), dataspace("Z", "M", "N", read_write=True))
FOUR_SPACES = (dataspace("A", "M", "K"), dataspace("B", "K", "N"), dataspace("Mask", "M", "N"),
               dataspace("Z", "M", "N", read_write=True))
CONV_1D = (dataspace("Weights", "K", "C", "R"), dataspace("Inputs", "C", "P+R"),
           dataspace("Outputs", "K", "P", read_write=True))
STRIDED = (dataspace("Weights", "C", "R", "S"), dataspace("Inputs", "C", "2P+R", "3Q+2S"),
           dataspace("Outputs", "P", "Q", read_write=True))
TWO_RANKS = (dataspace("Weights", "K", "R"), dataspace("Inputs", "P+R", "2P+R+S"),
             dataspace("Outputs", "K", "P", read_write=True))
THREE_TERMS = (dataspace("Weights", "R", "T"), dataspace("Inputs", "P+R+T"),
               dataspace("Outputs", "P", read_write=True))

UNSHARED = {"matmul": MATMUL, "four_spaces": FOUR_SPACES}
"""Problems in which no rank is a sum of dimensions."""
SHAPES = UNSHARED | {"conv1d": CONV_1D, "strided": STRIDED, "two_ranks": TWO_RANKS, "three_terms": THREE_TERMS}


@st.composite
def architectures(draw: DrawFn, most: int = 3) -> Architecture:
    """One to `most` unlimited memories above an array, with fan-outs of up to 4 x 3 and 24 units at most."""
    bandwidth = st.sampled_from([None, 0.5, 1.25, 3.0])
    levels: list[StorageLevel] = []
    x = y = 1
    for i in reversed(range(draw(st.integers(1, most)))):
        levels.insert(0, StorageLevel(
            f"L{i}", "SRAM", x * y, x, y, word_bits=8, block_size=1, cluster_size=1, size=None,
            read_bandwidth=draw(bandwidth), write_bandwidth=draw(bandwidth), shared_bandwidth=draw(bandwidth),
            interconnect=Interconnect(8, reduction_supported=draw(st.booleans()))))
        wide, high = draw(st.sampled_from([(1, 1), (2, 1), (4, 1), (1, 3), (2, 2), (4, 3)]))
        if x * y * wide * high <= 24:
            x, y = x * wide, y * high
    return Architecture("tiny", tuple(levels), Arithmetic("MAC", "mac", x * y, x, y, word_bits=8))


@st.composite
def cases(draw: DrawFn, shapes: dict[str, tuple[DataSpace, ...]] | None = None, loops: int = 6,
          memories: int = 3) -> Case:
    """Any mapping with at most `loops` loops of bound 2 or 3, any order, any axis, any bypass.

    The problem's bounds are what the loops multiply to. Every data space is kept somewhere.
    """
    arch = draw(architectures(memories))
    shapes = SHAPES if shapes is None else shapes
    spaces = shapes[draw(st.sampled_from(sorted(shapes)))]
    names = tuple(sorted({name for space in spaces for name in space.dimensions}))
    depth = range(len(arch.levels))
    slots = [(level, "temporal") for level in depth]
    slots += [(level, axis) for level in depth for axis, width in zip("XY", arch.fanout(level), strict=True)
              if width > 1]
    loop = st.tuples(st.sampled_from(names), st.sampled_from(slots), st.integers(2, 3))
    chosen = draw(st.lists(loop, max_size=loops))
    levels = tuple(draw(level_mappings(arch, level, names, spaces, [(name, where, bound) for name, (at, where), bound
                                                                    in chosen if at == level])) for level in depth)
    bounds = dict.fromkeys(names, 1)
    for level in levels:
        bounds = {name: bounds[name] * level.temporal[name] * level.spatial[name] for name in names}
    nowhere = {space.name for space in spaces} - {name for level in levels for name in level.keep}
    levels = (*levels[:-1], replace(levels[-1], keep=levels[-1].keep | nowhere))
    return Case(arch, Problem("tiny", bounds, spaces), Mapping(levels))


WIDTHS = st.none() | st.builds(
    lambda parts, more: Bits(*parts, None if more is None else parts[0] + parts[1] + more),
    st.sampled_from([(1, 0, 1), (4, 0, 1), (4, 8, 32), (8, 0, 1), (12, 0, 1), (33, 1, 3)]),
    st.none() | st.integers(0, 30))
"""Bits of the elements of a tensor, or none."""


@st.composite
def packed_cases(draw: DrawFn, shapes: dict[str, tuple[DataSpace, ...]] | None = None, loops: int = 6,
                 memories: int = 3) -> Case:
    """A case with words of some width at each level, and bits of some tensors."""
    case = draw(cases(shapes, loops, memories))
    levels = tuple(replace(level, word_bits=draw(st.sampled_from([8, 12, 32]))) for level in case.arch.levels)
    spaces = tuple(replace(space, bits=draw(WIDTHS)) for space in case.problem.dataspaces)
    return replace(case, arch=replace(case.arch, levels=levels), problem=replace(case.problem, dataspaces=spaces))


@st.composite
def forgetful_cases(draw: DrawFn, shapes: dict[str, tuple[DataSpace, ...]] | None = None) -> Case:
    """A case with reuse switched off for some data spaces: in time anywhere, in space where a level has a fan-out."""
    case = draw(cases(shapes))
    some = st.frozensets(st.sampled_from(case.problem.dataspace_names()))
    levels = tuple(
        replace(level, no_temporal_reuse=draw(some), no_multicast=draw(some) if fan != (1, 1) else frozenset())
        for level, fan in zip(case.mapping.levels, map(case.arch.fanout, range(len(case.arch.levels))), strict=True))
    return replace(case, mapping=Mapping(levels))


@st.composite
def switched_cases(draw: DrawFn, shapes: dict[str, tuple[DataSpace, ...]] | None = None) -> Case:
    """A forgetful case without some links, plain first writes and, but for one level, coalescing."""
    case = draw(forgetful_cases(shapes))
    some = st.frozensets(st.sampled_from(case.problem.dataspace_names()))
    levels = list(case.mapping.levels)
    for index in range(len(levels)):
        unlinked = draw(some) if case.arch.fanout(index) != (1, 1) else frozenset()
        levels[index] = replace(levels[index], no_link_transfer=unlinked, rmw_first_update=draw(some),
                                no_coalesce=draw(some))
    held = {name for level in levels for name in level.keep - level.no_coalesce}
    levels = [replace(level, no_coalesce=level.no_coalesce & held) for level in levels]
    return replace(case, mapping=Mapping(tuple(levels)))


@st.composite
def level_mappings(draw: DrawFn, arch: Architecture, level: int, names: tuple[str, ...], spaces: tuple[DataSpace, ...],
                   loops: list[tuple[str, str, int]]) -> LevelMapping:
    """The loops of one level as (dimension, "temporal" | "X" | "Y", bound); those that do not fit are left out."""
    temporal, spatial = dict.fromkeys(names, 1), dict.fromkeys(names, 1)
    axis = {name: draw(st.sampled_from("XY")) for name in names}
    room = dict(zip("XY", arch.fanout(level), strict=True))
    taken: set[str] = set()
    for name, where, bound in loops:
        if where == "temporal":
            temporal[name] *= bound
        elif bound <= room[where] and (name not in taken or axis[name] == where):
            spatial[name] *= bound
            room[where] //= bound
            axis[name] = where
            taken.add(name)
    order = draw(st.permutations(names))
    spatial_order = sorted(draw(st.permutations(names)), key=lambda name: axis[name])
    keep = frozenset(space.name for space in spaces if draw(st.integers(0, 3)))
    split = sum(axis[name] == "X" for name in names)
    return LevelMapping(temporal, tuple(order), spatial, tuple(spatial_order), split, keep)


def batches(size: int = 5) -> SearchStrategy[list[Case]]:
    """Several mappings of one problem onto one architecture: one mapping, with its levels' orders turned about."""
    @st.composite
    def build(draw: DrawFn) -> list[Case]:
        case = draw(cases())
        found = [case]
        for _ in range(draw(st.integers(1, size - 1))):
            levels = [replace(level, order=tuple(draw(st.permutations(level.order)))) for level in case.mapping.levels]
            swap = draw(st.permutations(range(len(levels))))
            levels = [replace(level, temporal=case.mapping.levels[other].temporal)
                      for level, other in zip(levels, swap, strict=True)]
            found.append(replace(case, mapping=Mapping(tuple(levels))))
        return found
    return build()
