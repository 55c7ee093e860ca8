"""A segment in the form that the compiled estimates take (`kernel/nest_estimate.hpp`)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any

from fadiff_mapper.fusion import FusedLink, Hardware
from fadiff_mapper.kernel._kernel import FusedSegment, SegmentLayer, SegmentLink
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.tilings.layer_estimate import LayerBase
from fadiff_mapper.network.tilings.tile_nests import homes
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.workload.window_slide import WindowSlide


@dataclass(frozen=True)
class CompiledSegment:
    """A segment with what is known of its layers, ready to be estimated.

    Attributes:
        segment: The segment.
        bases: Each layer by itself.
        usable: Words of every level that can be a home, by name; infinite without a limit.
        tables: The same for the kernel.
    """

    segment: Segment
    bases: Sequence[LayerBase]
    usable: dict[str, float]
    tables: FusedSegment

    def home(self, name: str) -> int:
        """The number of a home in the kernel's tables."""
        return list(self.usable).index(name)


Translated = dict[Hashable, tuple[Any, Any]]
"""Layers and links in the kernel's form, each with what it was made from, by the identity of these."""


def compiled_segment(hardware: Hardware, segment: Segment, bases: Sequence[LayerBase],
                     known: Translated | None = None) -> CompiledSegment:
    """Translates a segment for the compiled estimates.

    Args:
        hardware: The design.
        segment: The segment.
        bases: Each layer by itself, as estimates need it.
        known: Layers and links of other segments on the same design; those of this one are added.
    """
    known = {} if known is None else known

    def translated(translate: Callable[..., Any], *parts: Any) -> Any:
        key = tuple(map(id, parts))
        if key not in known:
            known[key] = translate(*parts), parts  # kept, so that no other object takes over their identity
        return known[key][0]

    levels = {name: hardware.arch.levels[hardware.level(name)].usable for name in homes(hardware)}
    usable = {name: inf if words is None else float(words) for name, words in levels.items()}
    read = [None, *(link.tensor for link in segment.links)]
    layers = [translated(partial(_layer, list(usable)), problem, linked, base)
              for problem, linked, base in zip(segment.problems, read, bases, strict=True)]
    links = [translated(_link, *parts) for parts in zip(
        segment.links, segment.slides, segment.problems, segment.problems[1:], strict=False)]
    return CompiledSegment(segment, bases, usable, FusedSegment(layers, links, float(segment.repeat)))


def _layer(levels: Sequence[str], problem: Problem, linked: str | None, base: LayerBase) -> SegmentLayer:
    """The kernel's form of a layer."""
    names, position = problem.dataspace_names(), {dim: index for index, dim in enumerate(problem.dimensions)}
    return SegmentLayer({
        "bounds": list(problem.bounds.values()),
        "known": [(own.compute, [own.lanes.get(dim, 1) for dim in problem.dimensions]) for own in base.known],
        "spaces": [[[(position[term.dimension], term.coefficient) for term in rank] for rank in space.ranks]
                   for space in problem.dataspaces],
        "output": names.index(problem.output.name), "linked": -1 if linked is None else names.index(linked),
        "inside": base.inside, "sums_room": base.sums_room, "read": base.prices.read,
        "write": base.prices.write, "words_per_cycle": base.prices.words_per_cycle,
        "home_reads": [base.home_reads.get(level, {}).get(name, 0.0) for level in levels for name in names],
        "home_price": [base.prices.level_read.get(level, 0.0) for level in levels],
    }, len(levels))


def _link(link: FusedLink, slides: Mapping[str, WindowSlide], producer: Problem, consumer: Problem) -> SegmentLink:
    """The kernel's form of a link; tables are by dimension of the producer."""
    position = {dim: index for index, dim in enumerate(consumer.dimensions)}
    strides, lying = link.stored_strides, 1 + link.company
    return SegmentLink({
        "theirs": [position[link.dims[dim]] if dim in link.dims else -1 for dim in producer.dimensions],
        "slides": [_slide(slides.get(dim, WindowSlide(1, 1))) for dim in producer.dimensions],
        "stored": [strides.get(dim, 1) for dim in producer.dimensions],
        "lying": (lying.numerator, lying.denominator), "elsewhere": float(link.elsewhere), "beside": link.beside,
        "written_whole": link.written_whole, "written_pooled": link.written_pooled,
    })


def _slide(slide: WindowSlide) -> tuple[float, ...]:
    """The kernel's ReadSlide; `lead` are points of the first input point that lie before the window."""
    return ((slide.kernel - 1) * slide.dilation + 1,
            slide.stride, slide.shrink, -slide.pad % slide.shrink, slide.block, slide.ahead, slide.advance)
