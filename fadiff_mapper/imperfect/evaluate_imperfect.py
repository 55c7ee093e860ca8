"""The exact evaluation of one mapping with residuals, as the numbers that `timeloop-model` prints."""

from __future__ import annotations

from dataclasses import replace

from fadiff_mapper.imperfect.evaluate_residuals import evaluate_residuals
from fadiff_mapper.imperfect.own_faults import own_faults
from fadiff_mapper.imperfect.residual_nest import pack_residuals
from fadiff_mapper.model.exact.stats import Stats, stats_of
from fadiff_mapper.model.legality import rejection, violations
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.native.areas import area_sources, total_areas
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import energy_sources


def evaluate_imperfect(spec: Spec, mapping: Mapping) -> Stats:
    """The statistics of a mapping with residuals.

    Args:
        spec: Architecture, problem and energies; a mapping in the input is ignored.
        mapping: The mapping to evaluate, with the reuse that its directives leave on.

    Returns:
        Timeloop's numbers, with a warning for each of its faults that they repeat.

    Raises:
        InvalidMapping: Timeloop would reject the mapping, or its walk is too long.
    """
    arch, problem = spec.arch, spec.problem
    layer = prepare_layer(arch, problem, spec.tables, reuse_of(mapping, problem.dataspace_names()))
    evaluation = evaluate_residuals(layer, pack_residuals([mapping], problem), details=True)
    if not evaluation.legal[0]:
        raise rejection(violations(evaluation.checks, 0))
    stats = stats_of(layer, evaluation, 0, energy_sources(arch, spec.tables), total_areas(arch, spec.tables),
                     area_sources(arch, spec.tables))
    return replace(stats, warnings=(*stats.warnings, *own_faults(spec, mapping, stats)))
