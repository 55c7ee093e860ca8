"""Where the restarts of a relaxed network begin.

    restart 0     every layer's best mapping by itself
    to 3/4        that, with noise, the loops of the outermost level in an order that links can share, and in
                  every stretch of a chain one loop that all its layers share
    the others    the best mapping with noise
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.model.loop_nest import Nest, pack
from fadiff_mapper.network.descent.relaxed_network import FamilySites, RelaxedNetwork
from fadiff_mapper.relaxation.discrete_decisions import DiscreteDecisions
from fadiff_mapper.relaxation.gumbel_softmax import FactorPlaces

NOISE = 0.2
"""Octaves by which factors of the best mapping are moved at random."""

INNER = 0.3
"""How much less the factors inside the home's loops move: the best mapping has them right, links change the others."""

UNTOUCHED = 0.7
"""How often a loop has no more steps than it takes."""

ENDING = 0.15
"""How often a stretch of layers with common loops ends at a link."""


@dataclass(frozen=True)
class RestartPoint:
    """Parameters and decisions batch by batch (see `relax`), and the logits of sigma, [E, R]."""

    thetas: list[torch.Tensor]
    choices: list[DiscreteDecisions]
    logits: torch.Tensor


def starts(network: RelaxedNetwork, restarts: int, seed: int) -> RestartPoint:
    """The beginnings of all restarts."""
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    kind = np.arange(restarts)
    shared = (kind > 0) & (kind <= 3 * restarts // 4)
    octaves = _shared_octaves(network, restarts, rng)
    thetas, choices = [], []
    for batch in network.batches:
        best = [pack([network.sites[site].result.mapping], network.sites[site].problem) for site in batch.sites]
        theta = _parameters(batch.slots, best, restarts)
        noise = NOISE * torch.randn(theta.shape, generator=generator, dtype=torch.float64) * torch.from_numpy(kind > 0)
        theta = (theta + ease(batch, network.home)[..., None] * noise).clamp(min=0.0)
        theta = torch.where(torch.from_numpy(shared), _left_over(batch, network.home, theta, octaves), theta)
        thetas.append(theta.flatten(start_dim=2))
        choices.append(_choices(network, batch, best, shared))
    return RestartPoint(thetas, choices, 0.5 * torch.randn((len(network.ties), restarts), generator=generator,
                                                           dtype=torch.float64))


def ease(batch: FamilySites, home: int) -> torch.Tensor:
    """How easily the factors of each slot move, [K, 1, 1]: those inside the home's loops less."""
    return torch.tensor([1.0 if level >= home and not spatial else INNER for level, spatial in
                         zip(batch.slots.level, batch.slots.spatial, strict=True)], dtype=torch.float64)[:, None, None]


def _parameters(slots: FactorPlaces, best: list[Nest], restarts: int) -> torch.Tensor:
    """The parameters that stand on given nests, one for every member, [K, D, W, R]."""
    columns = [torch.log2(torch.stack([torch.as_tensor((nest.spatial if spatial else nest.temporal)[level, :, 0])
                                       for level, spatial in zip(slots.level, slots.spatial, strict=True)]))
               for nest in best]
    return torch.stack(columns, dim=-1)[..., None].repeat(1, 1, 1, restarts)


def _shared_octaves(network: RelaxedNetwork, restarts: int, rng: np.random.Generator) -> np.ndarray:
    """Octaves of every dimension that are left to the outermost loops, [V, D, R]; nan where they are as they are.

    Chains are cut into stretches of a few layers. The layers of a stretch share one loop at most, with as many steps
    as it takes for the home to hold a step's intermediates, or some more.
    """
    ties = network.ties
    dims = max(len(site.problem.dimensions) for site in network.sites)
    result = np.full((len(network.sites), dims, restarts), np.nan)
    for r in range(restarts):
        ends = rng.random(len(ties)) < ENDING
        stretch: list[int] = []
        for tie in reversed(range(len(ties))):
            last = network.out_of[ties.consumer[tie]]
            if last == len(ties) or ends[last]:
                stretch = _stretch(network, tie, ends)
                _cut(network, stretch, result[:, :, r], rng)
    return result


def _stretch(network: RelaxedNetwork, tie: int, ends: np.ndarray) -> list[int]:
    """The ties before a tie, itself first, up to one behind which a stretch ends."""
    found = [tie]
    while (before := network.into[network.ties.producer[found[-1]]]) < len(network.ties) and not ends[before]:
        found.append(int(before))
    return found


def _cut(network: RelaxedNetwork, stretch: list[int], octaves: np.ndarray, rng: np.random.Generator) -> None:
    """Writes the octaves of the layers of a stretch, its last tie first, into [V, D]."""
    ties, arch = network.ties, network.sites[0].result.spec.arch
    usable = arch.levels[network.home].usable or np.inf
    words = max(float(np.prod(ties.extent[tie][ties.used[tie]])) for tie in stretch)
    last = stretch[0]
    loops = [j for j in np.flatnonzero(ties.used[last]) if not ties.loose[last, j] and ties.bound[last, j] > 1]
    site = ties.consumer[last]
    octaves[site, ties.theirs[last, loops]] = 0.0
    if loops:
        j = rng.choice(loops)
        more = max(np.log2(words / usable) + 1, 0.0) + (rng.random() > UNTOUCHED) * rng.random() * 3
        octaves[site, ties.theirs[last, j]] = min(more, np.log2(ties.bound[last, j]))
    for tie in stretch:
        for j in np.flatnonzero(ties.used[tie]):
            if not ties.loose[tie, j]:
                there = np.nan_to_num(octaves[ties.consumer[tie], ties.theirs[tie, j]])
                octaves[ties.producer[tie], ties.mine[tie, j]] = there * (ties.stride[tie, j] > 0)


def _left_over(batch: FamilySites, home: int, theta: torch.Tensor, octaves: np.ndarray) -> torch.Tensor:
    """The parameters with `octaves` of dimensions left to the outermost loops: temporal loops inside take the rest,
    those of the home first."""
    slots, theta = batch.slots, theta.clone()
    left = torch.from_numpy(octaves)[list(batch.sites), :slots.bound.shape[1]].transpose(0, 1)      # [D, W, R]
    inner = theta * (1 - slots.residual.permute(1, 2, 0))[..., None]
    more = torch.log2(slots.bound).T[..., None] - left - inner.sum(dim=0)
    more = torch.where(torch.isnan(left), torch.zeros_like(more), more)
    loops = [k for k, spatial in enumerate(slots.spatial) if not spatial and slots.level[k] < slots.levels - 1]
    for k in sorted(loops, key=lambda k: (slots.level[k] != home, -slots.level[k])):
        change = torch.maximum(more, -inner[k])
        theta[k], more = theta[k] + change, more - change
    return theta


def _choices(network: RelaxedNetwork, batch: FamilySites, best: list[Nest], sharing: np.ndarray) -> DiscreteDecisions:
    """The best mappings' decisions in every column; where `sharing` [R], loops that links can share stand outside."""
    columns = {name: np.repeat(np.concatenate([getattr(nest, name) for nest in best], axis=-1), len(sharing), axis=-1)
               for name in DiscreteDecisions.__dataclass_fields__}
    order = columns["order"].copy()
    for place, site in enumerate(batch.sites):
        rows = place * len(sharing) + np.flatnonzero(sharing)
        order[-1][:, rows] = _sharing_order(network, batch, place, site, order[-1][:, rows[0]])[:, None]
    return DiscreteDecisions(order, columns["keep"], columns["on_y"], columns["spatial_order"])


def _sharing_order(network: RelaxedNetwork, batch: FamilySites, place: int, site: int, order: np.ndarray) -> np.ndarray:
    """The loops of the outermost level, innermost first: those that no link carries, sums before others, then those
    that a producer may run through in several goes, then the others."""
    ties, space = network.ties, batch.family.spaces[place]
    outside = np.zeros(len(order), dtype=int)
    for tie, dims in ((network.into[site], ties.theirs), (network.out_of[site], ties.mine)):
        if tie < len(ties):
            for j in np.flatnonzero(ties.used[tie]):
                outside[dims[tie, j]] = max(outside[dims[tie, j]], 1 if ties.loose[tie, j] else 2)
    loops, names = space.levels[-1].temporal, space.problem.dimensions
    between = [d for d in order if names[d] in loops.between]
    output = space.problem.output.dimensions
    between.sort(key=lambda d: (outside[d], names[d] in output))
    index = {name: d for d, name in enumerate(names)}
    return np.array([*(index[name] for name in loops.inner), *between, *(index[name] for name in loops.outer)])
