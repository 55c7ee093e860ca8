"""What a relaxed network costs: the paper's one differentiable function of all tiling factors and fusion variables.

Every layer is costed by the relaxed model of layers (`smooth`, or `paper_model`), with sigma in its access counts:
(1 - sigma) weighs what the producer writes to the outermost level (eq. 13) and what the consumer fetches from there
(eq. 15), sigma the copies from where sums are kept to the home of intermediates (eq. 14), and these words are priced
and take bandwidth at the levels where they are. A layer's loops at the outermost level are what a group would share.

The paper's form weighs, besides, what lies in the home at once (eqs. 24, 25: all tiles of a group) and how far
neighbouring tiles are apart (eq. 26, halo included). What the refined form has in their place, each because the
paper's term is too coarse:

- tiles that are fetched in every step only pass: of these, and of the intermediates that a layer reads and writes, the
  largest count, beside all that stays and what later steps use again
- an intermediate takes the room of the whole window that the consumer's tile reads
- the halo may be kept along one dimension; along the others its recomputation costs the producer energy and cycles
- the producer may make fewer points than the window (the halo is kept) and make channels in several goes
- the intermediate is written once and fetched once a tile: sums are finished inside, no other loop stands outside

Shapes are those of `relaxed`; excess is in squared octaves, as in `penalty`.
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
from fadiff_mapper.network.descent.relaxed_network import FamilySites, LinkTies, RelaxedNetwork
from fadiff_mapper.relaxation.discrete_decisions import DiscreteDecisions
from fadiff_mapper.relaxation.gumbel_softmax import RelaxedFactors, drawable_parts, torch_nest
from fadiff_mapper.relaxation.penalty import excess, penalty

RESIDENT = 1.01
"""A data space of which the outermost level sends less than this many times its words stays where it is."""

LAYER_MODELS = {"refined": evaluate_smooth, "paper": evaluate_paper}


@dataclass(frozen=True)
class RelaxedCost:
    """Energy in pJ and cycles of the network, [R], and what keeps the sites from being a plan, [V, R]."""

    energy: torch.Tensor
    cycles: torch.Tensor
    broken: torch.Tensor


@dataclass(frozen=True)
class _Sites:
    """What the links need to know of every site.

    energy, cycles [V, R]   of one run
    broken [V, R]           the layer's own penalties
    tile [V, D, R]          points per dimension inside the outermost level's loops
    held [V, T, R]          words of the tiles in the home
    sent [V, T, R]          how often the outermost level sends each data space, or takes the output
    """

    energy: torch.Tensor
    cycles: torch.Tensor
    broken: torch.Tensor
    tile: torch.Tensor
    held: torch.Tensor
    sent: torch.Tensor


def relaxed_cost(network: RelaxedNetwork, sigma: torch.Tensor, factors: Sequence[RelaxedFactors],
                 thetas: Sequence[torch.Tensor], choices: Sequence[DiscreteDecisions], model: str) -> RelaxedCost:
    """The cost of a network at fusion variables `sigma` [E, R] and, batch by batch, factors, their parameters and the
    decisions without a gradient."""
    own = torch.cat([sigma, torch.zeros_like(sigma[:1]) if len(sigma) else sigma.new_zeros((1, sigma.shape[1]))])
    into, out_of = own[torch.from_numpy(network.into)], own[torch.from_numpy(network.out_of)]
    sites = _sites(network, into, out_of, factors, thetas, choices, model)
    ties = network.ties
    times = torch.tensor([site.times for site in network.sites], dtype=torch.float64)[:, None]
    work = torch.ones_like(into)
    broken = sites.broken
    if len(ties):
        points = _tied(sites.tile, ties.producer, ties.mine), _tied(sites.tile, ties.consumer, ties.theirs)
        wanted = _window(ties, points[1])
        misaligned = sigma * aligned(ties, points[0], points[1], model)
        words = torch.from_numpy(ties.lying)[:, None] * _per_tie(wanted, ties)
        if model == "refined":
            misaligned = misaligned + sigma * _again(network, sites, wanted, points[1])
            work = _work(network, sigma, _recomputed(ties, wanted, points[1]))
        broken = broken.index_add(0, torch.from_numpy(ties.consumer), misaligned)
        broken = broken + _crowded(network, sigma, sites, words, points[1], model)
    return RelaxedCost((times * work * sites.energy).sum(dim=0), (times * work * sites.cycles).sum(dim=0), broken)


# The layers.

def _sites(network: RelaxedNetwork, into: torch.Tensor, out_of: torch.Tensor, factors: Sequence[RelaxedFactors],
           thetas: Sequence[torch.Tensor], choices: Sequence[DiscreteDecisions], model: str) -> _Sites:
    parts = [_batch(network, batch, into, out_of, drawn, theta, decided, model)
             for batch, drawn, theta, decided in zip(network.batches, factors, thetas, choices, strict=True)]
    order = torch.tensor([site for batch in network.batches for site in batch.sites]).argsort()

    def together(name: str) -> torch.Tensor:
        values = [getattr(part, name) for part in parts]
        if values[0].dim() == 3:
            width = max(value.shape[1] for value in values)
            values = [torch.nn.functional.pad(value, (0, 0, 0, width - value.shape[1])) for value in values]
        return torch.cat(values)[order]

    return _Sites(*(together(name) for name in _Sites.__dataclass_fields__))


def _batch(network: RelaxedNetwork, batch: FamilySites, into: torch.Tensor, out_of: torch.Tensor,
           factors: RelaxedFactors,
           theta: torch.Tensor, choices: DiscreteDecisions, model: str) -> _Sites:
    """The sites of one family, [W, ..., R] each."""
    layer, members = batch.family.layer, torch.tensor(batch.sites)
    nest = torch_nest(factors, choices)
    active = drawable_parts(batch.slots, choices)
    found = LAYER_MODELS[model](layer, nest, active)
    own = penalty(layer, batch.slots, theta, nest, found, batch.family.spaces[0].constraints.min_parallelism)
    columns = torch.arange(len(batch.sites)).repeat_interleave(into.shape[1])
    links = LinksOf(into[members].flatten(), out_of[members].flatten(), _operands(network, batch)[columns].T,
                     _written(network, batch)[columns], network.home,
                     int(network.sums[batch.sites[0]]), layer.projection.read_write.index(True))
    counts = fused_counts(found, nest, links)
    fused = cost(counts, found.use, layer.machine, found.use.computes, SMOOTH)
    sizes = torch.tensor([[space.problem.tensor_size(one) for one in space.problem.dataspaces]
                          for space in batch.family.spaces], dtype=torch.float64)[:, :, None]

    def by_site(values: torch.Tensor) -> torch.Tensor:
        return values.reshape(*values.shape[:-1], len(batch.sites), -1).movedim(-2, 0)

    sent = (found.counts.reads[-1] * (~torch.tensor(layer.projection.read_write))[:, None]
            + found.counts.updates[-1]) * found.use.instances[-1]
    return _Sites(by_site(fused.energy), by_site(fused.cycles), by_site(own), by_site(found.tile.below[-1]),
                  by_site(found.tile.size[network.home] * nest.keep[network.home]), by_site(sent) / sizes)


def _operands(network: RelaxedNetwork, batch: FamilySites) -> torch.Tensor:
    """Which data space of every member is an intermediate that it reads, [W, T] of 0 and 1."""
    spaces = batch.family.layer.problem.dataspace_names()
    result = torch.zeros((len(batch.sites), len(spaces)), dtype=torch.float64)
    for place, site in enumerate(batch.sites):
        if network.into[site] < len(network.ties):
            result[place, network.ties.operand[network.into[site]]] = 1
    return result


def _written(network: RelaxedNetwork, batch: FamilySites) -> torch.Tensor:
    """The part of every member's output that goes to the outermost level even if it is fused, [W]."""
    ties, out_of = network.ties, network.out_of[list(batch.sites)]
    return torch.tensor([ties.written[tie] if tie < len(ties) else 0.0 for tie in out_of], dtype=torch.float64)


@dataclass(frozen=True)
class LinksOf:
    """The links of every column of a batch of one family.

    into, out_of [B]   sigma of the links; operand [T, B] says which data space comes through the first; written [B]
    home, sums         levels of intermediates and of sums; output: the data space
    """

    into: torch.Tensor
    out_of: torch.Tensor
    operand: torch.Tensor
    written: torch.Tensor
    home: int
    sums: int
    output: int


def fused_counts(found: SmoothEvaluation, nest: Nest, links: LinksOf) -> Counts:
    """The access counts of one instance with the links' sigma in them, eqs. (13) to (15)."""
    counts, instances, home, output = found.counts, found.use.instances, links.home, links.output
    reads, fills, updates = (values.clone() for values in (counts.reads, counts.fills, counts.updates))
    kept = nest.keep[home].to(torch.float64)
    read = links.into * links.operand
    reads[-1] = counts.reads[-1] * (1 - read)                                                       # eq. (15)
    fills[home] = counts.fills[home] * (1 - read)
    reads[home] = reads[home] + read * (1 - kept) * counts.reads[-1] * instances[-1] / instances[home]
    words = links.out_of * counts.updates[-1, output] * instances[-1]
    updates[-1, output] = counts.updates[-1, output] * (1 - links.out_of * (1 - links.written))    # eq. (13)
    if links.sums < home:
        copied = words * (1 - kept[output])                                                         # eq. (14)
        updates[home, output] = updates[home, output] + copied / instances[home]
        reads[links.sums, output] = reads[links.sums, output] + copied / instances[links.sums]
    generated = counts.address_generations + (fills - counts.fills) + (updates - counts.updates)
    return replace(counts, reads=reads, fills=fills, updates=updates, address_generations=generated)


# The links.

def _tied(values: torch.Tensor, sites: object, dims: object) -> torch.Tensor:
    """Values [V, D, R] of the linked dimensions of the ties' sites, [E, J, R]."""
    return values[torch.as_tensor(sites)[:, None], torch.as_tensor(dims)]


def _window(ties: LinkTies, points: torch.Tensor) -> torch.Tensor:
    """What `points` of the consumers read of the producers' dimensions, [E, J, R]."""
    stride, reach, extent = (torch.from_numpy(values)[..., None] for values in (ties.stride, ties.reach, ties.extent))
    return torch.minimum(stride * (points - 1) + reach, extent)


def _used_again(ties: LinkTies, points: torch.Tensor) -> torch.Tensor:
    """Words of intermediates, [E, R], that a step leaves to the next one, where tiles are cut along one dimension."""
    wanted, cut = _window(ties, points), points < torch.from_numpy(ties.bound)[..., None]
    fresh = torch.where(cut, torch.minimum(torch.from_numpy(ties.stride)[..., None] * points, wanted), wanted)
    return _per_tie(wanted, ties) - _per_tie(fresh, ties)


def _per_tie(values: torch.Tensor, ties: LinkTies) -> torch.Tensor:
    """The product over a tie's dimensions, [E, R]."""
    return torch.where(torch.from_numpy(ties.used)[..., None], values, torch.ones_like(values)).prod(dim=1)


def aligned(ties: LinkTies, made: torch.Tensor, points: torch.Tensor, model: str) -> torch.Tensor:
    """Eq. (26), [E, R]: squared octaves between what the producer makes at a time and what the consumer's tile reads.

    made, points [E, J, R]: the producers' and the consumers' tiles. Refined, the producer may also make what is new in
    each step, and of channels fewer.
    """
    wanted = least = _window(ties, points)
    if model == "refined":
        fresh = torch.minimum(torch.from_numpy(ties.stride)[..., None] * points, wanted)
        least = torch.where(torch.from_numpy(ties.loose)[..., None], torch.ones_like(wanted), fresh.clamp(min=1.0))
    apart = excess(made, wanted) + excess(least, made)
    return (apart * torch.from_numpy(ties.used)[..., None]).sum(dim=1)


def _again(network: RelaxedNetwork, sites: _Sites, wanted: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Squared octaves, [E, R], by which intermediates are written more than once, or fetched more than once a tile."""
    ties = network.ties
    producer, consumer = torch.from_numpy(ties.producer), torch.from_numpy(ties.consumer)
    outputs = torch.tensor([[space.read_write for space in network.sites[site].problem.dataspaces].index(True)
                            for site in ties.producer])
    fetched = _per_tie(torch.from_numpy(ties.bound)[..., None] / points * wanted
                       / torch.from_numpy(ties.extent)[..., None], ties)
    return (excess(sites.sent[producer, outputs], RESIDENT)
            + excess(sites.sent[consumer, torch.from_numpy(ties.operand)], RESIDENT * fetched))


def _recomputed(ties: LinkTies, wanted: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """How often the producer computes each of its points, [E, R], the halo kept where it would cost most."""
    steps = torch.from_numpy(ties.bound)[..., None] / points
    often = (steps * wanted / torch.from_numpy(ties.extent)[..., None]).clamp(min=1.0)
    often = torch.where(torch.from_numpy(ties.halo)[..., None], often, torch.ones_like(often))
    return often.prod(dim=1) / often.max(dim=1).values


def _work(network: RelaxedNetwork, sigma: torch.Tensor, recomputed: torch.Tensor) -> torch.Tensor:
    """How often each site does its work, [V, R]: layers further back also compute what later ones compute again."""
    producer, consumer = torch.from_numpy(network.ties.producer), torch.from_numpy(network.ties.consumer)
    work = sigma.new_ones((len(network.sites), sigma.shape[1]))
    for _ in range(REACH):
        work = torch.ones_like(work).index_add(0, producer, sigma * (recomputed * work[consumer] - 1))
    return work


REACH = 8
"""Over how many links what a group shares is carried."""


def _crowded(network: RelaxedNetwork, sigma: torch.Tensor, sites: _Sites, words: torch.Tensor, points: torch.Tensor,
             model: str) -> torch.Tensor:
    """Eqs. (24) and (25), [V, R]: squared octaves by which the group up to a site is larger than the home."""
    arch = network.sites[0].result.spec.arch
    usable = arch.levels[network.home].usable
    if not usable:
        return torch.zeros_like(sites.energy)
    producer, consumer = (torch.from_numpy(one) for one in (network.ties.producer, network.ties.consumer))
    held = sites.held
    if model == "paper":
        own, passing = held.sum(dim=1), torch.zeros_like(sites.energy)
    else:
        linked = torch.zeros_like(held)
        linked[consumer, torch.from_numpy(network.ties.operand)] = torch.where(
            torch.from_numpy(network.ties.beside)[:, None], torch.zeros_like(sigma), sigma)
        held = held * (1 - linked)
        looped = torch.zeros_like(sites.energy, dtype=torch.bool)
        cut = _per_tie(torch.from_numpy(network.ties.bound)[..., None] / points, network.ties) > 1
        looped[consumer], looped[producer] = looped[consumer] | cut, looped[producer] | cut
        stays = (sites.sent <= RESIDENT) & looped[:, None]
        again = sigma * torch.from_numpy(network.ties.lying)[:, None] * _used_again(network.ties, points)
        passing = torch.where(stays, torch.zeros_like(held), held).sum(dim=1)
        passing = passing.index_add(0, consumer, sigma * words - again).index_add(0, producer, sigma * words - again)
        own = torch.where(stays, held, torch.zeros_like(held)).sum(dim=1).index_add(0, consumer, again)
    together, largest = own, passing
    for _ in range(REACH):
        together = own.index_add(0, consumer, sigma * together[producer])
        before = torch.zeros_like(passing).index_add(0, consumer, sigma * largest[producer])
        largest = torch.maximum(passing, before)
    return excess((together + largest).clamp(min=1e-3), usable)

