"""The exact evaluation of a mapping, as the numbers that `timeloop-model` prints."""

from __future__ import annotations

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.model.exact.evaluate import evaluate_one
from fadiff_mapper.model.exact.stats import Stats, stats_of
from fadiff_mapper.model.legality import rejection, violations
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import constrained_reuse
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.spec.tables import energy_sources


def evaluate(spec: Spec) -> Stats:
    """What `timeloop-model` computes for the mapping in the input: every count, cycles and energy.

    Raises FadiffError where the input has no mapping, and InvalidMapping(level, reason) where Timeloop would
    reject it.
    """
    if spec.mapping is None:
        raise FadiffError("the input has no mapping section to evaluate; accepted: mapping: with a list of directives")
    return evaluate_mapping(spec, spec.mapping)


def evaluate_mapping(spec: Spec, mapping: Mapping) -> Stats:
    """The same for any mapping of the spec's problem onto its architecture."""
    layer, found = evaluate_one(spec.arch, spec.problem, spec.tables, mapping, details=True)
    if not found.legal[0]:
        raise rejection(violations(found.checks, 0))
    return stats_of(layer, found, 0, energy_sources(spec.arch, spec.tables))


def layer_of(spec: Spec) -> PreparedLayer:
    """The spec's problem on its architecture, with the reuse that its constraints leave on, for many evaluations."""
    return prepare_layer(spec.arch, spec.problem, spec.tables,
                         constrained_reuse(spec.constraints, spec.problem.dataspace_names()))
