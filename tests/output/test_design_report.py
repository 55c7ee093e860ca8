"""The files of a designed machine: tables with every figure, architectures that read back, a page that shows them."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from html_pages import Page
from hypothesis import given
from hypothesis import strategies as st
from named_schema import errors_by_its_schema
from small_machine import OUTCOMES, machine, outcome
from small_network import HOSTILE, result

from fadiff_mapper.design.result import better_neighbour
from fadiff_mapper.design.space import design_document, read_space
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.output.design_files import (
    design_files,
    design_json,
    designs_csv,
    front_csv,
    network_folders,
    write_open_folder,
)
from fadiff_mapper.output.design_page import (
    design_html,
    draw_convergence,
    draw_front,
    least_of_both,
    level_shares,
    parameter_worths,
)
from fadiff_mapper.output.drawing import Dot, Stroke, axis_of
from fadiff_mapper.output.terminal.designs import print_design
from fadiff_mapper.search.explanation.sensitivities import (
    combined_sensitivities,
    mapping_sensitivities,
)


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_table_has_a_row_per_design_with_exact_figures() -> None:
    table = rows(designs_csv(OUTCOMES))
    assert len(table) == len(OUTCOMES)
    for row, each in zip(table, OUTCOMES, strict=True):
        assert (row["feasible"], row["reason"]) == (str(each.feasible), each.reason)
        assert {name: int(row[name]) for name in ("side", "depth")} == each.parameters
        if each.feasible:
            assert (float(row["edp"]), float(row["area_mm2"])) == (each.edp, each.area_mm2)
            assert float(row["three.energy_pj"]) == each.networks[0].energy_pj
        else:
            assert row["edp"] == row["area_mm2"] == row["three.cycles"] == ""
    assert table[3]["least_cycles"] == "100.0"


def test_the_table_of_the_front_names_its_metrics_and_the_designs_numbers() -> None:
    table = rows(front_csv(machine("edp", "area")))
    assert [int(row["number"]) for row in table] == [5, 3, 1]
    assert [float(row["area"]) for row in table] == [2.5, 2.0, 1.0]


def test_a_parameter_named_as_a_figure_has_a_column_of_its_own() -> None:
    text = designs_csv([replace(OUTCOMES[0], parameters={"cycles": 7})])
    assert rows(text)[0]["parameter.cycles"] == "7"
    assert rows(text)[0]["cycles"] == "100"


def test_names_and_words_of_the_input_are_no_formulas() -> None:
    bad = replace(OUTCOMES[0], parameters={"=A1": "@word"}, reason="-2+3", networks=(
        replace(OUTCOMES[0].networks[0], name="+net"),))
    for text in (designs_csv([bad]), front_csv(machine(outcomes=(bad,), front=(bad,)))):
        cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
        assert {"'=A1", "'@word", "'+net.cycles"} <= set(cells)
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_the_folder_has_the_best_architecture_its_mappings_both_tables_and_the_page(tmp_path: Path) -> None:
    machine("edp", "area").write(tmp_path)
    names = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {"architecture.yaml", "arch.schema.json", "front.csv", "designs.csv", "fadiff.design.json", "design.html",
            "front/001.yaml", "front/003.yaml", "three/plan.yaml", "three/report.html"} <= names
    document = load_text((tmp_path / "architecture.yaml").read_text())
    assert document == design_document(read_space("bundled:spaces/gemmini_small"), (0, 0, 0, 0))
    assert [node.tag for node in document["architecture"]["nodes"]][:2] == ["!Container", "!Component"]
    assert errors_by_its_schema(tmp_path / "architecture.yaml") == []
    assert errors_by_its_schema(tmp_path / "front" / "003.yaml") == []


def test_networks_of_one_name_and_those_named_as_other_folders_have_folders_of_their_own() -> None:
    for names, folders in ((("a", "store", "a", "b/c"), ("a_1", "store_2", "a_3", "b_c")),
                           (("designs.csv", "a"), ("designs.csv_1", "a")),
                           (("a", "a", "a_1"), ("a_1", "a_2", "a_1_3"))):
        networks = [replace(result(), workload=replace(result().workload, name=name)) for name in names]
        assert network_folders(machine(mapped_networks=tuple(networks))) == folders


def test_a_shard_without_a_feasible_design_has_its_table_and_a_page() -> None:
    none = machine(outcomes=(OUTCOMES[1],), front=(), documents=(), mapped_networks=(), neighbours=(), final=(),
                   history=())
    assert [folder for folder, _ in design_files(none)] == [""]
    assert "No design is feasible" in design_html(none, ())


def test_the_record_is_equal_for_equal_runs_but_for_its_seconds() -> None:
    first, second = (json.loads(design_json(machine(time_s=seconds))) for seconds in (1.0, 9.0))
    assert first.pop("timing") != second.pop("timing")
    assert first == second
    assert first["front"][0]["edp"] == 4e6


@pytest.mark.parametrize("metrics", [("edp",), ("edp", "area")])
def test_the_page_is_well_formed_and_has_the_figures(metrics: tuple[str, ...]) -> None:
    found = machine(*metrics)
    text = design_html(found, ("three",))
    page = Page(text)
    assert "script" not in page.tags and HOSTILE not in text
    assert {each.edp for each in found.front} | {found.best.area_mm2, found.best.energy_pj} <= set(page.values)
    assert 'href="three/report.html"' in text and "Accelergy" in text
    assert ("Hypervolume" in text) == (len(metrics) > 1)


def test_every_feasible_design_is_a_dot_and_the_best_has_a_ring() -> None:
    drawn = draw_front(machine())
    assert drawn is not None
    dots = [shape for shape in drawn.shapes if isinstance(shape, Dot)]
    assert len([dot for dot in dots if dot.css_class == "other"]) == 3
    (ring,) = [dot for dot in dots if dot.css_class == "ring"]
    assert "side 8, depth 512" in ring.title
    assert all(0 < dot.x < drawn.width and 0 < dot.y < drawn.height for dot in dots)
    assert draw_front(machine(outcomes=OUTCOMES[:2])) is None


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=12))
def test_the_border_is_of_designs_that_none_beats(pairs: list[tuple[int, int]]) -> None:
    designs = [replace(OUTCOMES[0], energy_pj=float(edp), cycles=1.0, area_mm2=float(area)) for edp, area in pairs]
    border = {(each.edp, each.area_mm2) for each in least_of_both(designs)}
    beaten = {(edp, area) for edp, area in pairs
              if any((e <= edp and a <= area) and (e, a) != (edp, area) for e, a in pairs)}
    assert border == {(float(edp), float(area)) for edp, area in pairs} - beaten


def test_the_course_falls_and_ends_at_the_end() -> None:
    drawn = draw_convergence(machine())
    assert drawn is not None
    courses = [shape for shape in drawn.shapes if isinstance(shape, Stroke) and shape.css_class == "course"]
    assert len(courses) == 2
    heights = [float(part.split("H")[0]) for part in courses[0].path.split("V")[1:]]
    assert heights == sorted(heights)


@given(st.floats(1e-9, 1e15), st.floats(1.0, 1e9))
def test_ticks_are_round_and_on_the_axis(low: float, ratio: float) -> None:
    axis = axis_of([low, low * ratio], 0.0, 500.0)
    ticks = axis.ticks()
    assert 1 <= len(ticks) <= 10
    assert all(axis.low * (1 - 1e-9) <= tick <= axis.high * (1 + 1e-9) for tick in ticks)
    assert [axis.at(tick) for tick in ticks] == sorted(axis.at(tick) for tick in ticks)


def test_a_parameter_is_worth_what_its_neighbouring_values_change() -> None:
    side, depth = parameter_worths(machine())
    assert side["below"] is None  # side 4, depth 512 was not evaluated
    assert side["above"]["outcome"].parameters["side"] == 16
    assert (side["above"]["edp"], side["above"]["area"]) == ("+75.0 %", "+12.0 %")
    assert (depth["below"]["outcome"].parameters["depth"], depth["below"]["edp"]) == (256, "+25.0 %")
    assert (depth["above"]["outcome"].parameters["depth"], depth["above"]["area"]) == (1024, "+16.0 %")
    refused = machine(neighbours=(outcome(0, 1, reason="too small"),))
    assert parameter_worths(refused)[0]["below"] is not None
    assert "too small" in design_html(refused, ("three",))


def test_a_neighbour_that_is_better_than_the_best_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert better_neighbour(machine()) is None
    short = machine(neighbours=(outcome(1, 2, 3e6, 2.9), outcome(1, 0, 5e6, 2.0)))
    assert better_neighbour(short) is short.neighbours[0]
    assert "more evaluations are worth their time" in design_html(short, ("three",))
    print_design(short, "out")
    assert "with depth 1024 edp is -25.0 %" in capsys.readouterr().out


def test_figures_of_the_final_source_are_compared_where_they_differ(capsys: pytest.CaptureFixture[str]) -> None:
    print_design(machine(), "out")
    assert "with Accelergy: energy " in capsys.readouterr().out
    assert " with Accelergy</dd>" in design_html(machine(), ("three",))
    same = replace(machine(), final=machine().front, final_source="estimate; Accelergy is not installed")
    print_design(same, "out")
    assert "energies and areas: estimate; Accelergy is not installed\n" in capsys.readouterr().out
    page = design_html(same, ("three",))
    assert "Energies and areas: estimate; Accelergy is not installed.</p>" in page and " with estimate" not in page


def test_what_a_reader_should_know_stands_on_the_page_and_in_the_record(tmp_path: Path) -> None:
    told = machine(warnings=("the store was <changed>",))
    assert "The store was &lt;changed&gt;." in design_html(told, ("three",))
    assert json.loads(design_json(told))["notes"] == ["warning: the store was <changed>"]


def test_sensitivities_are_left_out_where_there_is_no_time(tmp_path: Path) -> None:
    asked = iter([False, False, True, True, True])
    written = write_open_folder(machine(), tmp_path, lambda: next(asked))
    assert written.warnings == ("no sensitivities: there was no time",)
    page = (tmp_path / "design.html").read_text()
    assert "<p>no sensitivities: there was no time</p>" in page and "Elasticities of the EDP" not in page
    assert (tmp_path / "fadiff.design.json").exists()
    assert write_open_folder(machine(), tmp_path).warnings == ()
    assert "Elasticities of the EDP" in (tmp_path / "design.html").read_text()


def test_energies_of_the_levels_add_up_to_the_networks() -> None:
    network = result()
    shares = level_shares([(2.0, network), (1.0, network)])
    assert sum(share.energy_pj for share in shares) == pytest.approx(3 * network.stats.energy_pj, rel=1e-12)
    arithmetic = shares[-1]
    assert arithmetic.cycles == 3 * sum(one.count * one.stats.arithmetic["cycles"] for one in network.layers)


def test_sensitivities_of_one_layer_are_its_own_and_of_equal_layers_the_same() -> None:
    layer = result().layers[0]
    own = {(each.level, each.constant): each for each in mapping_sensitivities(layer.spec, layer.mapping, "edp")
           if each.elasticity and each.basis == "fixed mapping"}
    run = (layer.spec, layer.mapping, layer.stats)
    for layers in ([(1.0, *run)], [(2.0, *run), (1.0, *run)]):
        together = {(each.level, each.constant): each.elasticity for each in combined_sensitivities(layers)}
        for key, each in own.items():
            assert together[key] == pytest.approx(each.elasticity, rel=1e-9)
