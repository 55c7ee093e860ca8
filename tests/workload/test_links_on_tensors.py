"""Links, executed on real tensors: points outside of those that a link claims change nothing inside of a tile.

The output of the producing module is changed outside of the claimed points, the network runs on, and the tile of the
consuming module's output must stay as it was. The test knows nothing of the operators in between, nor of the reader.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fadiff_mapper import Workload, load_network
from fadiff_mapper.workload import Link, Node
from fadiff_mapper.workload.window_slide import WindowSlide


class Product(nn.Module):
    """A matrix product of two tensors, as a module of its own so that it can be watched."""

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


class Network(nn.Module):
    """Modules by name, and how they are put together."""

    def __init__(self, forward: Callable[..., torch.Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.put_together = forward
        for name, module in modules.items():
            self.add_module(name, module)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.put_together(self, *inputs)


def conv(cin: int, cout: int, kernel: int = 3, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(cin, cout, kernel, **{"padding": kernel // 2} | options)


def attention(m: Any, x: torch.Tensor) -> torch.Tensor:
    q, k, v = (linear(x).reshape(1, 6, 2, 4).transpose(1, 2) for linear in (m.q, m.k, m.v))
    scores = m.qk(q, k.transpose(2, 3)) / 2
    return m.out(m.av(torch.softmax(scores, -1), v).transpose(1, 2).reshape(1, 6, 8))


def windows(m: Any, x: torch.Tensor) -> torch.Tensor:
    x = m.first(x).reshape(1, 4, 2, 4, 2, 4).permute(0, 2, 4, 3, 5, 1).reshape(4, 16, 4)
    return m.second(x)


def linears(*names: str, size: int = 8) -> dict[str, nn.Module]:
    return {name: nn.Linear(size, size) for name in names}


IMAGE, ROWS = (1, 4, 8, 8), (1, 6, 8)
NETWORKS: dict[str, tuple[Network, tuple[int, ...]]] = {
    "residual": (Network(lambda m, x: m.c(F.relu(m.b(F.relu(m.a(x))) + x)), a=conv(4, 4), b=conv(4, 4), c=conv(4, 4)),
                 IMAGE),
    "strided and padded": (Network(lambda m, x: m.c(m.b(m.a(x))), a=conv(4, 4, 5, stride=2), b=conv(4, 4, dilation=2,
                           padding=2), c=conv(4, 6, 3, stride=2)), (1, 4, 17, 17)),
    "depthwise": (Network(lambda m, x: m.c(F.relu6(m.b(F.relu6(m.a(x))))), a=conv(4, 8, 1),
                          b=conv(8, 8, groups=8), c=conv(8, 4, 1)), IMAGE),
    "grouped": (Network(lambda m, x: m.b(m.a(x)), a=conv(4, 8, groups=2), b=conv(8, 4, groups=4)), IMAGE),
    "pooled": (Network(lambda m, x: m.c(F.avg_pool2d(m.b(F.max_pool2d(m.a(x), 3, 2, 1)), 2)), a=conv(4, 4),
                       b=conv(4, 4), c=conv(4, 4)), (1, 4, 16, 16)),
    "up and down": (Network(lambda m, x: m.c(torch.cat([F.interpolate(m.b(F.max_pool2d(m.a(x), 2)), scale_factor=2),
                                                        x], 1)), a=conv(4, 4), b=conv(4, 4), c=conv(8, 4)), IMAGE),
    "concatenated": (Network(lambda m, x: m.c(torch.cat([m.a(x), m.b(x)], 1)), a=conv(4, 2), b=conv(4, 6),
                             c=conv(8, 4)), IMAGE),
    "sliced": (Network(lambda m, x: m.b(m.a(x)[:, 2:6]) + m.c(m.a(x)[:, :, 1:7, 2:]).sum(), a=conv(4, 8), b=conv(4, 4),
                       c=conv(8, 4)), IMAGE),
    "transposed convolution": (Network(lambda m, x: m.b(m.a(x)), a=conv(4, 4), b=nn.ConvTranspose2d(4, 4, 3, 1, 1)),
                               IMAGE),
    "windows": (Network(windows, first=conv(4, 4), second=nn.Linear(4, 4)), IMAGE),
    "attention": (Network(attention, **linears("q", "k", "v", "out"), qk=Product(), av=Product()), ROWS),
    "gated": (Network(lambda m, x: m.c(F.silu(m.a(x)) * m.b(x)), **linears("a", "b", "c")), ROWS),
    "normed": (Network(lambda m, x: m.b(F.layer_norm(m.a(x), (8,))), **linears("a", "b")), ROWS),
}


def modules_of(network: nn.Module, workload: Workload) -> dict[str, nn.Module]:
    """The module behind each layer whose node is named after it."""
    known = dict(network.named_modules())
    found = {node.name: known.get(node.name) or known.get(node.name.rpartition(".")[0]) for node in workload.layers}
    return {name: module for name, module in found.items() if module is not None and list(module.children()) == []}


def positions(node: Node, shape: torch.Size) -> dict[str, torch.Tensor]:
    """Dimension -> coordinate of every element of a layer's output, in the shape that the output has."""
    layer = node.layer
    assert layer is not None
    space = layer.problem.output.name
    names = [name for axis in layer.view(space) for name in axis]
    extents = layer.extents(space)
    grids = torch.meshgrid(*(torch.arange(extents[name]) for name in names), indexing="ij")
    assert math.prod(shape) == grids[0].numel()  # a product may have several axes of its output as one
    return {name: grid.reshape(shape) for name, grid in zip(names, grids, strict=True)}


def output_of(network: nn.Module, inputs: torch.Tensor, consumer: nn.Module,
              producer: nn.Module | None = None, changed: torch.Tensor | None = None) -> torch.Tensor:
    """The output of a module when that of another one is changed where `changed` is true."""
    kept: list[torch.Tensor] = []
    hooks = [consumer.register_forward_hook(lambda _module, _inputs, output: kept.append(output))]
    if producer is not None and changed is not None:
        hooks.append(producer.register_forward_hook(
            lambda _module, _inputs, output: torch.where(changed, output + 3 + output.abs(), output)))
    with torch.no_grad():
        network(inputs)
    for hook in hooks:
        hook.remove()
    return kept[0]


def leaks(network: nn.Module, inputs: torch.Tensor, workload: Workload, links: Sequence[Link]) -> Iterator[str]:
    """Executes tiles of links; yields every tile that was not what the link claims, and "" for every other one."""
    nodes, modules, random = {node.name: node for node in workload.nodes}, modules_of(network, workload), Random(0)
    for link in links:
        if not link.fusable or not {link.producer, link.consumer} <= modules.keys():
            continue
        producer, consumer = modules[link.producer], modules[link.consumer]
        before, made = output_of(network, inputs, consumer), output_of(network, inputs, producer)
        inner, outer = positions(nodes[link.consumer], before.shape), positions(nodes[link.producer], made.shape)
        for axis in link.axes:
            if axis.producer in link.whole or axis.dimension not in inner or axis.producer not in outer:
                continue
            extent = int(inner[axis.dimension].max()) + 1
            for _ in range(3):
                start = random.randrange(extent)
                tile = range(start, min(extent, start + random.choice([1, 2, 3])))
                points = tile
                for slide in reversed(axis.slides):
                    points = slide.read(points)
                outside = (outer[axis.producer] < points.start) | (outer[axis.producer] >= points.stop)
                after = output_of(network, inputs, consumer, producer, outside)
                inside = (inner[axis.dimension] >= tile.start) & (inner[axis.dimension] < tile.stop)
                same = torch.allclose(before[inside], after[inside], rtol=1e-5, atol=1e-5)
                yield "" if same else f"{link.producer} -> {link.consumer}: {axis.dimension} {tile} reads {points}"


@pytest.mark.parametrize("name", NETWORKS)
def test_a_tile_reads_no_point_outside_of_those_that_its_link_claims(name: str) -> None:
    network, shape = NETWORKS[name]
    torch.manual_seed(0)
    inputs = torch.randn(shape)
    workload = load_network(network, (inputs,))
    found = list(leaks(network, inputs, workload, workload.links()))
    assert len(found) >= 3, "no tile of this network was executed"
    assert not list(filter(None, found))


def test_faults_of_links_are_found() -> None:
    """A halo that is left out, a window that starts a point late, and axes exchanged."""
    network, shape = NETWORKS["residual"]
    inputs = torch.randn(shape)
    workload = load_network(network, (inputs,))
    (link,) = (link for link in workload.links() if (link.producer, link.consumer) == ("a", "b"))
    points = [axis for axis in link.axes if axis.slides]
    late = [replace(axis, slides=tuple(replace(slide, pad=slide.pad - 1) for slide in axis.slides)) for axis in points]
    exchanged = [replace(axis, producer=other.producer) for axis, other in zip(points, reversed(points), strict=True)]
    for axes in ([replace(axis, slides=()) for axis in points], late, exchanged):
        assert any(leaks(network, inputs, workload, [replace(link, axes=tuple(axes))]))


@pytest.mark.parametrize("name", NETWORKS)
def test_links_that_claim_points_one_further_are_found_on_every_network(name: str) -> None:
    network, shape = NETWORKS[name]
    torch.manual_seed(0)
    inputs = torch.randn(shape)
    workload = load_network(network, (inputs,))
    further = [replace(link, axes=tuple(replace(axis, slides=(WindowSlide(1, 1, pad=-1), *axis.slides))
                                        for axis in link.axes)) for link in workload.links()]
    assert any(leaks(network, inputs, workload, further))
