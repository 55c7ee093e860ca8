"""The certificate of a designed machine: why no plan on any design of a space has a lower metric than a bound.

A certificate holds the plans on the best design, and for other designs the proof of lines in the plane of energy and
cycles below which no plan of a network lies (`network.plan_certificate`). A design is proved no further than the bound
of the search needs: most by their multiply-accumulates alone, which need no entry, or by the first bounds of plans.

`validation/check_designs.py` checks a certificate; docs/theory/planning.md, "Certificates", has its form.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import inf, sqrt
from typing import Any

from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.design.evaluate_design import PROOF_WORK, DesignBench
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.result import DesignResult, LeastFigures, metric_exponents
from fadiff_mapper.design.space import Point, broken_limit, design_area_mm2, parameter_values
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.network_bound import SLACK, Line, NetworkLeast, PriceProof, least_metric
from fadiff_mapper.network.one_by_one import LayerProof, layer_proof
from fadiff_mapper.network.one_design import by_node
from fadiff_mapper.network.plan_certificate import parts_of_plans, plain_plan, provable, proved_lines
from fadiff_mapper.search.map_layers import map_layers


def design_at(bench: DesignBench, point: Point) -> tuple[Sequence[Spec], float] | None:
    """Every layer on a design, and its area in mm2; None for an invalid design, or one beyond a limit."""
    space = bench.question.space
    if broken_limit(space, point):
        return None
    try:
        specs = bench.reader.specs(point)
    except SpecError:
        return None
    area = design_area_mm2(specs[0])
    return None if broken_limit(space, point, specs[0], area) else (specs, area)


def parts_on(bench: DesignBench, specs: Sequence[Spec], proofs: Sequence[PriceProof | None] = ()) -> list[NetworkLeast]:
    """The parts of all plans of each network on a design, with their first bounds; arguments as for `parts_of_plans`,
    with every layer of the question. Raises FadiffError where a layer has no lower bound."""
    units = bool(specs[0].arch.units)
    return [parts_of_plans(network, [specs[layer] for layer, _ in runs], found,
                           [proofs[layer] for layer, _ in runs] if proofs else ())
            for network, runs, found in zip(bench.question.networks, bench.question.runs, bench.segments(units),
                                            strict=True)]


def space_certificate(result: DesignResult) -> dict[str, Any]:
    """The certificate of the best design, as plain data; all designs are bounded anew, without searches of tiles.

    Raises FadiffError where no lower bound on the whole space is known.
    """
    if result.bound is None or not result.mapped_networks:  # without plans if time was over
        raise FadiffError(f"certificate: {result.proven}; accepted: a search with a gap that ended in time")
    bench, metric, designs, bounds = DesignBench(result.question, None), result.metrics[0], [], list[float]()
    slack = _slack(metric)
    for point in all_points(result.question.space):
        if (design := design_at(bench, point)) is None:
            continue
        specs, area = design
        bound = slack * bench.arithmetic(specs).of(metric, area)
        if bound < result.bound:
            try:
                networks, bound = _certified(bench, specs, area, result.bound)
            except FadiffError:     # a layer has no bound
                pass
            else:
                designs.append({"parameters": parameter_values(bench.question.space, point), "networks": networks})
        bounds.append(bound)
    best = design_at(bench, result.best.point)
    assert best
    if not min(bounds):
        raise FadiffError(f"certificate: found a design whose {metric} may be 0; accepted: bounds above 0")
    return {"version": 1, "space": result.name, "metric": metric, "fused": result.question.fuse,
            "networks": [network.name for network in result.question.networks],
            "weights": list(result.question.weights), "value": result.best.of(metric), "bound": min(bounds),
            "best": {"parameters": result.best.parameters, "plans": [
                plain_plan(plan, parts) for plan, parts in zip(
                    result.mapped_networks, parts_on(bench, best[0]), strict=True)]},
            "designs": designs}


def _slack(metric: str) -> float:
    """A factor on bounds for the last bits of each energy and number of cycles in a metric."""
    return float(SLACK ** max(sum(metric_exponents(metric)[:2]), 1))


def _certified(bench: DesignBench, specs: Sequence[Spec], area: float, target: float) -> tuple[list[Any], float]:
    """The proof of lines of each network on a design, and the bound that follows on the metric of the search: at least
    a target, if that is reached. Raises FadiffError where a layer has no lower bound."""
    question, metric = bench.question, bench.question.options.metrics[0]
    energy, cycles, _ = metric_exponents(metric)

    def bound(every: Sequence[Sequence[Line]]) -> float:
        """The bound on the metric of the search from the lines of every network."""
        total = LeastFigures()
        for lines, weight in zip(every, question.weights, strict=True):
            total += least_figures(question.mapping_metric, lines).times(weight)
        return _slack(metric) * total.of(metric, area)

    networks, proofs, share = parts_on(bench, specs), list[LayerProof](), 1.0
    every, bounded = [network.lines(question.mapping_metric, 0) for network in networks], networks
    if (first := bound(every)) < target and energy + cycles:
        with suppress(FadiffError):     # a layer has no mapping
            proofs = [layer_proof(found.spec, found.mapping, PROOF_WORK)
                      for found in map_layers(specs, question.layer_options, bounds=False)]
        bounded = parts_on(bench, specs, list(map(provable, proofs)))
        if question.mapping_metric == "edp" and energy != cycles:
            for plans in bounded:
                plans.raise_price(float(energy > cycles), float(energy < cycles), PROOF_WORK, patience=inf)
        # the bounds of several networks, or of a product of powers, need not rise alike
        rise = target / first if first and len(networks) == 1 and 0 in (energy, cycles, energy - cycles) else inf
        every = [plans.lines(question.mapping_metric, PROOF_WORK, enough=least_metric(lines) * rise, patience=inf)
                 for plans, lines in zip(bounded, every, strict=True)]
        share = min((target / bound(every)) ** (1 / (energy + cycles)), 1.0)
    proved = []
    for network, runs, plans, parts, lines in zip(question.networks, question.runs, bounded,
                                                  parts_on(bench, specs) if proofs else networks, every, strict=True):
        by_name = by_node(network, [proofs[layer] for layer, _ in runs]) if proofs else {}
        proved.append(proved_lines(plans, parts, lines, by_name, share))
    return [content for content, _ in proved], bound([lines for _, lines in proved])


def least_figures(metric: str, lines: Sequence[Line]) -> LeastFigures:
    """The bounds on energy, cycles and the root of EDP of all plans above some lines."""
    if metric == "edp":
        (energy, _, price), (_, cycles, other) = lines[0], lines[-1]
        return LeastFigures(price / energy, other / cycles, sqrt(least_metric(lines)))
    (energy, cycles, price), = lines
    return LeastFigures(price if energy else 0.0, price if cycles else 0.0, 0.0)
