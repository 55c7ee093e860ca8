"""The cost of a relaxed network: FADiff's one differentiable function of all tiling factors and fusion variables.

Problem. A network's metric depends on the mapping of every layer and on which links are fused, and both depend on each
other: a fused link saves traffic only if the tiles of its layers fit together and into the home level.

Method. Every layer is costed by the smooth model with sigma in its access counts (`site_costs`, FADiff eqs. 13 to 15);
linked layers add penalties for tiles that are not aligned and groups that do not fit (`link_penalties`, eqs. 24 to
26), and multiply work where halos are recomputed. A layer's loops at the outermost level are those that a group would
share. The sums over layers are the network's energy and cycles; `descend` takes the logarithm of the metric and adds
the penalties (eq. 20).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from fadiff_mapper.network.descent.link_penalties import (
    aligned,
    crowded,
    per_tie,
    recomputed,
    sent_again,
    tied,
    window,
    work_of_sites,
)
from fadiff_mapper.network.descent.relaxed_machine import RelaxedMachine
from fadiff_mapper.network.descent.relaxed_network import RelaxedNetwork
from fadiff_mapper.network.descent.site_costs import site_costs
from fadiff_mapper.relaxation.discrete_decisions import DiscreteDecisions
from fadiff_mapper.relaxation.gumbel_softmax import RelaxedFactors


@dataclass(frozen=True)
class RelaxedCost:
    """The cost of a relaxed network in every restart.

    Attributes:
        energy: pJ of all layers, as often as each runs, [R].
        cycles: Cycles of all layers one after the other, [R].
        broken: Penalties in squared octaves by site, those of a link at its consumer, [V, R].
    """

    energy: torch.Tensor
    cycles: torch.Tensor
    broken: torch.Tensor


def relaxed_cost(network: RelaxedNetwork, sigma: torch.Tensor, factors: Sequence[RelaxedFactors],
                 thetas: Sequence[torch.Tensor], choices: Sequence[DiscreteDecisions], model: str,
                 machine: RelaxedMachine | None = None) -> RelaxedCost:
    """Costs a network at given fusion variables and factors; differentiable in both, and in the machine's constants.

    Args:
        network: The relaxed network.
        sigma: Fusion variables in [0, 1], [E, R].
        factors: Drawn tiling factors of each family.
        thetas: The parameters on which these stand (log2 of factors), of each family.
        choices: Loop orders, bypass and placement of each family; no gradient passes through them.
        model: "refined", or "paper" for FADiff's equations as printed.
        machine: Machines of the restarts; None: the network's design.
    """
    padded = torch.cat([sigma, torch.zeros_like(sigma[:1]) if len(sigma) else sigma.new_zeros((1, sigma.shape[1]))])
    into, out_of = padded[torch.from_numpy(network.into)], padded[torch.from_numpy(network.out_of)]
    sites = site_costs(network, into, out_of, factors, thetas, choices, model, machine)
    ties = network.ties
    times = torch.tensor([site.times for site in network.sites], dtype=torch.float64)[:, None]
    work = torch.ones_like(into)
    broken = sites.broken
    if len(ties):
        made, points = tied(sites.tile, ties.producer, ties.mine), tied(sites.tile, ties.consumer, ties.theirs)
        wanted = window(ties, points)
        misaligned = sigma * aligned(ties, made, points, model)
        words = torch.from_numpy(ties.lying)[:, None] * per_tie(wanted, ties)
        if model == "refined":
            misaligned = misaligned + sigma * sent_again(network, sites, wanted, points)
            work = work_of_sites(network, sigma, recomputed(ties, wanted, points))
        broken = broken.index_add(0, torch.from_numpy(ties.consumer), misaligned)
        broken = broken + crowded(network, sigma, sites, words, points, model, machine)
    return RelaxedCost((times * work * sites.energy).sum(dim=0), (times * work * sites.cycles).sum(dim=0), broken)
