"""The paragraph of the statistics on the interconnect between two neighbouring levels.

Timeloop calls such an interconnect a network, and so do its files: their texts keep the word.
"""

from __future__ import annotations

from typing import Any

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.output.timeloop_files.printed_numbers import fixed, specified
from fadiff_mapper.spec.arch import StorageLevel
from fadiff_mapper.spec.native.written_components import Attributes, written_attributes, written_number
from fadiff_mapper.spec.spec import Spec

READ_FILL_UPDATE_DRAIN = 3
"""Timeloop's code for a connection that carries words inwards and partial sums outwards."""


def network_lines(spec: Spec, stats: Stats, network: dict[str, Any]) -> list[str]:
    """The paragraph of one interconnect: attributes of its wires, and the traffic of every data space.

    Args:
        spec: The input; attributes that it does not state are printed as "-".
        stats: Statistics of the mapping.
        network: The entry of `Stats.networks` to print.
    """
    outer = spec.arch.level_names().index(network["name"].split(" <==> ")[0])
    level = spec.arch.levels[outer]
    instances = stats.levels[outer]["max_instances"]
    lines = [network["name"], "", "    SPECS", "    -----"]
    written = written_attributes(spec.arch)[level.name]
    lines += [f"        {label:<16}: {value}" for label, value in _specs(level, written)]
    lines += ["", "    STATS", "    -----"]
    for name in spec.problem.dataspace_names():
        lines.append(f"    {name}:")
        lines += _dataspace(network["dataspaces"].get(name, {}), instances, level.interconnect.energy_per_hop)
    return [*lines, ""]


def _specs(level: StorageLevel, written: Attributes) -> list[tuple[str, Any]]:
    """Label and value of every attribute; `written` are those that the input states for the outer level."""
    def energy(key: str) -> str:
        return specified(written_number(written, key))

    return [
        ("Type", "Legacy"), ("Legacy sub-type", str(written.get("network_type", "")).replace(":", "_")),
        ("ConnectionType", READ_FILL_UPDATE_DRAIN), ("Word bits", level.interconnect.word_bits),
        ("Router energy", f"{energy('router_energy')} pJ"), ("Wire energy", f"{energy('wire_energy')} pJ/b/mm"),
        ("Ingress energy", f"{energy('energy-per-ingress')} pJ"),
        ("Fill latency", int(level.interconnect.fill_latency)),
        ("Drain latency", int(level.interconnect.drain_latency))]


def _dataspace(traffic: dict[str, Any], instances: int, energy_per_hop: float) -> list[str]:
    """The lines of one data space; `traffic` is empty where nothing moves. Energies of `traffic` are per instance."""
    ingresses = traffic.get("ingresses", [])
    wires = traffic.get("energy_pj_per_instance", 0.0)
    links = traffic.get("link_transfer_energy_pj_per_instance", 0.0)
    counts = [("Fanout", traffic.get("fanout", 0)), ("Multicast factor", traffic.get("multicast_factor", 0)),
              ("Ingresses", fixed(sum(words for _, _, words in ingresses)))]
    kinds = [f"            @multicast {multicast} @scatter {scatter}: {fixed(words)}"
             for multicast, scatter, words in sorted(ingresses)]
    moves = [("Link transfers", int(traffic.get("link_transfers", 0))),
             ("Spatial reductions", int(traffic.get("spatial_reductions", 0))),
             ("Average number of hops", fixed(traffic.get("hops", 0.0))),
             ("Energy (per-hop)", f"{fixed(energy_per_hop * 1000)} fJ")]
    energies = [(f"{label} ({scope})", f"{fixed(value * times)} pJ") for label, value in (
                    ("Energy", wires), ("Link transfer energy", links), ("Spatial Reduction Energy", 0))
                for scope, times in (("per-instance", 1), ("total", instances))]
    return [*_labelled(counts), *kinds, *_labelled(moves), *_labelled(energies)]


def _labelled(rows: list[tuple[str, Any]]) -> list[str]:
    return [f"        {label:<40}: {value}" for label, value in rows]
