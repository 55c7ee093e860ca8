"""Stacks of convolutions as fused groups: shared tiles of the last layer's output, halos kept or computed again.

DeFiNES evaluated the same stacks on the architecture of `designs/fused/defines_gemmini.yaml`. The loops of a tile are
limited as DeFiNES limits them (`merged_factors`), so that differences are those of the models.
"""

from __future__ import annotations

from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import prod
from pathlib import Path

import yaml

from fadiff_mapper.fusion import (
    FusedCost,
    FusedGroup,
    FusedLayer,
    FusedLink,
    Hardware,
    Stay,
    TileLoop,
    evaluate_group,
    group_violations,
    layer_steps,
    step_classes,
)
from fadiff_mapper.fusion.fused_group import Shape
from fadiff_mapper.fusion.group_cost import group_cost
from fadiff_mapper.inputs.load import load
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import evaluate_nest
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.mapspace.build import divisors

from .problems import problem
from .random_mappings import primes

DESIGN = Path(__file__).parent / "designs" / "fused" / "defines_gemmini.yaml"

HALOS = {"recompute": frozenset(), "cache H": frozenset("Q"), "cache HV": frozenset("PQ")}
"""Treatment of halos -> dimensions along which they are kept; along the others they are computed again."""

LAYER_BY_LAYER = "layer by layer"
"""The mode in which nothing is fused."""

LOOPS = 5
"""Temporal loops of a tile, as many as DeFiNES was allowed (its `loma_lpf_limit`)."""

CHANNELS = 32
"""Channels of every feature map, as many as the array is wide and high."""

KEPT = {"WeightRegister": frozenset({"Weights"}), "Accumulator": frozenset({"Outputs"})}
"""Level -> data spaces that it keeps; levels that are not named keep all of them."""


@cache
def convolution(points: int) -> Spec:
    """A 3 x 3 convolution without padding with `points` x `points` outputs, on the design."""
    shape = problem("conv", C=CHANNELS, M=CHANNELS, P=points, Q=points, R=3, S=3)
    return load(yaml.safe_load(DESIGN.read_text()) | {"problem": shape})


def stack(layers: int, size: int) -> list[Problem]:
    """The problems of a stack, first layer to last.

    Args:
        layers: How many convolutions.
        size: Rows and columns of the last output; every feature map before it has two more of each.
    """
    return [convolution(size + 2 * further).problem for further in reversed(range(layers))]


@cache
def hardware() -> Hardware:
    """The design of the recorded points."""
    spec = convolution(1)
    return Hardware(spec.arch, spec.tables)


@dataclass(frozen=True)
class StackCost:
    """Costs of a stack.

    Attributes:
        mode: The treatment of halos that fits: a key of `HALOS`, or `LAYER_BY_LAYER`.
        energy: pJ.
        overlapped: Cycles if each tile takes as long as its slowest level, as Timeloop counts.
        in_sequence: Cycles if the array waits for the words that are loaded into scratchpad and registers.
    """

    mode: str
    energy: float
    overlapped: float
    in_sequence: float


def stack_cost(layers: int, size: int, mode: str, tile_x: int, tile_y: int) -> StackCost:
    """Costs of a stack in tiles of its last output.

    If the halos that should be kept do not fit on the chip, fewer are kept; if the feature maps do not fit at all, the
    stack runs layer by layer.

    Args:
        layers: How many convolutions.
        size: Rows and columns of the last output.
        mode: A key of `HALOS`; anything else means layer by layer.
        tile_x: Columns of a tile.
        tile_y: Rows of a tile.
    """
    problems, halos = stack(layers, size), list(HALOS)
    for kept in reversed(halos[:halos.index(mode) + 1]) if mode in HALOS else ():
        fused = with_mappings(tiled(problems, tile_x, tile_y, HALOS[kept]))
        if not group_violations(hardware(), fused):
            return _priced(kept, group_cost(hardware(), fused))
    costs = [evaluate_group(hardware(), _alone(layer)) for layer in problems]
    return _priced(LAYER_BY_LAYER, FusedCost(sum(cost.cycles for cost in costs), sum(cost.energy_pj for cost in costs),
                                             tuple(layer for cost in costs for layer in cost.layers)))


def _priced(mode: str, cost: FusedCost) -> StackCost:
    """The costs with both ways to count cycles: the array's own, and the words loaded at the levels' bandwidths."""
    dram, scratchpad = (hardware().arch.levels[hardware().level(name)] for name in ("DRAM", "Scratchpad"))
    loading = sum(words.reads / (dram.shared_bandwidth or 1) for layer in cost.layers
                  for (level, _), words in layer.traffic.items() if level == "DRAM")
    filling = sum(layer.traffic["WeightRegister", "Weights"].fills / (scratchpad.read_bandwidth or 1)
                  for layer in cost.layers)
    array = sum(layer.computes for layer in cost.layers) / CHANNELS ** 2
    return StackCost(mode, cost.energy_pj, cost.cycles, array + loading + filling)


def tiled(problems: list[Problem], tile_x: int, tile_y: int, across: frozenset[str]) -> FusedGroup:
    """The group without mappings: weights are resident, feature maps stay in the scratchpad, rows of tiles outermost.

    Args:
        problems: The convolutions, first to last.
        tile_x: Columns of a tile of the last output.
        tile_y: Its rows.
        across: Dimensions along which halos are kept.
    """
    kept, resident = Stay("Scratchpad", across, lines=True), Stay("Scratchpad", frozenset("PQ"))
    return FusedGroup(
        tuple(FusedLayer(layer, {}, {"Weights": resident} | ({} if index else {"Inputs": kept}))
              for index, layer in enumerate(problems)),
        tuple(FusedLink("Inputs", {"N": "N", "M": "C", "P": "P", "Q": "Q"}, kept) for _ in problems[1:]),
        (TileLoop("P", tile_y), TileLoop("Q", tile_x)))


def _alone(layer: Problem) -> FusedGroup:
    """One layer by itself, in the tallest bands of rows that fit."""
    for rows in reversed(divisors(layer.bounds["P"])):
        group = with_mappings(tiled([layer], layer.bounds["Q"], rows, HALOS["cache HV"]))
        if not group_violations(hardware(), group):
            break
    return group


def with_mappings(bare: FusedGroup) -> FusedGroup:
    """The group with the best mapping for every tile of every layer."""
    return replace(bare, layers=tuple(
        replace(layer, mappings={step.shape: best_mapping(step.shape) for step in step_classes(bare, layer, steps)})
        for layer, steps in zip(bare.layers, layer_steps(bare), strict=True)))


@cache
def best_mapping(shape: Shape) -> Mapping:
    """The mapping of a tile with the least energy, then the fewest cycles.

    All ways to divide its rows and columns between accumulator and scratchpad are tried. The array takes all channels;
    weights stay while an accumulator tile passes.

    Args:
        shape: Extents of the tile in the order of the convolution's dimensions.
    """
    spec = convolution(1)
    extents = dict(zip(spec.problem.dimensions, shape, strict=True))
    tile = replace(spec.problem, bounds=extents)
    room = spec.arch.levels[spec.arch.level_names().index("Accumulator")].size or 0
    factors = merged_factors(extents)
    candidates = [_mapping(spec, extents, {"P": p, "Q": q}) for p in products(factors["P"])
                  for q in products(factors["Q"]) if p * q <= room]
    cost = evaluate_nest(prepare_layer(spec.arch, tile, spec.tables), pack(candidates, tile))
    return candidates[min(range(len(candidates)), key=lambda row: (float(cost.energy[row]), float(cost.cycles[row])))]


def merged_factors(extents: AnyMapping[str, int], loops: int = LOOPS) -> dict[str, list[int]]:
    """The loops over a tile as DeFiNES has them.

    Every dimension is split into its prime factors. While there are too many loops, the two smallest of the dimension
    with the most loops are merged.

    Args:
        extents: Extents of the tile by dimension.
        loops: Most loops over all dimensions.

    Returns:
        Dimension -> factors of its loops, ascending.
    """
    factors = {name: primes(extents[name]) for name in "PQSR"}
    while sum(map(len, factors.values())) > loops:
        longest = max(factors, key=lambda name: len(factors[name]))
        first, second, *others = factors[longest]
        factors[longest] = sorted([first * second, *others])
    return factors


def products(factors: Sequence[int]) -> list[int]:
    """The products of all subsets of some factors, ascending, without repetition."""
    return sorted({prod(chosen) for count in range(len(factors) + 1) for chosen in combinations(factors, count)})


def _mapping(spec: Spec, extents: AnyMapping[str, int], inside: AnyMapping[str, int]) -> Mapping:
    """The mapping whose accumulator holds `inside` rows and columns at a time; the scratchpad loops over the rest."""
    temporal = {"Accumulator": {**inside, "R": extents["R"], "S": extents["S"]},
                "Scratchpad": {name: extents[name] // points for name, points in inside.items()}}
    spatial = {"Accumulator": {"C": extents["C"]}, "Scratchpad": {"M": extents["M"]}}
    ones = dict.fromkeys(extents, 1)
    order = ("Q", "P", *(name for name in extents if name not in "PQ"))
    return Mapping(tuple(LevelMapping(
        temporal=ones | temporal.get(level.name, {}), order=order, spatial=ones | spatial.get(level.name, {}),
        spatial_order=order, split=0 if level.name == "Accumulator" else len(order),
        keep=KEPT.get(level.name, frozenset(spec.problem.dataspace_names()))) for level in spec.arch.levels))
