"""A layer: one Timeloop problem, how often it runs back to back, and how its ranks make up the axes of tensors."""

from __future__ import annotations

import math
from collections.abc import Hashable
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.spec.native.problem import read_problem
from fadiff_mapper.spec.problem import DataSpace, Problem
from fadiff_mapper.yaml.load import load_files
from fadiff_mapper.yaml.located import Map, Where

Shape = tuple[int, ...]
View = tuple[tuple[str, ...], ...]
"""For each axis of a tensor, major first, the ranks that it runs over, each named by one of its dimensions."""

REPEAT = "*"
"""In a view, and among the dimensions of a link: the runs of a layer that is repeated."""

COEFFICIENTS = (("Wstride", "Hstride"), ("Wdilation", "Hdilation"))
"""Names in the bundled problems of stride and dilation, [along P, along Q]."""

PIXELS: View = (("P",), ("Q",))
VIEWS: dict[str, dict[str, View]] = {
    "conv": {"Inputs": (("N",), ("C",), *PIXELS), "Outputs": (("N",), ("M",), *PIXELS)},
    "grouped_conv": {"Inputs": (("N",), ("G", "C"), *PIXELS), "Outputs": (("N",), ("G", "M"), *PIXELS)},
    "gemm": {"Inputs": (("N",), ("C",)), "Weights": (("C",), ("M",)), "Outputs": (("N",), ("M",))},
}
VIEWS["depthwise"] = VIEWS["grouped_conv"]
"""The axes of the tensors of each kind of layer, as frameworks order them."""

TEMPLATES = {"conv": "conv", "gemm": "conv", "depthwise": "depthwise", "grouped_conv": "grouped_conv"}
"""The bundled problem whose shape a kind of layer takes. A matrix product is a 1 x 1 convolution, so that
constraints on P, Q, R and S hold for all layers of a network alike."""


@dataclass(frozen=True)
class Operator:
    """`repeat` runs of one problem. `views` gives the axes of each data space that can be another node's tensor.

    `literal` is the problem as `timeloop-model` reads it.
    """

    op: str
    problem: Problem
    views: AnyMapping[str, View]
    repeat: int = 1
    literal: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all runs."""
        return self.problem.computes * self.repeat

    @property
    def key(self) -> Hashable:
        """Equal for layers that have the same mappings at the same cost: same bounds, same projections."""
        return frozenset(self.problem.bounds.items()), self.problem.dataspaces

    def dataspace(self, name: str) -> DataSpace:
        return next(ds for ds in self.problem.dataspaces if ds.name == name)

    def view(self, dataspace: str) -> View:
        """The axes of one data space, with a leading axis over the runs where the layer is repeated."""
        return (((REPEAT,),) if self.repeat > 1 else ()) + tuple(self.views[dataspace])

    def extents(self, dataspace: str) -> dict[str, int]:
        """Words along each rank of a data space, by the dimension that names the rank in the view."""
        space = self.dataspace(dataspace)
        found = {REPEAT: self.repeat}
        for rank, extent in zip(space.ranks, space.tile_extents(self.problem.bounds), strict=True):
            found |= {term.dimension: extent for term in rank}
        return found

    def tensor_shape(self, dataspace: str) -> Shape:
        """The data space as a tensor. Sliding ranks have the extent that is read, padding counted as data."""
        extents = self.extents(dataspace)
        return tuple(math.prod(extents[name] for name in axis) for axis in self.view(dataspace))

    def pair(self, names: tuple[str, str]) -> tuple[int, int]:
        """Stride or dilation (`COEFFICIENTS`) along P and Q; 1 where the problem has none."""
        instance = self.literal.get("instance", {})
        return instance.get(names[0], 1), instance.get(names[1], 1)


def make_operator(op: str, dims: AnyMapping[str, int], stride: tuple[int, int] = (1, 1),
                  dilation: tuple[int, int] = (1, 1), repeat: int = 1, where: Where | None = None) -> Operator:
    """A layer of a known kind (`TEMPLATES`) with these bounds. Raises SpecError naming `where` and the dimension."""
    where = where or Where(op)
    if op not in TEMPLATES:
        raise where.error(f'unknown layer operator "{op}"{nearest(op, list(TEMPLATES))}', listed(TEMPLATES))
    coefficients = {name: value for names, pair in zip(COEFFICIENTS, (stride, dilation), strict=True)
                    for name, value in zip(names, pair, strict=True)}
    places = dims.places if isinstance(dims, Map) else {}
    instance = Map({**dims, **coefficients}, where=where, places=places)
    problem, literal = read_problem(Map({"shape": _shape(TEMPLATES[op]), "instance": instance}, where=where), where)
    return Operator(op, problem, VIEWS[op], repeat, literal)


@cache
def _shape(template: str) -> Map:
    shape: Map = load_files([bundled_files.find(f"problems/{template}")])["problem"]["shape"]
    return shape


def problem_operator(node: Any, where: Where, repeat: int = 1) -> Operator:
    """A layer from any Timeloop problem section. Raises SpecError as `read_problem` does."""
    problem, literal = read_problem(node, where)
    return Operator("problem", problem, {ds.name: _view(problem, ds) for ds in problem.dataspaces}, repeat, literal)


def _view(problem: Problem, space: DataSpace) -> View:
    """One axis per rank, named by the output's dimension where the rank has one. The output's axes are put into the
    order of the operand that has most of its dimensions, as frameworks have them."""
    output = problem.output
    names = [next((t.dimension for t in rank if t.dimension in output.dimensions), rank[0].dimension)
             for rank in space.ranks]
    if space is output:
        operand = max((ds for ds in problem.dataspaces if ds is not output), default=output,
                      key=lambda ds: len(ds.dimensions & output.dimensions))
        place = {term.dimension: index for index, rank in enumerate(operand.ranks) for term in rank}
        own = {name: index for index, name in enumerate(names)}
        names.sort(key=lambda name: place.get(name, own[name]))
    return tuple((name,) for name in names)
