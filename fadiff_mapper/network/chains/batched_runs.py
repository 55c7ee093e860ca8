"""Layers that run several times, as one problem with a dimension over the runs.

Problem. The heads of attention are runs of one matrix product, the projections around them run once. A group in which
each layer has its own number of runs needs a shared loop over the heads, and a loop cuts dimensions of problems only.

Method. A product that runs G times is a grouped 1 x 1 convolution of G groups: the same multiply-accumulates on the
same words, with the runs as dimension G. Links then lead from channels to groups and back (`AxisMap` names the runs
`REPEAT`). By itself, and in groups whose layers all run equally often, a layer stays the problem of one run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload.operator import REPEAT, Operator, make_operator

RUNS = "G"
"""The dimension over the runs."""

REMEMBERED = 1 << 8
"""Batched problems that are remembered: a network has some dozen. SDXL's U-Net has 280 such layers, of 8 kinds."""


def can_be_batched(layer: Operator) -> bool:
    """Tells whether an operator can be one problem over all its runs.

    Args:
        layer: Any operator.
    """
    return layer.repeat == 1 or layer.op == "gemm"


def batched(layer: Operator) -> Operator:
    """Makes all runs of an operator one problem.

    Args:
        layer: An operator that `can_be_batched`.

    Returns:
        The operator itself where it runs once.
    """
    if layer.repeat == 1:
        return layer
    return _grouped((*layer.problem.bounds.items(), (RUNS, layer.repeat)))


@lru_cache(maxsize=REMEMBERED)
def _grouped(bounds: tuple[tuple[str, int], ...]) -> Operator:
    """The grouped convolution of these bounds; the equal heads of a network share it."""
    return make_operator("grouped_conv", dict(bounds))


def dimension(name: str) -> str:
    """Names the dimension of a batched problem that a dimension of a link stands for.

    Args:
        name: A dimension of an operator, or `REPEAT`.
    """
    return RUNS if name == REPEAT else name


@dataclass(frozen=True)
class RunsOfLayer:
    """A layer, run by run and all runs together.

    Attributes:
        layer: The layer.
    """

    layer: Operator

    @cached_property
    def together(self) -> Operator:
        """The layer as one problem over all its runs; made once."""
        return batched(self.layer)


def over_all_runs(spec: Spec, layer: Operator, dimensions: tuple[str, ...]) -> Spec:
    """Makes a layer's spec that of all its runs, where a group has them as one problem.

    Args:
        spec: The layer on its design.
        layer: Its operator.
        dimensions: Dimensions of the layer's problem in the group.
    """
    if dimensions == spec.problem.dimensions:
        return spec
    whole = batched(layer)
    return replace(spec, problem=whole.problem, mapping=None, literal=spec.literal | {"problem": whole.literal})
