"""Gradient descent on a relaxed network: tiling factors of all layers and a fusion variable of every link at once.

Mapping and fusion depend on each other, so FADiff minimises EDP + lambda (P_map + P_mem + P_align) over both (eq. 20):
Adam on log2 of the tiling factors and on the logits of sigma. The loss is the logarithm of the network's metric (for
EDP: sum of energies times sum of cycles), so that networks of all sizes have gradients of one scale, plus the penalties
of eqs. (21) to (26), each weighed with its layer's share in the metric. Factors are drawn by Gumbel-Softmax with a
straight-through gradient, at a temperature that falls; the weight of the penalties rises. All restarts of all layers
run in one batch.

**Starts.** Fused tiles lie far from the best mappings of single layers: the outermost loops of all layers of a group
have to change together, and no gradient leads there. So some restarts begin with loops shared along stretches of a
chain:

    restart 0     every layer's best mapping by itself
    to 3/4        the best mappings with noise, the loops of the outermost level in an order that links can share,
                  and in every stretch of a chain one loop that all its layers share, with enough steps that the
                  intermediates fit into the home
    all others    the best mappings with noise

**Decoding.** FADiff decodes "into integer factors and binary fusion decisions" and does not say how. Here a segment is
proposed in every restart where all its sigmas exceed a half. Its shared loops are the drawn loops at the outermost
level of its last layer, along dimensions that the link carries, in their order. `fusion.candidates` makes the other
choices as for enumerated candidates: operands that stay, halo retained or recomputed, and other tile sizes where these
promise more or the restart's tile sizes do not fit.

Axes: V (site), E (tie), J (dimension that a link carries), D (dimension), R (restart), W (member of a family), P
(factor place: one level's temporal or spatial factors), L (level).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch

from fadiff_mapper.base.deadline import Over, never
from fadiff_mapper.fusion import Hardware, TileLoop
from fadiff_mapper.fusion.candidates import candidates_along, cuts_whole
from fadiff_mapper.fusion.estimates import Candidate, CompiledSegment, LayerBase, compiled_segment, group_bases, homes
from fadiff_mapper.fusion.prices import NetworkPrice, chosen, summed
from fadiff_mapper.fusion.segments import Segment, chains, segments
from fadiff_mapper.gradient.adam import adam_step, cooled, one_torch_thread
from fadiff_mapper.gradient.gumbel_softmax import decode, draw, gumbel
from fadiff_mapper.gradient.network_cost import RelaxedCost, relaxed_cost
from fadiff_mapper.gradient.relaxed_network import DescendedHardware, FamilySites, RelaxedNetwork, relaxed_network
from fadiff_mapper.inputs.spec.spec import METRIC_EXPONENTS
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import Nest, pack
from fadiff_mapper.network.one_design import by_node, repeats_of
from fadiff_mapper.network.planning import DescendedNetwork
from fadiff_mapper.search.layer_family import DiscreteDecisions
from fadiff_mapper.search.mapping_task import mapping_task
from fadiff_mapper.search.result import Result, with_nest
from fadiff_mapper.workload import OperatingPoint, Workload

STEPS, RESTARTS = 20, 16
"""Steps of Adam, and restarts; more steps lead to the same plans, as estimates learn from evaluated groups."""

COLUMNS = 2048
"""Restarts times layers at most, for memory and time; a descent has at least four restarts."""

RATE, LAST_RATE, SIGMA_RATE = 0.12, 0.05, 0.2
"""Learning rate of log2 of the tiling factors in the first step, the share of it in the last step, and the rate of the
logits of sigma."""

TEMPERATURES, WEIGHTS = (0.1, 0.05), (0.5, 4.0)
"""Gumbel-Softmax temperature, and weight of the penalties, in the first and the last step."""

QUIET = 0.6
"""Share of the steps with Gumbel noise; sigma settles in the steps without noise."""


@dataclass(frozen=True)
class DescentEnd:
    """The end of every restart, the lowest loss first."""

    loss: np.ndarray                 # Logarithm of the metric with weighed penalties, without noise, [R]
    sigma: np.ndarray                # Fusion variables, [E, R]
    nests: tuple[Nest, ...]          # Drawn nests of every site, with integer factors, R columns each
    place: np.ndarray | None = None  # Coordinates of the hardware's parameters, [P, R]; None where it did not descend


def restarts_of(network: RelaxedNetwork, restarts: int) -> int:
    """The restarts that `COLUMNS` allows, R."""
    return max(min(restarts, COLUMNS // len(network.sites)), 4)


def descend(network: RelaxedNetwork, metric: str, model: str, seed: int, steps: int = STEPS, restarts: int = RESTARTS,
            stopped: Over = never, hardware: DescendedHardware | None = None) -> DescentEnd:
    """Descends on the network's metric ("edp", "energy" or "delay"): FADiff eq. (20).

    If `hardware` descends, too, factors inside the home move as fast as all others. Once `stopped` is true, the state
    before the next step is returned.
    """
    generator = torch.Generator().manual_seed(seed)
    start = starts(network, restarts_of(network, restarts), seed)
    # Parameters are offsets from the start, scaled by `ease`: factors inside the home move less than factors outside.
    moved = [torch.zeros_like(theta).requires_grad_(True) for theta in start.thetas]
    eases = [torch.ones_like(part) if hardware else part
             for part in (ease(batch, network.home) for batch in network.batches)]
    place = hardware.place.requires_grad_(True) if hardware else None
    logits = start.logits.requires_grad_(True)
    # A small layer that does not fit must not outweigh a large one that does.
    points = [OperatingPoint(site.times * site.result.stats.energy_pj, site.times * site.result.stats.cycles)
              for site in network.sites]
    price = NetworkPrice(summed(points), metric)
    shares = torch.tensor([[price(point)] for point in points], dtype=torch.float64)    # [V, 1]
    move_factors = [adam_step(theta, RATE) for theta in moved]
    move_sigma = adam_step(logits, SIGMA_RATE)
    move_hardware = adam_step(hardware.place, hardware.rate) if hardware else None

    def loss(noisy: bool, temperature: float, weight: float) -> tuple[torch.Tensor, list[Nest]]:
        thetas = [begin + part * more for begin, part, more in zip(start.thetas, eases, moved, strict=True)]
        drawn = [draw(batch.places, theta, part[..., None] * gumbel(batch.places, theta.shape[-1], generator)
                      if noisy else None, temperature, choices)
                 for batch, theta, part, choices in zip(network.batches, thetas, eases, start.choices, strict=True)]
        machine, added, broken = hardware.design_at(hardware.place) if hardware else (None, 0.0, 0.0)
        total = relaxed_cost(network, torch.sigmoid(logits), drawn, thetas, model, machine)
        return (smooth_metric(total, metric) + added
                + weight * ((shares * total.broken).sum(dim=0) + broken)), drawn

    with one_torch_thread():
        for ratio, temperature, weight in cooled(steps, TEMPERATURES, WEIGHTS):
            if stopped():
                break
            value, _ = loss(ratio < QUIET, temperature, weight)
            value.sum().backward()  # type: ignore[no-untyped-call]  # restarts are independent: each has its gradient
            for move in move_factors:
                move((1 - ratio) * (1 - LAST_RATE) + LAST_RATE)
            move_sigma()
            if move_hardware:
                move_hardware((1 - ratio) * (1 - LAST_RATE) + LAST_RATE)
        with torch.no_grad():
            value, drawn = loss(False, TEMPERATURES[1], WEIGHTS[1])
    order = value.argsort(stable=True)
    nests = {site: nest.take(member * len(order) + order.numpy())
             for batch, nest in zip(network.batches, map(decode, drawn), strict=True)
             for member, site in enumerate(batch.sites)}
    return DescentEnd(value[order].numpy(), torch.sigmoid(logits.detach())[:, order].numpy(),
                      tuple(nests[site] for site in range(len(network.sites))),
                      None if place is None else place.detach()[:, order].numpy())


def smooth_metric(total: RelaxedCost, metric: str) -> torch.Tensor:
    """Logarithm of the network's metric ("edp", "energy" or "delay"), [R]."""
    energy_power, cycles_power = METRIC_EXPONENTS[metric]
    return energy_power * torch.log(total.energy) + cycles_power * torch.log(total.cycles)


NOISE = 0.2
"""Octaves (standard deviation) of the random moves from the best mapping's factors."""

INNER = 0.3
"""Scale of the moves of factors inside the home, in noise and in descent: the best unfused mapping has them nearly
right, while fusion changes the factors outside."""

UNTOUCHED = 0.7
"""Share of the shared loops that have just as many steps as the home needs."""

ENDING = 0.15
"""Probability that a stretch of layers with common loops ends at a link: about seven links a stretch."""


@dataclass(frozen=True)
class RestartPoint:
    """The starting point of all restarts."""

    thetas: list[torch.Tensor]        # log2 of the factors of each family (see `gradient.gumbel_softmax`),
                                      # [P, D, W * R] each
    choices: list[DiscreteDecisions]  # Loop orders, bypass and placement of each family
    logits: torch.Tensor              # Logits of sigma, [E, R]


def starts(network: RelaxedNetwork, restarts: int, seed: int) -> RestartPoint:
    generator, rng = torch.Generator().manual_seed(seed), np.random.default_rng(seed)
    restart = np.arange(restarts)
    shared = (restart > 0) & (restart <= 3 * restarts // 4)
    octaves = _shared_octaves(network, restarts, rng)
    thetas, choices = [], []
    for batch in network.batches:
        best = [pack([network.sites[site].result.mapping], network.sites[site].problem) for site in batch.sites]
        places = list(zip(batch.places.level, batch.places.spatial, strict=True))
        theta = torch.log2(torch.stack([torch.stack([
            torch.as_tensor((nest.spatial if spatial else nest.temporal)[level, :, 0]) for level, spatial in places])
            for nest in best], dim=-1))[..., None].repeat(1, 1, 1, restarts)     # [P, D, W, R]
        noise = NOISE * torch.randn(theta.shape, generator=generator, dtype=torch.float64)
        noise = noise * torch.from_numpy(restart > 0)    # restart 0 is the best mapping
        theta = (theta + ease(batch, network.home)[..., None] * noise).clamp(min=0.0)
        theta = torch.where(torch.from_numpy(shared), _left_over(batch, network.home, theta, octaves), theta)
        thetas.append(theta.flatten(start_dim=2))
        choices.append(_choices(network, batch, best, shared))
    return RestartPoint(thetas, choices, 0.5 * torch.randn((len(network.ties), restarts), generator=generator,
                                                           dtype=torch.float64))


def ease(batch: FamilySites, home: int) -> torch.Tensor:
    """Scale of the moves of factors by place, [P, 1, 1]: 1 for temporal loops from the home outwards, else `INNER`."""
    places = batch.places
    return torch.tensor([1.0 if level >= home and not spatial else INNER for level, spatial in
                         zip(places.level, places.spatial, strict=True)], dtype=torch.float64)[:, None, None]


def _shared_octaves(network: RelaxedNetwork, restarts: int, rng: np.random.Generator) -> np.ndarray:
    """Octaves of every dimension that its loop at the outermost level gets, [V, D, R]; nan: unchanged.

    Chains are cut into stretches of a few layers. The layers of a stretch share at most one loop. It has as many steps
    as are needed for a step's intermediates to fit into the home, or some more.
    """
    ties = network.ties
    dims = max(len(site.problem.dimensions) for site in network.sites)
    result = np.full((len(network.sites), dims, restarts), np.nan)
    for r in range(restarts):
        ends = rng.random(len(ties)) < ENDING
        for tie in reversed(range(len(ties))):
            last = network.out_of[ties.consumer[tie]]
            if last == len(ties) or ends[last]:
                stretch = [tie]     # from the last tie backwards to the end of the stretch before
                while (before := network.into[ties.producer[stretch[-1]]]) < len(ties) and not ends[before]:
                    stretch.append(int(before))
                _cut(network, stretch, result[:, :, r], rng)
    return result


def _cut(network: RelaxedNetwork, stretch: list[int], octaves: np.ndarray, rng: np.random.Generator) -> None:
    """Writes the octaves of the layers of a stretch, its last tie first, into `octaves`, [V, D].

    The loop is drawn over a dimension of the last layer and carried back over the links, up to dimensions that a link
    reads whole (stride 0).
    """
    ties, arch = network.ties, network.sites[0].result.spec.arch
    usable = arch.levels[network.home].usable or np.inf
    words = max(float(np.prod(ties.extent[tie][ties.used[tie]])) for tie in stretch)
    last = stretch[0]
    loops = [j for j in np.flatnonzero(ties.used[last]) if not ties.loose[last, j] and ties.bound[last, j] > 1]
    site = ties.consumer[last]
    octaves[site, ties.theirs[last, loops]] = 0.0
    if loops:
        j = rng.choice(loops)
        more = max(np.log2(words / usable) + 1, 0.0) + (rng.random() > UNTOUCHED) * rng.random() * 3
        octaves[site, ties.theirs[last, j]] = min(more, np.log2(ties.bound[last, j]))
    for tie in stretch:
        for j in np.flatnonzero(ties.used[tie]):
            if not ties.loose[tie, j]:
                behind = np.nan_to_num(octaves[ties.consumer[tie], ties.theirs[tie, j]])
                octaves[ties.producer[tie], ties.mine[tie, j]] = behind * (ties.stride[tie, j] > 0)


def _left_over(batch: FamilySites, home: int, theta: torch.Tensor, octaves: np.ndarray) -> torch.Tensor:
    """The parameters, changed so that loops at the outermost level get `octaves` of their dimensions.

    Temporal loops inside share the rest: first the home's loops, then the outermost of the other loops.
    """
    places, theta = batch.places, theta.clone()
    left = torch.from_numpy(octaves)[list(batch.sites), :places.bound.shape[1]].transpose(0, 1)      # [D, W, R]
    inner = theta * (1 - places.residual.permute(1, 2, 0))[..., None]
    more = torch.log2(places.bound).T[..., None] - left - inner.sum(dim=0)
    more = torch.where(torch.isnan(left), torch.zeros_like(more), more)
    loops = [k for k, spatial in enumerate(places.spatial) if not spatial and places.level[k] < places.levels - 1]
    for k in sorted(loops, key=lambda k: (places.level[k] != home, -places.level[k])):
        change = torch.maximum(more, -inner[k])
        theta[k], more = theta[k] + change, more - change
    return theta


def _choices(network: RelaxedNetwork, batch: FamilySites, best: list[Nest], sharing: np.ndarray) -> DiscreteDecisions:
    """The best mappings' decisions in every column; in restarts of `sharing`, [R], shareable loops are outermost."""
    choices = DiscreteDecisions(*(
        np.repeat(np.concatenate([getattr(nest, name) for nest in best], axis=-1), len(sharing), axis=-1)
        for name in DiscreteDecisions._fields))
    order = choices.order
    for member, site in enumerate(batch.sites):
        rows = member * len(sharing) + np.flatnonzero(sharing)
        order[-1][:, rows] = _sharing_order(network, batch, member, site, order[-1][:, rows[0]])[:, None]
    return choices


def _sharing_order(network: RelaxedNetwork, batch: FamilySites, member: int, site: int,
                   order: np.ndarray) -> np.ndarray:
    """The loops of the outermost level, innermost first, in an order that lets links share the outer loops.

    From the innermost: loops that no link carries, reductions first; loops over which a producer may make its output in
    several passes; loops that cut the intermediate. Constraints of the design take precedence.
    """
    ties, space = network.ties, batch.family.spaces[member]
    outside = np.zeros(len(order), dtype=int)
    for tie, dims in ((network.into[site], ties.theirs), (network.out_of[site], ties.mine)):
        if tie < len(ties):
            for j in np.flatnonzero(ties.used[tie]):
                outside[dims[tie, j]] = max(outside[dims[tie, j]], 1 if ties.loose[tie, j] else 2)
    loops, names = space.levels[-1].temporal, space.problem.dimensions
    between = [d for d in order if names[d] in loops.between]
    output = space.problem.output.dimensions
    between.sort(key=lambda d: (outside[d], names[d] in output))
    index = {name: d for d, name in enumerate(names)}
    return np.array([*(index[name] for name in loops.inner), *between, *(index[name] for name in loops.outer)])


FUSED = 0.5
"""Sigma above which a link is fused: the middle of [0, 1]."""

LoopSizes = dict[tuple[str, ...], set[tuple[int, ...]]]
"""Tile sizes per order of loops: dimensions, outermost first -> points of a tile along each."""


def decoded_groups(hardware: Hardware, segments: Sequence[Segment], network: RelaxedNetwork, ended: DescentEnd,
                   bases: Mapping[str, LayerBase], price: NetworkPrice,
                   stopped: Over = never) -> dict[Hashable, list[Candidate]]:
    """Decodes the candidates of every segment that some restarts fuse, by the segment's key.

    Equal segments of different layers share their candidates; segments are left out once `stopped` is true. `bases`:
    numbers of each unfused layer for the estimates, by name.
    """
    proposed: dict[Hashable, tuple[Segment, LoopSizes]] = {}
    for segment in segments:
        if stopped():
            break
        _, sizes = proposed.setdefault(segment.key, (segment, {}))
        if any(pair not in network.tie_of for pair in pairwise(segment.nodes)):  # layers run unequally often
            continue
        fused = (ended.sigma[[network.tie_of[pair] for pair in pairwise(segment.nodes)]] > FUSED).all(axis=0)
        nest = ended.nests[network.site_of[segment.nodes[-1]]]
        for loops in dict.fromkeys(tile_loops(segment, nest, int(restart)) for restart in np.flatnonzero(fused)):
            sizes.setdefault(tuple(loop.dim for loop in loops), set()).add(tuple(loop.tile for loop in loops))
    return {key: [candidate for dims, tiles in sizes.items() for candidate in _candidates(
                compiled_segment(hardware, segment, group_bases(segment, bases)), dims, tiles, price)]
            for key, (segment, sizes) in proposed.items() if not stopped()}


def tile_loops(segment: Segment, nest: Nest, column: int) -> tuple[TileLoop, ...]:
    """Reads the shared loops off one restart's column of the nests of a segment's last layer.

    They are the loops at the outermost level that the last link carries, outermost first. Loops of a reduction come
    last, inside the others, so that their sums can stay.
    """
    last = segment.problems[-1]
    linked = set(segment.links[-1].dims.values())
    names = [last.dimensions[int(d)] for d in nest.order[-1, :, column][::-1]]
    steps = dict(zip(last.dimensions, nest.temporal[-1, :, column], strict=True))
    loops = [TileLoop(dim, -(-last.bounds[dim] // round(float(steps[dim])))) for dim in names
             if steps[dim] > 1 and dim in linked and not cuts_whole(segment, dim)]
    return tuple(sorted(loops, key=lambda loop: loop.dim not in last.output.dimensions))


def _candidates(compiled: CompiledSegment, dims: tuple[str, ...], tiles: Collection[tuple[int, ...]],
                price: NetworkPrice) -> list[Candidate]:
    """Candidates in one order of loops; if there are no loops and nothing fits, with a loop over the largest dimension
    that can be cut."""
    candidates = candidates_along(compiled, dims, price)
    if dims:
        candidates += candidates_along(compiled, dims, price, tiles)
    if dims or candidates:
        return candidates
    segment, last = compiled.segment, compiled.segment.problems[-1]
    cut = [dim for dim in segment.links[-1].dims.values()
           if dim in last.output.dimensions and not cuts_whole(segment, dim)]
    if not cut:
        return []
    return candidates_along(compiled, (max(cut, key=lambda dim: last.bounds[dim]),), price)


def decoded_layers(results: Sequence[Result], network: RelaxedNetwork,
                   ended: DescentEnd) -> list[list[Result]]:
    """For each distinct layer its unfused mapping, then the drawn mappings that beat it in energy or in cycles, all
    exact."""
    mappings = [[result] for result in results]
    position = {id(result): index for index, result in enumerate(results)}
    for site, nest in zip(network.sites, ended.nests, strict=True):
        scores = score(mapping_task(site.result.spec).layer, nest)
        stats = site.result.stats
        better = scores.legal & ((scores.energy < stats.energy_pj) | (scores.cycles < stats.cycles))
        mappings[position[id(site.result)]] += [with_nest(site.result, nest.take([column]))
                                                for column in np.flatnonzero(better)]
    return mappings


def descended_network(workload: Workload, results: Sequence[Result], metric: str, seed: int,
                      over: Over, model: str = "refined") -> DescendedNetwork | None:
    """Descends on a network whose layers are mapped (FADiff's method); None where nothing can be fused.

    The descent keeps intermediates in one home, the outermost possible one; candidates are tried in all possible homes.
    `results`: the best unfused mapping of each distinct layer.
    """
    spec = results[0].spec
    hardware = Hardware(spec.arch, spec.tables)
    pairs = {(segment.nodes[0], segment.nodes[1]): segment for segment in segments(workload, 2, over)
             if not segment.batched}
    home_levels = homes(hardware)
    if not pairs or not home_levels:
        return None
    network = relaxed_network([names for names, _ in chains(workload)], pairs, by_node(workload, results),
                              repeats_of(workload), hardware.level(home_levels[0]))
    ended = descend(network, metric, model, seed, stopped=over)

    def candidates(hardware: Hardware, segments: Sequence[Segment], bases: Mapping[str, LayerBase], price: NetworkPrice,
                   over: Over) -> dict[Hashable, list[Candidate]]:
        return decoded_groups(hardware, segments, network, ended, bases, price, over)

    # one mapping for each distinct layer, so that the whole network is best
    mappings = decoded_layers(results, network, ended)
    picked = chosen([[OperatingPoint(mapped.stats.energy_pj, mapped.stats.cycles).times(entry.times) for mapped in own]
                     for own, entry in zip(mappings, workload.distinct(), strict=True)], metric)
    return DescendedNetwork([own[pick] for own, pick in zip(mappings, picked, strict=True)],
                            {pair: float(ended.sigma[tie, 0]) for pair, tie in network.tie_of.items()},
                            candidates)
