"""The evaluation of a mapping in the input, dense or sparse, as the numbers that `timeloop-model` prints."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.native.tables import areas
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.spec.tables import energy_sources
from fadiff_mapper.model.evaluate import evaluate_nest, evaluate_one
from fadiff_mapper.model.legality import rejection, violations
from fadiff_mapper.model.loop_nest import Nest, joined, unpack
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer
from fadiff_mapper.model.reuse import NOTHING_OFF, reuse_of, with_reuse
from fadiff_mapper.model.stats import Stats, stats_of


def found_mapping(spec: Spec, nest: Nest) -> Mapping:
    """A nest of one row as a mapping of the input, with the reuse that its constraints leave on."""
    return with_reuse(unpack(nest, 0, spec.problem), spec.constraints)


def layer_of(spec: Spec) -> PreparedLayer:
    """The problem of a spec on its architecture, prepared for evaluations, with the reuse that constraints allow."""
    left_on = with_reuse(Mapping((NOTHING_OFF,) * len(spec.arch.levels)), spec.constraints)
    return prepare_layer(spec.arch, spec.problem, spec.tables, reuse_of(left_on, spec.problem.dataspace_names()))


KnownLayers = dict[Hashable, tuple[Spec, PreparedLayer]]
"""The last layer of every shape of problem that was prepared, with its spec."""


def layers_of(specs: Sequence[Spec]) -> list[PreparedLayer]:
    """The layers of `layer_of`; problems on one design that differ only in their bounds share constants.

    Problems of one design are best listed side by side.
    """
    known = KnownLayers()
    return [shared_layer(spec, known) for spec in specs]


def shared_layer(spec: Spec, known: KnownLayers) -> PreparedLayer:
    """The layer of `layer_of`, with the constants of a known layer that differs only in its bounds.

    `known`: the layers prepared before; the new layer replaces a layer of its shape that cannot share constants with
    it.
    """
    def switched_off(spec: Spec) -> list[tuple[frozenset[str], ...]]:
        return [(level.temporal.no_reuse, level.spatial.no_reuse, level.spatial.no_link_transfer,
                 level.temporal.rmw_first_update, level.no_coalesce) for level in spec.constraints.levels]

    shape = spec.problem.dimensions, spec.problem.dataspaces
    if shape in known:
        other, layer = known[shape]
        # `native` holds attributes without effect on counts, such as areas
        same_design = spec.arch is other.arch or (spec.arch == other.arch and spec.arch.native == other.arch.native)
        if same_design and spec.tables == other.tables and switched_off(spec) == switched_off(other):
            return layer.resized(spec.problem)
    layer = layer_of(spec)
    known[shape] = spec, layer
    return layer


def is_sparse(spec: Spec) -> bool:
    """Whether the input has densities or sparse optimizations."""
    return spec.sparse is not None or bool(spec.problem.densities)


def evaluate(spec: Spec) -> Stats:
    """Every count, the cycles and the energy of the mapping in the input, as `timeloop-model` computes them.

    Args:
        spec: Architecture, problem, mapping and energies, as from `fadiff_mapper.load`.

    Returns:
        The statistics of the mapping; with split counts if the input has densities or sparse optimizations.

    Raises:
        InvalidMapping: Timeloop would reject the mapping; the error has the level and the reason.
        FadiffError: The input has no mapping, or Timeloop aborts on it.
    """
    if spec.mapping is None:
        raise FadiffError("the input has no mapping section to evaluate; accepted: mapping: with a list of directives")
    return evaluate_mapping(spec, spec.mapping)


def evaluate_mapping(spec: Spec, mapping: Mapping) -> Stats:
    """The statistics of a mapping of the spec's problem onto its architecture; a mapping in the input is ignored.

    Raises InvalidMapping if Timeloop would reject the mapping, or the walk through its residual factors is too long,
    FadiffError if Timeloop aborts on it.
    """
    sparse = is_sparse(spec)
    if sparse and mapping.imperfect:
        raise FadiffError("residual factors on a sparse design are not supported; accepted: factors that divide the "
                          "dimensions, or an input without densities and sparse optimizations")
    layer, evaluation = evaluate_one(spec.arch, spec.problem, spec.tables, mapping, details=True, residuals=True)
    if sparse:
        from fadiff_mapper.model.sparse_accesses import evaluate_sparse
        from fadiff_mapper.model.sparse_design import prepare_sparse
        evaluation = evaluate_sparse(prepare_sparse(layer, spec.sparse, spec.tables), evaluation, mapping)
    if not evaluation.legal[0]:
        raise rejection(violations(evaluation.checks, 0))
    return stats_of(layer, evaluation, 0, energy_sources(spec.arch, spec.tables), areas(spec.arch, spec.tables),
                    sections=spec.sparse is not None)


def evaluate_nests(specs: Sequence[Spec], layers: Sequence[PreparedLayer], nests: Sequence[Nest]) -> list[Stats]:
    """The statistics of one mapping of each of many problems; dense layers that share their constants make one batch.

    `nests`: for each problem a mapping within its constraints, a nest of one row; `layers`: from `layers_of`, not used
    for inputs with densities or sparse optimizations. Statistics are in the order of the problems, equal to the results
    of `evaluate_mapping`. Raises InvalidMapping if Timeloop would reject a mapping.
    """
    found: dict[int, Stats] = {}
    batches: dict[Hashable, list[int]] = {}
    for index, (spec, layer, nest) in enumerate(zip(specs, layers, nests, strict=True)):
        if is_sparse(spec):
            found[index] = evaluate_mapping(spec, found_mapping(spec, nest))
        else:
            batches.setdefault((id(layer.compiled), nest.residual), []).append(index)
    for batch in batches.values():
        evaluation = evaluate_nest(layers[batch[0]], joined([nests[index] for index in batch]), details=True)
        origins: dict[int, Any] = {}  # by tables, which have equal numbers but perhaps other origins
        for row, index in enumerate(batch):
            if not evaluation.legal[row]:
                raise rejection(violations(evaluation.checks, row))
            arch, tables = specs[index].arch, specs[index].tables
            if id(tables) not in origins:
                origins[id(tables)] = energy_sources(arch, tables), areas(arch, tables)
            found[index] = stats_of(layers[index], evaluation, row, *origins[id(tables)])
    return [found[index] for index in range(len(specs))]
