"""Stacks of convolutions as fused groups: shared tiles of the last layer's output, halos kept or computed again."""

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
    evaluate_groups,
    group_violations,
    layer_steps,
    step_classes,
)
from fadiff_mapper.fusion.groups.fused_group import Shape
from fadiff_mapper.fusion.groups.group_cost import group_cost
from fadiff_mapper.inputs.load import load
from fadiff_mapper.mapspace.factorize import divisors
from fadiff_mapper.model.exact.evaluate import evaluate_nest
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.spec import Spec

from .problems import problem
from .random_mappings import primes

DESIGN = Path(__file__).parent / "designs" / "fused" / "defines_gemmini.yaml"

HALOS = {"recompute": frozenset(), "cache H": frozenset("Q"), "cache HV": frozenset("PQ")}
"""What is done about halos -> dimensions along which they are kept; along the others they are computed again."""

LAYER_BY_LAYER = "layer by layer"

LOOPS = 5
"""Temporal loops of a tile, as many as DeFiNES was allowed (its `loma_lpf_limit`)."""

CHANNELS = 32
"""Of every map, as many as the array is wide and high."""

KEPT = {"WeightRegister": frozenset({"Weights"}), "Accumulator": frozenset({"Outputs"})}
"""What a level keeps; the others keep everything."""


@cache
def convolution(points: int) -> Spec:
    """A 3 x 3 convolution without padding with `points` x `points` outputs, on the design."""
    shape = problem("conv", C=CHANNELS, M=CHANNELS, P=points, Q=points, R=3, S=3)
    return load(yaml.safe_load(DESIGN.read_text()) | {"problem": shape})


def stack(layers: int, size: int) -> list[Problem]:
    """Convolutions, first to last; the last output has `size` x `size` points, every map before it two more."""
    return [convolution(size + 2 * further).problem for further in reversed(range(layers))]


@cache
def hardware() -> Hardware:
    spec = convolution(1)
    return Hardware(spec.arch, spec.tables)


@dataclass(frozen=True)
class StackCost:
    """pJ and cycles of a stack, and what is done about halos where all fits: a key of `HALOS` or `LAYER_BY_LAYER`.

    overlapped    cycles where each tile takes as long as its slowest level, as Timeloop counts
    in_sequence   cycles where the array waits for the words that are loaded into scratchpad and registers
    """

    mode: str
    energy: float
    overlapped: float
    in_sequence: float


def stack_cost(layers: int, size: int, mode: str, tile_x: int, tile_y: int) -> StackCost:
    """What a stack costs in tiles of `tile_x` columns and `tile_y` rows of its last output.

    Where what should be kept does not fit on the chip, less is kept; where the maps do not fit at all, the stack runs
    layer by layer.
    """
    problems, halos = stack(layers, size), list(HALOS)
    for kept in reversed(halos[:halos.index(mode) + 1]) if mode in HALOS else ():
        fused = with_mappings(tiled(problems, tile_x, tile_y, HALOS[kept]))
        if not group_violations(hardware(), fused):
            return _priced(kept, group_cost(hardware(), fused))
    return _priced(LAYER_BY_LAYER, evaluate_groups(hardware(), [_alone(one) for one in problems]))


def _priced(mode: str, found: FusedCost) -> StackCost:
    dram, scratchpad = (hardware().arch.levels[hardware().level(name)] for name in ("DRAM", "Scratchpad"))
    loading = sum(words.reads / (dram.shared_bandwidth or 1) for layer in found.layers
                  for (level, _), words in layer.traffic.items() if level == "DRAM")
    filling = sum(layer.traffic["WeightRegister", "Weights"].fills / (scratchpad.read_bandwidth or 1)
                  for layer in found.layers)
    array = sum(layer.computes for layer in found.layers) / CHANNELS ** 2
    return StackCost(mode, found.energy_pj, found.cycles, array + loading + filling)


def tiled(problems: list[Problem], tile_x: int, tile_y: int, across: frozenset[str]) -> FusedGroup:
    """The group without mappings: weights are resident, maps stay in the scratchpad, rows of tiles outermost."""
    kept, resident = Stay("Scratchpad", across, lines=True), Stay("Scratchpad", frozenset("PQ"))
    return FusedGroup(
        tuple(FusedLayer(one, {}, {"Weights": resident} | ({} if index else {"Inputs": kept}))
              for index, one in enumerate(problems)),
        tuple(FusedLink("Inputs", {"N": "N", "M": "C", "P": "P", "Q": "Q"}, kept) for _ in problems[1:]),
        (TileLoop("P", tile_y), TileLoop("Q", tile_x)))


def _alone(one: Problem) -> FusedGroup:
    """One layer, in the tallest bands of rows that fit."""
    for rows in reversed(divisors(one.bounds["P"])):
        group = with_mappings(tiled([one], one.bounds["Q"], rows, HALOS["cache HV"]))
        if not group_violations(hardware(), group):
            break
    return group


def with_mappings(bare: FusedGroup) -> FusedGroup:
    """The group with the best mapping for every tile of every layer."""
    return replace(bare, layers=tuple(
        replace(layer, mappings={kind.shape: best_mapping(kind.shape) for kind in step_classes(bare, layer, steps)})
        for layer, steps in zip(bare.layers, layer_steps(bare), strict=True)))


@cache
def best_mapping(shape: Shape) -> Mapping:
    """The mapping of a tile with the least energy, then the fewest cycles, over all ways to divide its rows and columns
    between accumulator and scratchpad. The array takes all channels; weights stay while an accumulator tile passes."""
    spec = convolution(1)
    extents = dict(zip(spec.problem.dimensions, shape, strict=True))
    tile = replace(spec.problem, bounds=extents)
    room = spec.arch.levels[spec.arch.level_names().index("Accumulator")].size or 0
    factors = merged_factors(extents)
    found = [_mapping(spec, extents, {"P": p, "Q": q}) for p in products(factors["P"]) for q in products(factors["Q"])
             if p * q <= room]
    cost = evaluate_nest(prepare_layer(spec.arch, tile, spec.tables), pack(found, tile))
    return found[min(range(len(found)), key=lambda row: (float(cost.energy[row]), float(cost.cycles[row])))]


def merged_factors(extents: AnyMapping[str, int], loops: int = LOOPS) -> dict[str, list[int]]:
    """The loops over a tile as DeFiNES has them: prime factors, of which the two smallest of the dimension with the
    most are merged until there are at most `loops`."""
    found = {name: primes(extents[name]) for name in "PQSR"}
    while sum(map(len, found.values())) > loops:
        longest = max(found, key=lambda name: len(found[name]))
        first, second, *others = found[longest]
        found[longest] = sorted([first * second, *others])
    return found


def products(factors: Sequence[int]) -> list[int]:
    """Products of every choice of some factors, ascending."""
    return sorted({prod(chosen) for count in range(len(factors) + 1) for chosen in combinations(factors, count)})


def _mapping(spec: Spec, extents: AnyMapping[str, int], inside: AnyMapping[str, int]) -> Mapping:
    """`inside`: rows and columns that the accumulator holds at a time; the scratchpad walks over the rest."""
    temporal = {"Accumulator": {**inside, "R": extents["R"], "S": extents["S"]},
                "Scratchpad": {name: extents[name] // points for name, points in inside.items()}}
    spatial = {"Accumulator": {"C": extents["C"]}, "Scratchpad": {"M": extents["M"]}}
    ones = dict.fromkeys(extents, 1)
    order = ("Q", "P", *(name for name in extents if name not in "PQ"))
    return Mapping(tuple(LevelMapping(
        temporal=ones | temporal.get(level.name, {}), order=order, spatial=ones | spatial.get(level.name, {}),
        spatial_order=order, split=0 if level.name == "Accumulator" else len(order),
        keep=KEPT.get(level.name, frozenset(spec.problem.dataspace_names()))) for level in spec.arch.levels))
