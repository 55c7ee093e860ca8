"""The plan of a network as YAML: fused groups with loops and residencies, layers by themselves, and their costs.

The names of the run folder's subfolders are decided here, too, because the plan refers to them.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fadiff_mapper.fusion import FusedLayer, FusedLink, SecondRead, Stay
from fadiff_mapper.workload import coverage
from fadiff_mapper.workload.window_slide import WindowSlide
from fadiff_mapper.yaml.load import dump

if TYPE_CHECKING:
    from fadiff_mapper.network.result import GroupInNetwork, NetworkResult, TileMapping


def plan_yaml(result: NetworkResult, missing: Container[str] = ()) -> str:
    """The plan as text.

    Args:
        result: The plan.
        missing: Folders that are not there, which the plan does not name.

    Returns:
        YAML under the key `plan`: network, design, status, coverage (the understood share of the multiply-accumulates,
        and all that is left out), options, cost with and without fusion (pJ, cycles, pJ * cycles), the part of either
        that residual and other joined operands make up (groups read some on the chip), the saved part of the EDP, every
        group with its tiles, how often each runs and what a run costs there, every layer in no group with the reason,
        and every distinct layer by itself.
    """
    layers, names = [], folder_names(result)
    for outcome in result.layers:
        stats = outcome.stats
        layers.append({"nodes": list(outcome.nodes), "runs": outcome.count,
                       **_folder(layer_folder(names[outcome.nodes[0]]), missing),
                       "energy_pj": stats.energy_pj, "cycles": stats.cycles, "edp": stats.edp}
                      | ({"corrected_cycles": outcome.result.corrected.cycles} if outcome.result.corrected else {}))
    corrected = result.corrected_cycles
    content = {
        "network": result.workload.name, "design": result.design, "status": result.status,
        "coverage": coverage(result.workload).as_dict(),
        "options": {name: value for name, value in result.options.items() if value is not None},
        "cost": _totals(result.stats), "unfused_cost": _totals(result.unfused_stats),
        "joined_operands_cost": _reads(result.planned_joined), "unfused_joined_operands_cost": _reads(result.joined),
        "saved_edp": result.gain,
        **({} if corrected is None else {"corrected_cycles": corrected,
                                         "corrected_edp": result.stats.energy_pj * corrected}),
        "groups": [_group(number, group, names, missing) for number, group in enumerate(result.groups, 1)],
        **({"not_fused": [asdict(layer) for layer in result.alone]} if result.alone else {}), "layers": layers}
    return dump({"plan": content})


def folder_names(result: NetworkResult) -> dict[str, str]:
    """By node its name in those of folders, with a hash where several nodes would have the same."""
    names = {node.name: safe_name(node.name) for node in result.workload.nodes if node.layer}
    count = Counter(name.casefold() for name in names.values())     # some file systems have one case
    return {node: name if count[name.casefold()] == 1 else
            f"{name}.{hashlib.sha256(node.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
            for node, name in names.items()}


def layer_folder(name: str) -> str:
    """The folder of a layer that is mapped by itself, by the `folder_names` of the first node that is this layer."""
    return f"layers/{name}"


def group_folder(number: int) -> str:
    """The folder of a fused group, counted from 1."""
    return f"groups/{number}"


def tile_folder(number: int, name: str, shape: tuple[int, ...]) -> str:
    """The folder of one tile's mapping in a group; `shape` are the tile's extents."""
    return f"{group_folder(number)}/{name}." + "_".join(map(str, shape))


LONGEST_NAME = 100
"""Bytes of a name in that of a folder: file systems have 255, of which a tile's extents take a part."""


def safe_name(name: str) -> str:
    """The name of a node or network as that of a folder: letters, digits, dot, dash and underscore, never `.` or `..`.

    Long names are cut off.
    """
    safe = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
    safe = safe.encode()[:LONGEST_NAME].decode(errors="ignore")
    return safe if safe.strip(".") else f"_{safe}"


def _totals(total: Any) -> dict[str, Any]:
    return {"energy_pj": float(total.energy_pj), "cycles": round(total.cycles), "edp": float(total.edp)}


def _reads(total: Any) -> dict[str, Any]:
    return {"energy_pj": float(total.energy_pj), "cycles": round(total.cycles)}


def _folder(name: str, missing: Container[str]) -> dict[str, str]:
    """The folder of a mapping, if it is there."""
    return {} if name in missing else {"folder": name}


def _group(number: int, outcome: GroupInNetwork, names: Mapping[str, str], missing: Container[str]) -> dict[str, Any]:
    group = outcome.group
    return {
        "number": number, "nodes": list(outcome.nodes), "repeat": group.repeat,
        "loops": [{"dimension": loop.dim, "tile": loop.tile} for loop in group.loops],
        "sums": "leave the chip and come back" if group.spilled else "stay",
        "layers": [_layer(name, layer) for name, layer in zip(outcome.nodes, group.layers, strict=True)],
        "intermediates": [_link(link) for link in group.links],
        **({"second_reads": [_second_read(outcome.nodes, read) for read in group.second_reads]}
           if group.second_reads else {}), "sigma": list(outcome.sigma),
        "cost": _totals(outcome.cost), "unfused_cost": _totals(outcome.unfused),
        "tiles": [_tile(number, outcome, tile, names, missing) for tile in outcome.tiles]}


def _tile(number: int, outcome: GroupInNetwork, tile: TileMapping, names: Mapping[str, str],
          missing: Container[str]) -> dict[str, Any]:
    """One tile with its steps in the group: the group's cost is the sum over all tiles of runs * cost of one run."""
    bounds = tile.spec.problem.bounds
    shape = tuple(bounds.values())
    layer = outcome.cost.layers[outcome.nodes.index(tile.node)]
    return {"node": tile.node, "bounds": dict(bounds), **_folder(tile_folder(number, names[tile.node], shape), missing),
            "steps": [{"runs": outcome.group.repeat * step.times, "energy_pj": step.energy_pj, "cycles": step.cycles}
                      for step in layer.steps if step.shape == shape]}


def _layer(name: str, layer: FusedLayer) -> dict[str, Any]:
    return {"node": name, "operands": {operand: _stay(stay) for operand, stay in layer.operands.items()}}


def _link(link: FusedLink) -> dict[str, Any]:
    pools = {dim: {"kernel": slide.kernel, "stride": slide.stride, "pad": slide.pad}
             for dim, slide in link.pooled.items()}
    between = {dim: {name: value for name, value in asdict(slide).items() if value != asdict(WindowSlide(1, 1))[name]}
               for dim, slide in link.between.items()}
    return {"operand": link.tensor, "dimensions": dict(link.dims), **({"pooled": pools} if pools else {}),
            **({"between": between} if between else {}), **({"whole": sorted(link.whole)} if link.whole else {}),
            **({"from_elsewhere": float(link.elsewhere)} if link.elsewhere else {}),
            **_stay(link.stay), "written": link.written}


def _second_read(nodes: Sequence[str], read: SecondRead) -> dict[str, Any]:
    return {"operand": read.tensor, "of": nodes[read.first], "added_behind": nodes[read.behind],
            "dimensions": dict(read.dims)}


def _stay(stay: Stay) -> dict[str, Any]:
    return {"level": stay.level, "retained_along": sorted(stay.across)}
