"""A fused group on one of Timeloop's architectures: layers that share tile loops, and tensors that stay on the chip.

    for each step of the shared loops, outermost first:
        for each layer, first to last:
            run its tile by an exact Timeloop mapping

The loops cut dimensions of the last layer; the tiles of the earlier ones follow from what their readers need. A group
is a tree of FADiff's links with sigma = 1, mostly a chain, and decides what the paper does not model: the shared loops
and their tiles, the home level of each intermediate (always L2 in the paper), and the loops along which halos are
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
        across: the loops (by the last layer's dimension) along which words that a later step needs are retained; along
            the others they are fetched or recomputed.
        lines: True stores, beside the tile, only words that a later step uses again, as line buffers and DeFiNES do;
            False stores all that the loops inside a retained one walk through, as LoopTree does (`tile_steps`).
        shares: where the home has several instances, how an intermediate is divided among them: (level whose fan-out
            divides it, dimension of the producer's output, number of shares). Each instance makes its share and uses
            it: both layers are spread over the same units.
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
        mappings: an exact mapping for every shape that the layer's tile takes.
        operands: the data spaces from outside the group that stay on the chip (resident weights, the halo of the first
            input); any other is fetched in every step as the mapping says.
        shared: those of `operands` that an earlier layer of the group reads, too, and has brought there: data space ->
            position of that layer and its data space.
        lasting: those of `operands` that lie whole at their home from group to group of a plan: data space -> whether
            it is there already; else this layer brings it.
    """

    problem: Problem
    mappings: AnyMapping[Shape, Mapping]
    operands: AnyMapping[str, Stay] = field(default_factory=dict)
    shared: AnyMapping[str, tuple[int, str]] = field(default_factory=dict)
    lasting: AnyMapping[str, bool] = field(default_factory=dict)


@dataclass(frozen=True)
class LinkOperator:
    """An operator without multiply-accumulates that lies between two layers of a group."""

    operator: VectorOperator  # of all runs together
    joined: int  # of the words that it reads, those of other tensors, which come from the outermost level

    @property
    def key(self) -> Hashable:
        """Equal for operators that do the same work, under any name."""
        own = self.operator
        return own.op, own.read, own.written, self.joined, own.unit, tuple((name, *sorted(counts.items()))
                                                                 for name, counts in own.einsums)


@dataclass(frozen=True)
class FusedLink:
    """The producer-consumer relation between a layer and the one of its group that reads its output.

    Attributes:
        tensor: the data space of the next layer that this layer's output becomes. The next layer is the reader,
            whatever layers run in between.
        dims: dimension of this layer's output -> dimension of the next layer that moves along it.
        stay: the residency of the intermediate.
        padding: zeros that the next layer reads before the first point of its operand, per dimension of the next layer.
        pooled: windows of pools in between, per dimension of the next layer. Where windows overlap, the words that the
            next layer's tile reads lie in the same level, beside the intermediate; else words are pooled as they
            arrive there.
        written: True if the tensor also goes to the outermost level, for a consumer outside the group: the
            intermediate each time it is computed or, where it is pooled, the pooled tensor once.
        between: per dimension of the next layer, the windows behind pools through which its points stand for those of
            the output: padding, resizing, heads for stretches of channels.
        whole: dimensions of this layer's output that lead to none of the next layer's: whole in every step.
        elsewhere: the fraction of the operand's words that other tensors make, which come from the outermost level and
            are put together with this layer's output in the home level; 1 where the output is a factor or summand of a
            larger tensor (the gate of squeeze-and-excitation).
        company: words of other tensors that lie in the home level beside each word of the intermediate.
        operators: what a compute unit does to the intermediate, in order; empty where it costs nothing.
        running: dimensions of this layer's output that are rows of a softmax: a loop may cut them in the one-pass form,
            in which a running maximum corrects the sums of earlier tiles.
        causal: of a softmax behind a causal mask, the dimension of this layer's output that queries run along, and how
            many of them follow one another (`workload.node.Node.causal`).
        distance: how many layers further on the next layer runs: 1 where none is in between.
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
        """The same link with another residency, made once: a network's candidates have few for each link."""
        if stay not in self._stays:
            self._stays[stay] = replace(self, stay=stay)
        return self._stays[stay]

    @cached_property
    def _stays(self) -> dict[Stay, FusedLink]:
        return {}

    @property
    def lies_pooled(self) -> bool:
        """True if the pooled tensor, not the pool's input, lies at the home (no window overlaps or is padded)."""
        return bool(self.pooled) and all(slide.kernel <= slide.stride and not slide.pad
                                         for slide in self.pooled.values())

    @property
    def stored_strides(self) -> dict[str, int]:
        """Dimension of this layer's output -> points per stored one, where the pooled tensor lies at the home."""
        return {own: self.pooled[theirs].stride for own, theirs in self.dims.items()
                if theirs in self.pooled and self.lies_pooled}

    @property
    def scales(self) -> bool:
        """True if the intermediate is a factor or summand of a larger tensor, all of which comes from outside."""
        return self.elsewhere == 1

    @property
    def put_together(self) -> bool:
        """True if other tensors lie beside the intermediate along some axis of the operand, as in a concatenation."""
        return bool(self.elsewhere) and not self.scales

    @property
    def beside(self) -> bool:
        """True if the words that the next layer's tile reads have room of their own, beside the intermediate: pooled
        ones, and those of a larger tensor that the intermediate scales."""
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
        first: position of the layer that reads the tensor first, as what the layer before hands on or, for the first
            layer, as an operand that stays.
        tensor: the data space of that layer that the tensor is.
        behind: position of the layer to whose output the tensor is added, point by point.
        dims: dimension along the tensor (of the output of the layer before or, for the group's own input, of the first
            layer) -> dimension of the output of the layer `behind`, for all extents above 1.
    """

    first: int
    tensor: str
    behind: int
    dims: AnyMapping[str, str]


class LayerTree:
    """Layers in the order in which they run, of which each but the last hands its output to one other, its reader."""

    links: tuple[FusedLink, ...]

    def reader(self, index: int) -> int:
        """Position of the layer that reads the output of layer `index`, which is not the last one."""
        return index + self.links[index].distance

    def into(self, index: int) -> list[FusedLink]:
        """The links that lead to layer `index`, in the order of their producers."""
        return [link for before, link in enumerate(self.links[:index]) if before + link.distance == index]


@dataclass(frozen=True)
class FusedGroup(LayerTree):
    """Layers that run tile by tile inside shared loops; one layer without loops is that layer as Timeloop runs it.

    Attributes:
        layers: the layers in the order in which they run.
        links: `links[i]` leads from layer i to a later layer, `reader(i)`. So the layers are a tree: each but the last
            hands its output to one other; in a chain, to the next one.
        loops: the shared loops, outermost first.
        repeat: runs of the whole group, such as one per attention head.
        double_buffered: levels in which a tile that comes and goes has room twice, so that the next one can arrive;
            tensors that stay from step to step are there once. An intermediate on which a compute unit works is there
            twice, so that the unit and the layers work side by side.
        sums: the level in which partial sums of the last layer rest between the steps that add to them: a level on the
            chip, or the outermost one (spilled). Empty: they stay where they are summed up.
        second_reads: the residual operands that are read on the chip, instead of from outside.
        skips: True if blocks of scores that a causal mask hides wholly are left out.
        units: the compute unit of each operator between the layers, one after the other; of a softmax in one pass each
            of its parts has one (`group_cost.operator_choices`). Empty: the one with the least EDP of each.
        output_at: the level in which the last layer's output stays whole for later groups of the plan. Empty: it goes
            to the outermost level.
        lasting_words: words of levels that lasting tensors take while the group runs, read by it or not: those of
            `FusedLayer.lasting` and the output at `output_at` among them.
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
        """Steps of all shared loops together."""
        bounds = self.layers[-1].problem.bounds
        return prod(-(-bounds[loop.dim] // loop.tile) for loop in self.loops)

    @property
    def side_by_side(self) -> bool:
        """Whether compute units work on one tile of each intermediate while the layers are at the next."""
        return all(link.stay.level in self.double_buffered for link in self.links if link.operators)

    @property
    def one_pass(self) -> bool:
        """Whether a shared loop cuts the rows of the softmax before the last layer."""
        rows = {link.dims[own] for link in self.links[-1:] for own in link.running}
        bounds = self.layers[-1].problem.bounds
        return any(loop.dim in rows and loop.tile < bounds[loop.dim] for loop in self.loops)

    @property
    def statistics_at(self) -> str:
        """The level in which maxima and denominators of rows rest in the one-pass form: the home of the scores or, as
        rows are spread over its instances, where partial sums rest."""
        home = self.links[-1].stay
        return self.sums if home.shares else home.level

    def output_home(self, index: int) -> str:
        """The level in which the output of layer `index` stays for its readers; empty for the outermost one."""
        return self.links[index].stay.level if index < len(self.links) else self.output_at

    def last_uses(self) -> list[int]:
        """For each link the last layer that runs before its intermediate is read for the last time in a step."""
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
    """The machine of a design, given with all layers that run on it.

    Unfinished sums may rest in a level whose constraints bypass the output of no layer, if they take no more room there
    than finished ones.
    """
    arch = specs[0].arch
    return Hardware(arch, specs[0].tables, frozenset(
        level.name for index, level in enumerate(arch.levels) if all(
            spec.problem.output.name not in spec.constraints.levels[index].bypass
            and spec.problem.output.words(level.word_bits) == spec.problem.output.words(level.word_bits, partial=True)
            for spec in specs)))


def sums_rest(hardware: Hardware, group: FusedGroup, index: int) -> bool:
    """Whether unfinished sums of the intermediate that layer `index` makes may rest in its home: not where a pool takes
    words as they arrive, which must be finished."""
    return group.output_home(index) in hardware.resting and not any(
        link.lies_pooled for link in group.links[index:index + 1])
