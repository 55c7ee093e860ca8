"""The relaxed network: every layer with free tiling factors, every link with a fusion variable.

FADiff descends on a chain of layers with one sigma between neighbours (its section 3.1.2). Real networks have branches,
repeat layers, and let only some links be fused. Here a *site* is a layer with its own variables, a *tie* a link between
two sites; equal chains (layer by layer, link by link) share both, with the number of their runs. Sites of one shape
class lie side by side in one batch (`search.layer_family`), and the ties are arrays, so that the cost of all restarts
is a few array operations.

Axes: V (site), E (tie), J (dimension that a link carries), D (dimension of a layer), T (data space), R (restart).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

import numpy as np
import torch
from torch.utils._pytree import tree_map

from fadiff_mapper.fusion.estimates import sum_level
from fadiff_mapper.fusion.segments import Segment
from fadiff_mapper.fusion.tile_steps import read_slide, space_of
from fadiff_mapper.gradient.gumbel_softmax import FactorPlaces, places_of
from fadiff_mapper.gradient.loss import MachineLimits
from fadiff_mapper.inputs.spec.problem import Problem
from fadiff_mapper.model.prepared_layer import PreparedLayer
from fadiff_mapper.search.layer_family import LayerFamily, batch_key, family_of
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.result import Result


@dataclass(frozen=True)
class RelaxedMachine:
    """The machines of all restarts."""

    constants: Mapping[str, torch.Tensor]  # Fields of `model.prepared_layer.Machine` by name, [L, R] each;
                                           # `compute_energy` is [R]
    limits: MachineLimits                  # Capacities and meshes, [R] each where they are not the same for all

    def for_members(self, members: int) -> RelaxedMachine:
        """The same machines once for each of so many members of a family."""
        return RelaxedMachine(*tree_map(
            lambda value: value.repeat(*[1] * (value.dim() - 1), members) if isinstance(value, torch.Tensor) else value,
            (dict(self.constants), self.limits)))

    def put_into(self, layer: PreparedLayer) -> PreparedLayer:
        """A layer on these machines, for the smooth model only: architecture and compiled form stay unchanged."""
        constants: dict[str, object] = dict(self.constants)
        return replace(layer, machine=replace(layer.machine, **constants))  # type: ignore[arg-type]


@dataclass(frozen=True)
class DescendedHardware:
    """Hardware parameters that descend together with tiling factors and fusion variables."""

    place: torch.Tensor  # Coordinates of the parameters, moved in place, [P, R]
    rate: float          # Learning rate of the first step, in coordinates
    # From coordinates to the machines, the designs' term of the loss, [R], and the excess over their limits in squared
    # octaves, [R]
    design_at: Callable[[torch.Tensor], tuple[RelaxedMachine, torch.Tensor, torch.Tensor]]


@dataclass(frozen=True)
class LayerSite:
    """A layer of the relaxed network, with variables of its own."""

    result: Result  # Its best unfused mapping
    times: float    # Number of runs of the layer, equal chains and repeats together; fractional where networks have
                    # weights

    @property
    def problem(self) -> Problem:
        return self.result.spec.problem


@dataclass(frozen=True)
class FamilySites:
    """Sites of one family: `sites[w]` is member w of `family`, with the family's factor places."""

    family: LayerFamily
    places: FactorPlaces
    sites: tuple[int, ...]


@dataclass(frozen=True)
class LinkTies:
    """The links between sites, as arrays.

    t points of the consumer's dimension read stride (t - 1) + reach points of the producer's.
    """

    producer: np.ndarray  # Site that writes the intermediate, [E]
    consumer: np.ndarray  # Site that reads it, [E]
    operand: np.ndarray   # Data space of the consumer that is the intermediate, [E]
    written: np.ndarray   # Share of its words that goes to the outermost level, too: all, none, or the pooled words,
                          # [E]
    beside: np.ndarray    # Whether the consumer's tile takes room beside the intermediate, [E]
    lying: np.ndarray     # Words in the home per word of the intermediate: below 1 if it is pooled before, above 1 if
                          # it is joined with other tensors, [E]
    made: np.ndarray      # Share of the consumer's operand that the producer makes, [E]
    mine: np.ndarray      # Dimension of the producer, [E, J]
    theirs: np.ndarray    # Dimension of the consumer that moves along it, [E, J]
    stride: np.ndarray    # Points of the producer's dimension by which one point of the consumer's moves the window,
                          # [E, J]
    reach: np.ndarray     # Points that one point of the consumer's dimension reads, [E, J]
    extent: np.ndarray    # Points of the producer's dimension, [E, J]
    bound: np.ndarray     # Points of the consumer's dimension, [E, J]
    used: np.ndarray      # Whether the entry is used; ties carry different numbers of dimensions, [E, J]
    loose: np.ndarray     # Whether the producer may make its output in several passes, because the dimension also moves
                          # the consumer's other operand, as channels move its weights, [E, J]

    def __len__(self) -> int:
        return len(self.producer)

    @property
    def halo(self) -> np.ndarray:
        """Where neighbouring tiles share points of the intermediate, [E, J]."""
        halo: np.ndarray = self.used & (self.reach > self.stride)
        return halo


@dataclass(frozen=True)
class RelaxedNetwork:
    """Sites and ties, and the site of each layer and the tie of each link of a network."""

    sites: tuple[LayerSite, ...]           # Layers with variables of their own, V of them
    ties: LinkTies                         # The links between them, E of them
    batches: tuple[FamilySites, ...]       # The sites by family
    home: int                              # Index of the level in which intermediates lie
    sums: np.ndarray                       # Index of the level in which each site's sums are finished, [V]
    into: np.ndarray                       # Tie that leads into each site, `len(ties)` where none does, [V]
    out_of: np.ndarray                     # Tie that leads out of each site, `len(ties)` where none does, [V]
    site_of: Mapping[str, int]             # Site of every layer, by name
    tie_of: Mapping[tuple[str, str], int]  # Tie of every link, by the names of its layers


def relaxed_network(chains: Sequence[tuple[str, ...]], pairs: Mapping[tuple[str, str], Segment],
                    results: Mapping[str, Result], repeats: Mapping[str, float], home: int) -> RelaxedNetwork:
    """Builds the relaxed network of some chains of layers, each the names of its layers in order.

    `pairs`: segments of two layers whose link can be fused, by the names of both; chains are cut at other links.
    `results`: the best unfused mapping of each layer; equal layers share one object. `repeats`: runs of each layer back
    to back. `home`: index of the level in which intermediates lie.
    """
    sites: list[LayerSite] = []
    links: list[tuple[int, int, Segment]] = []
    site_of: dict[str, int] = {}
    tie_of: dict[tuple[str, str], int] = {}
    first_of: dict[object, tuple[str, ...]] = {}
    runs: list[list[str]] = []
    for names in chains:
        for before, after in pairwise(("", *names)):
            if (before, after) in pairs:
                runs[-1].append(after)
            else:
                runs.append([after])
    for run in map(tuple, runs):
        key = (tuple(id(results[name]) for name in run), tuple(pairs[pair].key for pair in pairwise(run)))
        first = first_of.setdefault(key, run)
        if first is run:
            for name in run:
                site_of[name] = len(sites)
                sites.append(LayerSite(results[name], 0))
            for before, after in pairwise(run):
                tie_of[before, after] = len(links)
                links.append((site_of[before], site_of[after], pairs[before, after]))
        for name, twin in zip(run, first, strict=True):
            site_of[name] = site_of[twin]
            known = sites[site_of[name]]
            sites[site_of[name]] = LayerSite(known.result, known.times + repeats[name])
        for pair, twins in zip(pairwise(run), pairwise(first), strict=True):
            tie_of[pair] = tie_of[twins]
    ties = _link_ties(links)
    into, out_of = (np.full(len(sites), len(ties)) for _ in range(2))
    into[ties.consumer], out_of[ties.producer] = np.arange(len(ties)), np.arange(len(ties))
    tasks = [mapping_task(site.result.spec) for site in sites]
    families: dict[object, list[int]] = {}  # in the order in which they first occur
    for index, task in enumerate(tasks):
        families.setdefault(batch_key(task.space, task.layer.projection), []).append(index)
    batches = []
    for members in families.values():
        family = family_of(tasks[members[0]].layer, [tasks[index].space for index in members])
        batches.append(FamilySites(family, places_of(family.spaces, family.factors), tuple(members)))
    return RelaxedNetwork(tuple(sites), ties, tuple(batches), home,
                          np.array([sum_level(site.result.spec.constraints, site.result.spec.problem.output.name)
                                    for site in sites]), into, out_of, site_of, tie_of)


CarriedDim = tuple[int, int, float, float, int, int, bool]
"""A dimension that a link carries: `mine` to `bound`, and `loose`, of `LinkTies`."""


def _link_ties(links: Sequence[tuple[int, int, Segment]]) -> LinkTies:
    """The arrays of links, each given by producer, consumer and the segment of both layers."""
    rows = [_carried_dims(segment) for _, _, segment in links]
    width = max(map(len, rows), default=0)
    blank: CarriedDim = (0, 0, 0, 1, 1, 1, True)
    table = np.array([[*row, *[blank] * (width - len(row))] for row in rows], dtype=np.float64)
    mine, theirs, stride, reach, extent, bound, loose = np.moveaxis(table.reshape(len(rows), width, len(blank)), -1, 0)
    ends, sizes = np.empty((3, len(links)), dtype=np.int64), np.empty((3, len(links)))
    for tie, (producer, consumer, segment) in enumerate(links):
        (before, after), (link,) = segment.problems, segment.links
        ends[:, tie] = producer, consumer, after.dataspace_names().index(link.tensor)
        written = (after.tensor_size(space_of(after, link.tensor)) / before.tensor_size(before.output)
                   if link.written_pooled else link.written)  # for readers outside the group
        pooled = prod(1 / slide.stride for slide in link.pooled.values()) if link.lies_pooled else 1.0
        sizes[:, tie] = written, pooled * (1 + float(link.company)), 1 - float(link.elsewhere)
    return LinkTies(
        ends[0], ends[1], ends[2], sizes[0],
        np.array([segment.links[0].beside for _, _, segment in links], dtype=bool), sizes[1], sizes[2],
        mine.astype(np.int64), theirs.astype(np.int64), stride.copy(), reach.copy(), extent.copy(), bound.copy(),
        np.arange(width) < np.array([len(row) for row in rows], dtype=np.int64).reshape(-1, 1), loose.astype(bool))


def _carried_dims(segment: Segment) -> list[CarriedDim]:
    """The dimensions of a pair's link; a dimension that no loop may cut is read whole by every tile of the consumer."""
    (before, after), (link,), (whole,) = segment.problems, segment.links, segment.whole
    others = {dim for other in after.dataspaces if not other.read_write and other.name != link.tensor
              for dim in other.dimensions}
    carried: list[CarriedDim] = []
    for own, theirs in link.dims.items():
        slide, extent = read_slide(after, link, theirs), before.bounds[own]
        stride, reach = (0.0, float(extent)) if own in whole else (slide.advance, float(slide.reach(1)))
        carried.append((before.dimensions.index(own), after.dimensions.index(theirs), stride, reach, extent,
                        after.bounds[theirs], theirs in others))
    still = next((dim for dim in after.dimensions if after.bounds[dim] == 1), None)
    if still is not None:  # dimensions that are passed on whole move along a dimension that no loop cuts
        carried += [(before.dimensions.index(own), after.dimensions.index(still), 0.0,
                     float(before.bounds[own]), before.bounds[own], 1, False) for own in sorted(link.whole)]
    return carried
