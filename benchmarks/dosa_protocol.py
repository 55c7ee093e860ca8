"""DOSA's search (Hong et al., MICRO 2023) rebuilt on our model: mappings descend, and hardware is the least they need.

As its published code has it: seven starts, each a random design of sides and memories that are powers of two, with a
mapper's mappings on it; a start whose EDP is more than ten times that of the best one is drawn again. 1,490 steps of
Adam, whose state outlives the roundings, on all tiling factors (linear, in parts of the largest bound), the outermost
taking what is left. At every step the array's side, the accumulator and the scratchpad are the largest that any layer
asks for, energies and bandwidths follow from them, and the loss is (sum of energies) x (sum of cycles), with squares
of the part by which factors fall below 1. Every 500 steps factors are rounded to divisors, and each layer takes the
best of its outermost loop order and three others (weights, inputs or outputs stay in place). Rates are its own.

Different from DOSA: Timeloop's model in place of its own; this project's mapper in place of CoSA, so that starts are at
least as good as DOSA's; and the logarithm of the loss, whose direction is the same and to whose scale Adam is blind. At
every rounding each start's mappings are evaluated exactly on their least design of the grid, the starts themselves
among them; the best of all is the answer, where DOSA takes the best end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fadiff_mapper import SearchOptions, map_layers
from fadiff_mapper.design.evaluate_design import DesignReader
from fadiff_mapper.design.space import Point, nearest_value
from fadiff_mapper.gradient.adam import adam_step, one_torch_thread
from fadiff_mapper.gradient.gumbel_softmax import (
    FactorPlaces,
    decode,
    draw,
    drawable_parts,
    places_of,
)
from fadiff_mapper.gradient.hardware_descent import HardwareCurves, curves_around, relaxed_design
from fadiff_mapper.gradient.loss import excess
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.model.energy_latency import cost
from fadiff_mapper.model.evaluate import NestEvaluation, score
from fadiff_mapper.model.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest, joined, nest_arrays, pack
from fadiff_mapper.model.smooth import SMOOTH, evaluate_smooth
from fadiff_mapper.search.layer_family import DiscreteDecisions, LayerFamily, batch_key, family_of
from fadiff_mapper.search.mapping_task import mapping_task

STARTS, STEPS, ROUNDED_EVERY = 7, 1490, 500
RATES = {"unet": 5e-5, "resnet50": 7.5e-5, "retinanet": 7.5e-5, "bert": 1e-5}
"""DOSA's learning rates by network: parts of the largest factor by which a step moves at first."""
TOO_BAD = 10.0
"""Times the EDP of the best start above which a start is drawn again."""
MOST_DRAWN = 50
"""Starts drawn at most."""
LEAST_KB = 8
"""The least memory of the grid, KB."""
LEAST_FACTOR = 1e-3
"""Factors below it count as it in logarithms, which penalties keep them from reaching."""
SCRATCHPAD, ACCUMULATOR = "Scratchpad", "Accumulator"
ACCUMULATOR_BYTES, KB = 4, 1024


@dataclass
class Descended:
    """The layers of one family with the parameters of all starts, one layer after the other.

    Attributes:
        family: The family.
        layers: The numbers of its layers in the network.
        places: The free factors.
        parts: The factors in parts of the largest ones, [P, D, W * starts].
        largest: The largest bound of each dimension in the network, [D].
        choices: Loop orders and what levels keep.
    """

    family: LayerFamily
    layers: list[int]
    places: FactorPlaces
    parts: torch.Tensor
    largest: torch.Tensor
    choices: DiscreteDecisions

    def theta(self) -> torch.Tensor:
        """log2 of the factors, [P, D, W * starts]."""
        return torch.log2((self.parts * self.largest[:, None]).clamp(min=LEAST_FACTOR))

    def below_one(self) -> torch.Tensor:
        """Squares of the parts by which factors fall below 1, the outermost among them, [W * starts]."""
        member = self.places.member_of(self.parts.shape[-1])
        outer = self.places.residual[member].permute(1, 2, 0) > 0
        factors = self.parts * self.largest[:, None]
        left = torch.log2(self.places.bound[member].T) - torch.where(outer, 0.0, self.theta()).sum(dim=0)
        below = torch.where(outer, 0.0, (1 - factors).clamp(min=0) ** 2).sum(dim=(0, 1))
        return below + ((1 - 2 ** left).clamp(min=0) ** 2).sum(dim=0)

    def split(self, values: torch.Tensor) -> torch.Tensor:
        """Values of all columns by layer and start, [..., W, R]."""
        return values.reshape(*values.shape[:-1], len(self.layers), -1)


@dataclass(frozen=True)
class Reached:
    """The best design and mappings of a run: EDP in pJ x cycles, the design, and all EDPs in order of evaluation."""

    edp: float
    point: Point
    every: tuple[float, ...]


def dosa_search(reader: DesignReader, seed: int, starts: int = STARTS, steps: int = STEPS) -> Reached:
    """Runs the protocol.

    Args:
        reader: Reads designs of DOSA's space.
        seed: Seed of the starts.
        starts: Descents side by side.
        steps: Steps of Adam.
    """
    space = reader.question.space
    nests, found = first_mappings(reader, starts, np.random.default_rng(seed))
    parts = families(reader, nests)
    rate = RATES[reader.question.networks[0].name]
    moves = [adam_step(part.parts.requires_grad_(True), rate) for part in parts]
    with one_torch_thread():
        for done in range(0, steps, ROUNDED_EVERY):
            curves = curves_around(space, min(found)[1], lambda point: reader.specs(point)[0])
            for _ in range(min(ROUNDED_EVERY, steps - done)):
                loss_of(parts, curves, reader.question.loads).backward()
                for move in moves:
                    move()
            found += rounded(parts, reader, starts)
    return Reached(*min(found), tuple(edp for edp, _ in found))


def first_mappings(reader: DesignReader, starts: int,
                   rng: np.random.Generator) -> tuple[list[Nest], list[tuple[float, Point]]]:
    """The mappings of random designs that are not too bad, one batch of all starts for each layer; and their worth."""
    space = reader.question.space
    specs = reader.specs(tuple(0 for _ in space.parameters))
    drawn: list[tuple[float, Point, list[Mapping]]] = []
    for _ in range(MOST_DRAWN):
        side, accumulator, scratchpad = (2 ** int(rng.integers(1, most)) for most in (8, 12, 12))
        wanted = {"side": side, "accumulator_kb": max(accumulator, LEAST_KB),
                  "scratchpad_kb": max(scratchpad, LEAST_KB)}
        point = tuple(nearest_value(parameter.values, wanted[parameter.name]) for parameter in space.parameters)
        results = map_layers(reader.specs(point), SearchOptions(("edp",)))
        energy, cycles = (sum(often * value for often, value in zip(reader.question.loads, values, strict=True))
                          for values in ([result.stats.energy_pj for result in results],
                                         [float(result.stats.cycles) for result in results]))
        drawn.append((energy * cycles, point, [result.mapping for result in results]))
        kept = [each for each in drawn if each[0] <= TOO_BAD * min(drawn)[0]][:starts]
        if len(kept) == starts:
            break
    nests = [pack([mappings[layer] for _, _, mappings in kept], spec.problem) for layer, spec in enumerate(specs)]
    return nests, [(edp, point) for edp, point, _ in kept]


def families(reader: DesignReader, nests: Sequence[Nest]) -> list[Descended]:
    """The layers, those of one shape class side by side, at the factors of given mappings."""
    space = reader.question.space
    tasks = [mapping_task(spec) for spec in reader.specs(tuple(len(each.values) - 1 for each in space.parameters))]
    groups: dict[object, list[int]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(batch_key(task.space, task.layer.projection), []).append(number)
    bounds = [[task.space.problem.bounds[name] for name in task.space.problem.dimensions] for task in tasks]
    largest, parts = torch.tensor(bounds, dtype=torch.float64).amax(dim=0), []
    for numbers in groups.values():
        family = family_of(tasks[numbers[0]].layer, [tasks[number].space for number in numbers])
        places, nest = places_of(family.spaces, family.factors), joined([nests[number] for number in numbers])
        parts.append(Descended(family, numbers, places, factors_of(places, nest) / largest[:, None], largest,
                               DiscreteDecisions(nest.order, nest.keep, nest.on_y, nest.spatial_order)))
    return parts


def factors_of(places: FactorPlaces, nest: Nest) -> torch.Tensor:
    """The factors of mappings at the free places, [P, D, B]."""
    return torch.from_numpy(np.stack([(nest.spatial if spatial else nest.temporal)[level]
                                      for level, spatial in zip(places.level, places.spatial, strict=True)]))


def loss_of(parts: Sequence[Descended], curves: HardwareCurves, loads: Sequence[float]) -> torch.Tensor:
    """The sum of the losses of all starts."""
    runs = [evaluated(part) for part in parts]
    place = least_place(parts, runs, curves)
    energy, cycles, broken = (torch.zeros(place.shape[1], dtype=torch.float64) for _ in range(3))
    for part, run in zip(parts, runs, strict=True):
        levels = len(part.family.layer.arch.levels)
        machine = relaxed_design(curves.at(place), levels).machine.for_members(len(part.layers))
        paid = cost(run.counts, run.tile, machine.put_into(part.family.layer).machine, SMOOTH)
        often = torch.tensor([loads[number] for number in part.layers], dtype=torch.float64)[:, None]
        energy = energy + (often * part.split(paid.energy)).sum(dim=0)
        cycles = cycles + (often * part.split(paid.cycles)).sum(dim=0)
        broken = broken + part.split(part.below_one() + overfull_register(part, run)).sum(dim=0)
    return (energy.log() + cycles.log() + broken).sum()


def evaluated(part: Descended) -> NestEvaluation:
    """The counts of nests of real-valued factors."""
    theta, places = part.theta(), part.places
    member = places.member_of(theta.shape[-1])
    residual = places.residual[member].permute(1, 2, 0) > 0
    inner = torch.where(residual, torch.zeros_like(theta), theta)
    left = torch.log2(places.bound[member].T) - inner.sum(dim=0)
    factor = 2 ** torch.where(residual, left, inner).clamp(min=0)
    ones = torch.ones_like(factor[0])
    temporal, spatial = [ones] * places.levels, [ones] * places.levels
    for number, (level, is_spatial) in enumerate(zip(places.level, places.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] = factor[number]
    nest = Nest(torch.stack(temporal), torch.stack(spatial), *map(torch.from_numpy, part.choices))
    return evaluate_smooth(part.family.layer, nest, drawable_parts(places, nest))


def held_words(part: Descended, run: NestEvaluation, level: int) -> torch.Tensor:
    """Words of the tiles that a level keeps, [B]."""
    return (run.tile.size[level] * torch.from_numpy(part.choices.keep[level])).sum(dim=0)


def overfull_register(part: Descended, run: NestEvaluation) -> torch.Tensor:
    """Squared octaves by which tiles exceed the innermost level, whose size is no parameter, [B]."""
    usable = part.family.layer.arch.levels[0].usable
    return excess(held_words(part, run, 0), usable) if usable else torch.zeros_like(part.parts[0, 0])


def least_place(parts: Sequence[Descended], runs: Sequence[NestEvaluation], curves: HardwareCurves) -> torch.Tensor:
    """The octaves of the least side and KB of both memories that all layers' tiles need, [3, R]."""
    sides, words, bytes_held = [], [], []
    for part, run in zip(parts, runs, strict=True):
        names = part.family.layer.arch.level_names()
        sides += [part.split(run.tile.expansion_x[0]), part.split(run.tile.expansion_y[0])]
        words.append(part.split(held_words(part, run, names.index(ACCUMULATOR))))
        bytes_held.append(part.split(held_words(part, run, names.index(SCRATCHPAD))))
    side = torch.cat(sides).amax(dim=0)
    accumulator = torch.cat(words).amax(dim=0) * side * ACCUMULATOR_BYTES / KB
    place = torch.log2(torch.stack([side, accumulator, torch.cat(bytes_held).amax(dim=0) / KB]))
    return torch.maximum(torch.minimum(place, curves.upper[:, None]), curves.lower[:, None])


def rounded(parts: Sequence[Descended], reader: DesignReader, starts: int) -> list[tuple[float, Point]]:
    """Rounds all factors, takes the best loop orders, and evaluates every start on its least design.

    Returns:
        EDP in pJ x cycles and the design of every start whose mappings run on a design of the space.
    """
    nests: dict[int, Nest] = {}
    for part in parts:
        part.choices = best_orders(part)
        nest = decode(draw(part.places, part.theta(), None, 1e-3, part.choices))
        with torch.no_grad():
            part.parts.copy_(factors_of(part.places, nest) / part.largest[:, None])
        nests |= {number: nest.take(np.arange(starts) + member * starts) for member, number in enumerate(part.layers)}
    found = []
    for start in range(starts):
        own = [nests[number].take(np.array([start])) for number in range(len(nests))]
        point = least_point(reader, own)
        if point is not None:
            found.append((exact_edp(reader, point, own), point))
    return found


def best_orders(part: Descended) -> DiscreteDecisions:
    """For every column the best outermost loop order: its own, or weights, inputs or outputs stay in place."""
    layer, projection = part.family.layer, part.family.layer.projection
    nest = decode(draw(part.places, part.theta(), None, 1e-3, part.choices))
    options = [nest.order]
    for stationary in range(len(projection.relevant)):
        rows = np.argsort(projection.relevant[stationary].astype(int), kind="stable")
        options.append(np.concatenate([nest.order[:-1], np.broadcast_to(rows[None, :, None], nest.order[-1:].shape)]))
    scored = [score(layer, replace(nest, order=order)) for order in options]
    pick = np.argmin([scores.energy * scores.cycles for scores in scored], axis=0)
    return part.choices._replace(order=np.take_along_axis(np.stack(options), pick[None, None, None], axis=0)[0])


def least_point(reader: DesignReader, nests: Sequence[Nest]) -> Point | None:
    """The least design of the grid on which mappings run; None where they need more than the space has."""
    parameters = reader.question.space.parameters
    specs = reader.specs(tuple(len(parameter.values) - 1 for parameter in parameters))
    side = accumulator = scratchpad = 0.0
    for spec, nest in zip(specs, nests, strict=True):
        run = evaluate_smooth(layer_of(spec), Nest(*map(torch.from_numpy, nest_arrays(nest))))
        names = spec.arch.level_names()
        words = {name: float((run.tile.size[names.index(name)] * torch.from_numpy(nest.keep[names.index(name)])).sum())
                 for name in (SCRATCHPAD, ACCUMULATOR)}
        side = max(side, float(run.tile.expansion_x[0]), float(run.tile.expansion_y[0]))
        accumulator, scratchpad = max(accumulator, words[ACCUMULATOR]), max(scratchpad, words[SCRATCHPAD])
    side = next((value for value in parameters[0].values if float(value) >= side), math.inf)
    wanted = (side, accumulator * side * ACCUMULATOR_BYTES / KB, scratchpad / KB)
    point = tuple(next((index for index, value in enumerate(parameter.values) if float(value) >= least), -1)
                  for parameter, least in zip(parameters, wanted, strict=True))
    return None if -1 in point else point


def exact_edp(reader: DesignReader, point: Point, nests: Sequence[Nest]) -> float:
    """The EDP of given mappings on a design, in pJ x cycles; infinite where one does not run there."""
    energy = cycles = 0.0
    for spec, nest, often in zip(reader.specs(point), nests, reader.question.loads, strict=True):
        scores = score(layer_of(spec), nest)
        if not scores.legal[0]:
            return math.inf
        energy, cycles = energy + often * float(scores.energy[0]), cycles + often * float(scores.cycles[0])
    return energy * cycles
