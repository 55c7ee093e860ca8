"""An operator: a Timeloop problem, the number of its runs, and the axes of tensors that its ranks make up.

A data space has ranks in the order of its projection; frameworks have tensors whose axes come in an order of their own
and may put several ranks side by side, as channels of groups. A `View` ties the two together: for each axis of the
tensor, the ranks that it runs over, each named by a dimension. The view of a convolution's "Inputs" is
(N), (C), (P), (Q): the ranks P * stride + R * dilation and Q * stride + S * dilation are named by the output's
dimensions.
"""

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
"""Extents of a tensor's axes."""

View = tuple[tuple[str, ...], ...]
"""For each axis of a tensor, major first, the ranks that it runs over, each named by one of its dimensions."""

REPEAT = "*"
"""In a view, and among the dimensions of a link: the runs of an operator that is repeated."""

COEFFICIENTS = (("Wstride", "Hstride"), ("Wdilation", "Hdilation"))
"""Names in the bundled problems of stride and dilation, [along P, along Q]."""

PIXELS: View = (("P",), ("Q",))
VIEWS: dict[str, dict[str, View]] = {
    "conv": {"Inputs": (("N",), ("C",), *PIXELS), "Outputs": (("N",), ("M",), *PIXELS)},
    "grouped_conv": {"Inputs": (("N",), ("G", "C"), *PIXELS), "Outputs": (("N",), ("G", "M"), *PIXELS)},
    "gemm": {"Inputs": (("N",), ("C",)), "Weights": (("C",), ("M",)), "Outputs": (("N",), ("M",))},
}
VIEWS["depthwise"] = VIEWS["grouped_conv"]
"""The axes of the tensors of each template, as frameworks order them."""

TEMPLATES = {"conv": "conv", "gemm": "conv", "depthwise": "depthwise", "grouped_conv": "grouped_conv"}
"""Template of an operator -> the bundled problem whose shape it takes. A matrix product is a 1 x 1 convolution, so that
constraints on P, Q, R and S hold for all operators of a network alike."""


@dataclass(frozen=True)
class Operator:
    """A problem that the network poses, and its runs back to back.

    Attributes:
        op: its template, or "problem" for any Timeloop problem.
        problem: dimensions, bounds and data spaces of one run.
        views: data space -> axes, for each data space that can be a tensor of the graph.
        repeat: runs, such as one per attention head.
        literal: the problem as `timeloop-model` reads it.
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
        """Equal for operators that have the same mappings at the same cost: same bounds, projections and densities."""
        problem = self.problem
        return frozenset(problem.bounds.items()), problem.dataspaces, frozenset(problem.densities.items())

    def dataspace(self, name: str) -> DataSpace:
        """A data space by its name."""
        return next(ds for ds in self.problem.dataspaces if ds.name == name)

    def view(self, dataspace: str) -> View:
        """The axes of a data space's tensor, with a leading axis over the runs where the operator is repeated."""
        return (((REPEAT,),) if self.repeat > 1 else ()) + tuple(self.views[dataspace])

    def extents(self, dataspace: str) -> dict[str, int]:
        """Words along the ranks of a data space, by every dimension of the rank (a view names one of them)."""
        space = self.dataspace(dataspace)
        words = {REPEAT: self.repeat}
        for rank, extent in zip(space.ranks, space.tile_extents(self.problem.bounds), strict=True):
            words |= {term.dimension: extent for term in rank}
        return words

    def tensor_shape(self, dataspace: str) -> Shape:
        """Shape of a data space's tensor; sliding ranks have the extent that is read, padding counted as data."""
        extents = self.extents(dataspace)
        return tuple(math.prod(extents[name] for name in axis) for axis in self.view(dataspace))

    def pair(self, names: tuple[str, str]) -> tuple[int, int]:
        """Stride or dilation (`COEFFICIENTS`) along P and Q; 1 where the problem has none."""
        instance = self.literal.get("instance", {})
        return instance.get(names[0], 1), instance.get(names[1], 1)


def make_operator(op: str, dims: AnyMapping[str, int], stride: tuple[int, int] = (1, 1),
                  dilation: tuple[int, int] = (1, 1), repeat: int = 1, where: Where | None = None,
                  densities: Map | None = None) -> Operator:
    """An operator from a template.

    Args:
        op: a key of `TEMPLATES`.
        dims: bound of every dimension of the template.
        stride: of the windows along P and Q.
        dilation: of the windows along P and Q.
        repeat: runs back to back.
        where: place in the source, for messages.
        densities: density by tensor, as in the instance of a Timeloop problem.

    Raises:
        SpecError: the template is unknown, or a dimension is missing, unknown or not positive.
    """
    where = where or Where(op)
    if op not in TEMPLATES:
        raise where.error(f'unknown layer operator "{op}"{nearest(op, list(TEMPLATES))}', listed(TEMPLATES))
    coefficients = {name: value for names, pair in zip(COEFFICIENTS, (stride, dilation), strict=True)
                    for name, value in zip(names, pair, strict=True)}
    places = dims.places if isinstance(dims, Map) else {}
    given = {"densities": densities} if densities else {}
    instance = Map({**dims, **coefficients, **given}, where=where, places=places)
    problem, literal = read_problem(Map({"shape": _shape(TEMPLATES[op]), "instance": instance}, where=where), where)
    return Operator(op, problem, VIEWS[op], repeat, literal)


@cache
def _shape(template: str) -> Map:
    """The `shape` section of a bundled problem."""
    shape: Map = load_files([bundled_files.find(f"problems/{template}")])["problem"]["shape"]
    return shape


def problem_operator(node: Any, where: Where, repeat: int = 1) -> Operator:
    """An operator from any Timeloop problem.

    Args:
        node: the `problem` section: shape and instance.
        where: its place, for messages.
        repeat: runs back to back.

    Raises:
        SpecError: `read_problem` refuses the section.
    """
    problem, literal = read_problem(node, where)
    return Operator("problem", problem, {ds.name: _view(problem, ds) for ds in problem.dataspaces}, repeat, literal)


def _view(problem: Problem, space: DataSpace) -> View:
    """An axis per rank, named by the output's dimension where the rank has any.

    The output's axes are put into the order of the operand that has most of its dimensions, as frameworks have them: a
    problem file may list the output's ranks in any order.
    """
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
