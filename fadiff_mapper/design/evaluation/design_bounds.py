"""Lower bounds on a design's metrics, so that designs that cannot be the best are not mapped.

Every layer by itself has a proven bound on energy, cycles and their product (`analysis.lower_bound`). Sums over layers
bound the sums, and by the Cauchy-Schwarz inequality the product of the sums, the EDP, is at least the square of the
sum of the roots of the layers' bounds on EDP; this is the sharper one where layers trade energy for cycles.

Fused layers hand their tensors on without the memory that the bound counts on. So a layer that could be fused is
bounded by its arithmetic alone, which no plan avoids; the full bound holds for layers without a link to fuse, and for
all layers where nothing is fused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from math import sqrt

from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.design_result import metric_exponents
from fadiff_mapper.design.evaluation.layer_entries import bound_key, design_digest
from fadiff_mapper.design.evaluation.result_store import ResultStore
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import compute_energy
from fadiff_mapper.model.evaluate_spec import is_sparse
from fadiff_mapper.search.lower_bound import lower_bound
from fadiff_mapper.search.mapping_task import mapping_task


@dataclass(frozen=True)
class LeastFigures:
    """Values that a sum over layers cannot undercut.

    Attributes:
        energy_pj: Energy in pJ.
        cycles: Cycles.
        root_edp: The root of the energy-delay product, which adds up over layers.
    """

    energy_pj: float
    cycles: float
    root_edp: float

    def times(self, count: float) -> LeastFigures:
        """The same for several runs."""
        return LeastFigures(self.energy_pj * count, self.cycles * count, self.root_edp * count)

    def __add__(self, other: LeastFigures) -> LeastFigures:
        return LeastFigures(self.energy_pj + other.energy_pj, self.cycles + other.cycles,
                            self.root_edp + other.root_edp)

    def __sub__(self, other: LeastFigures) -> LeastFigures:
        return LeastFigures(self.energy_pj - other.energy_pj, self.cycles - other.cycles,
                            self.root_edp - other.root_edp)

    def of(self, metric: str, area_mm2: float) -> float:
        """The bound on a metric of a design of known area, see `design_result.metric_exponents`."""
        energy, cycles, area = metric_exponents(metric)
        return float(self.product(energy, cycles) * area_mm2 ** area)

    def product(self, energy: float, cycles: float) -> float:
        """The bound on energy and cycles to these exponents, multiplied."""
        both = min(energy, cycles)
        edp = max(self.energy_pj * self.cycles, self.root_edp ** 2)
        return float(edp ** both * self.energy_pj ** (energy - both) * self.cycles ** (cycles - both))


# The process that proposes designs judges them by the bounds that the workers need again to leave designs out.

@dataclass(frozen=True)
class LayerBounds:
    """The bounds of the layers of one design.

    Attributes:
        specs: The design with every distinct layer.
        store: Bounds of earlier runs and of others that run now.
    """

    specs: Sequence[Spec]
    store: ResultStore

    @cached_property
    def design(self) -> str:
        """The hash of what all layers have in common."""
        return design_digest(self.specs[0])

    def of(self, layer: int) -> LeastFigures | None:
        """The proven bound of one layer that is not fused.

        Args:
            layer: Its number.

        Returns:
            The bound; None where none is proven, and for sparse designs.

        Raises:
            FadiffError: The store cannot be written.
        """
        spec = self.specs[layer]
        if is_sparse(spec):
            return None
        key = bound_key(self.design, spec)
        known = self.store.get(key) or {}
        try:
            return None if known["proven"] is None else LeastFigures(**known["proven"])
        except (TypeError, KeyError):  # not stored yet, or no entry of this kind
            least = _proven(spec)
            self.store.put(key, {"proven": least and asdict(least)})
            return least


def _proven(spec: Spec) -> LeastFigures | None:
    """The bound of a layer, computed; None where none is proven."""
    task = mapping_task(spec)
    bound = lower_bound(task.layer, task.space)
    return None if bound is None else LeastFigures(bound.energy, bound.delay, sqrt(bound.edp))


SLACK = 1 - 1e-9
"""Factor on sums that are compared: thousands of additions may differ in their last bits."""


def bound_that_loses(question: DesignQuestion, bounds: LayerBounds, area_mm2: float,
                     rivals: Sequence[tuple[float, ...]],
                     stopped: Callable[[], bool] = lambda: False) -> LeastFigures | None:
    """Looks for a proof that a design is no better than one that has been mapped.

    Bounds of layers are computed one by one, those with the most arithmetic first, and none further once there is a
    proof.

    Args:
        question: The question.
        bounds: The design's layers.
        area_mm2: Its area.
        rivals: The metrics of designs that have been mapped, in the order of the question's metrics.
        stopped: Asked before every layer.

    Returns:
        The bound that proves it; None where there is no proof.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: `stopped` was true before there was a proof, or none.
    """
    if not rivals or any(is_sparse(spec) for spec in bounds.specs):
        return None
    runs, fusable = question.loads, _fusable(question)
    least = [_arithmetic(spec).times(count) for spec, count in zip(bounds.specs, runs, strict=True)]
    total = sum(least, LeastFigures(0.0, 0.0, 0.0))
    for layer in sorted(range(len(least)), key=lambda layer: -least[layer].cycles):
        if _loses(total, question, area_mm2, rivals):
            return total
        if stopped():
            raise OutOfTime
        bound = None if fusable[layer] else bounds.of(layer)
        if bound is not None:
            total += bound.times(runs[layer]) - least[layer]
    return total if _loses(total, question, area_mm2, rivals) else None


def least_unfused(question: DesignQuestion, bounds: LayerBounds,
                  stopped: Callable[[], bool] = lambda: False) -> LeastFigures | None:
    """The bound on all layers of a design, each by itself; no bound on plans with fused groups.

    Args:
        question: The question.
        bounds: The design's layers.
        stopped: Asked before every layer.

    Returns:
        The sums with the layers' loads; None where no bound of some layer is proven, and for sparse designs.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: `stopped` was true before the last layer.
    """
    total = LeastFigures(0.0, 0.0, 0.0)
    for layer, often in enumerate(question.loads):
        if stopped():
            raise OutOfTime
        bound = bounds.of(layer)
        if bound is None:
            return None
        total += bound.times(often)
    return total


def _fusable(question: DesignQuestion) -> list[bool]:
    """For every distinct layer whether some run of it could be fused."""
    fusable = [False] * len(question.layers)
    for network in question.runs:
        for entry in network:
            fusable[entry.layer] |= question.fuse and entry.fusable
    return fusable


def _arithmetic(spec: Spec) -> LeastFigures:
    """The bound by the multiply-accumulates alone, fused or not."""
    energy = spec.problem.computes * compute_energy(spec.arch.arithmetic, spec.tables)[0]
    cycles = spec.problem.computes / spec.arch.arithmetic.instances
    return LeastFigures(energy, cycles, sqrt(energy * cycles))


def _loses(least: LeastFigures, question: DesignQuestion, area_mm2: float,
           rivals: Sequence[tuple[float, ...]]) -> bool:
    """Whether some rival is as good as the bound in every metric."""
    bounds = [least.of(metric, area_mm2) * SLACK for metric in question.metrics]
    return any(all(value <= bound for value, bound in zip(rival, bounds, strict=True)) for rival in rivals)
