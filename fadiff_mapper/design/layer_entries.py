"""One layer on one design, from the store or computed: its best mapping with energy and cycles, and its lower bound.

The key of a stored entry is a hash of everything that determines it: the parsed design, the problem, the constraints,
the options of the search, and the version of the package.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, fields, replace
from math import inf, sqrt
from typing import Any

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.base.version import __version__
from fadiff_mapper.design.result import LeastFigures
from fadiff_mapper.design.result_store import ResultStore, as_stored
from fadiff_mapper.inputs.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec, metric_of
from fadiff_mapper.inputs.spec.tables import compute_energy
from fadiff_mapper.inputs.yaml.located import plain, with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, found_mapping, is_sparse
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.network.network_bound import LeastLayer
from fadiff_mapper.network.one_by_one import LayerProof, best_one_by_one, layer_proof
from fadiff_mapper.search.calibrated_choice import calibrated_choice, check_calibrated
from fadiff_mapper.search.lower_bound.assemble import lower_bound
from fadiff_mapper.search.mapping_task import MappingTask, checked_task, mapping_task
from fadiff_mapper.search.options import AT_ONCE, SearchOptions
from fadiff_mapper.search.result import CHOSEN, CorrectedCycles, Result
from fadiff_mapper.search.search_many import search_all
from fadiff_mapper.workload import OperatingPoint

OUT_OF_TIME = "out of time: the best so far"  # status of a layer or plan whose search was interrupted
MOST_REASON = 500  # characters of a reason that are kept: a sentence with a few names


@dataclass(frozen=True, slots=True)
class LayerEntry:
    """The result of one layer's search on one design, as plain values; infinite figures without a mapping."""

    energy_pj: float  # pJ of one run
    cycles: float  # of one run; corrected with a calibration
    mapping: list[dict[str, Any]]  # directives, see `inputs.native.mapping.literal_mapping`
    status: str = ""  # how the search ended
    evaluations: int = 0  # mappings evaluated
    reason: str = ""  # why there is no mapping; else empty
    exact_choice_cycles: float = 0.0  # with a calibration: corrected cycles of the mapping that is best without it
    exact_choice_energy_pj: float = 0.0  # energy of that mapping


def no_mapping(reason: str) -> LayerEntry:
    return LayerEntry(inf, inf, [], reason=reason.splitlines()[0][:MOST_REASON])


def digest_of(content: Any) -> str:
    """The hash of plain values in hexadecimal digits."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()


def design_digest(spec: Spec) -> str:
    """The hash of the parts of a spec shared by all layers of a design: architecture, energies, sparse
    optimizations."""
    return digest_of([plain(spec.arch.native), [[table.component, table.actions] for table in spec.tables.ert],
                      plain(spec.literal.get("sparse_optimizations"))])


def layer_key(design: str, spec: Spec, options: SearchOptions) -> str:
    """The hash of everything that determines a layer's mapping; `design` is the `design_digest` of the spec."""
    return digest_of(["layer", __version__, design, spec.literal["problem"], spec.constraints.native,
                      options.as_dict()])


def layer_entries(specs: Sequence[Spec], options: SearchOptions, store: ResultStore,
                  stopped: Over = never, give_up: bool = True) -> list[LayerEntry]:
    """One entry per layer of a design: from the store, or searched in one batch and stored.

    `options` have no time limit, so that stored entries are final. `give_up`: whether a search that `stopped` ends is
    given up; else its best mappings so far are returned and not stored.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: The search was given up.
    """
    design = design_digest(specs[0])
    keys = [layer_key(design, spec, options) for spec in specs]
    known = {key: entry for key in keys
             if (entry := as_stored(LayerEntry, store.get(key), ("energy_pj", "cycles"))) is not None
             and isinstance(entry.mapping, list) and isinstance(entry.reason, str)}
    missing = {key: spec for key, spec in zip(keys, specs, strict=True) if key not in known}
    if not missing:
        return [known[key] for key in keys]
    found: dict[str, LayerEntry] = {}
    tasks: dict[str, MappingTask] = {}
    for key, spec in missing.items():
        try:
            tasks[key] = checked_task(spec)
            if options.calibration is not None:
                check_calibrated([tasks[key]], options.calibration)
        except FadiffError as error:
            found[key] = no_mapping(str(error))

    def searched(effort: SearchOptions, until: Over) -> Iterator[tuple[str, LayerEntry]]:
        for (key, task), outcome in zip(tasks.items(), search_all(list(tasks.values()), effort, stopped=until),
                                        strict=True):
            spec, nest, corrected = missing[key], outcome.nest, CorrectedCycles(0.0, 0.0, 0.0)
            mapping = found_mapping(spec, nest)
            if not outcome.legal:
                try:
                    evaluate_mapping(spec, mapping)
                    rejection = "it meets no constraint of the design"
                except FadiffError as error:
                    rejection = str(error)
                yield key, no_mapping(f"no legal mapping was found in {outcome.evaluations} evaluations; of the one "
                                      f"that is nearest: {rejection}")
                continue
            if options.calibration is not None:
                nest, corrected = calibrated_choice(task, nest, options.calibration, effort, until)
                mapping = found_mapping(spec, nest)
                energy, cycles = float(score(task.layer, nest).energy[0]), corrected.cycles
            elif is_sparse(spec):
                stats = evaluate_mapping(spec, mapping)
                energy, cycles = stats.energy_pj, float(stats.cycles)
            else:  # the compiled scores equal the statistics
                scores = score(task.layer, nest)
                energy, cycles = float(scores.energy[0]), float(scores.cycles[0])
            yield key, LayerEntry(energy, cycles, literal_mapping(mapping, spec.arch, spec.problem), outcome.status,
                                  outcome.evaluations, exact_choice_cycles=corrected.exact_choice_cycles,
                                  exact_choice_energy_pj=corrected.exact_choice_energy_pj)

    # if the search must give an answer, a short one comes first, so that an interruption leaves no random mappings
    quick = {} if give_up else dict(searched(replace(options, effort="quick"), never))
    found |= searched(options, stopped)
    if quick and stopped():
        metric = options.priorities[0]
        found |= {key: min(found[key], entry, key=lambda each: float(metric_of(metric, each.energy_pj, each.cycles)))
                  for key, entry in quick.items()}
    cut_short = stopped()
    if cut_short and give_up:
        raise OutOfTime
    for key in missing:
        if cut_short:
            known[key] = replace(found[key], status=OUT_OF_TIME)
        else:   # `asdict` would copy mappings
            store.put(key, {each.name: getattr(found[key], each.name) for each in fields(found[key])})
            known[key] = found[key]
    return [known[key] for key in keys]


def mapping_of(entry: LayerEntry, spec: Spec) -> Mapping:
    """The mapping of an entry as a value. Raises SpecError if it was edited and does not fit the layer."""
    where = Where("store")
    return read_mapping(with_places(entry.mapping, where), where, spec.arch, spec.problem)


def mapped_layer(entry: LayerEntry, spec: Spec, options: SearchOptions) -> Result:
    """The result of a layer's search as from `search.map_layers`, without history and lower bound.

    The mapping is evaluated again, so that no number depends on the store.
    """
    mapping, calibration = mapping_of(entry, spec), options.calibration
    corrected = None if calibration is None else CorrectedCycles(
        float(calibration.cycles(spec.problem, pack([mapping], spec.problem))[0]), entry.exact_choice_cycles,
        entry.exact_choice_energy_pj)
    return Result(spec, mapping, evaluate_mapping(spec, mapping), entry.status, (), options.as_dict(),
                       entry.evaluations, 0.0, corrected=corrected)


def arithmetic_bound(spec: Spec) -> LeastFigures:
    """The bound of a layer by its multiply-accumulates only, all of them done."""
    energy = spec.problem.computes * compute_energy(spec.arch.arithmetic, spec.tables)[0]
    cycles = spec.problem.computes / spec.arch.arithmetic.instances
    return LeastFigures(energy, cycles, sqrt(energy * cycles))


def layer_bounds(specs: Sequence[Spec], store: ResultStore, stopped: Over) -> list[LeastFigures] | None:
    """The proven bounds of all layers of a design one by one, stored for proposing and mapping. None for sparse
    designs, and if some layer has no mapping or no proven bound.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: `stopped` was true before all layers were bounded.
    """
    found, design = [], design_digest(specs[0])
    for spec in specs:
        if stopped():
            raise OutOfTime
        if is_sparse(spec):
            return None
        key = digest_of(["bound", __version__, design, spec.literal["problem"], spec.constraints.native])
        known = store.get(key) or {}
        try:
            least = None if known["proven"] is None else LeastFigures(**known["proven"])
        except (TypeError, KeyError):  # not stored yet, or not such an entry
            task = mapping_task(spec)
            bound = None if task.impossible else lower_bound(task.layer, task.space)
            least = None if bound is None else LeastFigures(bound.energy, bound.delay, sqrt(bound.edp))
            store.put(key, {"proven": least and asdict(least)})
        if least is None:
            return None
        found.append(least)
    return found


def least_layer(proof: LayerProof, bound: LeastFigures) -> LeastLayer:
    """The bound of a layer in the form that bounds of networks use."""
    return proof.least(bound.energy_pj, bound.cycles, bound.root_edp ** 2)


def least_edp_entries(specs: Sequence[Spec], entries: Sequence[LayerEntry], loads: Sequence[float],
                      besides: OperatingPoint, options: SearchOptions, store: ResultStore,
                      stopped: Over) -> list[LayerEntry]:
    """The layers of a dense design with the mappings of least EDP one by one, all layers together; stored, too.

    Args:
        specs: The design with every distinct layer.
        entries: The mapped layers.
        loads: Runs of each layer.
        besides: Cost of the networks besides their layers.
        options: The options of the search of layers.
        store: The store of results.
        stopped: Whether time is over.

    Raises:
        FadiffError: The store cannot be written.
        OutOfTime: `stopped` was true before the end.
    """
    design = design_digest(specs[0])
    key = digest_of(["one by one", *loads, *astuple(besides), [layer_key(design, spec, options) for spec in specs]])
    known = store.get(key)
    if known is None:
        bounds = layer_bounds(specs, store, stopped)
        if bounds is None:
            return list(entries)
        proofs = [layer_proof(spec, mapping_of(entry, spec), AT_ONCE, stopped)
                  for spec, entry in zip(specs, entries, strict=True)]
        nests = best_one_by_one(proofs, list(map(least_layer, proofs, bounds)), loads, besides, stopped)
        known = {str(index): {**asdict(proof.point(nest)),
                              "mapping": literal_mapping(found_mapping(spec, nest), spec.arch, spec.problem),
                              "status": CHOSEN}
                 for index, (spec, proof, nest) in enumerate(zip(specs, proofs, nests, strict=True))
                 if nest is not proof.nest}
        if stopped():
            raise OutOfTime
        store.put(key, known)
    return [replace(entry, **known.get(str(index), {})) for index, entry in enumerate(entries)]
