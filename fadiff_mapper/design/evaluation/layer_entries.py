"""One layer on one design: its best mapping with energy and cycles, or the reason why there is none."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.base.version import __version__
from fadiff_mapper.calibration.correction import Calibration
from fadiff_mapper.design.evaluation.design_result import metric_exponents
from fadiff_mapper.design.evaluation.result_store import ResultStore
from fadiff_mapper.inputs.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.located import plain, with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, is_sparse
from fadiff_mapper.model.loop_nest import pack, unpack
from fadiff_mapper.model.reuse import with_reuse
from fadiff_mapper.search.calibrated_choice import calibrated_choice, check_calibrated
from fadiff_mapper.search.map_layers import checked_task
from fadiff_mapper.search.mapping_task import MappingTask
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.result import CorrectedCycles, Result
from fadiff_mapper.search.search_family import SearchOutcome
from fadiff_mapper.search.search_many import search_all

OUT_OF_TIME = "out of time: the best so far"
"""The status of a layer or a plan whose search was cut short."""

MOST_REASON = 500
"""Characters of a reason that are kept, enough for a sentence with a few names in it."""


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """The end of the search of one layer on one design, as plain values.

    Attributes:
        energy_pj: pJ of one run; infinite without a mapping.
        cycles: Cycles of one run; infinite without a mapping.
        mapping: Its directives, as `spec.native.mapping.literal_mapping` makes them; empty without a mapping.
        status: How the search ended, in words.
        evaluations: Mappings evaluated.
        reason: Why there is no mapping, in words; empty where there is one.
        exact_choice_cycles: With a calibration, by which `cycles` are corrected then, the corrected cycles of the
            mapping that the exact model prefers; else 0.
        exact_choice_energy_pj: The energy of that mapping; else 0.
    """

    energy_pj: float
    cycles: float
    mapping: list[dict[str, Any]]
    status: str = ""
    evaluations: int = 0
    reason: str = ""
    exact_choice_cycles: float = 0.0
    exact_choice_energy_pj: float = 0.0


def no_mapping(reason: str) -> LayerEntry:
    """The entry of a layer without a mapping."""
    return LayerEntry(math.inf, math.inf, [], reason=reason.splitlines()[0][:MOST_REASON])


def design_digest(spec: Spec) -> str:
    """Hashes what all layers of a design have in common: architecture, energies and sparse optimizations.

    Args:
        spec: The design with any layer.
    """
    return _digest([plain(spec.arch.native), [[table.component, table.actions] for table in spec.tables.ert],
                    plain(spec.literal.get("sparse_optimizations"))])


def layer_key(design: str, spec: Spec, options: SearchOptions) -> str:
    """Hashes all that bears on the mapping of a layer: design, problem, constraints, options and version.

    Args:
        design: The `design_digest` of the spec.
        spec: The layer on the design.
        options: Options of the search.
    """
    return _digest(["layer", __version__, design, spec.literal["problem"], spec.constraints.native,
                    options.as_dict()])


def bound_key(design: str, spec: Spec) -> str:
    """Hashes all that bears on the lower bound of a layer: design, problem, constraints and version.

    Args:
        design: The `design_digest` of the spec.
        spec: The layer on the design.
    """
    return _digest(["bound", __version__, design, spec.literal["problem"], spec.constraints.native])


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def layer_entries(specs: Sequence[Spec], options: SearchOptions, store: ResultStore,
                  stopped: Callable[[], bool] = lambda: False, give_up: bool = True) -> list[LayerEntry]:
    """Maps layers of one design, those that the store has not; the others are searched in one batch and stored.

    Args:
        specs: The design with each layer.
        options: Options of the search; without a time limit, so that an entry is the answer for good.
        store: Entries of earlier runs and of others that run now.
        stopped: Asked again and again; once true, the search comes to an end.
        give_up: Whether a search that came to an end before its time is given up; else the best mappings so far are
            taken. Nothing of it is stored in either case.

    Returns:
        One entry per spec. They do not depend on which of them the store had.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: The search was given up.
    """
    design = design_digest(specs[0])
    keys = [layer_key(design, spec, options) for spec in specs]
    known = {key: entry for key in keys if (entry := _entry_of(store.get(key))) is not None}
    missing = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in known}
    found = _searched(list(missing.values()), options, stopped, give_up) if missing else []
    cut_short = bool(found) and stopped()
    if cut_short and give_up:
        raise OutOfTime
    for key, entry in zip(missing, found, strict=True):
        if cut_short:
            known[key] = replace(entry, status=OUT_OF_TIME)
        else:
            store.put(key, {each.name: getattr(entry, each.name) for each in fields(entry)})  # `asdict` copies mappings
            known[key] = entry
    return [known[key] for key in keys]


def _entry_of(content: dict[str, Any] | None) -> LayerEntry | None:
    """An entry as it was stored; None where it is none, so that the layer is searched again."""
    try:
        entry = LayerEntry(**content) if content else None
    except TypeError:
        return None
    sound = entry is not None and isinstance(entry.mapping, list) and isinstance(entry.reason, str) and all(
        isinstance(value, int | float) and value > 0 for value in (entry.energy_pj, entry.cycles))
    return entry if sound else None


def _searched(specs: Sequence[Spec], options: SearchOptions, stopped: Callable[[], bool],
              give_up: bool) -> list[LayerEntry]:
    """One entry for each layer; all that can have a mapping are searched together.

    Unless it may be given up, a short search of all layers comes first, whatever the time: one that is cut short ends
    among random mappings.
    """
    entries: dict[int, LayerEntry] = {}
    tasks: dict[int, MappingTask] = {}
    for number, spec in enumerate(specs):
        try:
            tasks[number] = checked_task(spec)
            if options.calibration is not None:
                check_calibrated([tasks[number]], options.calibration)
        except FadiffError as error:
            entries[number] = no_mapping(str(error))

    def searched(effort: SearchOptions, until: Callable[[], bool]) -> dict[int, LayerEntry]:
        outcomes = search_all(list(tasks.values()), effort, stopped=until)
        return {number: _entry(specs[number], task, outcome, options)
                for (number, task), outcome in zip(tasks.items(), outcomes, strict=True)}

    if give_up:
        return _in_order(entries | searched(options, stopped))
    quick = searched(replace(options, effort="quick"), lambda: False)
    found = searched(options, stopped)
    if stopped():
        energy, cycles, _ = metric_exponents(options.priorities[0])
        found = {number: min(entry, quick[number], key=lambda each: each.energy_pj ** energy * each.cycles ** cycles)
                 for number, entry in found.items()}
    return _in_order(entries | found)


def _in_order(entries: dict[int, LayerEntry]) -> list[LayerEntry]:
    """The entries of all layers by their number."""
    return [entries[number] for number in sorted(entries)]


def _entry(spec: Spec, task: MappingTask, outcome: SearchOutcome, options: SearchOptions) -> LayerEntry:
    """The entry of a layer whose search has ended."""
    mapping = with_reuse(unpack(outcome.nest, 0, spec.problem), spec.constraints)
    if not outcome.legal:
        return no_mapping(f"no legal mapping was found in {outcome.evaluations} evaluations; of the one that is "
                          f"nearest: {_rejection(spec, mapping)}")
    if options.calibration is not None:
        return _calibrated_entry(spec, task, outcome, options, options.calibration)
    if is_sparse(spec):
        stats = evaluate_mapping(spec, mapping)
        energy, cycles = stats.energy_pj, float(stats.cycles)
    else:  # the compiled scores are those of the statistics, without their details
        scores = score(task.layer, outcome.nest)
        energy, cycles = float(scores.energy[0]), float(scores.cycles[0])
    return LayerEntry(energy, cycles, literal_mapping(mapping, spec.arch, spec.problem), outcome.status,
                      outcome.evaluations)


def _calibrated_entry(spec: Spec, task: MappingTask, outcome: SearchOutcome, options: SearchOptions,
                      calibration: Calibration) -> LayerEntry:
    """The entry of a layer whose mapping is chosen by corrected cycles."""
    nest, corrected = calibrated_choice(task, outcome.nest, calibration, options.priorities[0], options.seed)
    mapping = with_reuse(unpack(nest, 0, spec.problem), spec.constraints)
    return LayerEntry(float(score(task.layer, nest).energy[0]), corrected.cycles,
                      literal_mapping(mapping, spec.arch, spec.problem), outcome.status, outcome.evaluations,
                      exact_choice_cycles=corrected.exact_choice_cycles,
                      exact_choice_energy_pj=corrected.exact_choice_energy_pj)


def _rejection(spec: Spec, mapping: Mapping) -> str:
    """Timeloop's reason to reject a mapping."""
    try:
        evaluate_mapping(spec, mapping)
    except FadiffError as error:
        return str(error)
    return "it meets no constraint of the design"


def mapping_of(entry: LayerEntry, spec: Spec) -> Mapping:
    """The mapping of an entry as a value.

    Args:
        entry: The entry, with a mapping.
        spec: The layer on the design.

    Raises:
        SpecError: The entry was changed, and its mapping is none of this layer.
    """
    where = Where("store")
    return read_mapping(with_places(entry.mapping, where), where, spec.arch, spec.problem)


def mapped_layer(entry: LayerEntry, spec: Spec, options: SearchOptions) -> Result:
    """The result of a layer's search as `search.map_layers` returns it, without history and lower bound.

    All numbers of the mapping are evaluated again, so that none of them hangs on the store.

    Args:
        entry: The entry, with a mapping.
        spec: The layer on the design.
        options: Options of the search.
    """
    mapping, calibration = mapping_of(entry, spec), options.calibration
    corrected = None if calibration is None else CorrectedCycles(
        float(calibration.cycles(spec.problem, pack([mapping], spec.problem))[0]), entry.exact_choice_cycles,
        entry.exact_choice_energy_pj)
    return Result(spec, mapping, evaluate_mapping(spec, mapping), entry.status, (), options.as_dict(),
                       entry.evaluations, 0.0, corrected=corrected)
