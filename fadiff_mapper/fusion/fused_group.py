"""A fused group on one of Timeloop's architectures: layers that share tile loops, and tensors that stay on the chip.

    for each step of the shared loops, outermost first:
        for each layer, first to last:
            run its tile by an exact Timeloop mapping

The loops cut dimensions of the last layer; the tiles of earlier layers follow from the words that later layers read. A
group is a tree of FADiff's links with sigma = 1, mostly a chain. It also decides what the paper leaves open: the shared
loops and their tiles, the home level of each intermediate (always L2 in the paper), and the loops along which halos are
retained instead of fetched or recomputed (LoopTree, DeFiNES).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import TypeAlias

from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import Tables
from fadiff_mapper.workload.operations import VectorOperator
from fadiff_mapper.workload.window_slide import WindowSlide

Shape: TypeAlias = tuple[int, ...]
"""Extents of a layer's dimensions, in the order of its problem."""


@dataclass(frozen=True)
class TileLoop:
    """A shared loop over `dim` of the last layer in tiles of `tile` points; the last tile may be smaller."""

    dim: str
    tile: int


@dataclass(frozen=True)
class Stay:
    """The residency of a tensor: its home level, and the shared loops along which its words survive to the next step.

    Attributes:
        level: name of the home level.
        across: the loops (by the last layer's dimension) along which words for a later step are retained; along other
            loops they are fetched or recomputed.
        lines: True stores, beside the tile, only words that a later step uses again, as line buffers and DeFiNES do;
            False stores all words that the loops inside a retained loop walk through, as LoopTree does (`tile_steps`).
        shares: how the instances of the home divide an intermediate, if there are several: (level whose fan-out divides
            it, dimension of the producer's output, number of shares). Each instance computes and uses its own share, so
            both layers are spread over the same units.
    """

    level: str
    across: frozenset[str] = frozenset()
    lines: bool = False
    shares: tuple[tuple[str, str, int], ...] = ()


@dataclass(frozen=True)
class FusedLayer:
    """A layer of a group.

    Attributes:
        problem: the whole layer.
        mappings: an exact mapping for every shape of its tiles.
        operands: the data spaces from outside the group that stay on the chip (resident weights, the halo of the first
            input); all others are fetched in every step as the mapping says.
        shared: operands that an earlier layer of the group reads, too, and has fetched to the home: data space ->
            position of that layer and its data space. A part of `operands`.
        lasting: operands that lie whole in their home from group to group of a plan: data space -> True if it is there
            already, False if this layer fetches it. A part of `operands`.
    """

    problem: Problem
    mappings: AnyMapping[Shape, Mapping]
    operands: AnyMapping[str, Stay] = field(default_factory=dict)
    shared: AnyMapping[str, tuple[int, str]] = field(default_factory=dict)
    lasting: AnyMapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class LinkOperator:
    """An operator without multiply-accumulates between two layers of a group."""

    operator: VectorOperator  # the operator, all runs together
    joined: int  # words of other tensors that it reads from the outermost level

    @property
    def key(self) -> Hashable:
        """A key that is equal for operators with equal work, whatever their names."""
        own = self.operator
        return own.op, own.read, own.written, self.joined, own.unit, tuple((name, *sorted(counts.items()))
                                                                 for name, counts in own.einsums)


@dataclass(frozen=True)
class FusedLink:
    """The link between a layer of a group and the layer of the group that reads its output.

    Attributes:
        tensor: the data space of the next layer that this layer's output becomes. "Next layer" means the reader, even
            if other layers run in between.
        dims: dimension of this layer's output -> dimension of the next layer that moves along it.
        stay: the residency of the intermediate.
        padding: zeros that the next layer reads before the first point of its operand, per dimension of the next layer.
        pooled: windows of pools in between, per dimension of the next layer. Where windows overlap, the pooled words of
            the next layer's tile lie in the home beside the intermediate; else words are pooled on their way there.
        written: True if the tensor also goes to the outermost level, for a consumer outside the group: the
            intermediate each time it is computed or, where it is pooled, the pooled tensor once.
        between: windows of padding, resizing and stretches of channels for heads that lie behind pools, per dimension
            of the next layer.
        whole: dimensions of this layer's output that lead to no dimension of the next layer: whole in every step.
        elsewhere: the fraction of the operand's words that other tensors provide. They come from the outermost level
            and join this layer's output in the home; 1 where the output is a factor or summand of a larger tensor (the
            gate of squeeze-and-excitation).
        company: words of other tensors that lie in the home for each word of the intermediate.
        operators: operators of compute units on the intermediate, in order; empty where operators cost nothing.
        running: dimensions of this layer's output along the rows of a softmax: a loop may cut them in the one-pass
            form, in which a running maximum corrects the sums of earlier tiles.
        causal: for a softmax behind a causal mask: the dimension of this layer's output for queries, and how many
            queries follow one another (`workload.node.Node.causal`).
        distance: steps in the order of layers from this layer to the next layer: 1 if no other layer runs in between.
    """

    tensor: str
    dims: AnyMapping[str, str]
    stay: Stay
    padding: AnyMapping[str, int] = field(default_factory=dict)
    pooled: AnyMapping[str, WindowSlide] = field(default_factory=dict)
    written: bool = False
    between: AnyMapping[str, WindowSlide] = field(default_factory=dict)
    whole: frozenset[str] = frozenset()
    elsewhere: Fraction = Fraction(0)
    company: Fraction = Fraction(0)
    operators: tuple[LinkOperator, ...] = ()
    running: frozenset[str] = frozenset()
    causal: tuple[str, int] | None = None
    distance: int = 1

    @cached_property
    def back(self) -> dict[str, str]:
        """Dimension of the next layer -> dimension of this layer's output, the first one of several."""
        return {theirs: own for own, theirs in reversed(list(self.dims.items()))}

    def staying(self, stay: Stay) -> FusedLink:
        """The link with another residency; equal residencies share one object."""
        if stay not in self._stays:
            self._stays[stay] = replace(self, stay=stay)
        return self._stays[stay]

    @cached_property
    def _stays(self) -> dict[Stay, FusedLink]:
        return {}

    @property
    def lies_pooled(self) -> bool:
        """True if the home holds the pooled tensor, not the pool's input (no window overlaps or is padded)."""
        return bool(self.pooled) and all(slide.kernel <= slide.stride and not slide.pad
                                         for slide in self.pooled.values())

    @property
    def stored_strides(self) -> dict[str, int]:
        """Dimension of this layer's output -> its points per stored point, if the home holds the pooled tensor."""
        return {own: self.pooled[theirs].stride for own, theirs in self.dims.items()
                if theirs in self.pooled and self.lies_pooled}

    @property
    def scales(self) -> bool:
        """True if the intermediate is a factor or summand of a larger tensor, which comes from outside."""
        return self.elsewhere == 1

    @property
    def put_together(self) -> bool:
        """True if other tensors lie beside the intermediate along some axis of the operand, as in a concatenation."""
        return bool(self.elsewhere) and not self.scales

    @property
    def beside(self) -> bool:
        """True if the operand of the next layer's tile has room of its own beside the intermediate: pooled words, or a
        larger tensor that the intermediate scales."""
        return (bool(self.pooled) and not self.lies_pooled) or self.scales

    @property
    def written_whole(self) -> bool:
        """True if all of the layer's output goes to the outermost level."""
        return self.written and not self.pooled

    @property
    def written_pooled(self) -> bool:
        """True if the pooled tensor goes to the outermost level instead of the layer's output."""
        return self.written and bool(self.pooled)


@dataclass(frozen=True)
class SecondRead:
    """A residual operand of a chain: a tensor on the chip that a sum (or product) behind a layer reads once more.

    Attributes:
        first: position of the layer that reads the tensor first: as its intermediate or, for the first layer, as an
            operand that stays.
        tensor: the data space of the tensor in that layer.
        behind: position of the layer to whose output the tensor is added, point by point.
        dims: dimension of the tensor (in the output of the layer before or, for the group's own input, in the first
            layer) -> dimension of the output of the layer `behind`, for all extents above 1.
    """

    first: int
    tensor: str
    behind: int
    dims: AnyMapping[str, str]


class LayerTree:
    """Layers in the order in which they run; each layer except the last hands its output to a later layer, its
    reader."""

    links: tuple[FusedLink, ...]

    def reader(self, index: int) -> int:
        """Position of the layer that reads the output of layer `index`, not the last layer."""
        return index + self.links[index].distance

    def into(self, index: int) -> list[FusedLink]:
        """The links that lead to layer `index`, in the order of their producers."""
        return [link for before, link in enumerate(self.links[:index]) if before + link.distance == index]


@dataclass(frozen=True)
class FusedGroup(LayerTree):
    """Layers that run tile by tile inside shared loops; a single layer without loops runs exactly as in Timeloop.

    Attributes:
        layers: the layers in the order in which they run.
        links: `links[i]` leads from layer i to its reader, a later layer; in a chain, to the next layer.
        loops: the shared loops, outermost first.
        repeat: runs of the whole group, such as one per attention head.
        double_buffered: levels with room twice for each passing tile, so that the next tile can arrive meanwhile;
            tensors that stay from step to step have room once. An intermediate with a compute unit has room twice, so
            that unit and layers work side by side.
        sums: the level in which partial sums of the last layer rest between the steps that add to them: a level on the
            chip, or the outermost one (spilled). Empty: sums stay in the level that adds them up.
        second_reads: the residual operands that are read on the chip instead of from outside.
        skips: True if blocks of scores that a causal mask hides completely are left out.
        units: the compute unit of each operator between the layers, in order; a softmax in one pass has a unit for each
            of its parts (`group_cost.operator_choices`). Empty: for each the unit with the least EDP.
        output_at: the level in which the last layer's output stays whole for later groups of the plan. Empty: the
            output goes to the outermost level.
        lasting_words: words per level that lasting tensors occupy while the group runs, whether it reads them or not;
            includes `FusedLayer.lasting` and an output at `output_at`.
    """

    layers: tuple[FusedLayer, ...]
    links: tuple[FusedLink, ...] = ()
    loops: tuple[TileLoop, ...] = ()
    repeat: int = 1
    double_buffered: frozenset[str] = frozenset()
    sums: str = ""
    second_reads: tuple[SecondRead, ...] = ()
    skips: bool = False
    units: tuple[str, ...] = ()
    output_at: str = ""
    lasting_words: AnyMapping[str, int] = field(default_factory=dict)

    @property
    def steps(self) -> int:
        """Number of steps of all shared loops together."""
        bounds = self.layers[-1].problem.bounds
        return prod(-(-bounds[loop.dim] // loop.tile) for loop in self.loops)

    @property
    def side_by_side(self) -> bool:
        """Whether compute units work on one tile of each intermediate while the layers compute the next tile."""
        return all(link.stay.level in self.double_buffered for link in self.links if link.operators)

    @property
    def one_pass(self) -> bool:
        """Whether a shared loop cuts the rows of the softmax before the last layer."""
        rows = {link.dims[own] for link in self.links[-1:] for own in link.running}
        bounds = self.layers[-1].problem.bounds
        return any(loop.dim in rows and loop.tile < bounds[loop.dim] for loop in self.loops)

    @property
    def statistics_at(self) -> str:
        """The level that holds maxima and denominators of rows in the one-pass form: the home of the scores or, if its
        instances divide the rows, the level in which partial sums rest."""
        home = self.links[-1].stay
        return self.sums if home.shares else home.level

    def output_home(self, index: int) -> str:
        """The level in which the output of layer `index` stays for its readers; empty for the outermost level."""
        return self.links[index].stay.level if index < len(self.links) else self.output_at

    def last_uses(self) -> list[int]:
        """For each link the layer at which its intermediate is last read in a step."""
        return [max([self.reader(index), *(read.behind for read in self.second_reads if read.first == index + 1)])
                for index in range(len(self.links))]


@dataclass(frozen=True)
class Hardware:
    """The machine that a group runs on.

    Attributes:
        arch: The architecture.
        tables: Energies in pJ per action, and areas.
        resting: Levels, by name, that may hold unfinished sums of an intermediate while levels inside add to them.
    """

    arch: Architecture
    tables: Tables
    resting: frozenset[str] = frozenset()

    def level(self, name: str) -> int:
        """Index of a storage level, innermost first. Raises FadiffError for an unknown name."""
        names = self.arch.level_names()
        if name not in names:
            raise FadiffError(f"level: found {name!r}; accepted: {listed(names)}")
        return names.index(name)


def hardware_of(specs: Sequence[Spec]) -> Hardware:
    """The machine of a design, from the specs of all layers that run on it.

    Unfinished sums may rest in a level if no layer's constraints let its output bypass it, and if they need no more
    room there than finished sums.
    """
    arch = specs[0].arch
    return Hardware(arch, specs[0].tables, frozenset(
        level.name for index, level in enumerate(arch.levels) if all(
            spec.problem.output.name not in spec.constraints.levels[index].bypass
            and spec.problem.output.words(level.word_bits) == spec.problem.output.words(level.word_bits, partial=True)
            for spec in specs)))


def sums_rest(hardware: Hardware, group: FusedGroup, index: int) -> bool:
    """Whether unfinished sums of the output of layer `index` may rest in its home; not where words are pooled on
    arrival, as a pool needs finished sums."""
    return group.output_home(index) in hardware.resting and not any(
        link.lies_pooled for link in group.links[index:index + 1])
