"""The relaxed network: every layer with free tiling factors, every link with a fusion variable.

Layers of one shape lie side by side in one batch (`family`); what the cost of a network needs of its links stands in
arrays. Chains that are equal layer by layer and link by link are there once, with how often they run.

Axes: V (site: a layer with variables of its own), E (tie: a link between two sites), J (dimension that a link
carries), D (dimension of a layer), T (data space), R (restart).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from fadiff_mapper.fusion.groups.tile_steps import read_slide, space_of
from fadiff_mapper.network.chains.segments import Segment
from fadiff_mapper.network.layers.unfused import task_of
from fadiff_mapper.network.tilings.estimate import sum_level
from fadiff_mapper.relaxation.gumbel_softmax import FactorPlaces, places_of
from fadiff_mapper.relaxation.layer_batch import LayerFamily, family_of, kin
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.spec.problem import Problem


@dataclass(frozen=True)
class LayerSite:
    """A layer of the relaxed network: its best mapping by itself, and how often it runs."""

    result: MappedLayer
    times: int

    @property
    def problem(self) -> Problem:
        return self.result.spec.problem


@dataclass(frozen=True)
class FamilySites:
    """Sites of one family: `sites[w]` is member w of the family."""

    family: LayerFamily
    slots: FactorPlaces
    sites: tuple[int, ...]


@dataclass(frozen=True)
class LinkTies:
    """The links between sites.

    producer, consumer [E]    sites
    operand [E]               the data space of the consumer that is the intermediate
    written [E]               the part of its words that goes to the outermost level, too: all, none, or what pools make
    beside [E]                whether the consumer's tile takes room of its own, beside the intermediate
    lying [E]                 words that lie there for one of the intermediate: fewer where it is pooled before
    mine, theirs [E, J]       dimension of the producer, and the one of the consumer that moves along it
    stride, reach [E, J]      t points of the consumer read stride (t - 1) + reach points of the producer's dimension
    extent, bound [E, J]      of the producer's dimension, and of the consumer's
    used [E, J]               whether there is such a dimension
    loose [E, J]              whether the producer may make its part in several goes: the dimension moves the consumer's
                              other operand, such as the channels its weights
    """

    producer: np.ndarray
    consumer: np.ndarray
    operand: np.ndarray
    written: np.ndarray
    beside: np.ndarray
    lying: np.ndarray
    mine: np.ndarray
    theirs: np.ndarray
    stride: np.ndarray
    reach: np.ndarray
    extent: np.ndarray
    bound: np.ndarray
    used: np.ndarray
    loose: np.ndarray

    def __len__(self) -> int:
        return len(self.producer)

    @property
    def halo(self) -> np.ndarray:
        """Where neighbouring tiles share points of the intermediate, [E, J]."""
        halo: np.ndarray = self.used & (self.reach > self.stride)
        return halo


@dataclass(frozen=True)
class RelaxedNetwork:
    """home: index of the level in which intermediates stay, or None where there is no such level; `sum_level`, [V]:
    where a layer's sums are kept. into, out_of [V]: a site's ties, `len(ties)` where it has none.
    site_of: every layer's site, and tie_of: every link's tie."""

    sites: tuple[LayerSite, ...]
    ties: LinkTies
    batches: tuple[FamilySites, ...]
    home: int
    sums: np.ndarray
    into: np.ndarray
    out_of: np.ndarray
    site_of: Mapping[str, int]
    tie_of: Mapping[tuple[str, str], int]


def relaxed_network(chains: Sequence[tuple[str, ...]], pairs: Mapping[tuple[str, str], Segment],
                    results: Mapping[str, MappedLayer], repeats: Mapping[str, int], home: int) -> RelaxedNetwork:
    """The network of some chains of layers; `pairs` are the links that can be fused, `repeats` how often layers run."""
    sites: list[LayerSite] = []
    links: list[tuple[int, int, Segment]] = []
    site_of: dict[str, int] = {}
    tie_of: dict[tuple[str, str], int] = {}
    first_of: dict[object, tuple[str, ...]] = {}
    for run in (run for names in chains for run in _runs(names, pairs)):
        key = (tuple(id(results[name]) for name in run), tuple(pairs[pair].key for pair in pairwise(run)))
        first = first_of.setdefault(key, run)
        if first is run:
            for name in run:
                site_of[name] = len(sites)
                sites.append(LayerSite(results[name], 0))
            for one, two in pairwise(run):
                tie_of[one, two] = len(links)
                links.append((site_of[one], site_of[two], pairs[one, two]))
        for name, twin in zip(run, first, strict=True):
            site_of[name] = site_of[twin]
            known = sites[site_of[name]]
            sites[site_of[name]] = LayerSite(known.result, known.times + repeats[name])
        for pair, twins in zip(pairwise(run), pairwise(first), strict=True):
            tie_of[pair] = tie_of[twins]
    ties = _ties(links)
    into, out_of = (np.full(len(sites), len(ties)) for _ in range(2))
    into[ties.consumer], out_of[ties.producer] = np.arange(len(ties)), np.arange(len(ties))
    return RelaxedNetwork(tuple(sites), ties, _batches(sites), home,
                          np.array([sum_level(site.result.spec) for site in sites]), into, out_of, site_of, tie_of)


def _runs(names: tuple[str, ...], pairs: Mapping[tuple[str, str], Segment]) -> list[tuple[str, ...]]:
    """A chain cut where a link cannot be fused."""
    runs = [[names[0]]]
    for one, two in pairwise(names):
        if (one, two) in pairs:
            runs[-1].append(two)
        else:
            runs.append([two])
    return [tuple(run) for run in runs]


def _batches(sites: Sequence[LayerSite]) -> tuple[FamilySites, ...]:
    tasks = [task_of(site.result.spec) for site in sites]
    families: dict[object, list[int]] = {}
    for index, task in enumerate(tasks):
        families.setdefault(kin(task.space), []).append(index)
    batches = []
    for members in families.values():
        family = family_of(tasks[members[0]].layer, [tasks[index].space for index in members])
        batches.append(FamilySites(family, places_of(family.spaces, family.factors), tuple(members)))
    return tuple(batches)


@dataclass(frozen=True)
class _Carried:
    """One dimension that a link carries; see `LinkTies`."""

    mine: int
    theirs: int
    stride: int
    reach: int
    extent: int
    bound: int
    loose: bool


def _ties(links: Sequence[tuple[int, int, Segment]]) -> LinkTies:
    rows = [_carried(segment) for _, _, segment in links]
    width = max(map(len, rows), default=0)
    blank = _Carried(0, 0, 0, 1, 1, 1, True)
    padded = [[*row, *[blank] * (width - len(row))] for row in rows]

    def table(name: str, kind: type) -> np.ndarray:
        return np.array([[getattr(one, name) for one in row] for row in padded], dtype=kind).reshape(len(rows), width)

    return LinkTies(
        np.array([one for one, _, _ in links], dtype=np.int64), np.array([two for _, two, _ in links], dtype=np.int64),
        np.array([segment.problems[1].dataspace_names().index(segment.links[0].tensor) for _, _, segment in links],
                 dtype=np.int64),
        np.array([_written(segment) for _, _, segment in links], dtype=np.float64),
        np.array([segment.links[0].beside for _, _, segment in links], dtype=bool),
        np.array([prod(1 / slide.stride for slide in segment.links[0].pooled.values())
                  if segment.links[0].lies_pooled else 1.0 for _, _, segment in links], dtype=np.float64),
        table("mine", np.int64), table("theirs", np.int64), table("stride", np.float64), table("reach", np.float64),
        table("extent", np.float64), table("bound", np.float64),
        np.arange(width) < np.array([len(row) for row in rows], dtype=np.int64).reshape(-1, 1), table("loose", bool))


def _written(segment: Segment) -> float:
    (before, after), (link,) = segment.problems, segment.links
    if not link.written_pooled:
        return float(link.written)
    return after.tensor_size(space_of(after, link.tensor)) / before.tensor_size(before.output)


def _carried(segment: Segment) -> list[_Carried]:
    """The dimensions of a pair's link. One that must stay whole is read whole, whatever the consumer's tile."""
    (before, after), (link,), (whole,) = segment.problems, segment.links, segment.whole
    others = {dim for other in after.dataspaces if not other.read_write and other.name != link.tensor
              for dim in other.dimensions}
    found = []
    for own, theirs in link.dims.items():
        slide, extent = read_slide(after, link, theirs), before.bounds[own]
        stride, reach = (0, extent) if own in whole else (slide.stride, slide.kernel)
        found.append(_Carried(before.dimensions.index(own), after.dimensions.index(theirs), stride, reach, extent,
                              after.bounds[theirs], theirs in others))
    return found
