"""Estimates of one nest of shared loops: many tile sizes and all residency choices, side by side.

Problem. For one order of loops, tile sizes and resident operands trade the room in the home level against traffic to
the outermost one; thousands of combinations have to be ranked.

Method. Compiled (`kernel/nest_estimate.hpp`), in two stages: `Sheet.lower_prices` brings every passing operand in once
per step, for all residency choices and tile sizes; `Sheet.best_tile_sizes` adds the refetches of tiles that do not fit,
for the most promising sizes of one choice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fadiff_mapper.fusion import FusedGroup, FusedLayer, Stay, TileLoop
from fadiff_mapper.kernel._kernel import NestEstimate
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.edp_prices import NOTHING, NetworkPrice, OperatingPoint
from fadiff_mapper.network.tilings.compiled_segment import CompiledSegment
from fadiff_mapper.network.tilings.tile_nests import TileNest


@dataclass(frozen=True)
class Candidate:
    """A group whose tiles are not mapped yet.

    Attributes:
        segment: Its layers and links.
        group: The group, without mappings.
        estimate: Estimated energy and cycles, all repeats together, less `left_out`.
        left_out: Reads of residual operands from the outermost level that the network does without, as the group reads
            them on the chip.
    """

    segment: Segment
    group: FusedGroup
    estimate: OperatingPoint
    left_out: OperatingPoint = NOTHING


@dataclass(frozen=True)
class Sheet:
    """A nest with a grid of tile sizes.

    Attributes:
        nest: The shared loops.
        segment: The layers.
        sizes: Tile sizes, [loops, B].
        estimate: The estimates; they number the residency choices.
    """

    nest: TileNest
    segment: Segment
    sizes: np.ndarray
    estimate: NestEstimate

    def lower_prices(self, price: NetworkPrice) -> list[float]:
        """Prices every residency choice in its best tile sizes with passing operands brought in once per step.

        Args:
            price: The price of parts of the network.

        Returns:
            For each choice a lower price; infinite where the resident operands do not fit.
        """
        return self.estimate.lower_prices(*price.sums)

    def best_tile_sizes(self, choice: int, price: NetworkPrice, bar: float) -> SizedNest | None:
        """Finds the best tile sizes of one residency choice, with passing operands brought in as often as they must be.

        Args:
            choice: Number of the residency choice.
            price: The price of parts of the network.
            bar: Price to beat.

        Returns:
            None where no sizes are below the bar.
        """
        best = self.estimate.best_sizes(choice, *price.sums, bar)
        if best is None:
            return None
        value, energy, cycles, column = best
        return SizedNest(value, self, choice, column, OperatingPoint(energy, cycles))

    def group(self, choice: int, column: int) -> FusedGroup:
        """Makes the group of a residency choice in some tile sizes, without mappings.

        Args:
            choice: Number of the residency choice.
            column: Number of the tile sizes.
        """
        nest, problems, sizes = self.nest, self.segment.problems, map(int, self.sizes[:, column])
        stays: list[dict[str, Stay]] = [{} for _ in problems]
        for layer, space, across in self.estimate.stays(choice):
            loops = frozenset(dim for index, dim in enumerate(nest.dims) if across >> index & 1)
            stays[layer][problems[layer].dataspaces[space].name] = Stay(nest.home, loops)
        links = tuple(link.staying(Stay(nest.home, retained))
                      for link, retained in zip(self.segment.links, nest.retained, strict=True))
        return FusedGroup(tuple(FusedLayer(problem, {}, own) for problem, own in zip(problems, stays, strict=True)),
                          links, tuple(TileLoop(dim, size) for dim, size in zip(nest.dims, sizes, strict=True)),
                          self.segment.repeat, spilled=nest.spilled)


@dataclass(frozen=True)
class SizedNest:
    """The best tile sizes of one residency choice of a nest.

    Attributes:
        price: Price of the group.
        sheet: The nest.
        choice: Number of the residency choice.
        column: Number of the tile sizes.
        estimate: Estimated energy and cycles, all repeats together.
    """

    price: float
    sheet: Sheet
    choice: int
    column: int
    estimate: OperatingPoint

    @property
    def tiles(self) -> tuple[int, ...]:
        """Tile size of each loop, outermost first."""
        return tuple(map(int, self.sheet.sizes[:, self.column]))

    def candidate(self) -> Candidate:
        """The group, without mappings, with its estimate."""
        return Candidate(self.sheet.segment, self.sheet.group(self.choice, self.column), self.estimate)


def sheet_of(compiled: CompiledSegment, nest: TileNest, sizes: np.ndarray) -> Sheet:
    """Lays out the estimates of a segment in one nest.

    Args:
        compiled: The segment.
        nest: The shared loops.
        sizes: Tile sizes, [loops, B].
    """
    last = compiled.segment.problems[-1].dimensions
    retained = [sum(1 << index for index, dim in enumerate(nest.dims) if dim in loops) for loops in nest.retained]
    return Sheet(nest, compiled.segment, sizes, NestEstimate(
        compiled.tables, compiled.home(nest.home), compiled.usable[nest.home], [last.index(dim) for dim in nest.dims],
        retained, nest.spilled, sizes))
