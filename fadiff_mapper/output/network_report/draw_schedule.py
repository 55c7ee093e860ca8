"""The tile schedule of a fused group: which points each layer computes in which step, and what lies where meanwhile.

Time runs to the right; within a step the layers run one after the other. Each layer's strip shows the dimension that
the outermost of its loops cuts, the first point at the top: solid what is computed, pale what is still there from
before. Bars below are tensors that stay on the chip.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from fadiff_mapper.fusion.groups.fused_group import FusedGroup, Stay
from fadiff_mapper.fusion.groups.stored_words import intermediate_words, operand_words, outlasting_words
from fadiff_mapper.fusion.groups.tile_steps import DimSpan, LayerSteps, layer_steps
from fadiff_mapper.output.network_report.drawing import (
    Drawing,
    Label,
    Rect,
    Shape,
    fitting,
    level_line,
    tint,
    upright_line,
)

WIDTH, NAMES, HEAD = 1080.0, 176.0, 26.0
TALL, LOW, SPACE, BAR = 52.0, 32.0, 8.0, 20.0
MOST_STEPS = 16


@dataclass(frozen=True)
class ResidentBar:
    """A tensor that stays: whose, how many words, where, and along which loops. `writer`: the layer that writes it,
    where nothing of it is left once the next layer has run."""

    name: str
    words: int
    stay: Stay
    kind: str
    writer: int | None = None


def residents(group: FusedGroup, nodes: Sequence[str]) -> tuple[ResidentBar, ...]:
    """What stays on the chip, in the order of the layers: operands, then the tensor for the next layer."""
    found = []
    for index, (layer, steps) in enumerate(zip(group.layers, layer_steps(group), strict=True)):
        spaces = layer.problem.dataspace_names()
        for name, stay in layer.operands.items():
            found.append(ResidentBar(f"{nodes[index]} {name}", operand_words(layer, name, group, steps), stay,
                                     tint("space", spaces.index(name))))
        if index < len(group.links):
            link = group.links[index]
            found.append(ResidentBar(f"{nodes[index]} {layer.problem.output.name}",
                                     intermediate_words(layer, link, group, steps), link.stay,
                                     tint("space", spaces.index(layer.problem.output.name)),
                                     None if outlasting_words(layer, link, group, steps) else index))
    return tuple(found)


def draw_schedule(group: FusedGroup, nodes: Sequence[str], number: int) -> Drawing:
    """The first `MOST_STEPS` steps of a group."""
    every = layer_steps(group)
    total = group.steps
    shown = list(islice(product(*(range(len(spans)) for spans in every[-1].spans)), MOST_STEPS))
    column = (WIDTH - NAMES - 8) / len(shown)
    strip = TALL if total > 1 else LOW
    strips = HEAD + len(nodes) * (strip + SPACE)
    stays = residents(group, nodes)
    height = strips + len(stays) * BAR + (12 if stays else 0)
    shapes: list[Shape] = list(_axis(len(shown), total, column, height))
    for index, name in enumerate(nodes):
        box = Rect(NAMES, HEAD + index * (strip + SPACE), len(shown) * column, strip, "strip")
        shapes += _strip(group.layers[index].problem.bounds, every[index], name, shown, box, (index, len(nodes)),
                         tint("group", number))
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


def _strip(bounds: Mapping[str, int], steps: LayerSteps, name: str, shown: Sequence[tuple[int, ...]], box: Rect,
           place: tuple[int, int], kind: str) -> Iterator[Shape]:
    """One layer: for each step what it computes, in its place among the layers of the step."""
    loop = next((k for k, cut in enumerate(steps.cut) if cut is not None and len(steps.spans[k]) > 1), None)
    dim = None if loop is None else steps.cut[loop]
    spans = [DimSpan(range(1), range(1)) if loop is None else steps.spans[loop][picked[loop]] for picked in shown]
    working = [all(len(steps.spans[k][at].done) for k, at in enumerate(picked)) for picked in shown]
    low, high = min(span.needed.start for span in spans), max(span.needed.stop for span in spans)
    (index, count), slot = place, box.width / len(shown) / place[1]
    yield box
    middle = box.y + box.height / 2
    yield Label(NAMES - 14, middle - 3, fitting(name, NAMES - 18), "name", "end", name)
    extent = "all of it" if dim is None else f"{dim} {low}\u2013{high - 1} of {bounds[dim]}"
    yield Label(NAMES - 14, middle + 12, extent, "quiet", "end")
    for step, (span, works) in enumerate(zip(spans, working, strict=True)):
        told = f"{name}, step {step + 1}: {dim or 'all'} {_points(span.done)}"
        left = NAMES + (step * count + index) * slot + 0.5
        for points, look in ((span.needed, f"{kind} halo"), (span.done if works else range(0), kind)):
            if len(points):
                scale = box.height / max(high - low, 1)
                yield Rect(left, box.y + (points.start - low) * scale, max(slot - 1, 1), max(len(points) * scale, 1),
                           look, told, 1)


def _points(points: range) -> str:
    return f"{points.start}\u2013{points.stop - 1}" if len(points) else "nothing"


def _resident(resident: ResidentBar, top: float, group: FusedGroup, shown: Sequence[tuple[int, ...]],
              column: float) -> Iterator[Shape]:
    """Bars as long as the words survive: cut where a loop advances along which they do not."""
    yield Label(NAMES - 14, top + 12, fitting(resident.name, NAMES - 18), "name", "end", resident.name)
    kept = [loop.dim for loop in group.loops if loop.dim in resident.stay.across]
    how = f", kept along {', '.join(kept)}" if kept else ", anew in every step" if group.loops else ""
    text = f"{resident.words:,} words in {resident.stay.level}{how}"
    for start, end in _lifetimes(resident, group, shown):
        yield Rect(NAMES + start * column + 0.5, top + 1, (end - start) * column - 1, BAR - 5, f"{resident.kind} stay",
                   f"{resident.name}: {text}", 3)
    yield Label(NAMES + 8, top + 12, text, "value")
    yield level_line(NAMES, top + BAR - 2, NAMES + len(shown) * column, "grid")


def _lifetimes(resident: ResidentBar, group: FusedGroup,
               shown: Sequence[tuple[int, ...]]) -> Iterator[tuple[float, float]]:
    """From when to when, in steps, the words are there."""
    if resident.writer is not None:
        count = len(group.layers)
        for step in range(len(shown)):
            yield step + resident.writer / count, step + (resident.writer + 2) / count
        return
    lost = [k for k, loop in enumerate(group.loops) if loop.dim not in resident.stay.across]
    starts = [step for step in range(len(shown))
              if not step or any(shown[step][k] != shown[step - 1][k] for k in lost)]
    yield from zip(starts, [*starts[1:], len(shown)], strict=True)
