"""Runs the real `timeloop-model` on one input and returns its answer.

Timeloop also exits with 0 on some errors, so its files must exist and be complete.
"""

from __future__ import annotations

import os
import re
import signal
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from fadiff_mapper.base import run_program
from fadiff_mapper.base.errors import FadiffError

XML, STATS = "timeloop-model.map+stats.xml", "timeloop-model.stats.txt"  # the two files that are read
COUNTS = ("partition_size", "utilized_capacity", "utilized_instances", "utilized_clusters", "reads", "fills", "updates",
          "temporal_reductions", "address_generations")
BANDWIDTHS = ("read_bandwidth", "write_bandwidth", "shared_bandwidth")
"""Columns of a level's statistics, one number for each data space."""
KINDS = ("Algorithmic", "Actual", "Gated", "Skipped")  # kinds of accesses and computes in the form for sparse designs
STATS_END = r"\n    Total *= \S+\n\s*\Z"  # the end of complete statistics: a truncated file has none
NETWORK = r"Network \d+\n-------+\n"
PRINTED_COUNTS = (("fanout", "Fanout"), ("multicast_factor", "Multicast factor"), ("link_transfers", "Link transfers"),
                  ("spatial_reductions", "Spatial reductions"))
"""Counts of a network and their labels in the printed statistics."""
INGRESS = r"@multicast (\d+) @scatter (\d+): (\S+)"


def read_answer(folder: Path, dataspaces: Sequence[str]) -> dict[str, Any]:
    """Reads the numbers of one run from the folder in which `timeloop-model` ran.

    They are named and nested as in `fadiff_mapper.model.stats.Stats`: energies in pJ, counts in words, bandwidths in
    words per cycle, levels from the innermost outwards, `dataspaces` in the problem's order. Timeloop prints only two
    decimals of `leakage_energy_pj` (part of `energy_pj`), of the words of `ingresses`, `link_transfers` and
    `spatial_reductions`, and of the summary `printed` (`energy_uj`, `utilization_percent`). Raises FadiffError where a
    file is missing or truncated.
    """
    text, xml = _whole(folder / STATS, STATS_END), _whole(folder / XML, "</engine>")
    if "</boost_serialization>" not in xml:  # Timeloop leaves this element open
        xml += "</boost_serialization>"
    try:
        topology = ElementTree.fromstring(xml).find("engine/topology_")
    except ElementTree.ParseError as error:
        raise FadiffError(f"{folder / XML}: not well-formed XML: {error}") from None
    if topology is None:
        raise FadiffError(f"{folder / XML}: there is no engine/topology_ in it")
    units = [unit for item in topology.findall("levels_/item") if (unit := item.find("px")) is not None]
    blocks = {block.split(" ===")[0]: block for block in re.split(r"\n=== ", text.split("\nNetworks\n")[0])[1:]}
    levels = [_level(unit, blocks[_name(unit)], dataspaces) for unit in units if unit.find("stats_") is not None]
    unit = next(unit for unit in units if unit.find("stats_") is None)
    computes: Any = _value(unit, "random_computes_")
    if "Algorithmic Computes" in blocks[_name(unit)]:  # sparse designs
        computes = {kind.lower(): _printed(rf"{kind} Computes \(total\) +: (\d+)", blocks[_name(unit)])
                    for kind in KINDS}
    arithmetic = {"name": _name(unit), "instances": _value(unit, "specs_/instances/t_"),
                  "utilized_instances": _value(unit, "utilized_instances_"), "cycles": _value(unit, "cycles_"),
                  "computes": computes, "energy_pj": _value(unit, "energy_")}
    networks = _networks(topology, text, dataspaces, {level["name"]: level["max_instances"] for level in levels})
    in_networks = sum(space.get("energy_pj_total", 0.0) for network in networks
                      for space in network["dataspaces"].values())
    return {
        "cycles": int(_printed(r"\nCycles: (\d+)", text)),
        "computes": int(_printed(r"\n(?:Algorithmic )?Computes = (\d+)", text)),
        "energy_pj": sum(level["energy_pj_total"] for level in levels) + arithmetic["energy_pj"] + in_networks,
        "network_energy_pj": in_networks,
        "printed": {"energy_uj": _printed(r"\nEnergy: (\S+) uJ", text),
                    "utilization_percent": _printed(r"\nUtilization: (\S+)%", text)},
        "arithmetic": arithmetic, "levels": levels, "networks": networks}


def _whole(path: Path, ending: str) -> str:
    """The text of a file. Raises FadiffError if it is missing or does not match the pattern of its ending."""
    if not path.is_file():
        raise FadiffError(f"{path}: timeloop-model left no such file")
    text = path.read_text(encoding="utf-8", errors="replace")
    if not re.search(ending, text):
        raise FadiffError(f"{path}: cut off, there is no {ending!r} near its end")
    return text


def _number(text: str) -> float:
    """An int if the text is one, so that whole numbers are compared as integers."""
    try:
        return int(text)
    except ValueError:
        return float(text)


def _printed(pattern: str, text: str) -> float:
    """The number in the first group of a pattern in the printed statistics."""
    match = re.search(pattern, text)
    if not match:
        raise FadiffError(f"{STATS}: there is no {pattern!r} in it")
    return _number(match[1])


def _value(node: Element, path: str) -> float:
    text = node.findtext(path)
    if text is None:
        raise FadiffError(f"{XML}: there is no {path} in it")
    return _number(text)


def _per_dataspace(node: Element, tag: str, count: int) -> list[float]:
    """The numbers of an element of the XML for the first `count` data spaces; empty if missing."""
    column = node.find(tag)
    items = column.find("PerDataSpace") if column is not None else None
    return [_number(item.text or "") for item in items.findall("item")[:count]] if items is not None else []


def _name(unit: Element) -> str:
    return unit.findtext("specs_/LevelSpecs/level_name") or ""


def _level(unit: Element, block: str, dataspaces: Sequence[str]) -> dict[str, Any]:
    """The numbers of one storage level without bypassed data spaces.

    `block` is its part of the printed statistics, the only source of the leakage.
    """
    stats = unit.find("stats_")
    assert stats is not None
    count = len(dataspaces)
    columns = {name: _per_dataspace(stats, name, count) for name in
               (*COUNTS, *BANDWIDTHS, "keep", "energy", "temporal_reduction_energy", "addr_gen_energy")}
    spaces: dict[str, dict[str, Any]] = {}
    for i, name in enumerate(dataspaces):
        if not columns["keep"][i]:
            continue
        row = {column: values[i] for column, values in columns.items()}
        per_instance = row["energy"] + row["temporal_reduction_energy"]
        total = per_instance * row["utilized_instances"] + row["addr_gen_energy"] * row["utilized_clusters"]
        spaces[name] = {key: row[key] for key in (*COUNTS, *BANDWIDTHS)} | {
            "energy_pj_per_instance": row["energy"], "energy_pj_total": total}
        section = _section(name, block)
        if "Algorithmic scalar reads" in section:   # sparse designs, split like the computes
            spaces[name] |= {access: {kind.lower(): _printed(rf"{kind} scalar {access} \(per-instance\) +: (\d+)",
                                                             section) for kind in KINDS}
                             for access in ("reads", "fills", "updates")}
        if row["addr_gen_energy"]:
            spaces[name]["addr_gen_energy_pj_per_cluster"] = row["addr_gen_energy"]
    leakage = _printed(r"Leakage energy \(total\) +: (\S+) pJ", block)
    return {"name": _name(unit), "cycles": _value(stats, "cycles"), "slowdown": _value(stats, "slowdown"),
            "max_instances": max([1.0, *columns["utilized_instances"]]), "leakage_energy_pj": leakage,
            "energy_pj_total": sum(space["energy_pj_total"] for space in spaces.values()) + leakage,
            "dataspaces": spaces}


def _networks(topology: Element, text: str, dataspaces: Sequence[str],
              instances: dict[str, float]) -> list[dict[str, Any]]:
    """The interconnects between neighbouring levels ("networks" in Timeloop), without data spaces that have no traffic.

    `instances` are the instances in use of each level: Timeloop's energies of an interconnect are per instance of the
    level outside it, except for separate components, which may lie below any level.
    """
    stats = {item.findtext("first") or "": item.find("second/px/stats_") for item in topology.findall("networks_/item")}
    printed = text.split("\nNetworks\n--------\n")[1].split("\nOperational Intensity")[0]
    result = []
    for block in re.split(NETWORK, printed)[1:]:
        name, (head, body) = block.split("\n", 1)[0], block.split("STATS\n    -----\n")
        node = stats[name]
        assert node is not None
        none = [0.0] * len(dataspaces)
        hops, energy, links, adders = (_per_dataspace(node, tag, len(dataspaces)) or none for tag in (
            "num_hops", "energy", "link_transfer_energy", "spatial_reduction_energy"))
        kind = found[1] if (found := re.search(r"Type +: (\S+)", head)) else ""
        spaces = {}
        for i, space in enumerate(dataspaces):
            section = _section(space, body)  # empty if nothing was printed
            traffic: dict[str, Any] = {key: _printed(rf"{label} +: (\S+)", section) for key, label in PRINTED_COUNTS
                                       if f"{label} " in section}
            if kind == "Legacy":
                traffic["ingresses"] = [[int(multicast), int(scatter), _number(words)]
                                        for multicast, scatter, words in re.findall(INGRESS, section)]
            if not section or (kind == "Legacy" and not traffic["ingresses"] and not traffic["link_transfers"]):
                continue
            traffic |= {"hops": hops[i]} if kind != "SimpleMulticast" else {}
            if energy[i] or links[i] or adders[i]:
                each, used = energy[i] + links[i] + adders[i], instances.get(name.split(" <==> ")[0])
                if used is None:  # from the printed totals, rounded to a whole number
                    totals = re.findall(r"nergy \(total\) +: (\S+) pJ", section)
                    used = round(sum(map(float, totals)) / each) if each and kind != "ReductionTree" else 1
                traffic |= {"energy_pj_per_instance": energy[i], "link_transfer_energy_pj_per_instance": links[i],
                            "energy_pj_total": each * used}
            traffic |= {"spatial_reduction_energy_pj_per_instance": adders[i]} if adders[i] else {}
            if any(traffic.values()):
                spaces[space] = traffic
        result.append({"name": name, "dataspaces": spaces})
    return result


def _section(dataspace: str, body: str) -> str:
    """The lines on one data space in the printed statistics of an interconnect."""
    match = re.search(rf"^    {re.escape(dataspace)}:\n((?:        .*\n)+)", body, re.MULTILINE)
    return match[1] if match else ""


CLEARED = "TIMELOOP_"  # variables with this prefix change results, so no run inherits them
SHOW_ALL = {"TIMELOOP_HIDE_INCONSEQUENTIAL_STATS": "0"}  # makes Timeloop also print levels and networks without traffic
INPUT = "input.yaml"  # the name of the input in the folder of a run
MESSAGE = re.compile(r"ERROR|Assertion|what\(\)")  # lines of the output with the reason of a failed run
SOURCE_FOLDER = re.compile(r"\S*/(?=\S+\.[ch]pp)")
"""The folder of a source file in such a line, Timeloop's build folder, which is dropped."""


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of `timeloop-model`."""

    result: dict[str, Any] | None  # the numbers of an accepted mapping (see `read_answer`); None if it was rejected
    error: str = ""  # the reason of a rejection, in Timeloop's words


class ModelKilled(FadiffError):
    """The program was killed by another process, usually the system when memory runs out."""


def run_text(text: str, dataspaces: Sequence[str], folder: Path, command: Sequence[str] = ("timeloop-model",), *,
             timeout: float = 60.0) -> ModelAnswer:
    """Runs `timeloop-model`, or another command, on a YAML text in its native (v0.3) dialect with all sections.

    Args:
        dataspaces: The names of the problem's data spaces in order.
        folder: An empty folder to run in.
        command: The program and its words, to which the input's name is appended.
        timeout: Seconds until the program is ended: FadiffError, as where it cannot be run, ends without a reason
            (`ModelKilled` if another process killed it), or leaves missing or truncated files.
    """
    (folder / INPUT).write_text(text, encoding="utf-8")
    done = run_program.run([*command, INPUT], folder, environment(), timeout)
    if done.returncode == 0:
        return ModelAnswer(read_answer(folder, dataspaces))
    reason = "\n".join(SOURCE_FOLDER.sub("", line) for line in done.output.splitlines() if MESSAGE.search(line))
    if not reason:
        error = ModelKilled if done.returncode == -signal.SIGKILL else FadiffError
        raise error(f"{command[0]} {done.how} and gave no reason")
    return ModelAnswer(None, reason)


def environment() -> dict[str, str]:
    """This process's variables without those that change results."""
    return {name: value for name, value in os.environ.items() if not name.startswith(CLEARED)} | SHOW_ALL
