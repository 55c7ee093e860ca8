"""An operator: a Timeloop problem, the number of its runs, and the tensor axes that its ranks form.

A data space has ranks in the order of its projection. The axes of a framework's tensor have another order, and one axis
may combine several ranks, such as groups and channels. A `View` relates them: for each axis of the tensor, its ranks,
each named by a dimension. The view of a convolution's "Inputs" is (N), (C), (P), (Q): the ranks P * stride + R *
dilation and Q * stride + S * dilation are named by the output's dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.native.problem import literal_bits, read_problem, with_bits
from fadiff_mapper.inputs.spec.problem import DataSpace, Problem
from fadiff_mapper.inputs.yaml.load import load_files
from fadiff_mapper.inputs.yaml.located import Map, known
from fadiff_mapper.inputs.yaml.place import Where

Shape = tuple[int, ...]  # extents of a tensor's axes

View = tuple[tuple[str, ...], ...]  # for each axis its ranks, major first, each named by one of its dimensions

REPEAT = "*"  # in a view or a link, the dimension of the runs of an operator that is repeated

PLANE = (("P", "R", "Wstride", "Wdilation"), ("Q", "S", "Hstride", "Hdilation"))
VOLUME = (("Z", "T", "Dstride", "Ddilation"), *PLANE)
"""Sliding axes of the bundled problems: dimension of output and of kernel, names of stride and dilation."""


def _views(axes: Sequence[tuple[str, ...]], groups: tuple[str, ...] = ()) -> dict[str, View]:
    points, kernel = tuple((axis[0],) for axis in axes), tuple((axis[1],) for axis in axes)
    return {"Inputs": (("N",), (*groups, "C"), *points), "Weights": ((*groups, "M"), ("C",), *kernel),
            "Outputs": (("N",), (*groups, "M"), *points)}


VIEWS: dict[str, dict[str, View]] = {
    "conv": _views(PLANE), "grouped_conv": _views(PLANE, ("G",)), "depthwise": _views(PLANE, ("G",)),
    "conv3d": _views(VOLUME), "grouped_conv3d": _views(VOLUME, ("G",)),
    "gemm": {"Inputs": (("N",), ("C",)), "Weights": (("C",), ("M",)), "Outputs": (("N",), ("M",))},
}
"""The axes of the tensors of each template, as frameworks order them."""

TEMPLATES = {name: "conv" if name == "gemm" else name for name in VIEWS}
"""Template of an operator -> the bundled problem whose shape it takes. A matrix product is a 1 x 1 convolution, so that
constraints on P, Q, R and S hold for all operators of a network alike."""


def sliding(op: str) -> tuple[tuple[str, str, str, str], ...]:
    """The sliding axes of a template, `PLANE` or `VOLUME`; "problem" counts as a template over a plane."""
    return VOLUME if op.endswith("3d") else PLANE


@dataclass(frozen=True)
class Operator:
    """A problem that the network poses, and its runs back to back."""

    op: str  # its template, or "problem" for any Timeloop problem
    problem: Problem  # dimensions, bounds and data spaces of one run
    views: AnyMapping[str, View]  # data space -> axes, for each data space that can be a tensor of the graph
    repeat: int = 1  # runs, such as one per attention head
    literal: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # as `timeloop-model` reads it

    @property
    def macs(self) -> int:
        """Multiply-accumulates of all runs."""
        return self.problem.computes * self.repeat

    @property
    def bits(self) -> Map:
        """The bits of elements, by data space as in an instance."""
        return Map(literal_bits(self.problem.dataspaces).get("bits", {}), where=Where(self.op))

    def with_bits(self, widths: Map) -> Operator:
        """The operator with other bits of elements, by data space as in an instance; unknown names are ignored."""
        problem = replace(self.problem, dataspaces=with_bits(self.problem.dataspaces, widths))
        instance = {key: value for key, value in self.literal["instance"].items() if key != "bits"}
        return replace(self, problem=problem, literal={
            **self.literal, "instance": {**instance, **literal_bits(problem.dataspaces)}})

    @property
    def key(self) -> Hashable:
        """Equal for operators that have the same mappings at the same cost: same bounds, projections and densities."""
        problem = self.problem
        return frozenset(problem.bounds.items()), problem.dataspaces, frozenset(problem.densities.items())

    def dataspace(self, name: str) -> DataSpace:
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

    @property
    def strides(self) -> Shape:
        """Strides along the sliding axes of its template; 1 where the problem has none."""
        return tuple(self.literal.get("instance", {}).get(stride, 1) for *_, stride, _ in sliding(self.op))

    @property
    def dilations(self) -> Shape:
        """Dilations along the sliding axes of its template; 1 where the problem has none."""
        return tuple(self.literal.get("instance", {}).get(dilation, 1) for *_, dilation in sliding(self.op))


def make_operator(op: str, dims: AnyMapping[str, int], stride: Shape | None = None, dilation: Shape | None = None,
                  repeat: int = 1, where: Where | None = None, densities: Map | None = None,
                  bits: Map | None = None) -> Operator:
    """An operator from a template, a key of `TEMPLATES`, with the bound of every dimension, `repeat` runs back to back.

    Stride and dilation of the windows are along the sliding axes, P and Q, or Z, P and Q; 1 along all of them if None.
    `densities` and `bits` are by tensor, as in the instance of a Timeloop problem.

    Raises:
        SpecError: the template is unknown, a dimension is missing, unknown or not positive, or there are more or fewer
            strides or dilations than sliding axes.
    """
    where = where or Where(op)
    axes = sliding(known(op, where, TEMPLATES, "layer operator"))
    ones = (1,) * len(axes)
    if not len(stride or ones) == len(dilation or ones) == len(axes):
        raise where.error(f"{op} has {len(stride or ones)} strides and {len(dilation or ones)} dilations",
                          f"{len(axes)} of each, along {', '.join(axis[0] for axis in axes)}")
    coefficients = {axis[column]: value for column, values in ((2, stride or ones), (3, dilation or ones))
                    for axis, value in zip(axes, values, strict=True)}
    places = dims.places if isinstance(dims, Map) else {}
    given = {key: value for key, value in (("densities", densities), ("bits", bits)) if value}
    instance = Map({**dims, **coefficients, **given}, where=where, places=places)
    problem, literal, _ = read_problem(Map({"shape": _shape(TEMPLATES[op]), "instance": instance}, where=where), where)
    return Operator(op, problem, VIEWS[op], repeat, literal)


@cache
def _shape(template: str) -> Map:
    shape: Map = load_files([bundled_files.find(f"problems/{template}")])["problem"]["shape"]
    return shape


def problem_operator(node: Any, where: Where, repeat: int = 1) -> Operator:
    """An operator, of so many runs, from any Timeloop problem: the `problem` section, shape and instance, at its place.

    Raises SpecError where `read_problem` refuses the section.
    """
    problem, literal, _ = read_problem(node, where)
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
