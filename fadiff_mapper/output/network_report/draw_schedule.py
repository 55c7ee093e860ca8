"""The tile schedule of a fused group: the points that each layer computes in each step, and the resident tensors.

Time runs to the right; within a step the layers run one after the other. Each layer's strip shows the dimension that
the outermost of its loops cuts, the first point at the top: computed points are solid, points that an earlier step left
there are pale. Bars below are tensors that stay on the chip, as long as their words live.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, product

from fadiff_mapper.fusion.fused_group import FusedGroup, Stay
from fadiff_mapper.fusion.tile_steps import DimSpan, LayerSteps, intermediates, layer_steps, operand_words
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
"""Pixels: of the drawing, of the names on the left, and of the step numbers above."""

TALL, LOW, SPACE, BAR = 52.0, 32.0, 8.0, 20.0
"""Pixels: of a strip in a group with several steps and with one, between strips, and of a resident's row."""

MOST_STEPS = 16
"""Steps that are drawn at most, so that each has 56 pixels. A plain limit of the width; nothing was measured."""


@dataclass(frozen=True)
class ResidentBar:
    """A tensor that stays on the chip.

    Attributes:
        name: Node and data space.
        words: Words of it that live at once.
        stay: Its home level, and the loops along which its words are kept.
        css_class: Its colour.
        writer: The layer that writes it, where none of its words outlast the next layer's run; else None.
    """

    name: str
    words: int
    stay: Stay
    css_class: str
    writer: int | None = None


def residents(group: FusedGroup, nodes: Sequence[str]) -> tuple[ResidentBar, ...]:
    """The tensors that stay on the chip, in the order of the layers: operands, then the tensor for the next layer.

    Args:
        group: The fused group.
        nodes: Names of its layers in the network.
    """
    bars, all_steps = [], layer_steps(group)
    for index, (layer, steps) in enumerate(zip(group.layers, all_steps, strict=True)):
        spaces = layer.problem.dataspace_names()
        for name, stay in layer.operands.items():
            bars.append(ResidentBar(f"{nodes[index]} {name}", operand_words(layer, name, group, steps), stay,
                                    tint("space", spaces.index(name))))
        if index < len(group.links):
            stay, output = group.links[index].stay, layer.problem.output.name
            words, outlasting = (of_links[index] for of_links in intermediates(group, all_steps, stay.level))
            bars.append(ResidentBar(f"{nodes[index]} {output}", words, stay, tint("space", spaces.index(output)),
                                    None if outlasting else index))
    return tuple(bars)


def draw_schedule(group: FusedGroup, nodes: Sequence[str], number: int) -> Drawing:
    """The first `MOST_STEPS` steps of a group.

    Args:
        group: The fused group.
        nodes: Names of its layers in the network.
        number: The group's number in the plan, which decides its colour.
    """
    all_steps = layer_steps(group)
    total = group.steps
    shown = list(islice(product(*(range(len(spans)) for spans in all_steps[-1].spans)), MOST_STEPS))
    column = (WIDTH - NAMES - 8) / len(shown)
    strip = TALL if total > 1 else LOW
    strips = HEAD + len(nodes) * (strip + SPACE)
    stays = residents(group, nodes)
    height = strips + len(stays) * BAR + (12 if stays else 0)
    shapes: list[Shape] = list(_axis(len(shown), total, column, height))
    for index, name in enumerate(nodes):
        box = Rect(NAMES, HEAD + index * (strip + SPACE), len(shown) * column, strip, "strip")
        shapes += _strip(group.layers[index].problem.bounds, all_steps[index], name, shown, box, (index, len(nodes)),
                         tint("group", number))
    for row, resident in enumerate(stays):
        shapes += _resident(resident, strips + 8 + row * BAR, group, shown, column)
    return Drawing(WIDTH, height, f"tile schedule of group {number}", tuple(shapes))


def _axis(shown: int, total: int, column: float, height: float) -> Iterator[Shape]:
    """Numbers of the steps, and an upright line between any two."""
    extent = f"{shown} steps" if shown == total else f"first {shown} of {total:,} steps"
    yield Label(NAMES - 14, 14, extent if total > 1 else "one step", "quiet", "end")
    for step in range(shown):
        yield Label(NAMES + (step + 0.5) * column, 14, str(step + 1), "quiet", "middle")
        yield upright_line(NAMES + step * column, HEAD - 6, height - 4, "grid")
    yield upright_line(NAMES + shown * column, HEAD - 6, height - 4, "grid")


def _strip(bounds: Mapping[str, int], steps: LayerSteps, name: str, shown: Sequence[tuple[int, ...]], box: Rect,
           turn: tuple[int, int], css_class: str) -> Iterator[Shape]:
    """One layer: the points that it computes in each step, drawn in its part of the step's column.

    `shown` are the steps, each as an index per shared loop; `turn` is the layer's index and the number of layers.
    """
    loop = next((k for k, cut in enumerate(steps.cut) if cut is not None and len(steps.spans[k]) > 1), None)
    dim = None if loop is None else steps.cut[loop]
    spans = [DimSpan(range(1), range(1)) if loop is None else steps.spans[loop][picked[loop]] for picked in shown]
    working = [all(len(steps.spans[k][at].done) for k, at in enumerate(picked)) for picked in shown]
    low, high = min(span.needed.start for span in spans), max(span.needed.stop for span in spans)
    (index, count), slot = turn, box.width / len(shown) / turn[1]
    yield box
    middle = box.y + box.height / 2
    yield Label(NAMES - 14, middle - 3, fitting(name, NAMES - 18), "name", "end", name)
    extent = "all of it" if dim is None else f"{dim} {low}\u2013{high - 1} of {bounds[dim]}"
    yield Label(NAMES - 14, middle + 12, extent, "quiet", "end")
    for step, (span, works) in enumerate(zip(spans, working, strict=True)):
        tooltip = f"{name}, step {step + 1}: {dim or 'all'} {_points(span.done)}"
        left = NAMES + (step * count + index) * slot + 0.5
        for points, style in ((span.needed, f"{css_class} halo"), (span.done if works else range(0), css_class)):
            if len(points):
                scale = box.height / max(high - low, 1)
                yield Rect(left, box.y + (points.start - low) * scale, max(slot - 1, 1), max(len(points) * scale, 1),
                           style, tooltip, 1)


def _points(points: range) -> str:
    """The first and the last point as text."""
    return f"{points.start}\u2013{points.stop - 1}" if len(points) else "nothing"


def _resident(resident: ResidentBar, top: float, group: FusedGroup, shown: Sequence[tuple[int, ...]],
              column: float) -> Iterator[Shape]:
    """Bars as long as the words survive: cut where a loop advances along which they do not."""
    yield Label(NAMES - 14, top + 12, fitting(resident.name, NAMES - 18), "name", "end", resident.name)
    kept = [loop.dim for loop in group.loops if loop.dim in resident.stay.across]
    how = f", kept along {', '.join(kept)}" if kept else ", anew in every step" if group.loops else ""
    text = f"{resident.words:,} words in {resident.stay.level}{how}"
    for start, end in _lifetimes(resident, group, shown):
        yield Rect(NAMES + start * column + 0.5, top + 1, (end - start) * column - 1, BAR - 5,
                   f"{resident.css_class} stay", f"{resident.name}: {text}", 3)
    yield Label(NAMES + 8, top + 12, text, "value")
    yield level_line(NAMES, top + BAR - 2, NAMES + len(shown) * column, "grid")


def _lifetimes(resident: ResidentBar, group: FusedGroup,
               shown: Sequence[tuple[int, ...]]) -> Iterator[tuple[float, float]]:
    """(begin, end) of every live range among the steps that are shown, in steps.

    Without words for later steps a tensor lives while its writer and the next layer run; else until a loop advances
    along which it is not kept.
    """
    if resident.writer is not None:
        count = len(group.layers)
        for step in range(len(shown)):
            yield step + resident.writer / count, step + (resident.writer + 2) / count
        return
    lost = [k for k, loop in enumerate(group.loops) if loop.dim not in resident.stay.across]
    starts = [step for step in range(len(shown))
              if not step or any(shown[step][k] != shown[step - 1][k] for k in lost)]
    yield from zip(starts, [*starts[1:], len(shown)], strict=True)
