"""The paragraph of the statistics on the interconnect between two neighbouring levels.

Timeloop calls such an interconnect a network, and so do its files: their texts keep the word.
"""

from __future__ import annotations

from typing import Any

from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.model.priced_interconnects import INWARDS, OUTWARDS, PricedInterconnect, priced_interconnects
from fadiff_mapper.output.timeloop_files.printed_numbers import fixed, specified
from fadiff_mapper.spec.arch import NamedInterconnect, StorageLevel
from fadiff_mapper.spec.native.written_components import Attributes, written_attributes, written_number
from fadiff_mapper.spec.spec import Spec

Rows = list[tuple[str, Any]]
"""Labels and values."""


def network_lines(spec: Spec, stats: Stats, network: dict[str, Any]) -> list[str]:
    """The paragraph of one interconnect: attributes of its wires, and the traffic of every data space.

    Args:
        spec: The input; attributes that it does not state are printed as "-".
        stats: Statistics of the mapping.
        network: The entry of `Stats.networks` to print.
    """
    priced = next(noc for noc in priced_interconnects(spec.arch, spec.problem, spec.tables)
                  if noc.name == network["name"])
    level = spec.arch.levels[priced.level]
    named = next((noc for noc in spec.arch.named_interconnects if noc.name == priced.name), None)
    instances = stats.levels[priced.level]["max_instances"]
    written = written_attributes(spec.arch)[named.name if named else level.name]
    lines = [network["name"], "", "    SPECS", "    -----"]
    lines += [f"        {label:<16}: {value}" for label, value in _specs(priced, named, level, written)]
    lines += ["", "    STATS", "    -----"]
    for name in spec.problem.dataspace_names():
        rows = _STATS[priced.kind](network["dataspaces"].get(name, {}), instances, priced)
        lines += [f"    {name}:", *(f"        {row}" for row in rows)] if rows else []
    return [*lines, ""]


def _specs(priced: PricedInterconnect, named: NamedInterconnect | None, level: StorageLevel,
           written: Attributes) -> Rows:
    """Label and value of every attribute; `written` are those that the input states."""
    wires = named.wires if named else level.interconnect
    energy = {key: f"{specified(written_number(written, key))} pJ"
              for key in ("router_energy", "wire_energy", "energy-per-ingress")}
    drained = named.wires.fill_latency if named and named.outwards is not None else level.interconnect.drain_latency
    latencies: Rows = [("Fill latency", int(wires.fill_latency) if priced.ways & INWARDS else 0),
                       ("Drain latency", int(drained) if priced.ways & OUTWARDS else 0)]
    rows: Rows = [("Type", priced.kind), ("ConnectionType", priced.ways), ("Word bits", wires.word_bits)]
    if priced.kind == "SimpleMulticast":
        return [*rows, ("Action Name       ", named.action if named else "")]
    if priced.kind == "ReductionTree":
        adder: Rows = [("Adder energy", f"{fixed(priced.adder)} pJ")] if priced.adder else []
        wire: Rows = [("Wire energy", f"{energy['wire_energy']}/b/mm")] if wires.wire_energy else []
        return [*rows, *adder, *wire, *((f"{label}     ", cycles) for label, cycles in latencies)]
    rows.insert(1, ("Legacy sub-type", str(written.get("network_type", "")).replace(":", "_")))
    return [*rows, ("Router energy", energy["router_energy"]), ("Wire energy", f"{energy['wire_energy']}/b/mm"),
            ("Ingress energy", energy["energy-per-ingress"]), *latencies]


def _wires(traffic: dict[str, Any], instances: int, priced: PricedInterconnect) -> list[str]:
    """The lines of one data space; `traffic` is empty where nothing moves. Energies of `traffic` are per instance."""
    kinds = [f"    @multicast {multicast} @scatter {scatter}: {fixed(words)}"
             for multicast, scatter, words in sorted(traffic.get("ingresses", []))]
    moves = [("Link transfers", int(traffic.get("link_transfers", 0))), *_reductions(traffic, priced)]
    return [*_labelled(_counts(traffic)), *kinds, *_labelled(moves), *_energies(instances, [
        ("Energy", traffic.get("energy_pj_per_instance", 0.0)),
        ("Link transfer energy", traffic.get("link_transfer_energy_pj_per_instance", 0.0)),
        ("Spatial Reduction Energy", 0)])]


def _multicast(traffic: dict[str, Any], instances: int, priced: PricedInterconnect) -> list[str]:
    """The lines of one data space of a multicast; none where nothing moves."""
    rows = _counts(traffic)
    return [*_labelled(rows), *_energies(instances, [("Energy", traffic.get("energy_pj_per_instance", 0.0))])
            ] if traffic.get("ingresses") else []


def _tree(traffic: dict[str, Any], instances: int, priced: PricedInterconnect) -> list[str]:
    """The lines of one data space of a reduction tree; none where nothing is added."""
    adders = traffic.get("spatial_reduction_energy_pj_per_instance", 0.0)
    return [*_labelled(_reductions(traffic, priced)), *_energies(instances, [
        ("Energy", traffic.get("energy_pj_per_instance", 0.0)), ("Spatial Reduction Energy", adders)])
        ] if traffic.get("spatial_reductions") else []


_STATS = {"Legacy": _wires, "SimpleMulticast": _multicast, "ReductionTree": _tree}


def _counts(traffic: dict[str, Any]) -> Rows:
    return [("Fanout", traffic.get("fanout", 0)), ("Multicast factor", traffic.get("multicast_factor", 0)),
            ("Ingresses", fixed(sum(words for _, _, words in traffic.get("ingresses", []))))]


def _reductions(traffic: dict[str, Any], priced: PricedInterconnect) -> Rows:
    return [("Spatial reductions", int(traffic.get("spatial_reductions", 0))),
            ("Average number of hops", fixed(traffic.get("hops", 0.0))),
            ("Energy (per-hop)", f"{fixed(priced.hop * 1000)} fJ")]


def _energies(instances: int, energies: Rows) -> list[str]:
    """Each energy of one instance and of all together, as Timeloop prints it."""
    return _labelled([(f"{label} ({scope})", f"{fixed(value * times)} pJ") for label, value in energies
                      for scope, times in (("per-instance", 1), ("total", instances))])


def _labelled(rows: Rows) -> list[str]:
    return [f"{label:<40}: {value}" for label, value in rows]
