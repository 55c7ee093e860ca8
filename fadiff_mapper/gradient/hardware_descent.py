"""One descent of hardware parameters, tiling factors of all layers and fusion variables of all links.

The loss is the logarithm of the metric on the relaxed network, the designs' area included where the metric has it, with
the penalties of FADiff's eqs. (21) to (26) and those of the space's limits. A larger memory holds larger tiles and
costs more per access, leakage and area; a wider array runs more in parallel: the descent balances both, as DOSA's
single loop does, here with fusion. It starts at a design that has been mapped exactly, with its mappings.

**Hardware as smooth functions of its parameters.** The descent needs every constant of the machine (energies,
bandwidths, capacities, meshes, area) as a function of real-valued parameters. A space may use parameters anywhere, also
in ties, templates and energy estimates, so designs are sampled along every parameter's axis through a centre. The
logarithm of a constant is its value at the centre plus one piecewise linear curve for each parameter. This is exact at
the sampled designs, exact everywhere for products of powers of the parameters (capacities, meshes, ties), and
approximate around the centre for other functions (an estimated energy by depth and width).

Axes: P (parameter), K (knot: a sampled value of a parameter), Q (number of a vector), L (level), R (restart).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.base.errors import FadiffError, OutOfTime
from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.space import DesignSpace, Point, coordinate, design_area_mm2, limit_values, nearest_index
from fadiff_mapper.fusion import Hardware
from fadiff_mapper.fusion.estimates import homes
from fadiff_mapper.fusion.segments import Segment, chains, segments
from fadiff_mapper.gradient.loss import MachineLimits, excess, machine_limits
from fadiff_mapper.gradient.network_descent import descend, restarts_of
from fadiff_mapper.gradient.relaxed_network import DescendedHardware, RelaxedMachine, RelaxedNetwork, relaxed_network
from fadiff_mapper.inputs.spec.mapping import Mapping as LayerMapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.model.evaluate_spec import evaluate_mapping, layer_of
from fadiff_mapper.model.prepared_layer import UNLIMITED
from fadiff_mapper.network.one_design import by_node, repeats_of
from fadiff_mapper.search.result import Result

CONSTANTS = ("clusters", "block", "read", "fill", "update", "leak", "addr_gen", "read_bandwidth", "write_bandwidth",
             "shared_bandwidth", "gated")
"""Fields of `Machine` with one number for each level."""


def structure(spec: Spec) -> tuple[str, ...]:
    """The names of levels and arithmetic: designs with the same names have vectors of one layout."""
    return (spec.arch.arithmetic.name, *spec.arch.level_names())


def figures_of(space: DesignSpace, point: Point, spec: Spec) -> np.ndarray:
    """The vector of one design with any problem, [Q].

    In this order: `CONSTANTS` level by level, pJ of a multiply-accumulate, words of every level, meshes along X and
    along Y of the arithmetic and every level, mm2, and the figure of each limit of the space.
    """
    machine, limits = layer_of(spec).machine, machine_limits(spec.arch)
    constants = [np.asarray(getattr(machine, name))[:, 0] for name in CONSTANTS]
    usable = [float(words or UNLIMITED) for words in limits.usable]
    bounded = [value for value, _ in limit_values(space, point, spec).values()]
    rest = [machine.compute_energy, *usable, *limits.mesh_x, *limits.mesh_y, design_area_mm2(spec), *bounded]
    return np.concatenate([*constants, np.array(rest, dtype=np.float64)])


@dataclass(frozen=True)
class RelaxedDesign:
    """The designs of all restarts."""

    machine: RelaxedMachine            # Their machines
    area: torch.Tensor                 # mm2, [R]
    bounded: tuple[torch.Tensor, ...]  # The figure that each limit of the space bounds, [R] each


def relaxed_design(figures: torch.Tensor, levels: int) -> RelaxedDesign:
    """The designs of L storage levels that vectors, [Q, R], describe; see `figures_of` for their order."""
    sizes = [*[levels] * len(CONSTANTS), 1, levels, levels + 1, levels + 1, 1]
    parts = torch.split(figures, [*sizes, len(figures) - sum(sizes)])
    constants = dict(zip(CONSTANTS, parts, strict=False))
    per_mac, usable, mesh_x, mesh_y, area, bounded = parts[len(CONSTANTS):]
    limits = MachineLimits(tuple(usable), tuple(mesh_x), tuple(mesh_y))
    return RelaxedDesign(RelaxedMachine(constants | {"compute_energy": per_mac[0]}, limits), area[0], tuple(bounded))


KNOTS = 5
"""Most sampled values of a parameter, the centre and both ends included: each sample costs the reading of a design, and
capacities and meshes are exact with any number."""

SMALLEST = 1e-30
"""Replaces a constant of 0, so that logarithms stay finite."""


@dataclass(frozen=True)
class HardwareCurves:
    """Curves that interpolate the vectors (`figures_of`) of designs around a centre."""

    centre: Point                     # The design in the middle
    at_centre: torch.Tensor           # Natural logarithm of its vector, [Q]
    knots: tuple[torch.Tensor, ...]   # For each parameter the sampled coordinates in ascending order, [K]; one knot
                                      # where it cannot descend
    curves: tuple[torch.Tensor, ...]  # For each parameter the logarithm of the vector there less that at the centre,
                                      # [K, Q]
    lower: torch.Tensor               # Least coordinate of each parameter, [P]
    upper: torch.Tensor               # Greatest coordinate, [P]

    def at(self, place: torch.Tensor) -> torch.Tensor:
        """The differentiable vectors, [Q, R], at real-valued coordinates [P, R]."""
        logs = self.at_centre[:, None] + torch.zeros_like(place[:1])
        for along, knots, curve in zip(place, self.knots, self.curves, strict=True):
            if len(knots) > 1:
                piece = torch.searchsorted(knots[1:-1].contiguous(), along.detach().contiguous())  # ends extrapolate
                part = (along - knots[piece]) / (knots[piece + 1] - knots[piece])
                logs = logs + (curve[piece] + part[:, None] * (curve[piece + 1] - curve[piece])).T
        return logs.exp()


def curves_around(space: DesignSpace, centre: Point, spec_at: Callable[[Point], Spec]) -> HardwareCurves:
    """Samples the designs along every axis through a centre.

    A parameter whose values are words, or change the levels, has one knot. `spec_at` reads a design with any problem of
    the networks, and raises FadiffError for an invalid design.
    """
    def logs(point: Point, spec: Spec) -> np.ndarray:
        result: np.ndarray = np.log(np.maximum(figures_of(space, point, spec), SMALLEST))
        return result

    middle = spec_at(centre)
    at_centre = logs(centre, middle)
    knots, curves, ends = [], [], []
    for axis, parameter in enumerate(space.parameters):
        sampled, count = {centre[axis]: np.zeros_like(at_centre)}, len(parameter.values)
        spread = np.unique(np.rint(np.linspace(0, count - 1, min(count, KNOTS))).astype(int))
        for index in (int(index) for index in spread if parameter.numeric and index != centre[axis]):
            point = (*centre[:axis], index, *centre[axis + 1:])
            try:
                spec = spec_at(point)
            except OutOfTime:
                raise
            except FadiffError:     # invalid design: the curve has no knot here
                continue
            if structure(spec) == structure(middle):
                sampled[index] = logs(point, spec) - at_centre
        order = sorted(sampled)
        places = np.array([coordinate(parameter, index) for index in order])
        knots.append(torch.from_numpy(places))
        curves.append(torch.from_numpy(np.stack([sampled[index] for index in order])))
        ends.append((places[0], places[-1]))
    lower, upper = torch.tensor(ends, dtype=torch.float64).T
    return HardwareCurves(centre, torch.from_numpy(at_centre), tuple(knots), tuple(curves), lower, upper)


def relaxed_around(question: DesignQuestion, widest: Sequence[Spec], specs: Sequence[Spec],
                   mappings: Sequence[LayerMapping]) -> RelaxedNetwork:
    """All networks of a question as one relaxed network that starts from the mappings of one design.

    `widest` has every distinct layer on the largest design, whose factors cover all designs. `specs` has them on the
    design of the mappings, whose energies and cycles weigh the layers.
    """
    results = [Result(wide, mapping, evaluate_mapping(spec, mapping), "", (), {}, 0, 0.0)
               for wide, spec, mapping in zip(widest, specs, mappings, strict=True)]
    hardware = Hardware(widest[0].arch, widest[0].tables)
    names = homes(hardware)
    every: list[tuple[str, ...]] = []
    pairs: dict[tuple[str, str], Segment] = {}
    runs: dict[str, float] = {}
    by_name: dict[str, Result] = {}
    for number, workload in enumerate(question.networks):  # layer names carry the number of their network
        every += [tuple(f"{number}/{name}" for name in chain) for chain, _ in chains(workload)]
        by_name |= {f"{number}/{name}": results[layer]
                    for name, (layer, _) in by_node(workload, question.runs[number]).items()}
        runs |= {f"{number}/{name}": question.weights[number] * repeat for name, repeat in repeats_of(workload).items()}
        pairs |= {(f"{number}/{segment.nodes[0]}", f"{number}/{segment.nodes[1]}"): segment
                  for segment in (segments(workload, 2) if question.fuse and names else ()) if not segment.batched}
    return relaxed_network(every, pairs, by_name, runs,
                           hardware.level(names[0]) if names else len(widest[0].arch.levels) - 1)


STEPS, RESTARTS = 30, 8
"""Steps and parallel restarts of one descent; more steps cost as much time as mapping further designs."""

RATE = 0.15
"""Octaves by which a parameter moves in the first step: `STEPS` can cross two to three octaves."""

SPREAD = 0.7
"""Standard deviation, in octaves, of the restarts' hardware around the first restart's."""

OUTSIDE = 4.0
"""Weight of squared octaves beyond a parameter's range or a limit; limits are checked exactly after decoding."""


def proposed_designs(space: DesignSpace, curves: HardwareCurves, network: RelaxedNetwork, metric: str,
                     area_exponent: float, seed: int, steps: int = STEPS, restarts: int = RESTARTS,
                     stopped: Over = never) -> list[Point]:
    """Descends around the centre of the curves and decodes the ends: distinct designs, the lowest loss first.

    `network` starts with the centre's mappings; `area_exponent` is the exponent of the area in the loss.
    """
    rng, columns = np.random.default_rng(seed), restarts_of(network, restarts)
    centre = torch.tensor([coordinate(parameter, index) for parameter, index in
                           zip(space.parameters, curves.centre, strict=True)], dtype=torch.float64)
    free = torch.tensor([len(knots) > 1 for knots in curves.knots])
    noise = torch.from_numpy(rng.normal(0.0, SPREAD, (len(centre), columns)))
    noise[:, 0] = 0.0
    place = (centre[:, None] + noise * free[:, None]).clamp(curves.lower[:, None], curves.upper[:, None])
    levels = len(network.sites[0].result.spec.arch.levels)

    def design_at(moved: torch.Tensor) -> tuple[RelaxedMachine, torch.Tensor, torch.Tensor]:
        inside = moved.clamp(curves.lower[:, None], curves.upper[:, None])
        design = relaxed_design(curves.at(inside), levels)
        beyond = ((moved - inside.detach()) ** 2).sum(dim=0)
        for figure, limit in zip(design.bounded, space.limits.values(), strict=True):
            beyond = beyond + excess(figure, limit)
        return design.machine, area_exponent * design.area.log(), OUTSIDE * beyond

    end = descend(network, metric, "refined", seed, steps, restarts, stopped, DescendedHardware(place, RATE, design_at))
    assert end.place is not None
    nearest = (tuple(nearest_index(parameter, float(at)) if len(knots) > 1 else index  # others cannot descend
                     for parameter, at, index, knots in
                     zip(space.parameters, column, curves.centre, curves.knots, strict=True)) for column in end.place.T)
    return list(dict.fromkeys(nearest))


def descended_designs(question: DesignQuestion, parent: Point, specs_at: Callable[[Point], tuple[Spec, ...]],
                      mappings: Sequence[LayerMapping], exponents: np.ndarray, seed: int, over: Over) -> list[Point]:
    """Distinct designs at the ends of the descents from one design, the lowest loss first; none for sparse designs.

    `specs_at` gives every distinct layer on a design, in the order of `DesignQuestion.layers` and of the parent's
    `mappings`; FadiffError if invalid. `exponents`: of energy, cycles and area in the metric.
    """
    specs, space = specs_at(parent), question.space
    if any(spec.sparse and spec.sparse.applied for spec in specs):
        return []
    widest = specs
    try:  # the design with all largest values, if valid: its factors include the factors of all designs
        largest = specs_at(tuple(len(parameter.values) - 1 if parameter.numeric else 0
                                 for parameter in space.parameters))
        widest = largest if structure(largest[0]) == structure(specs[0]) else specs
    except OutOfTime:
        raise
    except FadiffError:
        pass
    network = relaxed_around(question, widest, specs, mappings)
    curves = curves_around(space, parent, lambda point: specs_at(point)[0])
    return proposed_designs(space, curves, network, question.mapping_metric,
                            float(exponents[2] / max(exponents[:2].max(), 1e-9)), seed, stopped=over)
