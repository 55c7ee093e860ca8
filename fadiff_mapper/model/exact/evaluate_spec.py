"""The exact evaluation of a mapping of a dense design, as the numbers that `timeloop-model` prints."""

from __future__ import annotations

from fadiff_mapper.model.exact.evaluate import evaluate_one
from fadiff_mapper.model.exact.stats import Stats, stats_of
from fadiff_mapper.model.legality import rejection, violations
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import constrained_reuse
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.native.areas import area_sources, total_areas
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import energy_sources


def evaluate_mapping(spec: Spec, mapping: Mapping) -> Stats:
    """The statistics of any mapping of the spec's problem onto its architecture.

    Args:
        spec: Architecture, problem and energies; a mapping in the input is ignored.
        mapping: The mapping to evaluate, with the reuse that its directives leave on.

    Returns:
        The statistics of the mapping.

    Raises:
        InvalidMapping: Timeloop would reject the mapping.
    """
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, mapping, details=True)
    if not evaluation.legal[0]:
        raise rejection(violations(evaluation.checks, 0))
    return stats_of(layer, evaluation, 0, energy_sources(spec.arch, spec.tables), total_areas(spec.arch, spec.tables),
                    area_sources(spec.arch, spec.tables))


def layer_of(spec: Spec) -> PreparedLayer:
    """The spec's problem on its architecture, with the reuse that its constraints leave on, for many evaluations."""
    return prepare_layer(spec.arch, spec.problem, spec.tables,
                         constrained_reuse(spec.constraints, spec.problem.dataspace_names()))
