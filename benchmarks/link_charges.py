"""Costs of fused links at least: the words that come and go because tiles must fit, in the best of many tilings.

`fusion_headroom.py` adds these to the layers' own costs. A link leads from a first layer to a second one. A piece of
work makes some results of the second layer, from all channels of the intermediate or from its channels part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from itertools import combinations, product
from math import inf, prod
from typing import Any

import numpy as np

from fadiff_mapper.fusion.prices import OperatingPoint
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.prepared_layer import prepare_layer, word_energy

HOME, SUMS = "Scratchpad", "Accumulator"
"""The home level of intermediates, and the level in which outputs are summed up."""

FINE = 512
"""Sizes of a piece of work that are tried, evenly spread on a logarithmic scale; nothing was measured."""

Side = tuple[bool, bool]
"""(whether a layer reads over a fused link, whether it hands its output on over one)."""


@dataclass(frozen=True)
class Run:
    """A mapping of a layer, run once.

    Attributes:
        point: Energy and cycles, without the words of its weights where it is fused.
        outer_words: Words that come and go at the outermost level.
        share: The share of its weights that each of its links is charged.
        reads_outside: Whether its input comes from the outermost level.
    """

    point: OperatingPoint
    outer_words: float
    share: float = 0.0
    reads_outside: bool = True


@dataclass(frozen=True)
class Layers:
    """The layers of a network with candidate mappings.

    Attributes:
        specs: Node -> its input.
        runs: Node -> side -> mappings for that side.
        repeats: Node -> how often it runs.
        links: Pair of nodes that can be fused -> both as a segment.
    """

    specs: Mapping[str, Spec]
    runs: Mapping[str, Mapping[Side, list[Run]]]
    repeats: Mapping[str, int]
    links: Mapping[tuple[str, str], Segment]


def per_word(spec: Spec) -> dict[str, tuple[float, float, float]]:
    """Level -> pJ to read, to fill and to update one word of it."""
    energy = word_energy(prepare_layer(spec.arch, spec.problem, spec.tables).machine)
    prices = (energy.read, energy.fill, energy.update)
    return {name: tuple(float(price[level, 0]) for price in prices)  # type: ignore[misc]
            for level, name in enumerate(spec.arch.level_names())}


def second_operand(problem: Problem, reads: str | None) -> DataSpace:
    """The operand of a layer beside the intermediate `reads`: its weights, or an attention product's other input.

    Without `reads` the operand that is called Weights.
    """
    operands = [space for space in problem.dataspaces if not space.read_write]
    return next(space for space in operands if (space.name != reads if reads else space.name == "Weights"))


Charge = Callable[[Layers, tuple[str, str], Run, Run, OperatingPoint], OperatingPoint]
"""The costs that a link adds to two runs, all repeats together, where energy and cycles are priced as in a network of
the given total."""


def once(layers: Layers, pair: tuple[str, str], before: Run, after: Run, total: OperatingPoint) -> OperatingPoint:
    """The charge of a free link: weights come once."""
    return _charged(layers, pair, (before, after), np.ones(1), np.zeros(1), total)


def refetched(layers: Layers, pair: tuple[str, str], before: Run, after: Run, total: OperatingPoint) -> OperatingPoint:
    """The charge of a link whose tiles must fit, in the best of many tilings.

    A link between layers that run a different number of times is charged as a free one.
    """
    if layers.links[pair].batched:
        return once(layers, pair, before, after, total)
    second, link = layers.links[pair].problems[1], layers.links[pair].links[0]
    operands = {space.name == link.tensor: space for space in second.dataspaces if not space.read_write}
    if any(second.bounds[dim] > 1 for dim in frozenset.intersection(
            second.output.dimensions, *(space.dimensions for space in operands.values()))):
        return once(layers, pair, before, after, total)   # depthwise: channels bring their own weights, so all fit
    work, words = _work(layers.links[pair], operands[True], operands[False]), _words(layers, pair)
    room, sums = _rooms(layers.specs[pair[0]])
    return min((_charged(layers, pair, (before, after), tiling.often, tiling.spilled, total,
                         np.maximum(tiling.inputs - before.outer_words, 0.0) if before.reads_outside else 0.0)
                for tiling in _tilings(work, words, room, sums)), key=lambda point: point.price(total))


def _rooms(spec: Spec) -> tuple[float, float]:
    """(words that fit in the home level of intermediates, words that fit where sums are kept)."""
    levels = {level.name: level for level in spec.arch.levels}
    home, sums = (inf if levels[name].usable is None else float((levels[name].usable or 0) * levels[name].instances)
                  for name in (HOME, SUMS))
    return home, sums


@dataclass(frozen=True)
class _Work:
    """The work of a link done piece by piece, in pieces of `FINE` sizes.

    Attributes:
        pixels: Pixels of the first layer's output that a piece takes [FINE].
        part: Part of the second layer's results that a piece makes [FINE].
        blocks: Pieces, at least [FINE].
        intermediate: Words of the intermediate that belong to a piece [FINE].
        inputs: Words of the first layer's input that belong to a piece [FINE].
        channels: Words of the intermediate per pixel.
        outputs: Words of the second layer's output.
        whole: Whether all channels of the intermediate are needed before any is read, as for softmax.
    """

    pixels: np.ndarray
    part: np.ndarray
    blocks: np.ndarray
    intermediate: np.ndarray
    inputs: np.ndarray
    channels: float
    outputs: float
    whole: bool


def _work(segment: Segment, inner: DataSpace, other: DataSpace) -> _Work:
    """`inner` is the intermediate as the second layer reads it, `other` its other operand."""
    (first, second), link = segment.problems, segment.links[0]
    moved = [own for own, theirs in link.dims.items() if theirs not in other.dimensions and first.bounds[own] > 1]
    theirs = [link.dims[own] for own in moved]
    pixels, results = prod(first.bounds[dim] for dim in moved), prod(second.bounds[dim] for dim in theirs)
    pieces = np.geomspace(1, results, FINE)
    source = next(space for space in first.dataspaces if not space.read_write and space != second_operand(first, None))
    return _Work(pieces * pixels / results, pieces / results,
                 np.ceil(results / np.append(pieces[1:], results)),   # at least, for all between two of these numbers
                 _window(inner, second, theirs, pieces), _window(source, first, moved, pieces * pixels / results),
                 first.tensor_size(first.output) / pixels, float(second.tensor_size(second.output)),
                 bool(segment.whole[0] - set(moved)))


@dataclass(frozen=True)
class _Tiling:
    """The traffic of a tiling.

    Attributes:
        often: How often the weights of both layers come [2, FINE].
        spilled: Words of sums that leave and return [FINE].
        inputs: Words of the first layer's input that come [FINE].
    """

    often: np.ndarray
    spilled: np.ndarray
    inputs: np.ndarray


def _tilings(work: _Work, words: Sequence[int], home: float, sums: float) -> Iterator[_Tiling]:
    """The tilings that fit.

    Some weights are resident, and the intermediate's channels are cut into so many parts that a part of it fits, or
    else the weights of a part.
    """
    for resident, held in product(joined.from_iterable(combinations((0, 1), count) for count in range(3)),
                                  ("intermediate", "weights")):
        room = home - _sum_of(words, resident)
        held_words = work.intermediate if held == "intermediate" else _sum_of(words, {0, 1} - set(resident))
        if room <= 0 or (work.whole and held == "weights"):
            continue
        parts = np.maximum(np.ceil(held_words / room), 1) * np.ones(FINE)
        spilled = np.where((parts > 1) & (work.whole | (work.part * work.outputs > sums)),
                           inf if work.whole else work.outputs * (parts - 1), 0.0)
        often = np.array([np.ones(FINE) if k in resident else work.blocks for k in (0, 1)])
        blocks = [(work.pixels, work.channels / parts)] if held == "weights" or 0 in resident else _blocks(
            work, words[0], room - held_words / parts, sums)
        for rows, columns in blocks:
            wide = np.maximum(np.minimum(columns, work.channels / parts), 1)
            high = np.maximum(np.minimum(rows, work.pixels), 1)
            again = np.array([np.maximum(work.pixels / high, 1), np.ones(FINE)])
            yield _Tiling(often * again, spilled, work.inputs * work.blocks * work.channels / wide)


def _blocks(work: _Work, weights: int, left: np.ndarray, sums: float) -> list[tuple[Any, Any]]:
    """(pixels, channels) of the first layer for which its operands come in together.

    As many as the accumulator has room for, or as many channels or pixels as have their weights or inputs in the words
    `left` in the home level.
    """
    columns = 2.0 ** np.arange(np.ceil(np.log2(work.channels)) + 1)
    return [*((sums / some, some) for some in columns), (work.pixels, left * work.channels / weights),
            (left / work.inputs * work.pixels, work.channels)]


def _sum_of(words: Sequence[int], layers: Iterable[int]) -> float:
    """Words of the weights of some of the two layers (0 and 1)."""
    return float(sum(words[layer] for layer in layers))


def _window(space: DataSpace, problem: Problem, dims: Sequence[str], points: np.ndarray) -> np.ndarray:
    """Words of a data space that `points` points of some dimensions touch at least, other dimensions whole.

    A square of points touches the fewest words of a window.
    """
    side: Any = points ** (1 / max(len(dims), 1))
    touched = np.asarray(prod(space.tile_extents(problem.bounds | dict.fromkeys(dims, side)), start=1.0))
    return np.minimum(touched * np.ones_like(points), problem.tensor_size(space))


def _words(layers: Layers, pair: tuple[str, str]) -> tuple[int, int]:
    """Words of the weights of both layers of a link, for one run of each."""
    first, second = (layers.specs[node].problem for node in pair)
    return (first.tensor_size(second_operand(first, None)),
            second.tensor_size(second_operand(second, layers.links[pair].links[0].tensor)))


def _charged(layers: Layers, pair: tuple[str, str], runs: tuple[Run, Run], often: np.ndarray, spilled: np.ndarray,
             total: OperatingPoint, again: Any = 0.0) -> OperatingPoint:
    """The cheapest of some tilings, all repeats together.

    Each layer is charged its share; its cycles are at least those that the outermost level needs.

    Args:
        layers: The layers of the network.
        pair: The two nodes of the link.
        runs: Their mappings.
        often: How often the weights of both layers come, [2, N] or [N].
        spilled: Words of sums that leave and return [N].
        total: The network's energy and cycles, which price both.
        again: Words of the first layer's inputs that come again, [N] or one number.
    """
    spec = layers.specs[pair[0]]
    prices, outermost = per_word(spec)[spec.arch.level_names()[-1]], spec.arch.levels[-1]
    rate = outermost.shared_bandwidth or outermost.read_bandwidth or inf
    fetched = prices[0] + per_word(spec)[HOME][1]            # what comes from outside is filled into the home
    energy: Any = layers.repeats[pair[0]] * (spilled * (prices[0] + prices[2]) + again * fetched)
    cycles: Any = 0.0
    for node, words, run, times, more in zip(pair, _words(layers, pair), runs,
                                             np.broadcast_to(often, (2, len(spilled))), (again, 2 * spilled),
                                             strict=True):
        energy = energy + layers.repeats[node] * (run.share * words * times * fetched)
        cycles = cycles + layers.repeats[node] * (run.share * np.maximum(
            (run.outer_words + words * times + more) / rate - run.point.cycles, 0.0))
    best = int((energy / total.energy_pj + cycles / total.cycles).argmin())
    return OperatingPoint(float(energy[best]), float(cycles[best]))
