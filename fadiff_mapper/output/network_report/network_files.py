"""All files of a mapped network: its plan, and for every mapping in it the files of a run by itself."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator
from functools import partial
from typing import TYPE_CHECKING

from fadiff_mapper.base.errors import attempted
from fadiff_mapper.base.html_table import paragraph
from fadiff_mapper.base.json_text import json_text
from fadiff_mapper.fusion.fused_group import Hardware
from fadiff_mapper.output.looptree_files.group_text import looptree_yaml
from fadiff_mapper.output.looptree_files.inexpressible import beyond_looptree
from fadiff_mapper.output.network_report.page import network_html
from fadiff_mapper.output.network_report.plan_yaml import (
    folder_names,
    group_folder,
    layer_folder,
    plan_yaml,
    tile_folder,
)
from fadiff_mapper.output.timeloop_files.run_files import program_files, run_files
from fadiff_mapper.output.timeloop_files.versions import versions
from fadiff_mapper.spec.native.mapping_text import map_yaml
from fadiff_mapper.spec.native.merged_input import merged_input
from fadiff_mapper.workload import coverage

if TYPE_CHECKING:
    from fadiff_mapper.network.result import GroupInNetwork, LayerInNetwork, NetworkResult, TileMapping

MODEL = "timeloop-model"
"""The program whose file names a tile's files carry: a tile was evaluated in its group, not searched."""


def network_files(result: NetworkResult) -> dict[str, dict[str, str]]:
    """All files of a run folder.

    Args:
        result: The plan.

    Returns:
        Folder -> file name -> text. The plan, in the folder "", comes last: written in this order, `plan.yaml` names
        only folders that are there.
    """
    return {**{name: texts() for name, texts in mapping_folders(result)}, "": plan_files(result) | page_file(result)}


def mapping_folders(result: NetworkResult) -> Iterator[tuple[str, Callable[[], dict[str, str]]]]:
    """The folders of all mappings of a plan, one after the other, so that they can be written meanwhile.

    What would be missed most comes first: groups, then layers by themselves by their share in energy and cycles, and at
    last groups that are equal to earlier ones.

    Args:
        result: The plan.

    Yields:
        Name of a folder, and what makes its texts by file name.
    """
    names = folder_names(result)
    first: dict[int, int] = {}
    tiles: dict[int, dict[str, str]] = {}   # equal groups share their statistics and their loops
    loops: dict[int, dict[str, str]] = {}
    for number, group in enumerate(result.groups, 1):
        first.setdefault(id(group.group), number)
    distinct = set(first.values())

    def texts_of_tile(tile: TileMapping) -> dict[str, str]:
        tiles[id(tile.stats)] = tiles.get(id(tile.stats)) or tile_files(tile)
        return tiles[id(tile.stats)]

    def texts_of_loops(group: GroupInNetwork) -> dict[str, str]:
        loops[id(group.group)] = loops.get(id(group.group)) or looptree_files(group, result.hardware)
        return loops[id(group.group)]

    def folders_of_groups(numbers: Container[int]) -> Iterator[tuple[str, Callable[[], dict[str, str]]]]:
        for number, group in enumerate(result.groups, 1):
            if number in numbers:
                for tile in group.tiles:
                    bounds = tuple(tile.spec.problem.bounds.values())
                    yield tile_folder(number, names[tile.node], bounds), partial(texts_of_tile, tile)
                yield group_folder(number), partial(texts_of_loops, group)

    def share(layer: LayerInNetwork) -> float:
        return layer.count * result.share(layer.stats.energy_pj, layer.stats.cycles)

    yield from folders_of_groups(distinct)
    for layer in sorted(result.layers, key=share, reverse=True):
        yield layer_folder(names[layer.nodes[0]]), partial(run_files, layer.result)
    yield from folders_of_groups(set(range(1, len(result.groups) + 1)) - distinct)


def plan_files(result: NetworkResult, missing: Container[str] = ()) -> dict[str, str]:
    """The files of a plan as a whole, without its page: file name -> text.

    Args:
        result: The plan.
        missing: Folders of mappings that there was no time to write, which the plan does not name.
    """
    return {"plan.yaml": plan_yaml(result, missing), "fadiff.network.json": network_json(result)}


def page_file(result: NetworkResult) -> dict[str, str]:
    """The page of a plan: file name -> text; a page that cannot be drawn is the sentence that says so."""
    page, lost = attempted("page", lambda: network_html(result))
    return {"report.html": page or paragraph(lost)}


def looptree_files(outcome: GroupInNetwork, hardware: Hardware) -> dict[str, str]:
    """The group as `looptree.yaml`, with the loops of the largest tiles, or `looptree.txt` with the reasons against it.

    Args:
        outcome: A group of the plan.
        hardware: Architecture and energies of the plan.

    Returns:
        File name -> text, a single file.
    """
    def written() -> dict[str, str]:
        reasons = beyond_looptree(outcome.group, hardware, alike=False)
        if reasons:
            return {"looptree.txt": "LoopTree cannot express this group:\n" + "".join(f"{line}\n" for line in reasons)}
        return {"looptree.yaml": looptree_yaml(outcome.group, hardware, alike=False)}
    files, lost = attempted("input of LoopTree", written)
    return files or {"looptree.txt": f"{lost}\n"}


def tile_files(tile: TileMapping) -> dict[str, str]:
    """The files of one tile's mapping: the files of `timeloop-model`, and `fadiff.input.yaml`, which reproduces
    them."""
    return program_files(MODEL, tile.spec, tile.mapping, tile.stats) | {
        "timeloop-mapper.map.yaml": map_yaml(tile.spec, tile.mapping),
        "fadiff.input.yaml": merged_input(tile.spec, tile.mapping)}


def network_json(result: NetworkResult) -> str:
    """The run as JSON: status, options, coverage, totals, the design's area, warnings, history, versions.

    The area stands there by component too, and the source of every energy and area. All seconds stand under `timing`,
    so that the rest is equal for equal runs.
    """
    machine = result.layers[0].stats
    content = {
        "network": result.workload.name, "design": result.design, "status": result.status, "options": result.options,
        "coverage": coverage(result.workload).as_dict(),
        "energy_pj": result.stats.energy_pj, "cycles": result.stats.cycles, "edp": result.stats.edp,
        "unfused": {"energy_pj": result.unfused_stats.energy_pj, "cycles": result.unfused_stats.cycles,
                    "edp": result.unfused_stats.edp,
                    "joined_operands": {"energy_pj": result.joined.energy_pj, "cycles": result.joined.cycles}},
        "joined_operands": {"energy_pj": result.planned_joined.energy_pj, "cycles": result.planned_joined.cycles},
        "energy_source": machine.energy_source, "area_mm2": machine.area_mm2, "areas_um2": machine.areas_um2,
        "area_source": machine.area_source,
        "notes": [f"warning: {warning}" for warning in result.warnings],
        "history": [{key: value for key, value in step.items() if key != "time_s"} for step in result.history],
        "versions": versions(),
        "timing": {"total_s": result.time_s, "history_s": [step["time_s"] for step in result.history]}}
    return json_text(content) + "\n"
