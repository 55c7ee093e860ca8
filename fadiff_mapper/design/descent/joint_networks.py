"""All networks of a question as one relaxed network, whose layers start from given mappings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.fusion import Hardware
from fadiff_mapper.network.chains.segments import Segment, chains, segments
from fadiff_mapper.network.descent.relaxed_network import RelaxedNetwork, relaxed_network
from fadiff_mapper.network.plan.run_state import by_node, repeats_of
from fadiff_mapper.network.tilings.tile_nests import homes
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.sparse.evaluate_sparse_spec import evaluate_mapping
from fadiff_mapper.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.spec.spec import Spec


@dataclass(frozen=True)
class JointNetworks:
    """The layers of all networks side by side; names carry the number of their network.

    Attributes:
        chains: Names of the layers of every chain.
        pairs: Segments of two layers whose link can be fused, by both names; none where nothing is to be fused.
        runs: How often each layer runs, times the weight of its network, by name.
        distinct: Number of each layer in `DesignQuestion.layers`, by name.
    """

    chains: tuple[tuple[str, ...], ...]
    pairs: Mapping[tuple[str, str], Segment]
    runs: Mapping[str, float]
    distinct: Mapping[str, int]


def joint_networks(question: DesignQuestion) -> JointNetworks:
    """The layers of a question's networks."""
    every: list[tuple[str, ...]] = []
    pairs: dict[tuple[str, str], Segment] = {}
    runs: dict[str, float] = {}
    distinct: dict[str, int] = {}
    for number, workload in enumerate(question.networks):
        weight, own = question.weights[number], question.runs[number]
        every += [tuple(f"{number}/{name}" for name in names) for names, _ in chains(workload)]
        distinct |= {f"{number}/{name}": run.layer for name, run in by_node(workload, own).items()}
        runs |= {f"{number}/{name}": weight * repeat for name, repeat in repeats_of(workload).items()}
        pairs |= {(f"{number}/{segment.nodes[0]}", f"{number}/{segment.nodes[1]}"): segment
                  for segment in (segments(workload, 2) if question.fuse else ()) if not segment.batched}
    return JointNetworks(tuple(every), pairs, runs, distinct)


def relaxed_around(networks: JointNetworks, widest: Sequence[Spec], specs: Sequence[Spec],
                   mappings: Sequence[LayerMapping]) -> RelaxedNetwork:
    """The relaxed network that starts from the mappings of one design.

    Args:
        networks: The layers.
        widest: Every distinct layer on the widest design, whose factors can be drawn.
        specs: The same on the design of the mappings, whose energies and cycles weigh the layers.
        mappings: The mapping of every distinct layer.
    """
    results = [MappedLayer(wide, mapping, evaluate_mapping(spec, mapping), "", (), {}, 0, 0.0)
               for wide, spec, mapping in zip(widest, specs, mappings, strict=True)]
    hardware = Hardware(widest[0].arch, widest[0].tables)
    names = homes(hardware)
    return relaxed_network(networks.chains, networks.pairs if names else {},
                           {name: results[index] for name, index in networks.distinct.items()}, networks.runs,
                           hardware.level(names[0]) if names else len(widest[0].arch.levels) - 1)
