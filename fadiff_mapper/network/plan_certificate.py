"""The certificate of a plan: why no plan has a lower metric than a bound, for a checker that searches nothing.

A certificate holds the plan, and lines in the plane of energy and cycles below which no plan lies (`network_bound`).
Each line follows from the least prices of all parts of plans: of layers by themselves, by certificates of their best
mappings (`search.lower_bound.proof`); of groups, by a division into parts with a bound each. No part is proved further
than the line demands: if every step costs at least the difference of the least prices of all paths to its two states,
no path through the network is cheaper.

`validation/check_plan.py` checks a certificate; docs/theory/planning.md, "Certificates", has its form and the proof.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.fusion import Stay, hardware_of
from fadiff_mapper.fusion.segments import Segment, segments
from fadiff_mapper.inputs.native.mapping import literal_mapping
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.inputs.spec.spec import Spec, metric_of
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.kernel._kernel import GroupBound, GroupPart
from fadiff_mapper.network.network_bound import (
    MOST_WORK,
    PATIENCE,
    SLACK,
    LeastGroup,
    LeastLayer,
    Line,
    NetworkLeast,
    PathStep,
    PriceProof,
    least_metric,
    network_least,
    sums_of,
    title_of,
)
from fadiff_mapper.network.one_by_one import LayerProof, layer_proof
from fadiff_mapper.network.one_design import by_node
from fadiff_mapper.network.options import LONGEST
from fadiff_mapper.network.result import GroupInNetwork, NetworkResult
from fadiff_mapper.search.lower_bound.proof import TOLERANCE, certificate
from fadiff_mapper.search.map_layers import least_of
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.workload import Workload

Prices = tuple[float, float]
"""Prices per pJ and per cycle."""

Demands = dict[Prices, float]
"""The least price that a part of plans must have, by the prices per pJ and per cycle of each line."""

ENOUGH = 1 - 1e-11
"""Share of a demanded price that counts as reached: sums differ in their last bits."""

AGAIN, ALMOST = 10, 1 - 1e-5
"""Times the work of a bound without a gap to reach, as groups are not divided beforehand; the share of the bound of the
result that is enough, as the bound's last thousandth of a percent may take as long as all before."""


def segments_of_plans(workload: Workload, specs: Sequence[Spec], fused: bool) -> list[Segment]:
    """The segments that may be groups of plans on a design; none where plans have no groups. `specs`: its layers."""
    return segments(workload, LONGEST, units=bool(specs[0].arch.units)) if fused else []


def parts_of_plans(workload: Workload, specs: Sequence[Spec], found: Sequence[Segment],
                   proofs: Sequence[PriceProof | None] = ()) -> NetworkLeast:
    """The parts of all plans with their first bounds: no layer is proved, and no group divided.

    Args:
        workload: The network.
        specs: Every distinct layer on the design, in the order of `workload.distinct()`.
        found: The segments that may be groups (`segments_of_plans`).
        proofs: For each of these layers the proof of its least price; empty: none.

    Raises:
        FadiffError: A layer has no lower bound.
    """
    hardware, bounds = hardware_of(specs), []
    for spec, proof in zip(specs, proofs or [None] * len(specs), strict=True):
        bound = least_of(mapping_task(spec))
        if bound is None:
            raise FadiffError(f"{spec.problem.name}: found a layer without a lower bound; accepted: layers with one")
        bounds.append(LeastLayer(bound.energy, bound.delay, bound.edp, proof))
    return network_least(workload, hardware, specs, bounds, found)


def plan_certificate(result: NetworkResult) -> dict[str, Any]:
    """The certificate of a plan, as plain data; all plans are bounded anew, without searches of tiles.

    Raises FadiffError where no lower bound on all plans is known.
    """
    if result.bound is None:
        raise FadiffError(f"certificate: {result.proven}; accepted: a plan with a gap")
    workload, fused, metric = result.workload, bool(result.options["fuse"]), str(result.options["metric"])
    specs = [layer.spec for layer in result.layers]
    proofs = [layer_proof(layer.spec, layer.mapping, MOST_WORK) for layer in result.layers]
    found = segments_of_plans(workload, specs, fused)
    bounded = parts_of_plans(workload, specs, found, [provable(proof) for proof in proofs])
    lines = bounded.lines(metric, AGAIN * MOST_WORK, enough=ALMOST * result.bound, patience=AGAIN * PATIENCE)
    content, proved = proved_lines(bounded, parts_of_plans(workload, specs, found), lines, by_node(workload, proofs))
    return {"version": 1, "network": workload.name, "metric": metric, "fused": fused,
            "value": float(metric_of(metric, result.stats.energy_pj, result.stats.cycles)),
            "bound": SLACK * least_metric(proved), "plan": plain_plan(result, bounded), **content}


def proved_lines(bounded: NetworkLeast, network: NetworkLeast, lines: Sequence[Line], proofs: dict[str, LayerProof],
                 share: float = 1.0) -> tuple[dict[str, Any], list[Line]]:
    """The proof of lines below which no plan lies, as plain data, and the proved lines, which have the same prices.

    Args:
        bounded: The parts of all plans with the bounds from which the lines follow.
        network: The same with their first bounds (`parts_of_plans`); takes up what is proved for the certificate alone.
        lines: The lines.
        proofs: The proof of the least price of every layer by itself, by name.
        share: Share of the lines' least prices that suffices.
    """
    demands = _demands(bounded, [(energy, cycles) for energy, cycles, _ in lines], share)
    layers = _proved_layers(bounded, network, demands, proofs)
    groups = [{"group": step.title, "parts": parts} for number, step in enumerate(network.steps)
              if number in demands and isinstance(step.least, LeastGroup)
              and (parts := _divided(step, bounded.steps[number].least, demands[number]))]
    proved: list[Line] = [(energy, cycles, network.price(energy, cycles)) for energy, cycles, _ in lines]
    return {"groups": groups, "lines": [
        {"energy": energy, "cycles": cycles, "least": price, "layers": layers.get((energy, cycles), {})}
        for energy, cycles, price in proved]}, proved


def provable(proof: LayerProof) -> PriceProof | None:
    """The proof of a layer, if it supports all rules of the layer, and the checker has these rules."""
    return None if proof.task.layer.machine.element_words is not None else proof.least(0.0, 0.0, 0.0).proof


def _demands(network: NetworkLeast, every: Sequence[Prices], share: float) -> dict[int, Demands]:
    """What a share of the least price of all plans at some prices demands of every part, by the number of its first
    step."""
    first, found = dict[int, int](), dict[int, Demands]()
    for energy, cycles in every:
        reached = {0: 0.0}  # the least price of all paths to each state
        for step, price in zip(network.steps, network.prices(energy, cycles), strict=True):
            reached[step.after] = min(reached.get(step.after, inf), reached[step.before] + price)
        for number, step in enumerate(network.steps):
            own = found.setdefault(first.setdefault(id(step.least), number), {})
            price = share * (reached[step.after] - reached[step.before])
            price += energy * step.credit.energy_pj + cycles * step.credit.cycles
            own[energy, cycles] = max(own.get((energy, cycles), 0.0), price / step.runs)
    return found


def _proved_layers(bounded: NetworkLeast, network: NetworkLeast, demands: dict[int, Demands],
                   proofs: dict[str, LayerProof]) -> dict[Prices, dict[str, Any]]:
    """The certificates of layers by themselves whose first bounds do not reach the demands, by prices and name.

    Adds the proved prices to the layers of `network`, and to those of its groups that share them.
    """
    alone = {step.nodes[0]: step.least for step in bounded.steps if isinstance(step.least, LeastLayer)}
    wanted: dict[int, Demands] = {}     # by the identity of a layer in `bounded`
    for number, demand in demands.items():
        least = bounded.steps[number].least
        for (energy, cycles), price in demand.items():
            layer = least if isinstance(least, LeastLayer) else None
            if isinstance(least, LeastGroup) and least.with_words and (
                    replace(least, with_words=None).price(energy, cycles) < price):
                layer, words = alone[least.segment.nodes[0]], least.with_words[1]
                price = (price + energy * words.energy_pj + cycles * words.cycles) / least.segment.repeat
            if layer:
                own = wanted.setdefault(id(layer), {})
                own[energy, cycles] = max(own.get((energy, cycles), 0.0), price)
    found: dict[Prices, dict[str, Any]] = {}
    for before, step in zip(bounded.steps, network.steps, strict=True):
        known, name = before.least, step.nodes[0]
        if not (isinstance(known, LeastLayer) and isinstance(step.least, LeastLayer)):
            continue
        for (energy, cycles), price in wanted.pop(id(known), {}).items():
            if step.least.price(energy, cycles) >= ENOUGH * price or known.proof is None:
                continue
            sums, task = sums_of(energy, cycles), proofs[name].task
            proof = known.proved.get((energy, cycles)) or known.proof(sums)
            if not proof.least:
                continue
            gap = max(proof.value / price - 1, TOLERANCE)   # a smaller one would be lost in 1 + gap
            content = certificate(task.layer, task.space, "share", proof.nest, gap, sums)
            step.least.proved[energy, cycles] = replace(proof, least=content["limit"])
            found.setdefault((energy, cycles), {})[name] = content
    return found


def _divided(step: PathStep, known: Any, demands: Demands) -> list[Any] | None:
    """The division of a group's parts until each reaches the demands, or cannot be divided; None where the first
    bounds suffice. Adds the least prices to the group.

    A part that is not divided has its bounds at the prices of `certified_at`; a divided one has the name of the choice,
    and its parts, None where no group fits. `known`: the same group in the network that was bounded.
    """
    group = step.least
    assert isinstance(group, LeastGroup)
    missed = {at: price for at, price in demands.items() if group.price(*at) < ENOUGH * price}
    if not missed or (bound := group.make_bound()) is None:
        return None
    short: dict[Prices, float] = {}     # what the layers of a group must cost
    for (energy, cycles), price in missed.items():
        price -= energy * group.operators.energy_pj
        units = cycles * group.operators.cycles
        if units and known.price_of_layers(energy, cycles) < known.price_of_layers(energy, 0.0) + units:
            cycles, price = 0.0, price - units
        short[energy, cycles] = max(short.get((energy, cycles), 0.0), ENOUGH * price)
    every, leaves = certified_at(group, list(demands)), list[list[float]]()

    def divided(part: GroupPart) -> Any:
        """The tree of a part."""
        prices = {at: part.price(*sums_of(*at)) for at in short}
        least = min(short, key=lambda at: prices[at] / short[at] if short[at] else inf)
        found = bound.divided(part, *sums_of(*least)) if prices[least] < short[least] else []
        if not found:
            leaves.append([part.price(*sums_of(*at)) for at in every])
            return leaves[-1]
        return {"by": _choice(step, bound, part, found), "parts": [
            divided(one) if one.price(1.0, 1.0) < inf else None for one in found]}

    parts = [divided(part) if part.price(1.0, 1.0) < inf else None for part in bound.parts]
    for place, (energy, cycles) in enumerate(every):
        group.take_price(energy, cycles, min((leaf[place] for leaf in leaves), default=inf))
    return parts


def certified_at(group: LeastGroup, every: Sequence[Prices]) -> list[Prices]:
    """The prices per pJ and per cycle at which a certificate bounds the layers of a group: those of all lines and,
    where compute units work beside the layers, the same without cycles."""
    return list(dict.fromkeys([*every, *((energy, 0.0) for energy, _ in every if group.operators.cycles)]))


def _choice(step: PathStep, bound: GroupBound, part: GroupPart, parts: Sequence[GroupPart]) -> list[str]:
    """The choice by which a part is divided, in words: the order of the loops; tiles, with the dimensions whose sizes
    are halved; or, with the layer and dimension or operand, whether an intermediate or an operand stays."""
    assert isinstance(step.least, LeastGroup)
    segment, loops = step.least.segment, len(bound.orders[0][0])
    names = segment.problems[-1].dimensions
    order, least, most, again, _, stays = part.decisions(loops, len(segment.links))
    dims = bound.orders[order][0]
    new = [one.decisions(loops, len(segment.links)) for one in parts]
    if new[0][0] != order:
        return ["order"]
    for link, (before, after) in enumerate(zip(again, new[0][3], strict=True)):
        if before != after:
            return ["intermediate", step.nodes[link], names[dims[(after - before).bit_length() - 1]]]
    for layer, (undecided, decided) in enumerate(zip(stays, new[0][5], strict=True)):
        for slot, operand in enumerate(outside(step, layer)[:2]):
            if undecided[slot] != decided[slot]:
                return ["operand", step.nodes[layer], operand]
    return ["tiles", *(names[dim] for place, dim in enumerate(dims) if any(
        one[1][place] != least[place] or one[2][place] != most[place] for one in new))]


def outside(step: PathStep, layer: int) -> list[str]:
    """The operands of a layer of a group that come from outside, lasting tensors left out."""
    assert isinstance(step.least, LeastGroup)
    segment, problem = step.least.segment, step.least.segment.problems[layer]
    inside = {link.tensor for link in segment.into(layer)}
    inside |= {operand for number, operand, _ in step.residents.operands if number == layer}
    return [space.name for space in problem.dataspaces if space is not problem.output and space.name not in inside]


def plain_plan(result: NetworkResult, network: NetworkLeast) -> dict[str, Any]:
    """A plan as plain data: the groups, and by name the mapping of every layer outside of groups."""
    arch, fused = result.hardware.arch, {name for group in result.groups for name in group.nodes}
    segments = {step.nodes: step.least.segment for step in network.steps if isinstance(step.least, LeastGroup)}
    return {"groups": [_group(outcome, segments[outcome.nodes], arch) for outcome in result.groups],
            "layers": {name: mapping_text(layer.mapping, arch, layer.problem)
                       for layer in result.layers for name in layer.nodes if name not in fused}}


def mapping_text(mapping: Mapping, arch: Architecture, problem: Problem) -> str:
    """A mapping as the text of a file that `timeloop-model` reads."""
    return dump({"mapping": literal_mapping(mapping, arch, problem)})


def _group(outcome: GroupInNetwork, segment: Segment, arch: Architecture) -> dict[str, Any]:
    """A group as plain data, without those of its segment and of its lasting tensors."""
    group = outcome.group

    def plain(stay: Stay) -> dict[str, Any]:
        return {"level": stay.level, "across": sorted(stay.across), "lines": stay.lines, "shares": list(stay.shares)}
    return {
        "group": title_of(outcome.nodes, [(index, operand, there) for index, layer in enumerate(group.layers)
                                          for operand, there in layer.lasting.items()],
                          bool(group.output_at), sum(group.lasting_words.values())),
        "loops": {loop.dim: loop.tile for loop in group.loops}, "links": [plain(link.stay) for link in group.links],
        "layers": [{
            "operands": {name: plain(stay) for name, stay in layer.operands.items()}, "shared": list(layer.shared),
            "tiles": [{"shape": shape, "mapping": mapping_text(mapping, arch, layer.problem.resized(shape))}
                      for shape, mapping in layer.mappings.items()]} for layer in group.layers],
        "second_reads": [other.read in group.second_reads for other in segment.residuals],
        "double_buffered": sorted(group.double_buffered), "sums": group.sums, "skips": group.skips,
        "units": group.units}
