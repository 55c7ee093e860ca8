"""Demands of linked layers on each other: alignment of tiles, room for the group, work done again.

FADiff penalises tiles of linked layers that differ (eq. 26, the halo of the consumer's window included) and a group
whose tiles together exceed the home level (eqs. 24, 25: all tiles of all layers at once). The refined form replaces
terms that are too coarse to rank real groups:

- Live ranges. Tiles fetched in every step only pass: the largest layer's count, with the intermediates that it reads
  and writes; beside them, all that stays and all that later steps use again. `fusion.tile_steps` is the
  authority for the exact group (`stored_words.resident_words`); here is its continuous form.
- An intermediate takes the room of the whole window that the consumer's tile reads.
- Halos are retained along the dimension where recomputation would cost most; along the others, the producer and all
  layers before it compute them again (the retain-or-recompute choice of DeFiNES and LoopTree).
- The producer may make fewer points than the window (the rest is retained) and channels in several goes.
- An intermediate is written once and fetched once a tile: its sums are finished inside, no other loop stands outside.

Excess is measured in squared octaves, as in `relaxation.penalty`. Axes: V (site), E (tie), J (dimension that a link
carries), D (dimension), T (data space), R (restart).
"""

from __future__ import annotations

import numpy as np
import torch

from fadiff_mapper.network.descent.relaxed_machine import RelaxedMachine
from fadiff_mapper.network.descent.relaxed_network import LinkTies, RelaxedNetwork
from fadiff_mapper.network.descent.site_costs import SiteCosts
from fadiff_mapper.relaxation.penalty import Available, excess

RESIDENT = 1.01
"""Times all words of a data space are sent by the outermost level up to which the data space counts as resident.

A tolerance: drawn factors are soft, so that a count of one is met only nearly. Nothing was measured to choose it.
"""

REACH = 8
"""Links over which a group's room and recomputation are carried.

Carrying is a fixed number of passes along all chains at once. Of a group of more than nine layers, therefore, a site
sees the words of the eight layers before it and the recomputation of the eight after it: the relaxed model is
optimistic about longer groups, up to `NetworkOptions.longest` = 16 layers. Plans stay exact, because every group is
evaluated exactly; only its chance to be proposed changes, and `tilings.reshaping` also grows groups around
a plan. The value dates from when `longest` was 8; a larger one was not measured.
"""


def tied(values: torch.Tensor, sites: np.ndarray, dims: np.ndarray) -> torch.Tensor:
    """Values of the linked dimensions of the ties' sites.

    Args:
        values: Values per site and dimension, [V, D, R].
        sites: The producer or the consumer of each tie, [E].
        dims: Its linked dimensions, [E, J].

    Returns:
        Values by tie, [E, J, R].
    """
    return values[torch.as_tensor(sites)[:, None], torch.as_tensor(dims)]


def window(ties: LinkTies, points: torch.Tensor) -> torch.Tensor:
    """Points of the producers' dimensions that the consumers' tiles read, [E, J, R].

    Args:
        ties: The links.
        points: Points of the consumers' tiles, [E, J, R].
    """
    stride, reach, extent = (torch.from_numpy(values)[..., None] for values in (ties.stride, ties.reach, ties.extent))
    return torch.minimum(stride * (points - 1) + reach, extent)


def per_tie(values: torch.Tensor, ties: LinkTies) -> torch.Tensor:
    """The product of values [E, J, R] over the dimensions that each tie carries, [E, R]."""
    return torch.where(torch.from_numpy(ties.used)[..., None], values, torch.ones_like(values)).prod(dim=1)


def aligned(ties: LinkTies, made: torch.Tensor, points: torch.Tensor, model: str) -> torch.Tensor:
    """The alignment penalty of tiles: FADiff eq. (26), in squared octaves instead of squared points.

    Args:
        ties: The links.
        made: Points of the producers' tiles, [E, J, R].
        points: Points of the consumers' tiles, [E, J, R].
        model: "paper" asks for a producer's tile equal to the consumer's window; "refined" also accepts the new points
            of a step (the rest is retained), and fewer channels, made in several goes.

    Returns:
        The penalty of each tie, [E, R].
    """
    wanted = least = window(ties, points)
    if model == "refined":
        fresh = torch.minimum(torch.from_numpy(ties.stride)[..., None] * points, wanted)
        least = torch.where(torch.from_numpy(ties.loose)[..., None], torch.ones_like(wanted), fresh.clamp(min=1.0))
    apart = excess(made, wanted) + excess(least, made)
    return (apart * torch.from_numpy(ties.used)[..., None]).sum(dim=1)


def sent_again(network: RelaxedNetwork, sites: SiteCosts, wanted: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Squared octaves by which intermediates are written more than once, or fetched more than once a tile.

    Args:
        network: The relaxed network.
        sites: Costs of its sites.
        wanted: Windows that the consumers' tiles read, [E, J, R].
        points: Points of the consumers' tiles, [E, J, R].

    Returns:
        The penalty of each tie, [E, R].
    """
    ties = network.ties
    producer, consumer = torch.from_numpy(ties.producer), torch.from_numpy(ties.consumer)
    outputs = torch.tensor([[space.read_write for space in network.sites[site].problem.dataspaces].index(True)
                            for site in ties.producer])
    # Once a tile is more than once in all: neighbouring windows overlap.
    once_a_tile = per_tie(torch.from_numpy(ties.bound)[..., None] / points * wanted
                          / torch.from_numpy(ties.extent)[..., None], ties)
    return (excess(sites.sent[producer, outputs], RESIDENT)
            + excess(sites.sent[consumer, torch.from_numpy(ties.operand)], RESIDENT * once_a_tile))


def recomputed(ties: LinkTies, wanted: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """How often the producer computes each of its points, with the halo retained where it would cost most.

    Args:
        ties: The links.
        wanted: Windows that the consumers' tiles read, [E, J, R].
        points: Points of the consumers' tiles, [E, J, R].

    Returns:
        A factor of at least 1 for each tie, [E, R].
    """
    steps = torch.from_numpy(ties.bound)[..., None] / points
    often = (steps * wanted / torch.from_numpy(ties.extent)[..., None]).clamp(min=1.0)
    often = torch.where(torch.from_numpy(ties.halo)[..., None], often, torch.ones_like(often))
    return often.prod(dim=1) / often.max(dim=1).values


def work_of_sites(network: RelaxedNetwork, sigma: torch.Tensor, again: torch.Tensor) -> torch.Tensor:
    """How often each site does its work, [V, R]: a layer also computes again for the recomputation of later ones.

    Args:
        network: The relaxed network.
        sigma: Fusion variables, [E, R].
        again: `recomputed` of each tie, [E, R].
    """
    producer, consumer = torch.from_numpy(network.ties.producer), torch.from_numpy(network.ties.consumer)
    work = sigma.new_ones((len(network.sites), sigma.shape[1]))
    for _ in range(REACH):
        work = torch.ones_like(work).index_add(0, producer, sigma * (again * work[consumer] - 1))
    return work


def crowded(network: RelaxedNetwork, sigma: torch.Tensor, sites: SiteCosts, words: torch.Tensor, points: torch.Tensor,
            model: str, machine: RelaxedMachine | None = None) -> torch.Tensor:
    """The capacity penalty of groups: FADiff eqs. (24) and (25), in squared octaves.

    Args:
        network: The relaxed network.
        sigma: Fusion variables, [E, R].
        sites: Costs of the sites.
        words: Words of each intermediate that lie in the home, [E, R].
        points: Points of the consumers' tiles, [E, J, R].
        model: "paper" adds up all tiles of the group; "refined" follows their live ranges.
        machine: Machines of the restarts; None: the network's design.

    Returns:
        For every site the excess over the home of the group up to and with it, [V, R].
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
    """Words of every site in the home, [V, R] each: words that stay while other layers run, words that pass."""
    ties = network.ties
    producer, consumer = torch.from_numpy(ties.producer), torch.from_numpy(ties.consumer)
    # A fused operand lies in the home once, as the intermediate, unless pools leave the tile a copy of its own.
    linked = torch.zeros_like(sites.held)
    linked[consumer, torch.from_numpy(ties.operand)] = torch.where(
        torch.from_numpy(ties.beside)[:, None], torch.zeros_like(sigma), sigma)
    held = sites.held * (1 - linked)
    # Of a layer with tile loops outside, a data space that is sent only once stays through all of its steps.
    looped = torch.zeros_like(sites.energy, dtype=torch.bool)
    cut = per_tie(torch.from_numpy(ties.bound)[..., None] / points, ties) > 1
    looped[consumer], looped[producer] = looped[consumer] | cut, looped[producer] | cut
    stays = (sites.sent <= RESIDENT) & looped[:, None]
    again = sigma * torch.from_numpy(ties.lying)[:, None] * _used_again(ties, points)
    passing = torch.where(stays, torch.zeros_like(held), held).sum(dim=1)
    passing = passing.index_add(0, consumer, sigma * words - again).index_add(0, producer, sigma * words - again)
    staying = torch.where(stays, held, torch.zeros_like(held)).sum(dim=1).index_add(0, consumer, again)
    return staying, passing


def _used_again(ties: LinkTies, points: torch.Tensor) -> torch.Tensor:
    """Points of intermediates, [E, R], that a step leaves to the next one, where tiles are cut along one dimension."""
    wanted, cut = window(ties, points), points < torch.from_numpy(ties.bound)[..., None]
    fresh = torch.where(cut, torch.minimum(torch.from_numpy(ties.stride)[..., None] * points, wanted), wanted)
    return per_tie(wanted, ties) - per_tie(fresh, ties)
