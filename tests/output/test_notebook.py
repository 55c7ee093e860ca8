"""Notebooks show valid HTML with the result's numbers, figures with their bars, and names that stay text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import matplotlib.pyplot
import pytest
from html_pages import Page
from matplotlib.axes import Axes
from small_network import HOSTILE
from small_network import result as mapped_network
from small_specs import QUICK, product

from fadiff_mapper import NetworkResult, Result, Spec, map_layer
from fadiff_mapper.base.text_formats import html_table
from fadiff_mapper.output.layer_views import layer_views
from fadiff_mapper.output.notebook import energy_parts
from fadiff_mapper.search.lower_bound.assemble import sentence

FORMULA = r"$\frac$"
"""Not a formula that matplotlib could set."""


@cache
def layer() -> Result:
    return map_layer(product(), QUICK)


def network(second: str = "second", **changes: object) -> NetworkResult:
    history = ({"time_s": 0.5, "value": 9e9, "stage": "layers"}, {"time_s": 1.0, "value": 8e9, "stage": "groups"})
    return NetworkResult(**(vars(mapped_network(second)) | {"history": history} | changes))


def renamed(spec: Spec, name: str) -> Spec:
    """The spec with one name on everything that a table of it shows."""
    arch = replace(spec.arch, name=name, levels=tuple(replace(one, name=name, kind=name) for one in spec.arch.levels),
                   arithmetic=replace(spec.arch.arithmetic, name=name, kind=name))
    problem = replace(spec.problem, name=name,
                      bounds={f"{name} {dim}": bound for dim, bound in spec.problem.bounds.items()})
    return replace(spec, arch=arch, problem=problem)


def test_a_table_has_exact_values_and_escaped_texts() -> None:
    page = Page(html_table(HOSTILE, [HOSTILE, "n"], [(HOSTILE, 1 / 3), ("", 1_234_567), (None, True)]))
    assert page.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td", "data"}
    assert page.values == [1 / 3, 1_234_567]
    assert page.texts == [HOSTILE, HOSTILE, "n", HOSTILE, "0.333333", "1,234,567", "True"]


def test_a_spec_shows_its_levels_and_dimensions() -> None:
    page = Page(product()._repr_html_())
    for text in ("DRAM", "Buffer", "SRAM", "MAC", "4 x 1", "unlimited", "dimension", "M", "K", "N"):
        assert text in page.texts
    # DRAM: bits, instances, shared bandwidth; buffer: words, bits, instances, read bandwidth; MACs; bounds.
    assert page.values == [16, 1, 2, 12, 16, 1, 4, 16, 4, 4, 4, 4]
    assert page.texts.index("DRAM") < page.texts.index("Buffer") < page.texts.index("MAC")


def test_a_mapping_shows_its_loops_from_the_outside_in() -> None:
    mapping = layer().mapping
    page = Page(mapping._repr_html_())
    assert page.texts.index("level 1") < page.texts.index("level 0")
    named = Page(mapping.loop_nest_html(["Buffer", "DRAM"]))
    for level in mapping.levels:
        loops = " ".join(f"{dim}={level.temporal[dim]}" for dim in reversed(level.order) if level.temporal[dim] > 1)
        assert (not loops or loops in page.texts) and ", ".join(sorted(level.keep)) in named.texts
    with pytest.raises(ValueError):
        mapping.loop_nest_html(["Buffer"])


def test_statistics_show_their_own_numbers() -> None:
    stats = layer().stats
    page = Page(stats._repr_html_())
    summary = [stats.cycles, stats.energy_pj, stats.edp, stats.utilization, stats.computes,
               stats.area_mm2]
    assert page.values == summary + [energy for energy in reversed(stats.component_energies().values()) if energy]


def test_a_result_shows_status_bound_and_nest() -> None:
    result = layer()
    assert result.bound is not None
    text = result._repr_html_()
    page = Page(text)
    assert page.values[:2] == [result.value, result.bound.edp]
    words = " ".join(page.texts)
    assert result.status in words and sentence(result.bound, "edp", result.value) in words
    assert result.stats._repr_html_() in text
    assert result.mapping.loop_nest_html(["Buffer", "DRAM"]) in text
    assert "no lower bound" in replace(result, bound=None)._repr_html_()


def test_a_plan_shows_totals_groups_and_its_page() -> None:
    result = network()
    page = Page(result._repr_html_())
    totals = [value for total in (result.stats, result.unfused_stats)
              for value in (total.energy_pj, total.cycles, total.edp)]
    group = result.groups[0]
    assert page.values == [*totals, 1, group.cost.energy_pj, group.cost.cycles, group.cost.edp, group.unfused.edp]
    assert "first + second" in page.texts
    assert len(page.frames) == 1 and page.frames[0].startswith("<!DOCTYPE html>") and "<svg" in page.frames[0]
    assert "fused groups" not in Page(network(groups=(), stats=result.unfused_stats)._repr_html_()).texts


def test_names_stay_text() -> None:
    spec = renamed(product(), HOSTILE)
    result = replace(layer(), spec=spec, status=HOSTILE)
    for text in (spec._repr_html_(), result._repr_html_(), network(HOSTILE)._repr_html_()):
        page = Page(text)
        assert "script" not in page.tags
        assert HOSTILE in " ".join(page.texts)


def bars(axes: Axes) -> list[float]:
    return [patch.get_height() for patch in axes.patches]


def test_the_figure_of_a_layer_has_a_bar_for_every_part_of_its_energy() -> None:
    result = layer()
    energies, history = result.plot().axes
    parts = energy_parts(result.stats)
    assert sorted(bars(energies)) == pytest.approx(
        sorted(energy for spent in parts.values() for energy in spent.values()), rel=1e-12)
    assert sum(bars(energies)) == pytest.approx(result.stats.energy_pj, rel=1e-12)
    assert [label.get_text() for label in energies.get_xticklabels()] == list(parts) == ["DRAM", "Buffer", "MAC"]
    tops = [0.0] * len(parts)
    for patch in energies.patches:      # parts of one bar stand on top of one another
        place = round(patch.get_x() + patch.get_width() / 2)
        assert patch.get_y() == pytest.approx(tops[place])
        tops[place] += patch.get_height()
    assert tops == pytest.approx([sum(spent.values()) for spent in parts.values()])
    known = [(step["time_s"], step["value"]) for step in result.history if step["value"] is not None]
    line, = history.get_lines()
    assert list(zip(*line.get_data(), strict=True))[:-1] == known
    assert line.get_data()[1][-1] == result.value


def test_the_figure_of_a_plan_has_two_bars_for_every_layer() -> None:
    result = network()
    *quantities, points, history = result.plot().axes
    views = layer_views(result)
    for axes, of in zip(quantities, (lambda share: share.energy_pj, lambda share: share.cycles,
                                     lambda share: share.energy_pj * share.cycles), strict=True):
        assert bars(axes) == [of(view.planned) for view in views] + [of(view.unfused) for view in views]
    assert sum(bars(quantities[0])[:len(views)]) == pytest.approx(result.stats.energy_pj, rel=1e-12)
    assert [label.get_text() for label in quantities[-1].get_xticklabels()] == [view.name for view in views]
    alone, planned = points.get_lines()[-2:]
    assert list(alone.get_data()[1]) == [view.unfused.energy_pj for view in views]
    assert list(planned.get_data()[0]) == [view.planned.cycles for view in views]
    line, = history.get_lines()
    assert list(line.get_data()[0]) == [0.5, 1.0, 1.5] and line.get_data()[1][-1] == result.stats.edp


def test_figures_draw_whatever_names_are_and_leave_pyplot_alone() -> None:
    stats = layer().stats
    odd = replace(stats, arithmetic=stats.arithmetic | {"name": FORMULA}, levels=[
        level | {"name": f"{FORMULA}{index}", "dataspaces": {
            f"{FORMULA}{name}": space for name, space in level["dataspaces"].items()}}
        for index, level in enumerate(stats.levels)])
    before = matplotlib.pyplot.get_fignums()
    for figure in (replace(layer(), stats=odd).plot(), network(FORMULA).plot(), network(history=()).plot()):
        figure.canvas.draw()
    assert matplotlib.pyplot.get_fignums() == before
