"""The sites of a relaxed network: every layer costed with the fusion variables of its links in its access counts.

Each layer is costed by the smooth model of single layers (`model.smooth`, refined or as FADiff prints it), on the
factors drawn for its restarts. Before prices and bandwidths are applied, sigma enters its counts by FADiff's eqs. (13)
to (15): (1 - sigma) weighs the producer's writes to the outermost level and the consumer's fetches from there, sigma
the copies from the level where sums are finished to the home level of intermediates. So copies cost energy and take
bandwidth at both levels (eqs. 16 to 19).

Axes: V (site), E (tie: a link between two sites), L (level), D (dimension), T (data space), R (restart), W (member of
a family: layers of one shape class, searched side by side), B = W * R (columns of one family's batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.energy_latency import cost
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.smooth.evaluate import SMOOTH, SmoothEvaluation, evaluate_smooth
from fadiff_mapper.model.smooth.fadiff_as_printed import evaluate_paper
from fadiff_mapper.network.descent.link_equations import copied, filled, written_back
from fadiff_mapper.network.descent.relaxed_machine import RelaxedMachine
from fadiff_mapper.network.descent.relaxed_network import FamilySites, RelaxedNetwork
from fadiff_mapper.relaxation.discrete_decisions import DiscreteDecisions
from fadiff_mapper.relaxation.gumbel_softmax import RelaxedFactors, drawable_parts, torch_nest
from fadiff_mapper.relaxation.penalty import penalty

LAYER_MODELS = {"refined": evaluate_smooth, "paper": evaluate_paper}


@dataclass(frozen=True)
class SiteCosts:
    """Cost of every site, and what the terms of the links read off it.

    Attributes:
        energy: pJ of one run of the layer, [V, R].
        cycles: Cycles of one run of the layer, [V, R].
        broken: The layer's own penalties P_map and P_mem in squared octaves, [V, R].
        tile: Points of each dimension inside the outermost level's loops: the tile of one step, [V, D, R].
        held: Words of each data space's tile in the home level, 0 where bypassed there, [V, T, R].
        sent: How often the outermost level sends all words of a data space, or takes those of the output, [V, T, R].
    """

    energy: torch.Tensor
    cycles: torch.Tensor
    broken: torch.Tensor
    tile: torch.Tensor
    held: torch.Tensor
    sent: torch.Tensor


@dataclass(frozen=True)
class LinkSigmas:
    """The links of every column of one family's batch.

    Attributes:
        into: Sigma of the link that leads into the layer, 0 without one, [B].
        out_of: Sigma of the link that leads out of it, 0 without one, [B].
        operand: 1 for the data space that comes through `into`, else 0, [T, B].
        written: The part of the output that goes to the outermost level even if the link is fused, [B].
        home: Index of the home level, in which intermediates lie.
        sums: Index of the level in which sums are finished.
        output: Index of the output among the data spaces.
    """

    into: torch.Tensor
    out_of: torch.Tensor
    operand: torch.Tensor
    written: torch.Tensor
    home: int
    sums: int
    output: int


def site_costs(network: RelaxedNetwork, into: torch.Tensor, out_of: torch.Tensor, factors: Sequence[RelaxedFactors],
               thetas: Sequence[torch.Tensor], choices: Sequence[DiscreteDecisions], model: str,
               machine: RelaxedMachine | None = None) -> SiteCosts:
    """Costs every site, family by family, and puts the sites back in their order.

    Args:
        network: The relaxed network.
        into: Sigma of the link into each site, [V, R].
        out_of: Sigma of the link out of each site, [V, R].
        factors: Drawn tiling factors of each family.
        thetas: The parameters on which these stand (log2 of factors), of each family.
        choices: Loop orders, bypass and placement of each family; no gradient passes through them.
        model: "refined", or "paper" for the equations as printed.
        machine: Machines of the restarts; None: the network's design.
    """
    parts = [_family_costs(network, batch, into, out_of, drawn, theta, decided, model, machine)
             for batch, drawn, theta, decided in zip(network.batches, factors, thetas, choices, strict=True)]
    order = torch.tensor([site for batch in network.batches for site in batch.sites]).argsort()

    def together(name: str) -> torch.Tensor:
        values = [getattr(part, name) for part in parts]
        if values[0].dim() == 3:    # families differ in their numbers of dimensions and of data spaces
            width = max(value.shape[1] for value in values)
            values = [torch.nn.functional.pad(value, (0, 0, 0, width - value.shape[1])) for value in values]
        return torch.cat(values)[order]

    return SiteCosts(*(together(name) for name in SiteCosts.__dataclass_fields__))


def _family_costs(network: RelaxedNetwork, batch: FamilySites, into: torch.Tensor, out_of: torch.Tensor,
                  factors: RelaxedFactors, theta: torch.Tensor, choices: DiscreteDecisions, model: str,
                  machine: RelaxedMachine | None) -> SiteCosts:
    """The sites of one family, [W, ..., R] each."""
    layer, members = batch.family.layer, torch.tensor(batch.sites)
    limits = None
    if machine:
        own_machine = machine.for_members(len(batch.sites))
        layer, limits = own_machine.put_into(layer), own_machine.limits
    nest = torch_nest(factors, choices)
    evaluation = LAYER_MODELS[model](layer, nest, drawable_parts(batch.places, choices))
    own = penalty(layer, batch.places, theta, nest, evaluation, batch.family.spaces[0].constraints.min_parallelism,
                  limits)
    columns = torch.arange(len(batch.sites)).repeat_interleave(into.shape[1])
    links = LinkSigmas(into[members].flatten(), out_of[members].flatten(), _linked_operands(network, batch)[columns].T,
                       _written_parts(network, batch)[columns], network.home,
                       int(network.sums[batch.sites[0]]), layer.projection.read_write.index(True))
    counts = sigma_weighted_counts(evaluation, nest, links)
    fused = cost(counts, evaluation.use, layer.machine, evaluation.use.computes, SMOOTH)
    sizes = torch.tensor([[space.problem.tensor_size(dataspace) for dataspace in space.problem.dataspaces]
                          for space in batch.family.spaces], dtype=torch.float64)[:, :, None]

    def by_site(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(*values.shape[:-1], len(batch.sites), -1).movedim(-2, 0)

    # Times are those of the layer by itself: sigma scales the words, not how often a tile is sent.
    sent = (evaluation.counts.reads[-1] * (~torch.tensor(layer.projection.read_write))[:, None]
            + evaluation.counts.updates[-1]) * evaluation.use.instances[-1]
    return SiteCosts(by_site(fused.energy), by_site(fused.cycles), by_site(own), by_site(evaluation.tile.below[-1]),
                     by_site(evaluation.tile.size[network.home] * nest.keep[network.home]), by_site(sent) / sizes)


def _linked_operands(network: RelaxedNetwork, batch: FamilySites) -> torch.Tensor:
    """The part of each member's data spaces that is an intermediate: 1, less where others join it, else 0, [W, T]."""
    spaces = batch.family.layer.problem.dataspace_names()
    result = torch.zeros((len(batch.sites), len(spaces)), dtype=torch.float64)
    for member, site in enumerate(batch.sites):
        if network.into[site] < len(network.ties):
            tie = network.into[site]
            result[member, network.ties.operand[tie]] = network.ties.made[tie]
    return result


def _written_parts(network: RelaxedNetwork, batch: FamilySites) -> torch.Tensor:
    """The part of each member's output that goes to the outermost level even if fused, [W]."""
    ties, out_of = network.ties, network.out_of[list(batch.sites)]
    return torch.tensor([ties.written[tie] if tie < len(ties) else 0.0 for tie in out_of], dtype=torch.float64)


def sigma_weighted_counts(evaluation: SmoothEvaluation, nest: Nest, links: LinkSigmas) -> Counts:
    """Weighs a layer's access counts with the sigma of its links: FADiff eqs. (13) to (15).

    Args:
        evaluation: The layer by itself, [.., B].
        nest: The relaxed nest that was evaluated.
        links: Sigma of both links, and what passes through them.

    Returns:
        Words per instance as in `evaluation.counts`. Where the home bypasses the operand, the home is read in place of
        the outermost level; where it bypasses the output, copies come from the level of the sums. Address generations
        follow fills and updates.
    """
    counts, instances, home, output = evaluation.counts, evaluation.use.instances, links.home, links.output
    reads, fills, updates = (values.clone() for values in (counts.reads, counts.fills, counts.updates))
    kept = nest.keep[home].to(torch.float64)
    fused = links.into * links.operand
    reads[-1] = filled(fused, counts.reads[-1])
    fills[home] = filled(fused, counts.fills[home])
    reads[home] = reads[home] + fused * (1 - kept) * counts.reads[-1] * instances[-1] / instances[home]
    updates[-1, output] = written_back(links.out_of, counts.updates[-1, output], links.written)
    if links.sums < home:
        copies = copied(links.out_of * (1 - kept[output]), counts.updates[-1, output], instances[-1])
        updates[home, output] = updates[home, output] + copies / instances[home]
        reads[links.sums, output] = reads[links.sums, output] + copies / instances[links.sums]
    generated = counts.address_generations + (fills - counts.fills) + (updates - counts.updates)
    return replace(counts, reads=reads, fills=fills, updates=updates, address_generations=generated)
