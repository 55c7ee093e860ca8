"""Small fused groups on the bundled Gemmini, and the same group as a LoopTree input."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from fused_chains import document, loop, store

from fadiff_mapper import load
from fadiff_mapper.base import bundled_files
from fadiff_mapper.fusion.fused_group import FusedGroup, FusedLayer, FusedLink, Hardware, Shape, Stay, TileLoop
from fadiff_mapper.fusion.tile_steps import layer_steps, step_classes
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.inputs.spec.spec import Spec

ONWARDS = {"N": "N", "M": "C", "P": "P", "Q": "Q"}
KEPT = {"Accumulator": {"Outputs"}, "Scratchpad": {"Inputs", "Weights"}, "DRAM": {"Inputs", "Weights", "Outputs"}}


@cache
def gemmini() -> Spec:
    return load(*map(bundled_files.find, ("arch/gemmini_large", "layers/resnet18/conv3x3_128_128_28_s1")))


def hardware() -> Hardware:
    return Hardware(gemmini().arch, gemmini().tables)


def conv(name: str, stride: int = 1, dilation: int = 1, **extents: int) -> Problem:
    """A convolution with these extents; dimensions that are not named have one point."""
    problem = gemmini().problem
    factors = {"P": stride, "Q": stride, "R": dilation, "S": dilation}

    def spread(space: DataSpace) -> DataSpace:
        return replace(space, ranks=tuple(tuple(replace(term, coefficient=factors.get(term.dimension, 1))
                                                for term in rank) for rank in space.ranks))

    return Problem(name, dict.fromkeys(problem.dimensions, 1) | extents,
                   tuple(spread(space) if space.name == "Inputs" else space for space in problem.dataspaces))


KERNEL = {"R": 3, "S": 3}
CONV_2D = [conv("first", C=2, M=2, P=10, Q=8, **KERNEL), conv("second", C=2, M=2, P=8, Q=6, **KERNEL)]
THREE = [conv("first", C=2, M=1, P=12, R=3), conv("second", C=1, M=2, P=10, R=3), conv("third", C=2, M=2, P=8, R=3)]
MATMUL = [conv("first", N=8, C=3, M=6), conv("second", N=8, C=6, M=4)]
STRIDED = [conv("first", C=2, M=2, P=13, R=3, stride=2), conv("second", C=2, M=2, P=6, R=3, stride=2)]


def mapping(shape: Shape, at: dict[str, dict[str, int]] | None = None) -> Mapping:
    """All loops at the accumulator, except for `at`: level -> temporal factors that are put there."""
    spec, at = gemmini(), at or {}
    dims = spec.problem.dimensions
    rest = dict(zip(dims, shape, strict=True))
    for factors in at.values():
        rest |= {dim: rest[dim] // factor for dim, factor in factors.items()}
    ones = dict.fromkeys(dims, 1)
    return Mapping(tuple(LevelMapping(
        temporal=ones | (rest if level.name == "Accumulator" else at.get(level.name, {})), order=dims, spatial=ones,
        spatial_order=dims, split=len(dims), keep=frozenset(KEPT.get(level.name, ()))) for level in spec.arch.levels))


def group(problems: list[Problem], loops: list[tuple[str, int]], across: str, resident: bool = True,
          padding: dict[str, int] | None = None) -> FusedGroup:
    """A chain with intermediates and the first input kept in the scratchpad along the loops named in `across`."""
    names = frozenset(dim for dim, _ in loops)
    kept = Stay("Scratchpad", frozenset(across))
    weights = {"Weights": Stay("Scratchpad", names)} if resident else {}
    bare = FusedGroup(
        tuple(FusedLayer(problem, {}, weights | ({} if index else {"Inputs": kept}))
              for index, problem in enumerate(problems)),
        tuple(FusedLink("Inputs", ONWARDS, kept, padding or {}) for _ in problems[1:]),
        tuple(TileLoop(dim, tile) for dim, tile in loops))
    return with_mappings(bare)


def with_mappings(bare: FusedGroup) -> FusedGroup:
    """The group with a simple mapping for every tile of every layer."""
    return replace(bare, layers=tuple(
        replace(layer, mappings={kind.shape: mapping(kind.shape) for kind in step_classes(bare, layer, steps)})
        for layer, steps in zip(bare.layers, layer_steps(bare), strict=True)))


def as_looptree(fused: FusedGroup, place: int, sums_above: bool = False) -> dict[str, Any]:
    """The same group for LoopTree; `place` loops stand above the scratchpad's maps, the others below."""
    count = len(fused.layers)
    layers = [_einsum(layer.problem, i) for i, layer in enumerate(fused.layers, 1)]
    maps, weights = [f"F{i}" for i in range(1, count + 1)], [f"W{i}" for i in range(1, count + 1)]
    loops = [loop(f"{one.dim}{count}", one.tile) for one in fused.loops]
    output = f"F{count + 1}"
    branches = []
    for i, layer in enumerate(layers, 1):
        above = [] if sums_above and i == count else [store(2, f"F{i + 1}")]
        branches.append([*above, *(loop(rank, 1) for rank in layer["shape"]["dimensions"]),
                         {"type": "compute", "einsum": f"E{i}", "target": 4}])
    nodes = [store(0, maps[0], output, *weights), store(1, *weights), *([store(2, output)] if sums_above else []),
             *loops[:place], store(1, *maps), *loops[place:], {"type": "sequential", "branches": branches}]
    return document(layers, nodes)


def _einsum(problem: Problem, i: int) -> dict[str, Any]:
    names = {"Weights": f"W{i}", "Inputs": f"F{i}", "Outputs": f"F{i + 1}"}
    order = {"Outputs": ("N", "M", "P", "Q")}
    spaces = []
    for space in problem.dataspaces:
        axes = [" + ".join(f"{term.coefficient}*{term.dimension}{i}" for term in rank) for rank in space.ranks]
        axes = [f"{dim}{i}" for dim in order[space.name]] if space.name in order else axes
        name = names[space.name]
        spaces.append({"name": name, "dimensions": [f"{name}_{k}" for k in range(len(axes))],
                       "projection": "[ " + ", ".join(axes) + " ]", "read_write": space.read_write})
    ranks = [f"{dim}{i}" for dim in problem.dimensions]
    return {"shape": {"name": f"E{i}", "dimensions": ranks, "data_spaces": spaces},
            "instance": " and ".join(f"0 <= {dim}{i} < {extent}" for dim, extent in problem.bounds.items())}
