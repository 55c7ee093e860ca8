"""Causes of wrong counts: the loops behind a count, and the property of the nest that a model leaves out."""

from __future__ import annotations

from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.model.loop_nest import project

from ..accuracy import Worst
from ..tasks import ModelTask


def loops(mapping: Mapping, task: ModelTask, tensor: str) -> str:
    """The nest on one line, from the outermost loop inwards.

    Args:
        mapping: The mapping.
        task: Design and operator, for the names of levels and dimensions.
        tensor: The data space whose loops are marked with *.
    """
    relevant = {space.name: space.dimensions for space in task.spec.problem.dataspaces}[tensor]

    def written(name: str, bound: int) -> str:
        return f"{name}{bound}{'*' if name in relevant else ''}"

    parts = []
    for level, nest in zip(reversed(task.spec.arch.levels), reversed(mapping.levels), strict=True):
        temporal = [written(name, nest.temporal[name]) for name in reversed(nest.order) if nest.temporal[name] > 1]
        spatial = [written(name, bound) for axis in "YX" for name, bound in nest.axis_factors(axis).items()]
        if temporal or spatial:
            parts.append(f"{level.name}: " + " ".join([*temporal, *([f"[{' '.join(spatial)}]"] if spatial else [])]))
    return " | ".join(parts)


def cause(item: Worst) -> str:
    """A phrase for the property of the nest that the model leaves out, as far as the nest alone tells it."""
    task, mapping = item.batch.task, item.batch.questions[item.row].mapping
    tensor = task.dataspaces.index(item.tensor)
    projection, dims = project(task.spec.problem), task.spec.problem.dimensions
    shared = {dims[d] for d in projection.shared_dims(tensor)}
    moving = [(level.name, name) for level, nest in zip(task.spec.arch.levels, mapping.levels, strict=True)
              for name in nest.order if nest.temporal[name] > 1 and name in shared]
    across = sorted({name for nest in mapping.levels for name in shared if nest.spatial[name] > 1})
    if item.model.startswith("paper"):
        repeats = _refetching(item, mapping)
        if repeats:
            return f"fetched again for {' '.join(repeats)}, outside loops that move it: order is ignored"
    if len({name for _, name in moving}) > 1:
        return "a window moved by several loops: " + ", ".join(f"{name} at {level}" for level, name in moving)
    if across:
        return f"neighbouring windows overlap in space: {' '.join(across)}"
    return "the window's overlap from step to step" if moving else "sizes and fan-outs alone"


def _refetching(item: Worst, mapping: Mapping) -> list[str]:
    """Temporal loops that do not move the data space but stand outside a loop that does, beyond the tile sent."""
    task = item.batch.task
    relevant = {space.name: space.dimensions for space in task.spec.problem.dataspaces}[item.tensor]
    level = task.spec.arch.level_names().index(item.level)
    inside = [inner for inner in range(level) if item.tensor in mapping.levels[inner].keep]
    # Fills are sent from outside this level, reads from this level to the next one inwards that keeps the tensor.
    begin = level + 1 if item.action == "fills" else inside[-1] + 1 if inside else 0
    moved, repeats = False, []
    for outer in mapping.levels[begin:]:
        for name in outer.order:
            if outer.temporal[name] > 1:
                if moved and name not in relevant:
                    repeats.append(f"{name}{outer.temporal[name]}")
                moved = moved or name in relevant
    return repeats
