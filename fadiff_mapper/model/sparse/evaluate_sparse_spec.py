"""The evaluation of a mapping in the input, dense or sparse, as the numbers that `timeloop-model` prints."""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.native.tables import area_sources, total_areas
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import energy_sources
from fadiff_mapper.model.exact.evaluate import evaluate_one
from fadiff_mapper.model.exact.evaluate_spec import evaluate_mapping as evaluate_dense
from fadiff_mapper.model.exact.evaluate_spec import evaluate_side_by_side
from fadiff_mapper.model.exact.stats import Stats
from fadiff_mapper.model.loop_nest import Nest, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.model.reuse import with_reuse


def is_sparse(spec: Spec) -> bool:
    """Whether the input says anything about zeros: densities, or sparse optimizations."""
    return spec.sparse is not None or bool(spec.problem.densities)


def evaluate(spec: Spec) -> Stats:
    """Every count, the cycles and the energy of the mapping in the input, as `timeloop-model` computes them.

    Args:
        spec: Architecture, problem, mapping and energies, as from `fadiff_mapper.load`.

    Returns:
        The statistics of the mapping; a `SparseStats` where the input speaks of densities or sparse optimizations.

    Raises:
        InvalidMapping: Timeloop would reject the mapping; the error has the level and the reason.
        FadiffError: The input has no mapping, or Timeloop aborts on it.
    """
    if spec.mapping is None:
        raise FadiffError("the input has no mapping section to evaluate; accepted: mapping: with a list of directives")
    return evaluate_mapping(spec, spec.mapping)


def evaluate_mapping(spec: Spec, mapping: Mapping) -> Stats:
    """The statistics of any mapping of the spec's problem onto its architecture.

    Args:
        spec: Architecture, problem and energies; a mapping in the input is ignored.
        mapping: The mapping to evaluate, with the reuse that its directives leave on.

    Raises:
        InvalidMapping: Timeloop would reject the mapping.
        FadiffError: Timeloop aborts on it.
    """
    if not is_sparse(spec):
        return evaluate_dense(spec, mapping)
    if mapping.imperfect:
        raise FadiffError("residual factors on a sparse design are not supported; accepted: factors that divide the "
                          "dimensions, or an input without densities and sparse optimizations")
    from fadiff_mapper.model.sparse.design import prepare_sparse
    from fadiff_mapper.model.sparse.evaluate_sparse import evaluate_sparse
    from fadiff_mapper.model.sparse.sparse_stats import sparse_stats
    layer, dense = evaluate_one(spec.arch, spec.problem, spec.tables, mapping, details=True)
    design = prepare_sparse(layer, spec.sparse, spec.tables)
    found = evaluate_sparse(design, dense, 0, mapping)
    return sparse_stats(design, dense, 0, found, sections=spec.sparse is not None,
                        energy_source=energy_sources(spec.arch, spec.tables),
                        areas_um2=total_areas(spec.arch, spec.tables), area_source=area_sources(spec.arch, spec.tables))


def evaluate_nests(specs: Sequence[Spec], layers: Sequence[PreparedLayer], nests: Sequence[Nest]) -> list[Stats]:
    """The statistics of one mapping of each of many problems, those of dense designs side by side.

    Args:
        specs: The problems, each on its design.
        layers: The same, prepared by `layers_of`; not used where the input says anything about zeros.
        nests: For each of them a legal mapping within its constraints, a nest of one row.

    Returns:
        Statistics in the order of the problems, equal to those of `evaluate_mapping`.
    """
    dense = [index for index, spec in enumerate(specs) if not is_sparse(spec)]
    found = dict(zip(dense, evaluate_side_by_side(
        [specs[index] for index in dense], [layers[index] for index in dense], [nests[index] for index in dense]),
        strict=True))
    return [found[index] if index in found else
            evaluate_mapping(spec, with_reuse(unpack(nest, 0, spec.problem), spec.constraints))
            for index, (spec, nest) in enumerate(zip(specs, nests, strict=True))]
