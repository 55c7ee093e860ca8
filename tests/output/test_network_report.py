"""The page of a mapped network: well-formed, complete, with the result's numbers; a hostile name is only a name."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from fused_groups import group, hardware
from html_pages import Page
from hypothesis import given
from hypothesis import strategies as st
from rich.progress import Progress
from small_network import HOSTILE, result

from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.output.drawing import COUNT, ENERGY, LETTER, Label, Rect, change, fitting, unit_for
from fadiff_mapper.output.layer_views import component_names, layer_views
from fadiff_mapper.output.looptree import looptree_yaml
from fadiff_mapper.output.network_files import mapping_folders, plan_files, write_held
from fadiff_mapper.output.network_page import NAME, NAMES, draw_schedule, network_html, node_lanes, residents
from fadiff_mapper.output.terminal.networks import print_plan
from fadiff_mapper.output.terminal.progress import TimeColumn
from fadiff_mapper.workload import Node, OperatingPoint


def network_files(plan: NetworkResult) -> dict[str, dict[str, str]]:
    """Folder -> file name -> text."""
    return {**{name: texts() for name, texts in mapping_folders(plan)}, "": plan_files(plan, ())}


def test_every_mapping_has_a_folder_of_its_own_whatever_the_names_of_layers() -> None:
    for second in ("FIRST", "third/", "third?", "x" * 300, "é" * 300, "..", "a b"):
        plan = result(second)
        files = network_files(plan)
        told = yaml.safe_load(files[""]["plan.yaml"])["plan"]
        folders = [layer["folder"] for layer in told["layers"]]
        folders += [tile["folder"] for group in told["groups"] for tile in group["tiles"]]
        assert set(folders) <= set(files) and len({folder.casefold() for folder in folders}) == len(folders)
        assert all(len(part.encode()) <= 150 for folder in folders for part in folder.split("/"))
    taken = {layer["folder"] for name in ("third", "second") for layer in yaml.safe_load(
        network_files(result(name.replace("third", "second")))[""]["plan.yaml"])["plan"]["layers"]}
    assert taken == {"layers/first", "layers/second", "layers/third"}, "names that are a folder's stay as they are"


@pytest.mark.parametrize("fused", [True, False])
def test_the_page_and_its_drawings_are_well_formed_and_need_nothing_else(fused: bool) -> None:
    text = network_html(result(fused=fused))
    page = Page(text)
    drawings = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(drawings) == (5 if fused else 4)
    for drawing in drawings:
        ElementTree.fromstring(drawing)
    assert not page.tags & {"script", "link", "img", "iframe", "object"}
    assert set(re.findall(r"https?://[^\"'\s]+", text)) == {"http://www.w3.org/2000/svg"}
    assert "url(" not in text and "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_every_layer_and_group_is_named_and_every_number_is_the_results() -> None:
    mapped = result()
    page = Page(network_html(mapped))
    shown = " ".join(page.texts)
    for name in ("three", "image", "first", "second", "third", "Group 1: first → second", "P: 12 in tiles of 4"):
        assert name in shown
    wanted = [value for total in (mapped.stats, mapped.unfused_stats, mapped.groups[0].cost, mapped.groups[0].unfused)
              for value in (total.edp, total.energy_pj, total.cycles)]
    wanted += [value for layer in mapped.groups[0].cost.layers for value in (layer.energy_pj, layer.cycles)]
    wanted += [value for one in mapped.layers for value in (one.stats.energy_pj, one.stats.cycles)]
    assert set(map(float, wanted)) <= set(page.values)
    views = layer_views(mapped)
    assert {sum(view.planned.outermost_words for view in views),
            sum(view.unfused.outermost_words for view in views)} <= set(page.values)


def test_the_layers_of_the_page_add_up_to_the_plan() -> None:
    mapped = result()
    views = layer_views(mapped)
    assert sum(view.planned.energy_pj for view in views) == pytest.approx(mapped.stats.energy_pj, rel=1e-12)
    assert sum(view.planned.cycles for view in views) == mapped.stats.cycles
    assert sum(view.unfused.energy_pj for view in views) == pytest.approx(mapped.unfused_stats.energy_pj, rel=1e-12)
    for share in (share for view in views for share in (view.planned, view.unfused)):
        assert sum(share.components.values()) == pytest.approx(share.energy_pj, rel=1e-12)
        assert set(share.components) <= set(component_names(mapped, views))
    traffic = mapped.groups[0].cost.layers[1].traffic
    assert views[1].planned.outermost["Outputs"] == traffic["DRAM", "Outputs"].updates
    assert "Inputs" not in views[1].planned.outermost       # they never leave the chip
    assert views[1].unfused.outermost["Inputs"] == 3 * 14 * 4


def test_a_page_shows_the_layers_and_groups_that_matter_most_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = result(fused=False)
    most = max(mapped.layers, key=lambda layer: mapped.share(layer.stats.energy_pj, layer.stats.cycles)).nodes[0]
    assert "take most of the energy" not in network_html(mapped)
    monkeypatch.setattr("fadiff_mapper.output.network_page.MOST_LAYERS", 1)
    monkeypatch.setattr("fadiff_mapper.output.network_page.MOST_NODES", 1)
    text = network_html(mapped)
    assert "the 1 layers that take most of the energy and the cycles; plan.yaml has all 3" in text
    assert [name for name in ("first", "second", "third") if f'<td class="word">{name}</td>' in text] == [most]
    assert "3 layers on" in text and len(re.findall("<svg", text)) == 1


def test_the_groups_that_save_most_come_first_where_not_all_are_shown() -> None:
    mapped = result()
    group, = mapped.groups
    better = replace(group, nodes=("better", "one"),
                     unfused=OperatingPoint(3 * group.unfused.energy_pj, group.unfused.cycles))
    mapped = replace(mapped, groups=(group, better, group))
    assert mapped.weightiest_groups(1) == [(2, better)]
    assert mapped.weightiest_groups(2) == [(1, group), (2, better)]
    assert mapped.weightiest_groups(9) == [(1, group), (2, better), (3, group)]


def test_folders_that_there_was_no_time_for_are_not_named_in_the_plan(tmp_path: Path) -> None:
    mapped, left = result(), 2

    def over() -> bool:
        nonlocal left
        left -= 1
        return left < 0
    written = write_held(mapped, tmp_path / "part", over)
    whole = network_files(mapped)
    plan = yaml.safe_load((tmp_path / "part" / "plan.yaml").read_text())["plan"]
    parts = [*plan["layers"], *(tile for group in plan["groups"] for tile in group["tiles"])]
    named = [part["folder"] for part in parts if "folder" in part]
    assert len(list(whole)) - 1 - 2 == 2, "two folders of four are left out"
    assert written.status == plan["status"] == "given; there was no time to write 2 of the folders of mappings"
    assert all((tmp_path / "part" / folder).is_dir() for folder in named)
    assert (tmp_path / "part" / "report.html").is_file() and write_held(mapped, tmp_path / "all") == mapped


def test_a_name_is_text_whatever_it_looks_like() -> None:
    text = network_html(result(second=HOSTILE))
    page = Page(text)
    assert "script" not in page.tags
    assert HOSTILE in " ".join(page.texts)
    assert "&amp;49" not in text


@st.composite
def networks(draw: st.DrawFn) -> tuple[Node, ...]:
    """Nodes in topological order, each reading some of those before it."""
    count = draw(st.integers(2, 12))
    return tuple(Node(str(row), "add" if row else "input",
                      tuple(map(str, draw(st.sets(st.integers(0, row - 1), min_size=1, max_size=3)))) if row else ())
                 for row in range(count))


@given(networks())
def test_no_node_stands_on_the_line_of_a_tensor(nodes: tuple[Node, ...]) -> None:
    lanes = node_lanes(nodes)
    for row, node in enumerate(nodes):
        readers = [below for below, other in enumerate(nodes) if node.name in other.inputs]
        for below in range(row + 1, max(readers, default=row) + 1):
            assert lanes[nodes[below].name] != lanes[node.name] or below == readers[-1]


@pytest.mark.parametrize("loops", [[], [("P", 12)], [("P", 5)], [("P", 1), ("Q", 1)]])
def test_a_schedule_lies_within_its_drawing_and_computes_every_point(loops: list) -> None:
    problems = [one.problem for one in result().layers[:2]]
    chain = group(problems, loops, "PQ")
    drawing = draw_schedule(chain, ("first", "second"), 1)
    for shape in drawing.shapes:
        if isinstance(shape, Rect):
            assert shape.x >= 0 and shape.x + shape.width <= drawing.width
            assert shape.y >= 0 and shape.y + shape.height <= drawing.height + 1e-9
        if isinstance(shape, Label):
            assert 0 <= shape.y <= drawing.height
    titles = {shape.title for shape in drawing.shapes if isinstance(shape, Rect)}
    assert all(any(title.startswith(f"{name}, step 1:") for title in titles) for name in ("first", "second"))
    held = {resident.name: resident.words for resident in residents(chain, ("first", "second"))}
    assert held["first Weights"] == 2 * 3 * 3
    if loops == [("P", 5)]:
        assert held["first Outputs"] == 3 * 7 * 4


def test_an_intermediate_of_which_nothing_is_kept_is_drawn_while_its_two_layers_run() -> None:
    def bars(across: str) -> list[float]:
        drawing = draw_schedule(group([one.problem for one in result().layers[:2]], [("P", 5)], across), ("a", "b"), 1)
        return [shape.width for shape in drawing.shapes
                if isinstance(shape, Rect) and shape.title.startswith("a Outputs:")]

    whole, parts = bars("P"), bars("")
    assert len(whole) == 1 < len(parts) and sum(parts) == pytest.approx(whole[0], abs=len(parts))


def test_numbers_side_by_side_share_unit_and_decimals() -> None:
    unit = unit_for([1_234_567.0, 5_000.0], ENERGY)
    assert [unit.written(value) for value in (1_234_567.0, 5_000.0, 100.0, 0.0)] == [
        "1.235 µJ", "0.005 µJ", "0.0001 µJ", "0 µJ"]
    assert unit_for([12_345.0], COUNT, "words").written(12_345) == "12.35 k words"
    assert unit_for([], COUNT).written(0) == "0"
    assert [change(1, 2), change(3, 2), change(2, 2), change(1, 0)] == ["\u221250.0 %", "+50.0 %", "0 %", "0 %"]


def test_the_design_has_its_area_and_the_sources_of_its_figures() -> None:
    mapped = result()
    written, stats = json.loads(network_files(mapped)[""]["fadiff.network.json"]), mapped.layers[0].stats
    assert (written["area_mm2"], written["areas_um2"]) == (stats.area_mm2, stats.areas_um2)
    assert written["area_source"] == stats.area_source and written["energy_source"] == stats.energy_source
    assert set(written["areas_um2"]) >= set(written["area_source"]) == set(written["energy_source"])


def test_the_share_that_is_understood_stands_in_every_output(capsys: pytest.CaptureFixture[str]) -> None:
    mapped = result()
    odd = Node("odd", "not_understood", ("third",), (1, 2, 8, 4), what="spectrum", macs=mapped.workload.macs // 3)
    partial = replace(mapped, workload=replace(mapped.workload, nodes=(*mapped.workload.nodes, odd)))
    for one, share in ((mapped, 1.0), (partial, pytest.approx(0.75, abs=1e-3))):
        files = network_files(one)[""]
        written = yaml.safe_load(files["plan.yaml"])["plan"]["coverage"]
        assert written == json.loads(files["fadiff.network.json"])["coverage"]
        assert written["share"] == share
        print_plan(one, "out")
        warned = "WARNING: only a part of this network is understood: 75" in capsys.readouterr().out
        assert warned == ('class="partial">Only a part' in network_html(one)) == (one is partial)


def test_the_run_folder_has_the_page_and_each_groups_looptree_input_or_why_there_is_none(tmp_path: Path) -> None:
    mapped = result()
    files = network_files(mapped)
    write_held(mapped, tmp_path)
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == network_html(mapped)
    assert files["groups/1"] == {"looptree.yaml": looptree_yaml(mapped.groups[0].group, hardware())}
    outcome = mapped.groups[0]
    elsewhere = replace(outcome.group.links[0], written=True)
    mapped = replace(mapped, groups=(replace(outcome, group=replace(outcome.group, links=(elsewhere,))),))
    assert network_files(mapped)["groups/1"]["looptree.txt"].splitlines()[1].startswith("layer 1 (")


@pytest.mark.parametrize(("limit", "text"), [(None, "3 s"), (10.0, "7 s left"), (2.0, "0 s left")])
def test_the_line_on_the_terminal_tells_the_time(limit: float | None, text: str) -> None:
    now = [0.0]
    column = TimeColumn(limit)
    line = Progress(column, get_time=lambda: now[0])
    line.add_task("searching", total=None)
    now[0] = 3.0
    assert column.render(line.tasks[0]) == text


LONG = ("model.layers.{}.self_attn.q_proj", "model.layers.{}.self_attn.scaled_dot_product_attention.qk",
        "model.layers.{}.post_attention_layernorm.mul", "/model/layers.{}/self_attn/q_proj/MatMul",
        "down_blocks.1.attentions.0.transformer_blocks.{}.ff.net.0.proj", "features.denseblock3.denselayer{}.conv2")


@pytest.mark.parametrize("width", [NAMES - 26, NAME - 12])
def test_labels_of_equal_blocks_keep_what_differs(width: float) -> None:
    names = [name.format(block) for name in LONG for block in range(32)]
    labels = [fitting(name, width) for name in names]
    assert len(set(labels)) == len(names)
    assert all(len(label) <= width / LETTER for label in labels)
    assert fitting("model.layers.7.self_attn.q_proj", 140.0) == "m.l.7.self_attn.q_proj"
    assert fitting("layer1.0.conv1", 140.0) == "layer1.0.conv1"


@given(st.text(max_size=60), st.floats(20.0, 400.0))
def test_a_label_is_never_wider_than_its_place(text: str, width: float) -> None:
    assert len(fitting(text, width)) <= max(3, width / LETTER)
