"""The result of a layer and the plan of a network as HTML for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from fadiff_mapper.analysis.lower_bound import sentence
from fadiff_mapper.base.html_table import html_table, paragraph
from fadiff_mapper.output.network_report.page import network_html

if TYPE_CHECKING:
    from fadiff_mapper.network.result import NetworkResult
    from fadiff_mapper.search.result import Result

PAGE_HEIGHT = 720
"""Pixels of the frame that shows a plan's page: two thirds of a usual screen, the rest of the page by scrolling."""


def layer_html(result: Result) -> str:
    """A mapped layer: how the search ended, statistics, the lower bound, and the loop nest.

    Args:
        result: The layer; its problem's, levels' and data spaces' names may be any text.

    Returns:
        HTML without styles or scripts. The bound is that of the search's metric beside that metric's value.
    """
    spec, metric = result.spec, result.metric
    bound = None if result.bound is None else result.bound.of(metric)
    return "".join((
        paragraph(f"{spec.problem.name} on {spec.arch.name}: {result.status} ({result.evaluations:,} evaluations, "
                  f"{result.time_s:.2f} s)"),
        html_table("metric", ("metric", "value", "lower bound"), [(metric, result.value, bound)]),
        paragraph(sentence(result.bound, metric, result.value)),
        result.stats._repr_html_(),
        result.mapping.loop_nest_html(spec.arch.level_names())))


def plan_html(result: NetworkResult) -> str:
    """A mapped network: totals, fused groups, and the page of the run folder in a frame.

    The page has a style sheet of its own, which must not reach the notebook around it; inside a frame's `srcdoc` it
    keeps to itself. Tables come before it, because viewers that show notebooks without trust leave frames out.

    Args:
        result: The plan.

    Returns:
        HTML without scripts; the frame may run none either (`sandbox`).
    """
    totals = [(name, total.energy_pj, total.cycles, total.edp)
              for name, total in (("plan", result.stats), ("layers one by one", result.unfused_stats),
                                  ("of the plan, joined operands", result.planned_joined),
                                  ("of the layers, joined operands", result.joined)) if total.energy_pj or total.cycles]
    groups = [(number, " + ".join(group.nodes),
               ", ".join(f"{loop.dim} in tiles of {loop.tile}" for loop in group.group.loops) or "none",
               group.cost.energy_pj, group.cost.cycles, group.cost.edp, group.unfused.edp)
              for number, group in enumerate(result.groups, 1)]
    return "".join((
        paragraph(f"{result.workload.name} on {result.design}: {len(result.workload.layers)} layers, "
                  f"{len(groups)} fused groups, {result.gain:.2%} of the EDP saved; {result.status} "
                  f"({result.time_s:.2f} s)"),
        html_table("network", ("", "energy (pJ)", "cycles", "EDP (pJ * cycles)"), totals),
        html_table("fused groups", ("group", "layers", "shared loops", "energy (pJ)", "cycles", "EDP (pJ * cycles)",
                                    "EDP one by one"), groups) if groups else "",
        f'<iframe title="{escape(result.workload.name)}" sandbox="" style="width: 100%; border: 0" '
        f'height="{PAGE_HEIGHT}" srcdoc="{escape(network_html(result))}"></iframe>'))
