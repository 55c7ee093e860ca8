"""One step of one layer of a fused group, as Timeloop evaluates its tile alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, FusedLink, Hardware
from fadiff_mapper.fusion.groups.tile_steps import StepClass
from fadiff_mapper.model.access_counts import tiles
from fadiff_mapper.model.exact.evaluate import Evaluation, evaluate_one
from fadiff_mapper.model.loop_nest import pack, project
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.spec.mapping import LevelMapping, Mapping
from fadiff_mapper.spec.problem import Problem


@dataclass(frozen=True)
class EvaluatedStep:
    """Timeloop's evaluation of one tile of a layer, as it stands alone."""

    layer: PreparedLayer
    found: Evaluation


def evaluate_step(hardware: Hardware, group: FusedGroup, index: int, kind: StepClass) -> EvaluatedStep:
    """The layer's tile as a problem of its own, with the intermediates at their levels."""
    problem, mapping = _tile(hardware, group, index, kind)
    return EvaluatedStep(*evaluate_one(hardware.arch, problem, hardware.tables, mapping))


def kept_words(hardware: Hardware, group: FusedGroup, index: int, kind: StepClass) -> list[dict[str, float]]:
    """For every level, innermost first, the data spaces that the layer's tile keeps there and their words."""
    problem, mapping = _tile(hardware, group, index, kind)
    nest = pack([mapping], problem)
    size = tiles(nest, project(problem)).size
    return [{name: float(words[k, 0]) for k, name in enumerate(problem.dataspace_names()) if keep[k, 0]}
            for words, keep in zip(size, nest.keep, strict=True)]


def _tile(hardware: Hardware, group: FusedGroup, index: int, kind: StepClass) -> tuple[Problem, Mapping]:
    """The layer's tile as a problem, and its mapping with the intermediates at their levels."""
    layer = group.layers[index]
    problem = replace(layer.problem, bounds=dict(zip(layer.problem.dimensions, kind.shape, strict=True)))
    return problem, fused_mapping(hardware, group, index, layer.mappings[kind.shape])


def fused_mapping(hardware: Hardware, group: FusedGroup, index: int, mapping: Mapping) -> Mapping:
    """The mapping of a tile with its intermediates kept at their levels and not outside them."""
    levels = list(mapping.levels)
    output = group.layers[index].problem.output.name
    for link, tensor, outside in _links(group, index, output):
        place = hardware.level(link.stay.level)
        levels = [_keeping(level, tensor, k, place, outside) for k, level in enumerate(levels)]
    return Mapping(tuple(levels))


def _links(group: FusedGroup, index: int, output: str) -> list[tuple[FusedLink, str, bool]]:
    """(link, data space of this layer, whether it also goes outside) for the layers before and after."""
    before = [(group.links[index - 1], group.links[index - 1].tensor, False)] if index else []
    after = [(group.links[index], output, group.links[index].written_whole)] if index < len(group.links) else []
    return before + after


def _keeping(level: LevelMapping, tensor: str, place: int, home: int, outside: bool) -> LevelMapping:
    if place == home:
        return replace(level, keep=level.keep | {tensor})
    return level if place < home or outside else replace(level, keep=level.keep - {tensor})


def kept_levels(step: EvaluatedStep, name: str) -> list[int]:
    """The levels that keep a data space, innermost first."""
    return [int(k) for k in np.flatnonzero(step.found.nest.keep[:, tensor_index(step, name), 0])]


def tensor_index(step: EvaluatedStep, name: str) -> int:
    return step.layer.problem.dataspace_names().index(name)
