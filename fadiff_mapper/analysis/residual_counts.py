"""Access counts of a mapping with residuals: those of whole runs, less what the shorter last runs do not move."""

from __future__ import annotations

from dataclasses import replace

from fadiff_mapper.analysis.count_breakdown import CountCorrection, CountExplanation, decimal_of, explain_counts
from fadiff_mapper.imperfect.evaluate_residuals import evaluate_residuals
from fadiff_mapper.imperfect.residual_nest import pack_residuals
from fadiff_mapper.model.exact.evaluate import evaluate_nest
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.model.reuse import reuse_of
from fadiff_mapper.spec.mapping import Mapping, with_residual
from fadiff_mapper.spec.spec import Spec


def explain_residual_counts(spec: Spec, mapping: Mapping) -> tuple[CountExplanation, ...]:
    """Explains every access count of a mapping with residuals.

    Timeloop averages over instances, some of which the last runs leave idle, so that the shorter runs are one amount
    and no product.

    Args:
        spec: Architecture, problem and energies.
        mapping: The mapping.

    Returns:
        The explanations of the mapping with all runs of full length, each with the words that the last runs lack.
    """
    problem = spec.problem
    layer = prepare_layer(spec.arch, problem, spec.tables, reuse_of(mapping, problem.dataspace_names()))
    batch = pack_residuals([mapping], problem)
    counts = evaluate_residuals(layer, batch).counts
    levels, spaces, shorter = spec.arch.level_names(), problem.dataspace_names(), _last_runs(mapping, spec)

    def cut_off(whole: CountExplanation) -> CountExplanation:
        at = levels.index(whole.level), spaces.index(whole.dataspace), 0
        count = round(float(getattr(counts, whole.action)[at]))
        missing = decimal_of(count - whole.count)
        text = f"last runs that are shorter, on average over instances: {shorter}"
        return replace(whole, count=count, corrections=(
            *whole.corrections, *([CountCorrection(missing, text)] if missing else [])))

    return tuple(map(cut_off, explain_counts(layer, evaluate_nest(layer, batch.nest, details=True))))


def _last_runs(mapping: Mapping, spec: Spec) -> str:
    """The loops with a residual, outermost level first, such as "P=4,3 at DRAM"."""
    return " and ".join(
        f"{name}={with_residual(name, factors[name], last)} {where} {level.name}"
        for level, own in reversed(list(zip(spec.arch.levels, mapping.levels, strict=True)))
        for factors, last, where in ((own.temporal, own.temporal_last, "at"),
                                     (own.spatial, own.spatial_last, "over the fan-out of"))
        for name in last)
