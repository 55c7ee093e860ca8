"""DOSA's search (Hong et al., MICRO 2023) rebuilt on our model: mappings descend, and hardware is the least they need.

Its settings: seven random starts, 1,490 steps of Adam on log2 of all tiling factors, rounding to divisors every 500
steps, where each layer takes the best of three loop orders (weights, inputs or outputs stay in place). At every step
the array's side, the accumulator and the scratchpad are the largest that any layer asks for, energies and bandwidths
follow from them, and the loss is the logarithm of (sum of energies) x (sum of cycles). Different from DOSA: Timeloop's
model in place of its own, and starts that are random factors without CoSA. At every rounding each start's mappings are
evaluated exactly on their least design of the grid; the best of all is the answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from fadiff_mapper.design.descent.hardware_curves import HardwareCurves, curves_around
from fadiff_mapper.design.descent.hardware_figures import relaxed_design
from fadiff_mapper.design.evaluation.design_reader import DesignReader
from fadiff_mapper.design.space import Point
from fadiff_mapper.model.energy_latency import cost
from fadiff_mapper.model.exact.evaluate import score
from fadiff_mapper.model.exact.evaluate_spec import layer_of
from fadiff_mapper.model.loop_nest import Nest
from fadiff_mapper.model.smooth.evaluate import SMOOTH, SmoothEvaluation, evaluate_smooth
from fadiff_mapper.relaxation.adam import adam_step, one_torch_thread
from fadiff_mapper.relaxation.discrete_decisions import DiscreteDecisions
from fadiff_mapper.relaxation.gumbel_softmax import (
    FactorPlaces,
    RelaxedFactors,
    decode,
    draw,
    drawable_parts,
    places_of,
    torch_nest,
)
from fadiff_mapper.relaxation.layer_batch import LayerFamily, family_of, kin, random_decisions
from fadiff_mapper.relaxation.penalty import excess, validity
from fadiff_mapper.search.gradient_descent import first_theta
from fadiff_mapper.search.mapping_task import MappingTask, mapping_task

STARTS, STEPS, ROUNDED_EVERY = 7, 1490, 500
RATE, PENALTY = 0.1, 4.0
"""Octaves of a first step, and the weight of squared octaves by which factors fall below 1."""
SCRATCHPAD, ACCUMULATOR = "Scratchpad", "Accumulator"
ACCUMULATOR_BYTES, KB = 4, 1024


@dataclass
class Descended:
    """The layers of one family with the parameters of all starts, one layer after the other.

    Attributes:
        family: The family.
        layers: The numbers of its layers in the network.
        places: The free factors.
        theta: log2 of the factors, [P, D, W * starts].
        choices: Loop orders and what levels keep.
    """

    family: LayerFamily
    layers: list[int]
    places: FactorPlaces
    theta: torch.Tensor
    choices: DiscreteDecisions

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
    widest = tuple(len(parameter.values) - 1 for parameter in space.parameters)
    tasks = [mapping_task(spec) for spec in reader.specs(widest)]
    parts = families(tasks, starts, seed)
    for part in parts:
        part.choices = best_orders(part)
    centre, found = tuple(index // 2 for index in widest), list[tuple[float, Point]]()
    with one_torch_thread():
        for done in range(0, steps, ROUNDED_EVERY):
            curves = curves_around(space, centre, lambda point: reader.specs(point)[0])
            descend(parts, curves, reader.question.loads, min(ROUNDED_EVERY, steps - done))
            found += rounded(parts, reader, starts)
            centre = min(found)[1]
    return Reached(*min(found), tuple(edp for edp, _ in found))


def families(tasks: Sequence[MappingTask], starts: int, seed: int) -> list[Descended]:
    """The layers, those of one shape class side by side, at random factors."""
    groups: dict[object, list[int]] = {}
    for number, task in enumerate(tasks):
        groups.setdefault(kin(task.space, task.layer.projection), []).append(number)
    generator, rng, parts = torch.Generator().manual_seed(seed), np.random.default_rng(seed), []
    for numbers in groups.values():
        family = family_of(tasks[numbers[0]].layer, [tasks[number].space for number in numbers])
        places = places_of(family.spaces, family.factors)
        parts.append(Descended(family, numbers, places, first_theta(places, starts, generator),
                               random_decisions(family, starts * len(numbers), rng)))
    return parts


def descend(parts: Sequence[Descended], curves: HardwareCurves, loads: Sequence[float], steps: int) -> None:
    """Moves the factors of all layers in place."""
    for part in parts:
        part.theta.requires_grad_(True)
    moves = [adam_step(part.theta, RATE) for part in parts]
    for step in range(steps):
        runs = [evaluated(part) for part in parts]
        place = least_place(parts, runs, curves)
        energy, cycles, broken = (torch.zeros(place.shape[1], dtype=torch.float64) for _ in range(3))
        for part, run in zip(parts, runs, strict=True):
            levels = len(part.family.layer.arch.levels)
            machine = relaxed_design(curves.at(place), levels).machine.for_members(len(part.layers))
            paid = cost(run.counts, run.use, machine.put_into(part.family.layer).machine, run.use.computes, SMOOTH)
            often = torch.tensor([loads[number] for number in part.layers], dtype=torch.float64)[:, None]
            energy = energy + (often * part.split(paid.energy)).sum(dim=0)
            cycles = cycles + (often * part.split(paid.cycles)).sum(dim=0)
            broken = broken + part.split(validity(part.places, part.theta) + overfull_register(part, run)).sum(dim=0)
        (energy.log() + cycles.log() + PENALTY * broken).sum().backward()
        for move in moves:
            move(1 - step / steps)
    for part in parts:
        part.theta = part.theta.detach()


def evaluated(part: Descended) -> SmoothEvaluation:
    """The counts of nests of real-valued factors."""
    places, member = part.places, part.places.member_of(part.theta.shape[-1])
    residual = places.residual[member].permute(1, 2, 0) > 0
    inner = torch.where(residual, torch.zeros_like(part.theta), part.theta)
    left = torch.log2(places.bound[member].T) - inner.sum(dim=0)
    factor = 2 ** torch.where(residual, left, inner).clamp(min=0)
    ones = torch.ones_like(factor[0])
    temporal, spatial = [ones] * places.levels, [ones] * places.levels
    for number, (level, is_spatial) in enumerate(zip(places.level, places.spatial, strict=True)):
        (spatial if is_spatial else temporal)[level] = factor[number]
    nest = torch_nest(RelaxedFactors(torch.stack(temporal), torch.stack(spatial)), part.choices)
    return evaluate_smooth(part.family.layer, nest, drawable_parts(places, part.choices))


def held_words(part: Descended, run: SmoothEvaluation, level: int) -> torch.Tensor:
    """Words of the tiles that a level keeps, [B]."""
    return (run.tile.size[level] * torch.from_numpy(part.choices.keep[level])).sum(dim=0)


def overfull_register(part: Descended, run: SmoothEvaluation) -> torch.Tensor:
    """Squared octaves by which tiles exceed the innermost level, whose size is no parameter, [B]."""
    usable = part.family.layer.arch.levels[0].usable
    return excess(held_words(part, run, 0), usable) if usable else torch.zeros_like(part.theta[0, 0])


def least_place(parts: Sequence[Descended], runs: Sequence[SmoothEvaluation], curves: HardwareCurves) -> torch.Tensor:
    """The octaves of the least side and KB of both memories that all layers' tiles need, [3, R]."""
    sides, words, bytes_held = [], [], []
    for part, run in zip(parts, runs, strict=True):
        names = part.family.layer.arch.level_names()
        sides += [part.split(run.use.expansion_x[0]), part.split(run.use.expansion_y[0])]
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
        nest = decode(draw(part.places, part.theta, None, 1e-3), part.choices)
        part.theta = torch.log2(torch.from_numpy(np.stack(
            [(nest.spatial if spatial else nest.temporal)[level]
             for level, spatial in zip(part.places.level, part.places.spatial, strict=True)])))
        nests |= {number: nest.take(np.arange(starts) + member * starts) for member, number in enumerate(part.layers)}
    found = []
    for start in range(starts):
        own = [nests[number].take(np.array([start])) for number in range(len(nests))]
        point = least_point(reader, own)
        if point is not None:
            found.append((exact_edp(reader, point, own), point))
    return found


def best_orders(part: Descended) -> DiscreteDecisions:
    """For every column the loop orders in which weights, inputs or outputs stay in place, whichever is best."""
    layer, projection = part.family.layer, part.family.layer.projection
    nest = decode(draw(part.places, part.theta, None, 1e-3), part.choices)
    options, values = [], []
    for stationary in range(len(projection.relevance)):
        rows = np.argsort(np.array(projection.relevance[stationary], dtype=int), kind="stable")
        order = np.broadcast_to(rows[None, :, None], nest.order.shape).copy()
        scores = score(layer, replace(nest, order=order))
        options.append(order)
        values.append(scores.energy * scores.cycles)
    pick = np.argmin(values, axis=0)
    return replace(part.choices, order=np.take_along_axis(np.stack(options), pick[None, None, None], axis=0)[0])


def least_point(reader: DesignReader, nests: Sequence[Nest]) -> Point | None:
    """The least design of the grid on which mappings run; None where they need more than the space has."""
    parameters = reader.question.space.parameters
    specs = reader.specs(tuple(len(parameter.values) - 1 for parameter in parameters))
    side = accumulator = scratchpad = 0.0
    for spec, nest in zip(specs, nests, strict=True):
        run = evaluate_smooth(layer_of(spec), torch_nest(
            RelaxedFactors(torch.from_numpy(nest.temporal), torch.from_numpy(nest.spatial)),
            DiscreteDecisions(nest.order, nest.keep, nest.on_y, nest.spatial_order)))
        names = spec.arch.level_names()
        words = {name: float((run.tile.size[names.index(name)] * torch.from_numpy(nest.keep[names.index(name)])).sum())
                 for name in (SCRATCHPAD, ACCUMULATOR)}
        side = max(side, float(run.use.expansion_x[0]), float(run.use.expansion_y[0]))
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
