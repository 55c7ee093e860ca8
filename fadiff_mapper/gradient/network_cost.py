"""The cost of a relaxed network: FADiff's one differentiable function of all tiling factors and fusion variables.

Mappings and fused links depend on each other: a fused link saves traffic only if the tiles of its layers fit together
and into the home level.

- **Sites.** Each layer is costed by the smooth model (or by FADiff's printed equations) on the factors drawn for its
  restarts. Before prices and bandwidths are applied, sigma enters its counts by FADiff's eqs. (13) to (15): (1 - sigma)
  weighs the producer's writes to the outermost level and the consumer's fetches from there, sigma the copies from the
  level where sums are finished to the home level of intermediates (eqs. 16 to 19).
- **Links.** FADiff penalises tiles of linked layers that differ (eq. 26, the halo of the consumer's window included)
  and a group whose tiles together exceed the home level (eqs. 24, 25). The refined form replaces terms that are too
  coarse to rank real groups. Tiles that are fetched in every step take room only while their layer runs, so the largest
  layer counts, beside all tiles that stay or are reused (`fusion.tile_steps` is the authority). An intermediate takes
  the room of the whole window that the consumer's tile reads. Halos are retained along the dimension where
  recomputation would cost most. The producer may make fewer points than the window, and channels in several passes. An
  intermediate is written once and fetched once a tile.
- **Sums** over layers are the network's energy and cycles; `network_descent.py` takes the metric's logarithm and adds
  the penalties (eq. 20). A layer's loops at the outermost level are those that a group would share.

Excess is in squared octaves, as in `loss.py`. Axes: V (site), E (tie: a link between two sites), J (dimension that a
link carries), L (level), D (dimension), T (data space), R (restart), W (member of a family: layers of one shape class),
B = W * R (columns of one family's batch).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from fadiff_mapper.gradient.fadiff_as_printed import LAYER_MODELS
from fadiff_mapper.gradient.gumbel_softmax import drawable_parts
from fadiff_mapper.gradient.loss import Available, excess, penalty
from fadiff_mapper.gradient.relaxed_network import FamilySites, LinkTies, RelaxedMachine, RelaxedNetwork
from fadiff_mapper.model.access_counts import Counts
from fadiff_mapper.model.energy_latency import cost
from fadiff_mapper.model.evaluate import NestEvaluation
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.smooth import SMOOTH


@dataclass(frozen=True)
class SiteCosts:
    """Cost of every site, and the quantities that the terms of the links need."""

    energy: torch.Tensor  # pJ of one run of the layer, [V, R]
    cycles: torch.Tensor  # Cycles of one run of the layer, [V, R]
    broken: torch.Tensor  # The layer's own penalties P_map and P_mem in squared octaves, [V, R]
    tile: torch.Tensor    # Points of each dimension inside the outermost level's loops: the tile of one step, [V, D, R]
    held: torch.Tensor    # Words of each data space's tile in the home level, 0 where bypassed there, [V, T, R]
    sent: torch.Tensor    # Times that the outermost level sends all words of a data space, or takes the output's words,
                          # [V, T, R]


@dataclass(frozen=True)
class LinkSigmas:
    """The links of every column of one family's batch."""

    into: torch.Tensor     # Sigma of the link that leads into the layer, 0 without one, [B]
    out_of: torch.Tensor   # Sigma of the link that leads out of it, 0 without one, [B]
    operand: torch.Tensor  # 1 for the data space that comes through `into`, else 0, [T, B]
    written: torch.Tensor  # Share of the output that goes to the outermost level even if the link is fused, [B]
    home: int              # Index of the home level, in which intermediates lie
    sums: int              # Index of the level in which sums are finished
    output: int            # Index of the output among the data spaces


def site_costs(network: RelaxedNetwork, into: torch.Tensor, out_of: torch.Tensor, nests: Sequence[Nest],
               thetas: Sequence[torch.Tensor], model: str, machine: RelaxedMachine | None = None) -> SiteCosts:
    """Costs every site, family by family, in the order of the sites.

    `into`, `out_of` [V, R] are the sigmas of the links into and out of each site; others are as for `relaxed_cost`.
    """
    parts = [_family_costs(network, batch, into, out_of, nest, theta, model, machine)
             for batch, nest, theta in zip(network.batches, nests, thetas, strict=True)]
    order = torch.tensor([site for batch in network.batches for site in batch.sites]).argsort()

    def together(name: str) -> torch.Tensor:
        values = [getattr(part, name) for part in parts]
        if values[0].dim() == 3:    # families differ in their numbers of dimensions and of data spaces
            width = max(value.shape[1] for value in values)
            values = [torch.nn.functional.pad(value, (0, 0, 0, width - value.shape[1])) for value in values]
        return torch.cat(values)[order]

    return SiteCosts(*(together(name) for name in SiteCosts.__dataclass_fields__))


def _family_costs(network: RelaxedNetwork, batch: FamilySites, into: torch.Tensor, out_of: torch.Tensor, nest: Nest,
                  theta: torch.Tensor, model: str, machine: RelaxedMachine | None) -> SiteCosts:
    layer, members = batch.family.layer, torch.tensor(batch.sites)
    limits = None
    if machine:
        own_machine = machine.for_members(len(batch.sites))
        layer, limits = own_machine.put_into(layer), own_machine.limits
    evaluation = LAYER_MODELS[model](layer, nest, drawable_parts(batch.places, nest))
    own = penalty(layer, batch.places, theta, nest, evaluation, batch.family.spaces[0].constraints.min_parallelism,
                  limits)
    columns = torch.arange(len(batch.sites)).repeat_interleave(into.shape[1])
    ties = network.ties
    operands = torch.zeros((len(batch.sites), len(layer.problem.dataspaces)), dtype=torch.float64)   # [W, T]
    written = torch.zeros(len(batch.sites), dtype=torch.float64)
    for member, site in enumerate(batch.sites):
        if (tie := network.into[site]) < len(ties):     # smaller where other tensors join the operand
            operands[member, ties.operand[tie]] = ties.made[tie]
        if (tie := network.out_of[site]) < len(ties):
            written[member] = ties.written[tie]
    links = LinkSigmas(into[members].flatten(), out_of[members].flatten(), operands[columns].T,
                       written[columns], network.home,
                       int(network.sums[batch.sites[0]]), layer.projection.read_write.index(True))
    counts = sigma_weighted_counts(evaluation, nest, links)
    fused = cost(counts, evaluation.tile, layer.machine, SMOOTH)
    sizes = torch.tensor([[space.problem.tensor_size(dataspace) for dataspace in space.problem.dataspaces]
                          for space in batch.family.spaces], dtype=torch.float64)[:, :, None]

    def by_site(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(*values.shape[:-1], len(batch.sites), -1).movedim(-2, 0)

    # Sigma scales the words, not how often the unfused layer sends a tile.
    sent = (evaluation.counts.reads[-1] * (~torch.tensor(layer.projection.read_write))[:, None]
            + evaluation.counts.updates[-1]) * evaluation.tile.instances[-1]
    held = layer.machine.needed(evaluation.tile.size)[network.home] * nest.keep[network.home]
    return SiteCosts(by_site(fused.energy), by_site(fused.cycles), by_site(own), by_site(evaluation.tile.below[-1]),
                     by_site(held), by_site(sent) / sizes)


def sigma_weighted_counts(evaluation: NestEvaluation, nest: Nest, links: LinkSigmas) -> Counts:
    """Weighs a layer's access counts with the sigma of its links: FADiff eqs. (13) to (15).

    If the home bypasses the operand, reads of the home replace reads of the outermost level; if it bypasses the output,
    copies come from the level of the sums. Address generations follow fills and updates.
    """
    counts, instances, home, output = evaluation.counts, evaluation.tile.instances, links.home, links.output
    reads, fills, updates = (values.clone() for values in (counts.reads, counts.fills, counts.updates))
    kept = nest.keep[home].to(torch.float64)
    fused = links.into * links.operand
    reads[-1] = counts.reads[-1] * (1 - fused)      # eq. (15)
    fills[home] = counts.fills[home] * (1 - fused)
    reads[home] = reads[home] + fused * (1 - kept) * counts.reads[-1] * instances[-1] / instances[home]
    # eq. (13); words for readers outside the group are written in any case
    updates[-1, output] = counts.updates[-1, output] * (1 - links.out_of * (1 - links.written))
    if links.sums < home:   # eq. (14)
        copies = links.out_of * (1 - kept[output]) * counts.updates[-1, output] * instances[-1]
        updates[home, output] = updates[home, output] + copies / instances[home]
        reads[links.sums, output] = reads[links.sums, output] + copies / instances[links.sums]
    generated = counts.address_generations + (fills - counts.fills) + (updates - counts.updates)
    return replace(counts, reads=reads, fills=fills, updates=updates, address_generations=generated)


RESIDENT = 1.01
"""A data space is resident if the outermost level sends it at most this often; above 1, because the smooth model's
counts are inexact."""

REACH = 8
"""Links over which a group's room and recomputation are carried; each link costs a pass along all chains. The relaxed
model is optimistic about longer groups, which only raises their chance to be proposed."""


def window(ties: LinkTies, points: torch.Tensor) -> torch.Tensor:
    """Points of the producers' dimensions that the consumers' tiles of `points` [E, J, R] read, [E, J, R]."""
    stride, reach, extent = (torch.from_numpy(values)[..., None] for values in (ties.stride, ties.reach, ties.extent))
    return torch.minimum(stride * (points - 1) + reach, extent)


def per_tie(values: torch.Tensor, ties: LinkTies) -> torch.Tensor:
    """The product of values [E, J, R] over the dimensions that each tie carries, [E, R]."""
    return torch.where(torch.from_numpy(ties.used)[..., None], values, torch.ones_like(values)).prod(dim=1)


def aligned(ties: LinkTies, made: torch.Tensor, points: torch.Tensor, model: str) -> torch.Tensor:
    """The alignment penalty of tiles by tie, [E, R]: FADiff eq. (26), in squared octaves instead of squared points.

    "paper": the producer's tile `made` must equal the window of the consumer's tile `points`, [E, J, R] both. "refined"
    also accepts the new points of a step (the rest is retained), and fewer channels in several passes.
    """
    wanted = least = window(ties, points)
    if model == "refined":
        fresh = torch.minimum(torch.from_numpy(ties.stride)[..., None] * points, wanted)
        least = torch.where(torch.from_numpy(ties.loose)[..., None], torch.ones_like(wanted), fresh.clamp(min=1.0))
    apart = excess(made, wanted) + excess(least, made)
    return (apart * torch.from_numpy(ties.used)[..., None]).sum(dim=1)


def crowded(network: RelaxedNetwork, sigma: torch.Tensor, sites: SiteCosts, words: torch.Tensor, points: torch.Tensor,
            model: str, machine: RelaxedMachine | None = None) -> torch.Tensor:
    """The excess over the home level of the group up to each site, [V, R]: FADiff eqs. (24), (25) in squared octaves.

    `words` [E, R] are the words of each intermediate in the home, `points` [E, J, R] the points of the consumers'
    tiles. "paper" adds up all tiles of the group; "refined" follows their live ranges.
    """
    usable: Available | None = (machine.limits.usable[network.home] if machine
                                else network.sites[0].result.spec.arch.levels[network.home].usable)
    if usable is None or not torch.as_tensor(usable).any():
        return torch.zeros_like(sites.energy)
    if model == "paper":
        staying, passing = sites.held.sum(dim=1), torch.zeros_like(sites.energy)
    else:
        staying, passing = _live_words(network, sigma, sites, words, points)
    producer, consumer = torch.from_numpy(network.ties.producer), torch.from_numpy(network.ties.consumer)
    together, largest = staying, passing
    for _ in range(REACH):
        together = staying.index_add(0, consumer, sigma * together[producer])
        before = torch.zeros_like(passing).index_add(0, consumer, sigma * largest[producer])
        largest = torch.maximum(passing, before)
    return excess((together + largest).clamp(min=1e-3), usable)


def _live_words(network: RelaxedNetwork, sigma: torch.Tensor, sites: SiteCosts, words: torch.Tensor,
                points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Words of every site in the home, [V, R] each: words that stay while other layers run; words of its own run."""
    ties = network.ties
    producer, consumer = torch.from_numpy(ties.producer), torch.from_numpy(ties.consumer)
    # A fused operand lies in the home once, as the intermediate, unless pools give the tile its own copy.
    linked = torch.zeros_like(sites.held)
    linked[consumer, torch.from_numpy(ties.operand)] = torch.where(
        torch.from_numpy(ties.beside)[:, None], torch.zeros_like(sigma), sigma)
    held = sites.held * (1 - linked)
    # If a layer has tile loops outside, a data space that is sent only once stays through all steps.
    looped = torch.zeros_like(sites.energy, dtype=torch.bool)
    cut = per_tie(torch.from_numpy(ties.bound)[..., None] / points, ties) > 1
    looped[consumer], looped[producer] = looped[consumer] | cut, looped[producer] | cut
    stays = (sites.sent <= RESIDENT) & looped[:, None]
    # Points retained for the next step, where tiles are cut along one dimension.
    wanted, apart = window(ties, points), points < torch.from_numpy(ties.bound)[..., None]
    fresh = torch.where(apart, torch.minimum(torch.from_numpy(ties.stride)[..., None] * points, wanted), wanted)
    again = sigma * torch.from_numpy(ties.lying)[:, None] * (per_tie(wanted, ties) - per_tie(fresh, ties))
    passing = torch.where(stays, torch.zeros_like(held), held).sum(dim=1)
    passing = passing.index_add(0, consumer, sigma * words - again).index_add(0, producer, sigma * words - again)
    staying = torch.where(stays, held, torch.zeros_like(held)).sum(dim=1).index_add(0, consumer, again)
    return staying, passing


@dataclass(frozen=True)
class RelaxedCost:
    """The cost of a relaxed network in every restart."""

    energy: torch.Tensor  # pJ of all runs of all layers, [R]
    cycles: torch.Tensor  # Cycles of all layers one after the other, [R]
    broken: torch.Tensor  # Penalties in squared octaves by site, [V, R]; a link's penalties count at its consumer


def relaxed_cost(network: RelaxedNetwork, sigma: torch.Tensor, nests: Sequence[Nest], thetas: Sequence[torch.Tensor],
                 model: str, machine: RelaxedMachine | None = None) -> RelaxedCost:
    """Costs a network at given fusion variables and factors; differentiable in both, and in the machine's constants.

    `sigma` are the fusion variables in [0, 1], [E, R]; `nests` the nests drawn, and `thetas` the log2 of their factors
    before the draw, of each family. Without a `machine` the network's design counts.
    """
    padded = torch.cat([sigma, torch.zeros_like(sigma[:1]) if len(sigma) else sigma.new_zeros((1, sigma.shape[1]))])
    into, out_of = padded[torch.from_numpy(network.into)], padded[torch.from_numpy(network.out_of)]
    sites = site_costs(network, into, out_of, nests, thetas, model, machine)
    ties = network.ties
    times = torch.tensor([site.times for site in network.sites], dtype=torch.float64)[:, None]
    work = torch.ones_like(into)
    broken = sites.broken
    if len(ties):
        made, points = (sites.tile[torch.as_tensor(site)[:, None], torch.as_tensor(dims)]  # [E, J, R] each
                        for site, dims in ((ties.producer, ties.mine), (ties.consumer, ties.theirs)))
        wanted = window(ties, points)
        misaligned = sigma * aligned(ties, made, points, model)
        words = torch.from_numpy(ties.lying)[:, None] * per_tie(wanted, ties)
        if model == "refined":
            producer, consumer = torch.from_numpy(ties.producer), torch.from_numpy(ties.consumer)
            bound, extent = torch.from_numpy(ties.bound)[..., None], torch.from_numpy(ties.extent)[..., None]
            # Penalise intermediates that are written more than once, or fetched more than once a tile. Fetching every
            # tile once is more than one pass over the intermediate, as neighbouring windows overlap.
            outputs = torch.tensor([[space.read_write for space in network.sites[site].problem.dataspaces].index(True)
                                    for site in ties.producer])
            once_a_tile = per_tie(bound / points * wanted / extent, ties)
            misaligned = misaligned + sigma * (
                excess(sites.sent[producer, outputs], RESIDENT)
                + excess(sites.sent[consumer, torch.from_numpy(ties.operand)], RESIDENT * once_a_tile))
            # Times that a producer computes each of its points, with the halo retained where recomputation costs most.
            # Recomputation of later layers multiplies the recomputation of a site.
            often = (bound / points * wanted / extent).clamp(min=1.0)
            often = torch.where(torch.from_numpy(ties.halo)[..., None], often, torch.ones_like(often))
            again = often.prod(dim=1) / often.max(dim=1).values
            for _ in range(REACH):
                work = torch.ones_like(work).index_add(0, producer, sigma * (again * work[consumer] - 1))
        broken = broken.index_add(0, torch.from_numpy(ties.consumer), misaligned)
        broken = broken + crowded(network, sigma, sites, words, points, model, machine)
    return RelaxedCost((times * work * sites.energy).sum(dim=0), (times * work * sites.cycles).sum(dim=0), broken)
