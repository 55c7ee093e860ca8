"""The layer search: gradient descent on the relaxed model in many restarts at once, then exact refinement."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from fadiff_mapper.choices import open_keeps, random_choices, temporal_orders
from fadiff_mapper.exact import Layer, score
from fadiff_mapper.mapspace import MapSpace
from fadiff_mapper.nest import Nest, joined
from fadiff_mapper.objective import ILLEGAL, exact_value, smooth_value
from fadiff_mapper.penalty import penalty
from fadiff_mapper.refine import kicked, moves_of, put, refine
from fadiff_mapper.relax import Choices, Slots, decode, draw, drawable_parts, gumbel, slots_of, torch_nest
from fadiff_mapper.smooth import evaluate_smooth


@dataclass(frozen=True)
class SearchOptions:
    """`restarts` run side by side for `steps` of Adam; every `reorder_every` steps the decisions without a gradient
    (loop order, keep or bypass) are set to the best of their alternatives. The temperature of the draw falls from
    `hot` to `cold`, the weight of the penalties rises from `light` to `heavy`. `elites` are refined."""

    metrics: tuple[str, ...] = ("edp",)
    seed: int = 0
    time_limit: float | None = None
    restarts: int = 48
    steps: int = 60
    reorder_every: int = 12
    learning_rate: float = 0.12
    hot: float = 4.0
    cold: float = 0.05
    light: float = 1.0
    heavy: float = 8.0
    elites: int = 12
    kicks: int = 4
    patience: int = 4
    gradient: bool = True
    refinement: bool = True
    threads: int = 2

    def as_dict(self) -> dict[str, Any]:
        """All options that bear on the result, for the record."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "threads"}


@dataclass(frozen=True)
class Progress:
    """The best so far: its value (see `objective.exact_value`), found after how long and how many evaluations."""

    time_s: float
    evaluations: int
    value: float
    stage: str

    @property
    def legal(self) -> bool:
        return self.value < ILLEGAL

    @property
    def metric_value(self) -> float | None:
        """The first metric itself (up to a millionth, where several are given), None before a legal mapping."""
        return math.exp(self.value) if self.legal else None


@dataclass
class Search:
    """The running state: what was evaluated, and the best nests of all restarts so far."""

    layer: Layer
    options: SearchOptions
    on_progress: Callable[[Progress], None]
    start: float = field(default_factory=time.monotonic)
    evaluations: int = 0
    best: float = np.inf
    history: list[Progress] = field(default_factory=list)

    def value(self, nest: Nest, stage: str) -> np.ndarray:
        """Exact values of a batch; keeps count and history."""
        found = exact_value(score(self.layer, nest, threads=self.options.threads), self.options.metrics)
        self.evaluations += nest.batch
        lowest = float(found.min(initial=np.inf))
        if lowest < self.best:
            self.best = lowest
            self.history.append(Progress(time.monotonic() - self.start, self.evaluations, lowest, stage))
            self.on_progress(self.history[-1])
        return found

    def out_of_time(self) -> bool:
        limit = self.options.time_limit
        return limit is not None and time.monotonic() - self.start > limit


@dataclass(frozen=True)
class Found:
    """The best nest (one row), its value, and how the search ended."""

    nest: Nest
    value: float
    status: str
    history: tuple[Progress, ...]
    evaluations: int

    @property
    def legal(self) -> bool:
        return self.value < ILLEGAL


def search(layer: Layer, space: MapSpace, options: SearchOptions,
           on_progress: Callable[[Progress], None] = lambda _: None) -> Found:
    """The best mapping found in the map space. The same seed gives the same answer, unless time runs out.

    The result may be illegal where no legal mapping was met; `Found.legal` tells.
    """
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    state = Search(layer, options, on_progress)
    slots = slots_of(space)
    choices = random_choices(space, layer.projection, options.restarts, rng)
    with _one_torch_thread():
        nests, values = _descend(state, space, slots, choices)
    status = "descent ended"
    if options.refinement and not state.out_of_time():
        nests, values = _refine(state, space, _elites(nests, values, options.elites), rng)
        status = "converged: neither a neighbour nor a descent from nearby is better than the best mapping"
    if state.out_of_time():
        status = f"out of time after {options.time_limit:g} s: the best mapping so far"
    row = int(values.argmin())
    return Found(nests.take([row]), float(values[row]), status, tuple(state.history), state.evaluations)


@contextmanager
def _one_torch_thread() -> Iterator[None]:
    """The tensors of a descent are small: threads would cost more than they bring. The caller's setting returns."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _refine(state: Search, space: MapSpace, start: Nest, rng: np.random.Generator) -> tuple[Nest, np.ndarray]:
    """Local optima of the elites, then of random points near them, until `patience` rounds bring nothing better."""
    options, moves = state.options, moves_of(space, state.layer.projection)

    def descend(nest: Nest, stage: str) -> tuple[Nest, np.ndarray]:
        return refine(space, moves, nest, lambda near: state.value(near, stage), rng, state.out_of_time)

    nests, values = descend(start, "refine")
    idle = 0
    while idle < options.patience and not state.out_of_time():
        before = values.min()
        copies = nests.take(np.arange(options.elites) % nests.batch)
        near, near_values = descend(kicked(moves, copies, options.kicks, rng), "explore")
        both, both_values = joined([nests, near]), np.concatenate([values, near_values])
        best = _distinct(both_values)[:options.elites]
        nests, values = both.take(best), both_values[best]
        idle = 0 if values.min() < before - 1e-9 else idle + 1
    return nests, values


def _distinct(values: np.ndarray) -> np.ndarray:
    """Rows of distinct value, best first."""
    return np.unique(np.round(values, 9), return_index=True)[1]


def _elites(nests: Nest, values: np.ndarray, count: int) -> Nest:
    """The best rows, one of each value."""
    return nests.take(_distinct(values)[:count])


def _descend(state: Search, space: MapSpace, slots: Slots, choices: Choices) -> tuple[Nest, np.ndarray]:
    """Adam on eq. (20), with the best integer nest of every restart kept; returns those and their values."""
    options = state.options
    generator = torch.Generator().manual_seed(options.seed)
    theta = _first_theta(slots, options.restarts, generator).requires_grad_(True)
    adam = torch.optim.Adam([theta], lr=options.learning_rate)
    quiet = torch.zeros((*theta.shape[:2], slots.divisor.shape[1], options.restarts), dtype=torch.float64)
    drawn = best = decode(draw(slots, theta, quiet, options.cold), choices)
    values = state.value(best, "start")
    for step in range(options.steps if options.gradient else 0):
        ratio = step / max(options.steps - 1, 1)
        temperature = options.hot * (options.cold / options.hot) ** ratio
        weight = options.light * (options.heavy / options.light) ** ratio
        factors = draw(slots, theta, gumbel(slots, options.restarts, generator), temperature)
        drawn = decode(factors, choices)
        found = state.value(drawn, "descent")
        better = np.flatnonzero(found < values)
        best = put(best, better, drawn.take(better))
        values[better] = found[better]
        nest = torch_nest(factors, choices)
        smooth = evaluate_smooth(state.layer, nest, drawable_parts(slots, choices))
        loss = smooth_value(smooth, options.metrics) + weight * penalty(
            state.layer, slots, theta, nest, smooth, space.constraints.min_parallelism)
        adam.zero_grad()
        loss.sum().backward()
        adam.step()
        if (step + 1) % options.reorder_every == 0:
            choices = _best_orders(state, space, drawn, choices)
        if state.out_of_time():
            break
    return best, values


def _first_theta(slots: Slots, restarts: int, generator: torch.Generator) -> torch.Tensor:
    """Random shares of each dimension's octaves over its slots; the first restart leaves all to the outermost."""
    weights = torch.rand((len(slots.level), len(slots.bound), restarts), generator=generator, dtype=torch.float64) ** 2
    shares = weights / weights.sum(dim=0, keepdim=True)
    theta = shares * torch.log2(slots.bound)[:, None]
    theta[..., 0] = 0
    return theta


def _best_orders(state: Search, space: MapSpace, nest: Nest, choices: Choices) -> Choices:
    """For the factors just drawn, the best loop order of each level in turn and the best keep or bypass."""
    order, keep = choices.order.copy(), choices.keep.copy()
    for level in range(len(space.levels)):
        candidates = temporal_orders(space, state.layer.projection, level)
        if len(candidates) < 2:
            continue
        tried = []
        for candidate in candidates:
            changed = order.copy()
            changed[level] = candidate[:, None]
            tried.append(Nest(nest.temporal, nest.spatial, changed, keep, nest.on_y, nest.spatial_order))
        values = state.value(joined(tried), "order").reshape(len(candidates), -1)
        order[level] = candidates[values.argmin(axis=0)].T
    for level, tensor in open_keeps(space):
        tried = []
        for kept in (False, True):
            changed = keep.copy()
            changed[level, tensor] = kept
            tried.append(Nest(nest.temporal, nest.spatial, order, changed, nest.on_y, nest.spatial_order))
        values = state.value(joined(tried), "keep").reshape(2, -1)
        keep[level, tensor] = values[1] <= values[0]
    return Choices(order, keep, choices.on_y, choices.spatial_order)
