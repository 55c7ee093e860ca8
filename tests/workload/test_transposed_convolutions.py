"""Transposed convolutions as convolutions of the outputs' phases: the same numbers, no product with inserted zeros."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from fadiff_mapper import Workload, load_network
from fadiff_mapper.workload.readers.convolutions import Phase, phases
from fadiff_mapper.workload.readers.network_text import network_text


def gathered(phase: Phase, x: np.ndarray, taps: np.ndarray) -> np.ndarray:
    """The outputs of one phase; inputs beyond either end are padding."""
    def point(index: int) -> float:
        return float(x[index]) if 0 <= index < len(x) else 0.0
    return np.array([sum(taps[j] * point(t + phase.first + j * phase.dilation) for j in range(phase.taps))
                     for t in range(phase.outputs)])


@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 4), st.integers(0, 3), st.integers(1, 3), st.integers(0, 2))
def test_phases_side_by_side_are_what_pytorch_computes(extent: int, kernel: int, stride: int, pad: int, dilation: int,
                                                       extra: int) -> None:
    outputs = (extent - 1) * stride - 2 * pad + dilation * (kernel - 1) + extra + 1
    assume(outputs > 0 and extra < max(stride, dilation))
    rng = np.random.default_rng(extent)
    x, w = rng.integers(-9, 9, extent).astype(float), rng.integers(-9, 9, kernel).astype(float)
    wanted = functional.conv_transpose1d(torch.tensor(x)[None, None], torch.tensor(w)[None, None], None, stride, pad,
                                         extra, 1, dilation)[0, 0].numpy()
    found = np.zeros(outputs)
    kinds = phases(outputs, kernel, stride, pad, dilation)
    for phase in range(min(stride, outputs)):
        taps = [r for r in range(kernel) if (phase + pad - r * dilation) % stride == 0][::-1]
        own = next(kind for kind in phases(1, kernel, stride, pad, dilation) | kinds
                   if kind.taps == len(taps) and kind.outputs == len(found[phase::stride])
                   and (not taps or kind.first == (phase + pad - taps[0] * dilation) // stride))
        found[phase::stride] = gathered(own, x, w[taps])
    assert np.array_equal(found, wanted)
    assert kinds.total() == min(stride, outputs)


def traced(module: nn.Module, *shape: int) -> Workload:
    with torch.device("meta"):
        return load_network(module.to("meta").eval(), torch.empty(shape))


def bounds(network: Workload) -> list[dict[str, int]]:
    return [dict(node.layer.problem.bounds) for node in network.layers if node.layer]


def test_a_kernel_as_long_as_its_stride_is_one_product_whose_channels_move_among_the_points() -> None:
    network = traced(nn.Sequential(nn.Conv2d(4, 8, 1), nn.ConvTranspose2d(8, 5, 2, 2)), 1, 4, 7, 9)
    assert bounds(network)[1] == {"C": 8, "M": 20, "R": 1, "S": 1, "N": 1, "P": 7, "Q": 9}
    assert network.nodes[-1].shape == (1, 5, 14, 18)
    assert all(link.fusable for link in network.links())


def test_a_kernel_of_twice_its_stride_is_four_convolutions_of_a_quarter_of_the_taps() -> None:
    network = traced(nn.ConvTranspose2d(8, 5, 4, 2, 1), 1, 8, 7, 9)
    assert bounds(network) == [{"C": 8, "M": 5, "R": 2, "S": 2, "N": 1, "P": 7, "Q": 9}] * 4
    assert [node.pad for node in network.layers] == [((1, 0), (1, 0)), ((1, 0), (0, 1)), ((0, 1), (1, 0)),
                                                     ((0, 1), (0, 1))]
    assert network.macs == 7 * 9 * 16 * 8 * 5
    assert network.nodes[-1].op == "interleave"


@pytest.mark.parametrize(("module", "shape", "macs"), [
    (nn.ConvTranspose2d(100, 64, 4, 1, 0), (1, 100, 1, 1), 16 * 100 * 64),     # one input: every tap by itself
    (nn.ConvTranspose2d(8, 6, 3, 2, 1, 1), (1, 8, 5, 5), (3 * 5) ** 2 * 48),   # phases of one and two taps
    (nn.ConvTranspose2d(8, 6, 2, 2, groups=2), (1, 8, 5, 5), 25 * 4 * 4 * 6),
    (nn.ConvTranspose1d(8, 6, 8, 4, 2), (1, 8, 20), 20 * 8 * 48),
    (nn.ConvTranspose3d(2, 3, 2, 2), (1, 2, 4, 5, 6), 120 * 8 * 6),
    (nn.ConvTranspose2d(8, 6, 1, 2), (1, 8, 5, 5), 25 * 48),                   # outputs that no input adds to
    (nn.ConvTranspose2d(4, 4, 3, 1, 1, dilation=1), (1, 4, 6, 6), 36 * 9 * 16)])
def test_products_are_inputs_times_taps_wherever_no_border_is_padded(module: nn.Module, shape: tuple[int, ...],
                                                                     macs: int) -> None:
    network = traced(module, *shape)
    assert network.macs == macs
    assert network.not_understood() == ()


def test_a_network_file_keeps_them(tmp_path: object) -> None:
    network = traced(nn.Sequential(nn.ConvTranspose2d(8, 5, 4, 2, 1), nn.ConvTranspose2d(5, 3, 2, 2)), 1, 8, 7, 9)
    path = tmp_path / "net.yaml"  # type: ignore[operator]
    path.write_text(network_text(network))
    assert load_network(path) == network
