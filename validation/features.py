"""The features of the model that a recorded case exercises, judged from Timeloop's answer alone."""

from __future__ import annotations

from typing import Any


def features(result: dict[str, Any]) -> list[str]:
    """Names of the features, sorted.

    - multicast, spatial_reduction: words that go to, or are summed up from, several receivers
    - link_transfer: words taken from a neighbour instead of the parent
    - partial_refill: a sliding window, so that fills are not a multiple of the tile
    - refetched_output: partial sums that return to a level that had sent them away
    - bandwidth_bound: a level that slows the machine down
    - network_energy, address_energy, leakage, clusters: parts of the energy that are not zero or are shared
    - outermost_bypass: a data space that the outermost level does not keep

    Args:
        result: Timeloop's answer to one accepted mapping, as `fadiff_mapper.timeloop.run_model` reads it.
    """
    spaces = [(level, name, space) for level in result["levels"] for name, space in level["dataspaces"].items()]
    traffic = [space for network in result["networks"] for space in network["dataspaces"].values()]
    kept = {name for _, name, _ in spaces}
    exercised = {
        "multicast": any(m > 1 for space in traffic for m, _, _ in space["ingresses"]),
        "spatial_reduction": any(space["spatial_reductions"] for space in traffic),
        "link_transfer": any(space["link_transfers"] for space in traffic),
        "partial_refill": any(space["fills"] % space["utilized_capacity"] for _, _, space in spaces
                              if not space["updates"]),
        "refetched_output": any(space["updates"] and space["fills"] for _, _, space in spaces),
        "bandwidth_bound": any(level["slowdown"] < 1 for level in result["levels"]),
        "network_energy": result["network_energy_pj"] > 0,
        "address_energy": any("addr_gen_energy_pj_per_cluster" in space for _, _, space in spaces),
        "leakage": any(level["leakage_energy_pj"] > 0 for level in result["levels"]),
        "clusters": any(space["utilized_clusters"] < space["utilized_instances"] for _, _, space in spaces),
        "outermost_bypass": set(result["levels"][-1]["dataspaces"]) != kept,
    }
    return sorted(name for name, occurs in exercised.items() if occurs)
