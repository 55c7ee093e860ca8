"""All files of a mapped network: its plan, and for every mapping the files of a run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from fadiff_mapper.base.atomic_files import write_files
from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import attempted
from fadiff_mapper.base.text_formats import json_text, paragraph
from fadiff_mapper.fusion import FusedGroup, FusedLink, Stay
from fadiff_mapper.fusion.fused_group import Hardware
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.network.result import GroupInNetwork, LayerInNetwork, NetworkResult, plans_among
from fadiff_mapper.output.chrome_trace import plan_trace
from fadiff_mapper.output.looptree import beyond_looptree, looptree_yaml
from fadiff_mapper.output.network_page import network_html
from fadiff_mapper.output.run_files import course, reproducing_files, run_files
from fadiff_mapper.workload import coverage
from fadiff_mapper.workload.window_slide import WindowSlide


def plan_yaml(result: NetworkResult, missing: Container[str] = ()) -> str:
    """The plan as YAML text; `missing` folders are left out.

    Key `plan`: network, design, status, coverage (the understood share of the multiply-accumulates, and the nodes that
    are left out), options, cost with and without fusion (pJ, cycles, pJ * cycles), the part of both costs for residual
    and other joined operands (groups read some on the chip) or, on a design with compute units, for unfused operators
    without multiply-accumulates, the saved share of the EDP, the cost of each unit and of its operators, every group
    with its tiles, their runs and the cost of a run, every layer outside groups with the reason, and every distinct
    layer unfused.
    """
    layers, names = [], folder_names(result)
    for outcome in result.layers:
        stats = outcome.stats
        layers.append({"nodes": list(outcome.nodes), "runs": outcome.count,
                       **_folder(f"layers/{names[outcome.nodes[0]]}", missing),
                       "energy_pj": stats.energy_pj, "cycles": stats.cycles, "edp": stats.edp}
                      | ({"corrected_cycles": outcome.result.corrected.cycles} if outcome.result.corrected else {}))
    corrected, (besides, planned, unfused) = result.corrected_cycles, _besides(result)
    content = {
        "network": result.workload.name, "design": result.design, "status": result.status,
        "coverage": coverage(result.workload, bool(result.hardware.arch.units)).as_dict(),
        "options": {name: value for name, value in result.options.items() if value is not None},
        "cost": _totals(result.stats), "unfused_cost": _totals(result.unfused_stats),
        f"{besides}_cost": planned, f"unfused_{besides}_cost": unfused,
        "saved_edp": result.gain, **_proven(result),
        **({} if corrected is None else {"corrected_cycles": corrected,
                                         "corrected_edp": result.stats.energy_pj * corrected}),
        **_units(result),
        "groups": [_group(number, group, names, missing) for number, group in enumerate(result.groups, 1)],
        **({"not_fused": [asdict(layer) for layer in result.alone]} if result.alone else {}), "layers": layers}
    return dump({"plan": content})


def _units(result: NetworkResult) -> dict[str, Any]:
    """Cost of each compute unit in the plan, and of each operator on it; empty without units."""
    return {"units_cost": {unit: _reads(total) for unit, total in result.units().items()},
            "operators": [asdict(operator) for operator in result.operators]} if result.hardware.arch.units else {}


def _besides(result: NetworkResult) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The cost of the network besides layers and groups: its name, its value in the plan, its value without fusion."""
    name = "operators" if result.hardware.arch.units else "joined_operands"
    return name, _reads(result.planned_joined), _reads(result.joined)


def _proven(result: NetworkResult) -> dict[str, Any]:
    """The proven gap: the most by which the plan exceeds the best plan of a set, as a share, and the set; else null."""
    return {"gap": result.gap, "lower_bound": result.bound,
            "gap_among": plans_among(result.options["fuse"]) if result.bound else None}


# Subfolder names are chosen here, because the plan refers to them.

def folder_names(result: NetworkResult) -> dict[str, str]:
    """Node name -> its name in folders, with a hash if several nodes would have the same."""
    names = {node.name: safe_name(node.name) for node in result.workload.nodes if node.layer}
    count = Counter(name.casefold() for name in names.values())     # some file systems ignore case
    return {node: name if count[name.casefold()] == 1 else
            f"{name}.{hashlib.sha256(node.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"
            for node, name in names.items()}


def tile_folder(number: int, name: str, shape: tuple[int, ...]) -> str:
    """The folder of one tile's mapping in a group; `shape` are the tile's extents."""
    return f"groups/{number}/{name}." + "_".join(map(str, shape))


LONGEST_NAME = 100  # bytes of a name in a folder's name: file systems allow 255, tile extents included


def safe_name(name: str) -> str:
    """A node's or network's name as a folder's name: letters, digits, dot, dash and underscore, never `.` or `..`.

    Long names are truncated.
    """
    safe = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name)
    safe = safe.encode()[:LONGEST_NAME].decode(errors="ignore")
    return safe if safe.strip(".") else f"_{safe}"


def _totals(total: Any) -> dict[str, Any]:
    return _reads(total) | {"edp": float(total.edp)}


def _reads(total: Any) -> dict[str, Any]:
    return {"energy_pj": float(total.energy_pj), "cycles": round(total.cycles)}


def _folder(name: str, missing: Container[str]) -> dict[str, str]:
    """The folder of a mapping, unless missing."""
    return {} if name in missing else {"folder": name}


def _group(number: int, outcome: GroupInNetwork, names: Mapping[str, str], missing: Container[str]) -> dict[str, Any]:
    """A fused group; its cost is the sum over all tiles of runs * cost of one run."""
    group, nodes, tiles = outcome.group, outcome.nodes, []
    for tile in outcome.tiles:
        bounds = tile.spec.problem.bounds
        shape, layer = tuple(bounds.values()), outcome.cost.layers[nodes.index(tile.node)]
        tiles.append({
            "node": tile.node, "bounds": dict(bounds), **_folder(tile_folder(number, names[tile.node], shape), missing),
            "steps": [{"runs": group.repeat * step.times, "energy_pj": step.energy_pj, "cycles": step.cycles}
                      for step in layer.steps if step.shape == shape]})
    second_reads = [{"operand": read.tensor, "of": nodes[read.first], "added_behind": nodes[read.behind],
                     "dimensions": dict(read.dims)} for read in group.second_reads]
    sharing = {     # how units and multiply-accumulators share the time of a run
        "work": "side by side" if group.side_by_side else "in turn", "bound": outcome.cost.bound,
        "busy_cycles": {name: group.repeat * cycles for name, cycles in outcome.cost.busy.items() if cycles},
    } if outcome.cost.operators else {}
    return {
        "number": number, "nodes": list(nodes), "repeat": group.repeat,
        "loops": [{"dimension": loop.dim, "tile": loop.tile} for loop in group.loops],
        "sums": f"rest in {group.sums}" if group.sums else "stay",
        "layers": [{"node": name, "operands": {  # those that stay, and the layer that has brought each
            operand: _stay(stay) | ({"shared_with": nodes[layer.shared[operand][0]]} if operand in layer.shared else {})
            | ({"lasting": "there" if layer.lasting[operand] else "brought"} if operand in layer.lasting else {})
            for operand, stay in layer.operands.items()}} for name, layer in zip(nodes, group.layers, strict=True)],
        "intermediates": [_link(link, group, nodes[group.reader(index)]) for index, link in enumerate(group.links)],
        **({"second_reads": second_reads} if second_reads else {}),
        **({"output_stays_in": group.output_at} if group.output_at else {}),
        **({"lasting_words": dict(group.lasting_words)} if group.lasting_words else {}), "sigma": list(outcome.sigma),
        "cost": _totals(outcome.cost), "unfused_cost": _totals(outcome.unfused), **sharing, "tiles": tiles}


def _link(link: FusedLink, group: FusedGroup, reader: str) -> dict[str, Any]:
    pools = {dim: {"kernel": slide.kernel, "stride": slide.stride, "pad": slide.pad}
             for dim, slide in link.pooled.items()}
    between = {dim: {name: value for name, value in asdict(slide).items() if value != asdict(WindowSlide(1, 1))[name]}
               for dim, slide in link.between.items()}
    return {"operand": link.tensor, **({"of": reader} if link.distance > 1 else {}), "dimensions": dict(link.dims),
            **({"pooled": pools} if pools else {}),
            **({"between": between} if between else {}), **({"whole": sorted(link.whole)} if link.whole else {}),
            **({"from_elsewhere": float(link.elsewhere)} if link.elsewhere else {}),
            **({"softmax": f"in one pass over {group.links[-1].dims[min(link.running)]}"
                           + ", without blocks that the causal mask hides" * group.skips}
               if group.one_pass and link is group.links[-1] else {}), **_stay(link.stay), "written": link.written}


def _stay(stay: Stay) -> dict[str, Any]:
    shares = [{"fan_out": level, "dimension": dim, "instances": number} for level, dim, number in stay.shares]
    return {"level": stay.level, "retained_along": sorted(stay.across), **({"shares": shares} if shares else {})}


def mapping_folders(result: NetworkResult) -> Iterator[tuple[str, Callable[[], dict[str, str]]]]:
    """The folders of all mappings of a plan, so that each can be written before the next one is made.

    The most useful folders come first: groups, then unfused layers by their share in energy and cycles, then groups
    that equal earlier groups.

    Yields:
        Name of a folder, and a function for its texts by file name.
    """
    names, first, made = folder_names(result), dict[int, int](), dict[int, dict[str, str]]()
    for number, group in enumerate(result.groups, 1):
        first.setdefault(id(group.group), number)
    distinct = set(first.values())

    def once(of: object, make: Callable[[], dict[str, str]]) -> dict[str, str]:
        """The texts of one object, made once: equal groups share their statistics and their loops."""
        made[id(of)] = made.get(id(of)) or make()
        return made[id(of)]

    def folders_of_groups(numbers: Container[int]) -> Iterator[tuple[str, Callable[[], dict[str, str]]]]:
        for number, group in enumerate(result.groups, 1):
            if number in numbers:
                for tile in group.tiles:    # evaluated, not searched: named like the files of `timeloop-model`
                    yield (tile_folder(number, names[tile.node], tuple(tile.spec.problem.bounds.values())),
                           partial(once, tile.stats, partial(reproducing_files, "timeloop-model", tile.spec,
                                                             tile.mapping, tile.stats)))
                yield f"groups/{number}", partial(once, group.group, partial(looptree_files, group, result.hardware))

    def share(layer: LayerInNetwork) -> float:
        return layer.count * result.share(layer.stats.energy_pj, layer.stats.cycles)

    yield from folders_of_groups(distinct)
    for layer in sorted(result.layers, key=share, reverse=True):
        yield f"layers/{names[layer.nodes[0]]}", partial(run_files, layer.result)
    yield from folders_of_groups(set(range(1, len(result.groups) + 1)) - distinct)


def plan_files(result: NetworkResult, missing: Container[str]) -> dict[str, str]:
    """The files of a plan outside its subfolders, without its page; the plan does not name `missing` folders."""
    return {"plan.yaml": plan_yaml(result, missing), "fadiff.network.json": network_json(result),
            "trace.json": plan_trace(result)}


def looptree_files(outcome: GroupInNetwork, hardware: Hardware) -> dict[str, str]:
    """The group as `looptree.yaml`, with the loops of the largest tiles, or `looptree.txt` with the reasons why it
    cannot be expressed."""
    def written() -> dict[str, str]:
        reasons = beyond_looptree(outcome.group, hardware, alike=False)
        if reasons:
            return {"looptree.txt": "LoopTree cannot express this group:\n" + "".join(f"{line}\n" for line in reasons)}
        return {"looptree.yaml": looptree_yaml(outcome.group, hardware, alike=False)}
    files, lost = attempted("input of LoopTree", written)
    return files or {"looptree.txt": f"{lost}\n"}


def network_json(result: NetworkResult) -> str:
    """The run as JSON: status, options, coverage, totals, the design's area, warnings, history, versions.

    It also has the area by component, and the source of every energy and area. All seconds are under `timing`.
    """
    machine, (besides, planned, unfused) = result.layers[0].stats, _besides(result)
    content = {
        "network": result.workload.name, "design": result.design, "status": result.status, "options": result.options,
        "coverage": coverage(result.workload, bool(result.hardware.arch.units)).as_dict(),
        "energy_pj": result.stats.energy_pj, "cycles": result.stats.cycles, "edp": result.stats.edp,
        "unfused": {"energy_pj": result.unfused_stats.energy_pj, "cycles": result.unfused_stats.cycles,
                    "edp": result.unfused_stats.edp, besides: unfused},
        besides: planned, **_units(result), **_proven(result),
        "energy_source": machine.energy_source, "area_mm2": machine.area_mm2, "areas_um2": machine.areas_um2,
        "area_source": machine.area_source,
        "notes": [f"warning: {warning}" for warning in result.warnings],
        **course(result.history, result.time_s)}
    return json_text(content) + "\n"


AHEAD = 32  # folders whose texts are made before they are written
WRITERS = 8  # folders written concurrently, as writing mostly waits for the disk


def write_held(result: NetworkResult, folder: Path, over: Over = never) -> NetworkResult:
    """Writes all files of a plan into a folder that the caller holds (`atomic_files.lock`).

    Once `over` is true, only the files of the plan itself are written; the returned plan's status has the number of
    missing folders. Raises FadiffError if a file cannot be written.
    """
    missing: list[str] = []
    with ThreadPoolExecutor(WRITERS) as pool:
        writing: list[Future[None]] = []
        for name, texts in mapping_folders(result):
            if over():
                missing.append(name)
                continue
            if len(writing) >= AHEAD:   # else texts pile up, and folders are still written when time is over
                writing.pop(0).result()
            writing.append(pool.submit(write_files, folder / name, texts()))
        if missing:
            result = replace(result, status=f"{result.status}; there was no time to write {len(missing):,} of the "
                                            "folders of mappings")
        plan = plan_files(result, frozenset(missing))  # made while other folders are written
        for done in writing:
            done.result()
    write_files(folder, plan)           # last, as the plan names existing folders
    page, lost = attempted("page", lambda: network_html(result))
    write_files(folder, {"report.html": page or paragraph(lost)})
    return result
