"""Starting points of the restarts of a relaxed network.

Problem. Fused tiles lie far from the best mappings of single layers: the outermost loops of all layers of a group have
to change together. No gradient crosses that valley.

Method. Some restarts begin with loops that whole stretches of a chain share:

    restart 0     every layer's best mapping by itself
    to 3/4        the same with noise, the loops of the outermost level in an order that links can share, and in
                  every stretch of a chain one loop that all its layers share, with enough steps that the
                  intermediates fit into the home
    the others    the best mapping with noise

Axes: V (site), E (tie), J (dimension that a link carries), D (dimension), R (restart), W (member of a family),
P (factor place: one level's temporal or spatial factors), L (level).
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
"""Octaves (standard deviation) by which factors of the best mapping are moved at random; set by hand, not measured."""

INNER = 0.3
"""Part by which factors inside the home's loops move, in noise and in descent.

The best mapping by itself has these nearly right, and links change the others. Set by hand, not measured.
"""

UNTOUCHED = 0.7
"""Part of the shared loops that have no more steps than the home needs.

Raised from 0.4 by hand; `benchmarks/agatf/ablations.py` (line "descent") measures the effect on plans.
"""

ENDING = 0.15
"""Probability that a stretch of layers with common loops ends at a link: about seven links a stretch.

Lowered from 0.3 by hand; `benchmarks/agatf/ablations.py` measures the effect on plans.
"""


@dataclass(frozen=True)
class RestartPoint:
    """The starting point of all restarts.

    Attributes:
        thetas: log2 of the factors of each family (see `relaxation.gumbel_softmax`), [P, D, W * R] each.
        choices: Loop orders, bypass and placement of each family.
        logits: Logits of sigma, [E, R].
    """

    thetas: list[torch.Tensor]
    choices: list[DiscreteDecisions]
    logits: torch.Tensor


def starts(network: RelaxedNetwork, restarts: int, seed: int) -> RestartPoint:
    """Draws the starting points of all restarts.

    Args:
        network: The relaxed network.
        restarts: How many.
        seed: The same seed gives the same points.
    """
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    restart = np.arange(restarts)
    shared = (restart > 0) & (restart <= 3 * restarts // 4)
    octaves = _shared_octaves(network, restarts, rng)
    thetas, choices = [], []
    for batch in network.batches:
        best = [pack([network.sites[site].result.mapping], network.sites[site].problem) for site in batch.sites]
        theta = _parameters(batch.places, best, restarts)
        noise = NOISE * torch.randn(theta.shape, generator=generator, dtype=torch.float64)
        noise = noise * torch.from_numpy(restart > 0)    # restart 0 is the best mapping itself
        theta = (theta + ease(batch, network.home)[..., None] * noise).clamp(min=0.0)
        theta = torch.where(torch.from_numpy(shared), _left_over(batch, network.home, theta, octaves), theta)
        thetas.append(theta.flatten(start_dim=2))
        choices.append(_choices(network, batch, best, shared))
    return RestartPoint(thetas, choices, 0.5 * torch.randn((len(network.ties), restarts), generator=generator,
                                                           dtype=torch.float64))


def ease(batch: FamilySites, home: int) -> torch.Tensor:
    """How easily the factors of each place move, [P, 1, 1]: 1 for temporal loops from the home outwards, else `INNER`.

    Args:
        batch: Sites of one family.
        home: Index of the home level.
    """
    places = batch.places
    return torch.tensor([1.0 if level >= home and not spatial else INNER for level, spatial in
                         zip(places.level, places.spatial, strict=True)], dtype=torch.float64)[:, None, None]


def _parameters(places: FactorPlaces, best: list[Nest], restarts: int) -> torch.Tensor:
    """The parameters of given nests, one nest for every member, [P, D, W, R]."""
    columns = [torch.log2(torch.stack([torch.as_tensor((nest.spatial if spatial else nest.temporal)[level, :, 0])
                                       for level, spatial in zip(places.level, places.spatial, strict=True)]))
               for nest in best]
    return torch.stack(columns, dim=-1)[..., None].repeat(1, 1, 1, restarts)


def _shared_octaves(network: RelaxedNetwork, restarts: int, rng: np.random.Generator) -> np.ndarray:
    """Octaves of every dimension that are left to the outermost loops, [V, D, R]; nan where these stay as they are.

    Chains are cut into stretches of a few layers. The layers of a stretch share at most one loop, with as many steps
    as the home needs to hold a step's intermediates, or some more.
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
    """The ties of a stretch from its last one backwards, up to one at which the stretch before ends."""
    stretch = [tie]
    while (before := network.into[network.ties.producer[stretch[-1]]]) < len(network.ties) and not ends[before]:
        stretch.append(int(before))
    return stretch


def _cut(network: RelaxedNetwork, stretch: list[int], octaves: np.ndarray, rng: np.random.Generator) -> None:
    """Writes the octaves of the layers of a stretch, its last tie first, into `octaves`, [V, D].

    The loop is drawn over a dimension of the last layer and carried back over the links; dimensions that a link reads
    whole (stride 0) end it.
    """
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
                behind = np.nan_to_num(octaves[ties.consumer[tie], ties.theirs[tie, j]])
                octaves[ties.producer[tie], ties.mine[tie, j]] = behind * (ties.stride[tie, j] > 0)


def _left_over(batch: FamilySites, home: int, theta: torch.Tensor, octaves: np.ndarray) -> torch.Tensor:
    """The parameters with `octaves` of dimensions left to the outermost loops.

    Temporal loops inside take the rest, those of the home first, the outermost of the others next.
    """
    places, theta = batch.places, theta.clone()
    left = torch.from_numpy(octaves)[list(batch.sites), :places.bound.shape[1]].transpose(0, 1)      # [D, W, R]
    inner = theta * (1 - places.residual.permute(1, 2, 0))[..., None]
    more = torch.log2(places.bound).T[..., None] - left - inner.sum(dim=0)
    more = torch.where(torch.isnan(left), torch.zeros_like(more), more)
    loops = [k for k, spatial in enumerate(places.spatial) if not spatial and places.level[k] < places.levels - 1]
    for k in sorted(loops, key=lambda k: (places.level[k] != home, -places.level[k])):
        change = torch.maximum(more, -inner[k])
        theta[k], more = theta[k] + change, more - change
    return theta


def _choices(network: RelaxedNetwork, batch: FamilySites, best: list[Nest], sharing: np.ndarray) -> DiscreteDecisions:
    """The best mappings' decisions in every column; in restarts of `sharing`, [R], shareable loops stand outside."""
    columns = {name: np.repeat(np.concatenate([getattr(nest, name) for nest in best], axis=-1), len(sharing), axis=-1)
               for name in DiscreteDecisions.__dataclass_fields__}
    order = columns["order"].copy()
    for member, site in enumerate(batch.sites):
        rows = member * len(sharing) + np.flatnonzero(sharing)
        order[-1][:, rows] = _sharing_order(network, batch, member, site, order[-1][:, rows[0]])[:, None]
    return DiscreteDecisions(order, columns["keep"], columns["on_y"], columns["spatial_order"])


def _sharing_order(network: RelaxedNetwork, batch: FamilySites, member: int, site: int,
                   order: np.ndarray) -> np.ndarray:
    """The loops of the outermost level, innermost first, in an order that lets links share the outer ones.

    Innermost stand loops that no link carries, sums before others; then those that a producer may run through in
    several goes; outermost the others, which cut the intermediate. Constraints of the design go before.
    """
    ties, space = network.ties, batch.family.spaces[member]
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
