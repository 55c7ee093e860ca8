"""The mappings with which a network of layers one by one has the least EDP, and the proof of it.

The mapping of least EDP of a layer need not be the best one for the network: a layer with much energy and few cycles
should save energy. At prices per pJ and per cycle every layer has a mapping of the least price, which branch and bound
finds and proves. The bound on all plans (`network_bound.NetworkLeast.bound`) asks for these proofs at the prices at
which a better plan could exist. The best plan of the mappings found is the best of all once it reaches the bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.fusion.prices import metric_value, summed
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, pack
from fadiff_mapper.network.network_bound import MOST_WORK, LeastLayer, NetworkLeast, PathStep
from fadiff_mapper.search.lower_bound.proof import MappingProof, prove, unprovable
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task
from fadiff_mapper.workload import OperatingPoint


@dataclass(frozen=True)
class LayerProof:
    """A layer by itself with a legal mapping, from which the proof of its least price begins."""

    task: MappingTask
    nest: Nest  # the legal mapping, one row
    budget: float   # about the most parts and mappings that a proof looks at
    over: Over = never

    def proof(self, sums: tuple[float, float]) -> MappingProof:
        """The proof of the least price at energy and cycles of the network (`sums`), see `PriceProof`."""
        return prove(self.task.layer, self.task.space, "share", self.nest, sums=sums, over=self.over,
                     budget=self.budget)

    def least(self, energy_pj: float, cycles: float, edp: float) -> LeastLayer:
        """The bounds of the layer with given values, and with the proof if it supports all rules of the layer."""
        unknown = self.task.sparse is not None or unprovable(self.task.layer)
        return LeastLayer(energy_pj, cycles, edp, None if unknown else self.proof)

    def point(self, nest: Nest) -> OperatingPoint:
        """Energy and cycles of one run with a mapping."""
        sparse = self.task.sparse
        scores = score(self.task.layer, nest, sparse=sparse.compiled if sparse else None)
        return OperatingPoint(float(scores.energy[0]), float(scores.cycles[0]))


def layer_proof(spec: Spec, mapping: Mapping, budget: float, over: Over = never) -> LayerProof:
    """The proof of a layer that begins with a legal mapping."""
    return LayerProof(mapping_task(spec), pack([mapping], spec.problem), budget, over)


def best_one_by_one(proofs: Sequence[LayerProof], layers: Sequence[LeastLayer], runs: Sequence[float],
                    besides: OperatingPoint, over: Over = never, *, fused: bool = False) -> list[Nest]:
    """The mapping of each layer, a nest of one row, in the plan of least EDP among all mappings that proofs find.

    Args:
        proofs: A proof for each distinct layer.
        layers: The bound on one run of each of these layers (`LayerProof.least`).
        runs: Runs of each of these layers.
        besides: Cost of the network besides its layers.
        over: True once time is over.
        fused: Whether groups will be tried later, which changes prices: layers are then proved only at the prices of
            the given mappings.
    """
    def cost(nests: Sequence[Nest]) -> OperatingPoint:
        """Cost of the network with some mappings."""
        return summed([besides, *(proof.point(nest).times(often)
                                  for proof, nest, often in zip(proofs, nests, runs, strict=True))])

    given = [proof.nest for proof in proofs]
    network = NetworkLeast([PathStep(index, index + 1, (str(index),), layer, often)
                            for index, (layer, often) in enumerate(zip(layers, runs, strict=True))], besides)
    if not fused:
        network.bound("edp", over=over)
    elif (total := cost(given)).energy_pj and total.cycles:
        network.raise_price(1 / total.energy_pj, 1 / total.cycles, MOST_WORK, over)
    prices = dict.fromkeys(price for layer in layers for price in layer.proved)
    plans = [given, *([layer.proved[price].nest if price in layer.proved else proof.nest
                       for proof, layer in zip(proofs, layers, strict=True)] for price in prices)]
    return min(plans, key=lambda nests: metric_value(cost(nests), "edp"))
