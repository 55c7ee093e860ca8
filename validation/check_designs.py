"""Checks the certificate of a designed machine by itself: `fadiff-validate certificate FILE.json SPACE NETWORK...`.

A certificate claims that no plan of some networks on any design of a space has a metric below a *bound*, while given
plans on one design have some *value*. All designs of the space are listed here. An invalid one, or one beyond a limit,
has no plan. For each other one either the certificate has *lines* of every network, which are checked as those of a
plan (`check_plan`), or its multiply-accumulates alone give the bound.

This program takes from the package, besides what `check_plan` takes, the reading of designs and their limits and
areas, the least work of layers, and the sum of bounds over networks (`LeastFigures`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import inf, isfinite, sqrt
from typing import Any

from fadiff_mapper.design.evaluate_design import DesignBench
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.question import MOST_BOUNDED, DesignOptions, DesignQuestion
from fadiff_mapper.design.result import LeastFigures, metric_exponents
from fadiff_mapper.design.space import DesignSpace, parameter_values
from fadiff_mapper.design.space_certificate import design_at, parts_on
from fadiff_mapper.fusion.prices import summed
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import is_sparse
from fadiff_mapper.network.network_bound import SLACK, Line
from fadiff_mapper.network.one_design import by_node
from fadiff_mapper.workload import Workload

from .check_certificate import SAME, Rejected, need, same
from .check_plan import PlanChecker, check_lines, least_metric, understood


def check(content: Any, space: DesignSpace, networks: Sequence[Workload], weights: Sequence[float]) -> str:
    """What a certificate, as its JSON text says, proves for its input; Rejected, with the reason, where it does not.

    `weights`: the runs of each network.
    """
    return understood(check_designs, content, space, networks, weights)


def check_designs(content: Any, space: DesignSpace, networks: Sequence[Workload], weights: Sequence[float]) -> str:
    """`check`; other errors where the certificate has another form."""
    metric, fused, names = content["metric"], content["fused"], [network.name for network in networks]
    need(content["version"] == 1 and content["space"] == space.name, "another space")
    need(content["networks"] == names and content["weights"] == list(weights), "other networks or weights")
    need(isinstance(fused, bool), f"fused: {fused!r}")
    need(all(0 < weight < inf for weight in weights), "weights other than numbers above 0")
    need(space.size <= MOST_BOUNDED, f"{space.size:,} designs; accepted: at most {MOST_BOUNDED:,}")
    question = DesignQuestion(space, tuple(networks), tuple(weights), DesignOptions((metric,), fused))
    bench, entries = DesignBench(question, None), {key_of(one["parameters"]): one for one in content["designs"]}
    need(len(entries) == len(content["designs"]), "a design twice")
    bounds, value, count, parts, proofs = list[float](), None, 0, 0, 0
    slack = SLACK ** max(sum(metric_exponents(metric)[:2]), 1)   # the last bits of each figure
    for point in all_points(space):
        key = key_of(parameter_values(space, point))
        entry = entries.pop(key, None)
        if (design := design_at(bench, point)) is None:
            need(entry is None, "a design that is none")
            continue
        specs, area = design
        need(not any(map(is_sparse, specs)), "a sparse design, which has no bound")
        if key == key_of(content["best"]["parameters"]):
            value = value_of(bench, specs, area, content["best"]["plans"])
        if entry is None:
            bounds.append(slack * bench.arithmetic(specs).of(metric, area))
            continue
        least = LeastFigures()
        for network, parts_of, lines_of, runs, weight in zip(
                networks, parts_on(bench, specs), entry["networks"], question.runs, weights, strict=True):
            layers = by_node(network, [specs[layer] for layer, _ in runs])
            lines, more_parts, more_proofs = check_lines(parts_of, lines_of, layers)
            least += least_figures(question.mapping_metric, lines).times(weight)
            parts, proofs = parts + more_parts, proofs + more_proofs
        bounds.append(slack * least.of(metric, area))
        count += 1
    need(not entries, "a design that is none")
    if value is None:
        raise Rejected("certificate: the best design is none")
    need(same(value, content["value"]), f"the plans have the value {value}")
    bound = min(bounds)
    need(bound > 0 and all(map(isfinite, [*bounds, value])), "a bound or a value that is 0 or infinite")
    need(same(bound, content["bound"]) and value >= bound * (1 - SAME), f"the bound is {bound}")
    plans = "plan" if fused else "plan without fused groups"
    return (f"{space.name}: proved: no {plans} on any of {len(bounds):,} valid designs, of {space.size:,}, has less "
            f"{metric} than {bound:.10g}, one has {value:.10g}: {max(value / bound - 1, 0):.2%} more; {count:,} "
            f"designs bounded by plans, {parts:,} parts bounded, {proofs} proofs of layers")


def key_of(parameters: Mapping[str, Any]) -> str:
    """The values of a design's parameters, with their types."""
    return json.dumps(parameters, sort_keys=True)


def least_figures(metric: str, lines: Sequence[Line]) -> LeastFigures:
    """The least energy, cycles and root of EDP of all points above some lines; 0 where they say nothing."""
    least = least_metric(metric, lines)
    if metric == "edp":
        return LeastFigures(lines[0][2] / lines[0][0], lines[-1][2] / lines[-1][1], sqrt(least))
    return LeastFigures(energy_pj=least) if metric == "energy" else LeastFigures(cycles=least)


def value_of(bench: DesignBench, specs: Sequence[Spec], area: float, plans: Sequence[Any]) -> float:
    """The metric of plans of all networks on a design, by exact evaluation; Rejected where one is none."""
    question, metric = bench.question, bench.question.options.metrics[0]
    figures = summed([
        PlanChecker(network, [specs[layer] for layer, _ in runs], question.mapping_metric).figures(
            parts.steps, plan).times(weight)
        for network, runs, parts, plan, weight in zip(question.networks, question.runs, parts_on(bench, specs), plans,
                                                      question.weights, strict=True)])
    energy, cycles, area_exponent = metric_exponents(metric)
    return float(figures.energy_pj ** energy * figures.cycles ** cycles * area ** area_exponent)
