"""The tile schedule of a fused group: which points each layer computes in which step, and what lies where meanwhile.

Time runs to the right; within a step the layers run one after the other. Each layer's strip shows the dimension that
the outermost of its loops cuts, the first point at the top: solid what is computed, pale what is still there from
before. Bars below are tensors that stay on the chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod

from fadiff_mapper.emit.drawing import Drawing, Label, Rect, Shape, fitting, level_line, upright_line
from fadiff_mapper.fusion.plan import FusedGroup, Stay
from fadiff_mapper.fusion.steps import LayerSteps, Span, intermediate_words, layer_steps, operand_words

WIDTH, NAMES, HEAD = 1080.0, 176.0, 26.0
STRIP, SPACE, BAR = 52.0, 10.0, 20.0
MOST_STEPS = 16


@dataclass(frozen=True)
class Resident:
    """A tensor that stays: whose, how many words, where, and along which loops."""

    name: str
    words: int
    stay: Stay
    kind: str


def steps_of(group: FusedGroup) -> int:
    """Steps of all shared loops together."""
    return prod(-(-group.layers[-1].problem.bounds[loop.dim] // loop.tile) for loop in group.loops)


def residents(group: FusedGroup, nodes: Sequence[str]) -> tuple[Resident, ...]:
    """What stays on the chip, in the order of the layers: operands, then the tensor for the next layer."""
    found = []
    for index, (layer, steps) in enumerate(zip(group.layers, layer_steps(group), strict=True)):
        spaces = layer.problem.dataspace_names()
        for name, stay in layer.operands.items():
            found.append(Resident(f"{nodes[index]} {name}", operand_words(layer, name, group, steps), stay,
                                  f"space{spaces.index(name) % 6}"))
        if index < len(group.links):
            link = group.links[index]
            found.append(Resident(f"{nodes[index]} {layer.problem.output.name}",
                                  intermediate_words(layer, link, group, steps), link.stay,
                                  f"space{spaces.index(layer.problem.output.name) % 6}"))
    return tuple(found)


def draw_schedule(group: FusedGroup, nodes: Sequence[str], number: int) -> Drawing:
    """The first `MOST_STEPS` steps of a group."""
    every = layer_steps(group)
    total = steps_of(group)
    shown = list(islice(product(*(range(len(spans)) for spans in every[-1].spans)), MOST_STEPS))
    column = (WIDTH - NAMES - 8) / len(shown)
    strips = HEAD + len(nodes) * (STRIP + SPACE)
    stays = residents(group, nodes)
    height = strips + len(stays) * BAR + (12 if stays else 0)
    shapes: list[Shape] = list(_axis(len(shown), total, column, height))
    for index, name in enumerate(nodes):
        top = HEAD + index * (STRIP + SPACE)
        shapes += _strip(group, every[index], name, shown, column, (index, len(nodes)), top, f"group{number % 6}")
    for place, resident in enumerate(stays):
        shapes += _resident(resident, strips + 8 + place * BAR, group, shown, column)
    return Drawing(WIDTH, height, f"tile schedule of group {number}", tuple(shapes))


def _axis(shown: int, total: int, column: float, height: float) -> Iterator[Shape]:
    what = f"{shown} steps" if shown == total else f"first {shown} of {total:,} steps"
    yield Label(NAMES - 14, 14, what if total > 1 else "one step", "quiet", "end")
    for step in range(shown):
        yield Label(NAMES + (step + 0.5) * column, 14, str(step + 1), "quiet", "middle")
        yield upright_line(NAMES + step * column, HEAD - 6, height - 4, "grid")
    yield upright_line(NAMES + shown * column, HEAD - 6, height - 4, "grid")


def _strip(group: FusedGroup, steps: LayerSteps, name: str, shown: Sequence[tuple[int, ...]], column: float,
           place: tuple[int, int], top: float, kind: str) -> Iterator[Shape]:
    """One layer: a box for each step, in its place among the layers of the step."""
    loop = next((k for k, cut in enumerate(steps.cut) if cut is not None and len(steps.spans[k]) > 1), None)
    dim = None if loop is None else steps.cut[loop]
    whole = Span(range(1), range(1))
    spans = [whole if loop is None else steps.spans[loop][picked[loop]] for picked in shown]
    working = [all(len(steps.spans[k][at].done) for k, at in enumerate(picked)) for picked in shown]
    low = min(min(span.needed.start, span.done.start) for span in spans)
    high = max(max(span.needed.stop, span.done.stop) for span in spans)
    scale, (index, count) = STRIP / max(high - low, 1), place
    extent = "whole layer" if dim is None else f"{dim} {low}\u2013{high - 1} of {group.layers[index].problem.bounds[dim]}"
    yield Rect(NAMES, top, len(shown) * column, STRIP, "strip")
    yield Label(NAMES - 14, top + STRIP / 2 - 3, fitting(name, NAMES - 18), "name", "end", name)
    yield Label(NAMES - 14, top + STRIP / 2 + 13, extent, "quiet", "end")
    slot = column / count
    for step, (span, works) in enumerate(zip(spans, working, strict=True)):
        left = NAMES + step * column + index * slot
        told = f"{name}, step {step + 1}: {dim or 'all'} {_points(span.done)}"
        if len(span.needed):
            yield Rect(left + 0.5, top + (span.needed.start - low) * scale, max(slot - 1, 1),
                       len(span.needed) * scale, f"{kind} halo", told)
        if works:
            yield Rect(left + 0.5, top + (span.done.start - low) * scale, max(slot - 1, 1),
                       max(len(span.done) * scale, 1), kind, told)


def _points(points: range) -> str:
    return f"{points.start}\u2013{points.stop - 1}" if len(points) else "nothing"


def _resident(resident: Resident, top: float, group: FusedGroup, shown: Sequence[tuple[int, ...]],
              column: float) -> Iterator[Shape]:
    """A bar as long as the words survive: cut where a loop advances along which they do not."""
    yield Label(NAMES - 14, top + 12, fitting(resident.name, NAMES - 18), "name", "end", resident.name)
    lost = [k for k, loop in enumerate(group.loops) if loop.dim not in resident.stay.across]
    starts = [step for step in range(len(shown))
              if not step or any(shown[step][k] != shown[step - 1][k] for k in lost)]
    kept = [loop.dim for loop in group.loops if loop.dim in resident.stay.across]
    text = (f"{resident.words:,} words in {resident.stay.level}, "
            + (f"kept along {', '.join(kept)}" if kept else "anew in every step"))
    for start, end in zip(starts, [*starts[1:], len(shown)], strict=True):
        yield Rect(NAMES + start * column + 0.5, top + 1, (end - start) * column - 1, BAR - 5, f"{resident.kind} stay",
                   f"{resident.name}: {text}", 3)
    yield Label(NAMES + 8, top + 12, text, "value")
    yield level_line(NAMES, top + BAR - 2, NAMES + len(shown) * column, "grid")
