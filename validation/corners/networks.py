"""Interconnects of their own between the levels of a corner."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .corner import Corner, CornerNetwork

WIRES, TREE, MULTICAST = ("Legacy", "XY_NoC"), "ReductionTree", "SimpleMulticast"
MOST_RECEIVERS = 12
"""Receivers up to which a multicast has an entry of its own: about as many as corners have."""


def with_networks(corner: Corner, rng: random.Random) -> Corner:
    """The corner with interconnects of their own below some of its levels, at least one."""
    names = [space.name for space in corner.spaces]
    chosen = [rng.random() < 0.6 for _ in corner.levels]
    chosen[rng.randrange(len(chosen))] = True
    return replace(corner, rule="networks", levels=tuple(
        replace(level, networks=_below(names, rng)) if some else level
        for level, some in zip(corner.levels, chosen, strict=True)))


def _below(names: Sequence[str], rng: random.Random) -> tuple[CornerNetwork, ...]:
    """The interconnects below one level: one inwards, which serves both ways unless there is one outwards."""
    way = rng.choice(("in", "out", "both", "two", "two"))
    plain = rng.choice((*WIRES, MULTICAST))
    if way in ("in", "both"):
        return (_network(plain, True, way == "both", names, rng),)
    out = _network(rng.choice((*WIRES, TREE, TREE, MULTICAST)), False, True, names, rng)
    return (out,) if way == "out" else (_network(plain, True, False, names, rng), out)


def _network(kind: str, inwards: bool, outwards: bool, names: Sequence[str], rng: random.Random) -> CornerNetwork:
    drawn: dict[str, Any] = {"word_bits": rng.choice((8, 16)), "fill_latency": rng.choice((0, 3))}
    drawn |= {"drain_latency": 5} if rng.random() < 0.3 else {}
    if kind == MULTICAST:
        return _multicast(inwards, outwards, drawn, names, rng)
    drawn |= {"wire_energy": 0.25} if rng.random() < 0.7 else {}
    if kind == TREE:
        drawn |= {"adder_energy": 0.375} if rng.random() < 0.7 else {}
        return CornerNetwork(kind, inwards, outwards, drawn)
    drawn |= {"tile_width": 500.0} if rng.random() < 0.5 else {}
    drawn |= {"router_energy": 0.5} if rng.random() < 0.4 else {}
    drawn |= {"energy-per-ingress": 0.75} if rng.random() < 0.4 else {}
    drawn |= {"energy_per_hop": 0.625} if rng.random() < 0.3 else {}
    return CornerNetwork(kind, inwards, outwards, drawn)


def _multicast(inwards: bool, outwards: bool, drawn: dict[str, Any], names: Sequence[str],
               rng: random.Random) -> CornerNetwork:
    """A multicast that is priced by word, by receivers, by tensor, or by both; some tensors cost nothing."""
    each, argued = rng.random() < 0.5, rng.random() < 0.6
    drawn |= {"action_name": "send"} | ({"per_datatype_ERT": True} if each else {})
    drawn |= {"multicast_factor_argument": "receivers"} if argued else {}
    energies: list[dict[str, Any]] = []
    for number, name in enumerate(names if each else ["all"]):
        action = f"send_{name}" if each else "send"
        if each and rng.random() < 0.2:
            continue
        counts = rng.sample(range(1, MOST_RECEIVERS + 1), 9) if argued else [1]
        energies += [{"name": action, "energy": 0.125 * (number + 1) * count, "arguments": {"receivers": count}}
                     for count in counts]
    return CornerNetwork(MULTICAST, inwards, outwards, drawn,
                         tuple(energies or [{"name": "idle", "energy": 1.0, "arguments": {"receivers": 1}}]))
