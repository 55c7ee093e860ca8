"""A mapped network layer by layer: every layer in the plan, beside the same layer unfused.

Drawings, tables of the page, and notebook figures take their numbers from these views. The shares of a plan's layers
add up to the plan; numbers of a group are sums over all its repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fadiff_mapper.fusion.group_cost import NOC
from fadiff_mapper.model.stats import counted, network_energy
from fadiff_mapper.network.result import NetworkResult

MOVES = ("reads", "fills", "updates")


@dataclass(frozen=True)
class LayerShare:
    """Costs of one layer, all its runs together."""

    energy_pj: float
    cycles: float
    components: dict[str, float]  # arithmetic, level or `NOC` (all wires) -> pJ; these add up to `energy_pj`
    outermost: dict[str, float]  # data space -> words read, filled and updated at the outermost level

    @property
    def outermost_words(self) -> float:
        """Words of all data spaces at the outermost level."""
        return sum(self.outermost.values())


@dataclass(frozen=True)
class LayerView:
    """One layer of the network with all its runs."""

    name: str  # of its node in the network
    op: str  # its operator
    bounds: str  # dimensions with bounds above 1, such as "M64 C32"
    repeat: int  # number of its runs
    macs: int  # multiply-accumulates of all runs
    group: int | None  # number of its fused group, counted from 1; None where unfused
    recomputed: int  # multiply-accumulates of the plan beyond `macs`, for recomputed halos
    planned: LayerShare
    unfused: LayerShare  # without fusion; equal to `planned` outside groups


def layer_views(result: NetworkResult) -> tuple[LayerView, ...]:
    """A view of every layer of the network, in topological order; equal layers have one unfused share."""
    groups = {name: number for number, outcome in enumerate(result.groups, 1) for name in outcome.nodes}
    problems = {name: index for index, outcome in enumerate(result.layers) for name in outcome.nodes}
    shares: dict[tuple[int, int], LayerShare] = {}
    views = []
    for node in result.workload.layers:
        layer, number = node.layer, groups.get(node.name)
        assert layer is not None
        key, repeat = (problems[node.name], layer.repeat), layer.repeat
        if key not in shares:   # all wires are one component
            stats = result.layers[key[0]].stats
            energies, wires = stats.component_energies(), sum(network_energy(network) for network in stats.networks)
            shares[key] = LayerShare(
                repeat * stats.energy_pj, repeat * stats.cycles,
                {name: repeat * energies[name] for name in _built(result)} | ({NOC: repeat * wires} if wires else {}),
                {name: float(repeat * space["utilized_instances"] * sum(counted(space[move]) for move in MOVES))
                 for name, space in stats.levels[-1]["dataspaces"].items()})
        planned, recomputed = shares[key], 0
        if number is not None:
            outcome, outer = result.groups[number - 1], result.hardware.arch.levels[-1].name
            cost, repeat = outcome.cost.layers[outcome.nodes.index(node.name)], outcome.group.repeat
            recomputed = repeat * cost.recomputed
            planned = LayerShare(
                repeat * cost.energy_pj, repeat * cost.cycles,
                {component: repeat * energy for component, energy in cost.components.items()},
                {space: repeat * (words.reads + words.fills + words.updates)
                 for (level, space), words in cost.traffic.items() if level == outer})
        bounds = " ".join(f"{dim}{bound}" for dim, bound in layer.problem.bounds.items() if bound > 1)
        views.append(LayerView(node.name, layer.op, bounds, layer.repeat, layer.macs, number, recomputed, planned,
                               shares[key]))
    return tuple(views)


def component_names(result: NetworkResult, views: Sequence[LayerView]) -> tuple[str, ...]:
    """Names of the components of all shares: arithmetic, levels from the innermost, wires if they cost anything."""
    wired = any(NOC in share.components for view in views for share in (view.planned, view.unfused))
    return (*_built(result), NOC) if wired else _built(result)


def _built(result: NetworkResult) -> tuple[str, ...]:
    """Names of the arithmetic and of the levels that are more than a fan-out."""
    arch = result.hardware.arch
    return (arch.arithmetic.name, *(level.name for level in arch.levels if not level.is_dummy))


def dataspace_names(views: Sequence[LayerView]) -> tuple[str, ...]:
    """Names of the data spaces that any layer moves at the outermost level, in the order of occurrence."""
    return tuple(dict.fromkeys(name for view in views for name in view.unfused.outermost))
