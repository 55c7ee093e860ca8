"""A network on one design: its layers by themselves, or its plan with fused groups."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace

from fadiff_mapper.base.errors import OutOfTime
from fadiff_mapper.base.version import __version__
from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.evaluation.design_result import NetworkFigures
from fadiff_mapper.design.evaluation.layer_entries import (
    OUT_OF_TIME,
    LayerEntry,
    design_digest,
    layer_key,
    mapped_layer,
)
from fadiff_mapper.design.evaluation.result_store import ResultStore
from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.prices import other_reads
from fadiff_mapper.network.result import NetworkResult
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload.readers.network_text import network_text


def network_figures(question: DesignQuestion, number: int, specs: Sequence[Spec], entries: Sequence[LayerEntry],
                    store: ResultStore, stopped: Callable[[], bool] = lambda: False, give_up: bool = True,
                    ) -> tuple[NetworkFigures, NetworkResult | None]:
    """The figures of one network on a design.

    Args:
        question: The question.
        number: Index of one of its networks.
        specs: The design with every distinct layer of the question.
        entries: The mapping of each of them by itself.
        store: Plans of earlier runs and of others that run now.
        stopped: Asked again and again; once true, planning comes to an end.
        give_up: Whether planning that came to an end before its time is given up; else the best plan so far is taken.
            Neither it nor any plan of layers that were cut short is stored.

    Returns:
        (the figures, the plan where one had to be made for them)

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: Planning was given up.
    """
    network, weight, runs = question.networks[number], question.weights[number], question.runs[number]
    if not question.fuse:
        joined = other_reads(network, specs[0])
        energy = joined.energy_pj + sum(entry.times * entries[entry.layer].energy_pj for entry in runs)
        cycles = round(joined.cycles) + sum(entry.times * entries[entry.layer].cycles for entry in runs)
        return NetworkFigures(network.name, weight, energy, cycles, energy, cycles), None
    plan, key = None, _plan_key(question, number, specs)
    whole = not any(entries[entry.layer].status == OUT_OF_TIME for entry in runs)
    known = _figures_of(store.get(key) or {}) if whole else None
    if known is None:
        plan = mapped_network(question, number, specs, entries, stopped)
        if plan.status == OUT_OF_TIME and give_up:
            raise OutOfTime
        known = NetworkFigures(network.name, weight, plan.stats.energy_pj, float(plan.stats.cycles),
                               plan.unfused_stats.energy_pj, float(plan.unfused_stats.cycles), len(plan.groups))
        if whole and plan.status != OUT_OF_TIME:
            store.put(key, asdict(known))
    return replace(known, name=network.name, weight=weight), plan


def planned_figures(question: DesignQuestion, plan: NetworkResult) -> tuple[float, float]:
    """Energy in pJ and cycles of a plan, as `network_figures` counts them, from the evaluation of every mapping.

    Args:
        question: The question.
        plan: The plan of one of its networks.
    """
    corrected = None if question.fuse else plan.corrected_cycles
    return plan.stats.energy_pj, float(plan.stats.cycles if corrected is None else corrected)


def _figures_of(content: dict[str, object]) -> NetworkFigures | None:
    """Figures as they were stored; None where they are none, so that the network is planned again."""
    try:
        figures = NetworkFigures(**content)  # type: ignore[arg-type]
    except TypeError:
        return None
    sound = all(isinstance(value, int | float) and value > 0 for value in (
        figures.energy_pj, figures.cycles, figures.unfused_energy_pj, figures.unfused_cycles))
    return figures if sound else None


def mapped_network(question: DesignQuestion, number: int, specs: Sequence[Spec],
                   entries: Sequence[LayerEntry], stopped: Callable[[], bool] = lambda: False) -> NetworkResult:
    """One network on a design with every mapping.

    Args:
        question: The question.
        number: Index of one of its networks.
        specs: The design with every distinct layer of the question.
        entries: The mapping of each of them by itself.
        stopped: Asked again and again; once true, planning ends with the best plan so far.

    Raises:
        SpecError: A mapping of the store is none.
        InvalidMapping: A mapping of the store cannot run on the design.
    """
    network, runs = question.networks[number], question.runs[number]
    own = tuple(specs[entry.layer] for entry in runs)
    mapped = tuple(mapped_layer(entries[entry.layer], spec, question.layer_options)
                   for entry, spec in zip(runs, own, strict=True))
    if question.fuse:
        # All of these load torch, which designs of layers need not.
        from fadiff_mapper.network.map_network import plan_network
        from fadiff_mapper.network.planning_clock import PlanningClock
        plan = plan_network(network, own, question.network_options, mapped=mapped, clock=PlanningClock(None, stopped))
        return replace(plan, status=OUT_OF_TIME) if stopped() else plan
    from fadiff_mapper.network.outcome import network_result
    status = OUT_OF_TIME if any(layer.status == OUT_OF_TIME for layer in mapped) else "search ended"
    return network_result(network, Hardware(own[0].arch, own[0].tables), mapped, {}, (), (),
                          question.network_options.as_dict(), status, 0.0)


def _plan_key(question: DesignQuestion, number: int, specs: Sequence[Spec]) -> str:
    """Hashes all that bears on the plan of a network: its graph, its layers on the design, options and version."""
    design = design_digest(specs[0])
    layers = [layer_key(design, specs[entry.layer], question.layer_options) for entry in question.runs[number]]
    content = ["plan", __version__, network_text(question.networks[number]), question.network_options.as_dict(), layers]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
