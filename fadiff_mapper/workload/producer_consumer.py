"""Links: pairs of operators of which one reads the other's output, the correspondence of their tiles, and obstacles.

Problem. Which points of a producer does a tile of the consumer need, and which other readers need the tensor whole?

Method. The route of the tensor (`tensor_routes`) gives its axes in the producer's dimensions; matched with the ranks of
the consumer's operand, they give an `AxisMap` for each dimension along which tiles pass. A link without an obstacle can
be fused: a tile of the consumer needs, for each of its dimensions in `axes`, a stretch of one dimension of the
producer (through the windows in between and the consumer's own window), and the whole of the dimensions in `whole`.

    one whole dimension     points are equal, up to windows
    its major part          as heads of channels: one point of the consumer's dimension is a stretch of the producer's,
                            a window as long as its stride (M = 32 * 128 read by G: WindowSlide(128, 128))
    it and minor ones       as heads and channels: several points of the consumer's dimension are one point of the
                            producer's, a window that shrinks (G and M = 128 read by C: WindowSlide(1, 1, shrink=128))
    any other axis          no tile passes along it: its dimensions must be there whole
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import islice

from fadiff_mapper.workload.node import INPUT, Node
from fadiff_mapper.workload.operator import REPEAT, Operator, Shape
from fadiff_mapper.workload.shapes import sliding_windows
from fadiff_mapper.workload.tensor_axes import SCATTERED, regrouped
from fadiff_mapper.workload.tensor_routes import MOST_BETWEEN, Obstacle, Route
from fadiff_mapper.workload.window_slide import WindowSlide, composable, composed

OUTPUT = "output"  # in `Link.also_read_by`: a tensor on the way is an output of the network
MOST_READERS = 100  # further readers that a link names: a plain safety limit for tensors with thousands of readers


@dataclass(frozen=True)
class AxisMap:
    """A dimension of the consumer, the dimension of the producer that it runs over, and the windows in between.

    n points behind a window read `slide.reach(n)` points in front of it, from point (first * stride - pad) on.
    """

    dimension: str  # of the consumer (or `REPEAT`, its runs)
    producer: str  # dimension of the producer (or `REPEAT`)
    slides: tuple[WindowSlide, ...] = ()  # windows, from the producer to the consumer; if empty, points are equal
    pools: int = field(default=0, compare=False)  # number of windows up to the last one of a pool
    own: int = field(default=0, compare=False)  # number of windows before the consumer's own one

    def needed(self, points: int) -> int:
        """Points of the producer's dimension that `points` adjacent points of the consumer's dimension read."""
        return composed(self.slides).reach(points)


@dataclass(frozen=True)
class Link:
    """The producer-consumer relation of two operators."""

    producer: str  # node of the operator that writes
    consumer: str  # node of the operator that reads
    operand: str  # the consumer's data space for the tensor
    tensor: str  # the tensor that the consumer reads, output of the last node on the way
    shape: Shape | None  # its shape, None where it is not known
    axes: tuple[AxisMap, ...]  # dimensions of the consumer along which tiles pass, with those of the producer
    # dimensions of the producer that a tile must cover whole, as for a softmax in between, or where no tile passes
    whole: tuple[str, ...]
    through: tuple[str, ...]  # nodes in between, in order
    joins: tuple[str, ...]  # other tensors that joins in between read
    # further readers of tensors on the way, `MOST_READERS` at most, for which the tensor is stored even if this link is
    # fused
    also_read_by: tuple[str, ...]
    obstacle: Obstacle | None  # the reason why tiles cannot pass, None where they can
    elsewhere: Fraction = Fraction(0)  # fraction of the operand's words produced by other tensors
    # True if a loop can cut the tensor along some dimension; else only the whole tensor can be handed on
    in_tiles: bool = True
    # of `whole`, the dimensions along the rows of a softmax that may be cut after all: a running maximum corrects the
    # results of earlier tiles
    running: tuple[str, ...] = ()
    causal: int = 0  # the number of queries of the softmax's causal mask (`Node.causal`); 0 without one

    @property
    def fusable(self) -> bool:
        """True if tiles can pass from one operator to the other; else `obstacle` says why not."""
        return self.obstacle is None


def find_links(nodes: Sequence[Node], route_of: Mapping[str, Route],
               readers: Mapping[str, list[str]]) -> tuple[Link, ...]:
    """All links of a network, in the order of the consumers, then of their inputs.

    `nodes` are in topological order, with shapes; routes come from `tensor_routes.routes`, readers from `readers_of`.
    """
    by_name = {node.name: node for node in nodes}
    behind: dict[str, list[str]] = {}
    for node in nodes:
        if not node.layer and node.name in route_of:
            behind.setdefault(route_of[node.name].producer, []).append(node.name)
    links = []
    for consumer in nodes:
        for tensor, operand in zip(consumer.inputs, consumer.operands, strict=False):
            if not consumer.layer or tensor not in route_of:
                continue
            route, shape = route_of[tensor], by_name[tensor].shape
            layer = by_name[route.producer].layer
            assert layer is not None
            bound = {**layer.problem.bounds, REPEAT: layer.repeat}
            maps = _axis_maps(route, bound, consumer, consumer.layer, operand, shape)
            if route.obstacle is not None:
                whole = {dimension for dimension, _ in route.whole}
            else:  # without dimensions whose tiles are multiples of the aligned stretches that must be whole
                whole = {dimension for dimension, length in route.whole if length == bound[dimension]
                         or dimension not in maps or _stretch(maps[dimension]) % length}
                whole |= {name for axis in layer.view(layer.problem.output.name) for name in axis
                          if bound[name] > 1 and name not in maps}
            # readers of the tensors on the way, without readers whose results only return to it (as in x * sigmoid(x))
            path = [route.producer, *route.through]
            inside, gates = {*path, consumer.name}, behind.get(route.producer, [])
            for name in reversed(gates if len(gates) <= MOST_BETWEEN else ()):  # more are no gate: stored in any case
                if readers[name] and all(reader in inside for reader in readers[name]):
                    inside.add(name)
            others = (name for tensor_on_way in path for name in readers[tensor_on_way] if name not in inside)
            in_tiles = any(bound[dimension] > 1 and dimension not in whole for dimension in maps)
            read_by = tuple(dict.fromkeys(islice(others, MOST_READERS)))
            running: tuple[str, ...] = ()
            causal = 0
            if _ends_in_softmax([by_name[name] for name in route.through]) and not (route.obstacle or read_by):
                summed = set(consumer.layer.problem.dimensions) - consumer.layer.problem.output.dimensions
                running = tuple(sorted(own for own in whole if own in maps and maps[own].dimension in summed
                                       and not maps[own].slides))
                causal = max(by_name[name].causal for name in route.through)
            links.append(Link(route.producer, consumer.name, operand, tensor, shape, tuple(maps.values()),
                              tuple(sorted(whole)), route.through, route.joins, read_by, route.obstacle,
                              Fraction(0) if route.obstacle else route.elsewhere, in_tiles, running,
                              causal))
    return tuple(links)


def _ends_in_softmax(between: Sequence[Node]) -> bool:
    """Whether a softmax is the only node that needs whole rows, and nodes behind it only rearrange elements."""
    kinds = [node.kind for node in between if node.kind not in ("reshape", "transpose")]
    points = all(kind in ("pointwise", "join") for kind in kinds[:-1])
    return points and any(node.op == "softmax" for node in between) and kinds[-1] == "rows"


def readers_of(nodes: Sequence[Node], outputs: Sequence[str]) -> dict[str, list[str]]:
    """Tensor -> the nodes that read it, and `OUTPUT` where it is one of the tensors that the network returns."""
    readers: dict[str, list[str]] = {node.name: [] for node in nodes}
    for node in nodes:
        for name in node.inputs:
            readers[name].append(node.name)
    for name in outputs:
        readers[name].append(OUTPUT)
    return readers


def _axis_maps(route: Route, bound: Mapping[str, int], node: Node, layer: Operator, operand: str,
               shape: Shape | None) -> dict[str, AxisMap]:
    """Dimension of the producer along which tiles pass -> the consumer's dimension; of several, the one that covers the
    longest stretch with a point. Along a rank of the operand, tiles pass by its major piece. `bound`: by dimension."""
    if route.axes is None or shape is None:  # where there are axes, there is a shape
        return {}
    extents, windows, read = layer.extents(operand), sliding_windows(layer, operand), layer.tensor_shape(operand)
    if len(shape) != len(read):  # a repeated operator: the tensor has all points that are read, in another shape
        shape = read
    ranks: list[tuple[str, int]] = []
    own: dict[str, WindowSlide] = {}
    for index, axis in enumerate(layer.view(operand)):
        ranks += [(name, shape[index] if index in windows else extents[name]) for name in axis]
        if index in windows:  # where no padding is stated, half a window, unless the tensor has all points
            slide = windows[index]
            usual = (slide.reach(1) - 1) // 2 if shape[index] < read[index] else 0
            pad = usual if node.pad is None else node.pad[list(windows).index(index)][0]
            own[axis[0]] = replace(slide, pad=pad)
    maps: dict[str, AxisMap] = {}
    for (name, _), found in zip(ranks, regrouped(route.axes, tuple(extent for _, extent in ranks)), strict=True):
        if not found.pieces or found.pieces[0].dimension == SCATTERED:
            continue
        head, minor = found.pieces[0], math.prod(piece.extent for piece in found.pieces[1:])
        if head.extent * head.step != bound[head.dimension] or (found.slides and minor * head.step > 1):
            continue
        between = found.slides
        if minor > 1:
            between = (WindowSlide(1, 1, shrink=minor, block=head.step),)
        elif head.step > 1:
            between = (WindowSlide(head.step, head.step),)
        moves = name in own and own[name] != WindowSlide(1, 1, own[name].dilation)
        slides = (*between, own[name]) if moves else between
        pools = [index for index, slide in enumerate(found.slides, 1) if slide.kernel > 1 and slide.shrink == 1]
        claim = AxisMap(name, head.dimension, slides, max(pools, default=0), len(between))
        rival = maps.get(head.dimension)
        if composable(slides) and (rival is None or _stretch(claim) > _stretch(rival)):
            maps[head.dimension] = claim
    return maps


def _stretch(found: AxisMap) -> int:
    """Points of the producer's dimension that one point of the consumer's covers."""
    first = found.slides[0] if found.slides else WindowSlide(1, 1)
    return first.block if first.shrink > 1 else first.stride


# Problem. A plan charges operators: each writes its output once, and reads its operands. Where a node joins two
# tensors (a residual sum, the two projections of a gated feed-forward part), the result takes the place of one operand.
# The other operand is read besides, and no operator accounts for it.
#
# Method. A tensor is in memory if an operator writes it, if it is an input of the network, or if a join makes it from
# several tensors in memory; all other tensors are computed on the way, such as the points of an activation. Of the
# operands of a join the largest flows on; of equally large operands, the one that is ready last. Every other operand is
# read besides, unless it is computed from the same tensors: x * sigmoid(x), x / mean(x) and rotated halves read
# nothing else. A repeated operand counts its words before the repetition, constants count nothing.
#
# y = x + f(x)                                 x is read besides
# silu(gate(x)) * up(x)                        one of the two projections
# image * sigmoid(fc(mean(image)))             the factor: one word per channel

@dataclass(frozen=True)
class OtherInput:
    """The other input of an element-wise operator, read besides the tensor that flows on."""

    node: str  # name of the join
    tensor: str  # name of the operand
    words: int  # its elements


def other_inputs(nodes: Sequence[Node]) -> tuple[OtherInput, ...]:
    """All tensors that joins read besides the operand that flows on; operands of unknown shape are left out.

    `nodes` are in topological order, with shapes.
    """
    by_name: dict[str, Node] = {}
    place: dict[str, int] = {}
    lying: dict[str, frozenset[str]] = {}  # the tensors in memory that each tensor is computed from
    found: list[OtherInput] = []
    for index, node in enumerate(nodes):
        by_name[node.name], place[node.name] = node, index
        besides = []
        if node.kind == "join" and len(set(node.inputs)) > 1:
            words: dict[str, int] = {}
            for name in sorted(set(node.inputs), key=place.__getitem__):
                source = by_name[name]
                while source.op == "expand":
                    source = by_name[source.inputs[0]]
                words[name] = 0 if source.shape is None else math.prod(source.shape)
            flows = max(reversed(words), key=words.__getitem__)
            besides = [OtherInput(node.name, name, count) for name, count in words.items()
                       if name != flows and count and not lying[name] <= lying[flows]]
        own = besides or node.layer is not None or node.op == INPUT
        lying[node.name] = frozenset({node.name}) if own else frozenset().union(*(lying[name] for name in node.inputs))
        found += besides
    return tuple(found)
