"""A fused group on one of Timeloop's architectures: which layers share tile loops, and what stays on the chip.

    for each step of the shared loops, outermost first:
        for each layer, first to last:
            run its tile by an exact Timeloop mapping

The loops cut dimensions of the last layer; the tiles of the earlier ones follow from what the next layer needs.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.tables import Tables
from fadiff_mapper.workload.axis_algebra import WindowSlide

Shape: TypeAlias = tuple[int, ...]
"""Extents of a layer's dimensions, in the order of its problem."""


@dataclass(frozen=True)
class TileLoop:
    """A shared loop over a dimension of the last layer, such as rows, columns, tokens or the channels between two
    layers, in tiles of `tile` points (the last one may be smaller)."""

    dim: str
    tile: int


@dataclass(frozen=True)
class Stay:
    """A tensor that lies in `level` and survives from one step to the next.

    `across`: the shared loops (by the last layer's dimension) along which words that are still needed are kept; along
    the others they are fetched or computed again. `lines`: of what was used before, room is taken for what a later step
    uses again only, as by line buffers and in DeFiNES; else for all that the loops inside a kept one walk through, as
    in LoopTree.
    """

    level: str
    across: frozenset[str] = frozenset()
    lines: bool = False


@dataclass(frozen=True)
class FusedLayer:
    """One layer of a group.

    `mappings` has an exact mapping for every shape that the layer's tile takes. `operands` says which of the tensors
    that come from outside the group stay on the chip (resident weights, the halo of the first input); one that is
    not named is fetched in every step as the mapping says.
    """

    problem: Problem
    mappings: AnyMapping[Shape, Mapping]
    operands: AnyMapping[str, Stay] = field(default_factory=dict)


@dataclass(frozen=True)
class FusedLink:
    """What ties a layer to the next one.

    tensor    the data space of the next layer that this layer's output becomes
    dims      dimension of this layer's output -> dimension of the next layer that moves along it
    stay      where the intermediate lies, and along which loops its halo is retained; elsewhere it is recomputed
    padding   points before the first one of its operand that the next layer reads as zeros, per dimension of the next
              layer
    pooled    windows of pools in between, per dimension of the next layer. Where windows overlap, what the next layer's
              tile reads lies in the same level, beside what is pooled; else words are pooled as they arrive there
    written   whether it also goes to the outermost level, for a consumer outside the group: each time it is computed;
              or where it is pooled, what the pools make, once
    """

    tensor: str
    dims: AnyMapping[str, str]
    stay: Stay
    padding: AnyMapping[str, int] = field(default_factory=dict)
    pooled: AnyMapping[str, WindowSlide] = field(default_factory=dict)
    written: bool = False

    @property
    def lies_pooled(self) -> bool:
        """Whether what the pools make lies there instead of what they read."""
        return bool(self.pooled) and all(slide.kernel <= slide.stride and not slide.pad
                                         for slide in self.pooled.values())

    @property
    def beside(self) -> bool:
        """Whether what the next layer's tile reads has room of its own, beside the intermediate."""
        return bool(self.pooled) and not self.lies_pooled

    @property
    def written_whole(self) -> bool:
        """Whether all of the layer's output goes to the outermost level."""
        return self.written and not self.pooled

    @property
    def written_pooled(self) -> bool:
        """Whether what pools make of it goes there."""
        return self.written and bool(self.pooled)


@dataclass(frozen=True)
class FusedGroup:
    """Layers in the order in which they run, `links[i]` from layer i to i + 1, and the shared loops, outermost first.

    `repeat`: how often the group runs, such as once per attention head. `double_buffered`: levels in which the tile
    that comes and goes has room twice, so that the next one can arrive; what stays from step to step is there once.
    `spilled`: whether sums of the last layer to which later steps add go to the outermost level in between and come
    back; else they stay where they are summed up.
    A group of one layer without loops is that layer as Timeloop runs it.
    """

    layers: tuple[FusedLayer, ...]
    links: tuple[FusedLink, ...] = ()
    loops: tuple[TileLoop, ...] = ()
    repeat: int = 1
    double_buffered: frozenset[str] = frozenset()
    spilled: bool = False

    @property
    def steps(self) -> int:
        """Steps of all shared loops together."""
        bounds = self.layers[-1].problem.bounds
        return prod(-(-bounds[loop.dim] // loop.tile) for loop in self.loops)


@dataclass(frozen=True)
class Hardware:
    """What a group runs on."""

    arch: Architecture
    tables: Tables

    def level(self, name: str) -> int:
        """Index of a storage level, innermost first.

        Raises:
            FadiffError: A name that none of the architecture's levels has.
        """
        names = self.arch.level_names()
        if name not in names:
            raise FadiffError(f"level: found {name!r}; accepted: {listed(names)}")
        return names.index(name)
