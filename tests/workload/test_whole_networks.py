"""Operators of PyTorch modules besides convolutions and products: every multiply-accumulate is counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode
from torch_networks import Function

from fadiff_mapper import FadiffError, Workload, load_network, save_network
from fadiff_mapper.workload import coverage


def counted(module: nn.Module, *inputs: torch.Tensor) -> int:
    """Multiply-accumulates as PyTorch counts them."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module(*inputs)
    return int(counter.get_total_flops()) // 2


def checked(module: nn.Module, *shapes: tuple[int, ...], tmp: Path | None = None) -> Workload:
    """The network of a module, all of which is understood and counted, and which its file gives back."""
    inputs = tuple(torch.empty(shape, device="meta") for shape in shapes)
    network = load_network(module.to("meta"), inputs)
    folded = sum(entry.macs for entry in network.folded)
    assert (network.macs + folded, coverage(network).complete) == (counted(module, *inputs), True)
    if tmp is not None:
        save_network(network, tmp / "net.yaml")
        assert load_network(tmp / "net.yaml") == network
    return network


@pytest.mark.parametrize(("function", "shapes"), [
    (lambda x, y: torch.einsum("bid,bjd->bij", x, y), ((2, 5, 3), (2, 7, 3))),
    (lambda x, y: torch.einsum("bhqd,bkhd->bqhk", x, y), ((2, 4, 5, 3), (2, 6, 4, 3))),
    (lambda x, y: torch.einsum("...d,de->...e", x, y), ((2, 3, 4), (4, 5))),
    (lambda x, y: torch.einsum("abc,cd->dab", x, y), ((2, 3, 4), (4, 5))),
    (lambda x, y: torch.einsum("ij,jk->k", x, y), ((3, 4), (4, 5))),
    (lambda x, y: torch.einsum("bij,bij->b", x, y), ((2, 3, 4), (2, 3, 4))),
    (lambda x, y, z: torch.einsum("ij,jk,kl->il", x, y, z), ((3, 4), (4, 5), (5, 6))),
    (lambda x, y: torch.tensordot(x, y, dims=([1], [0])), ((3, 4, 5), (4, 6))),
    (lambda x, y, z: torch.outer(x[0] @ y, z), ((3, 4), (4, 5), (6,))),
    (lambda x, y: functional.scaled_dot_product_attention(x, y, y), ((2, 4, 6, 8), (2, 4, 7, 8)))])
def test_products_of_every_kind_are_counted(function: Callable[..., Any], shapes: tuple[tuple[int, ...], ...],
                                            tmp_path: Path) -> None:
    checked(Function(function), *shapes, tmp=tmp_path)


def test_products_that_pytorchs_counter_leaves_out_are_counted() -> None:
    vector = load_network(Function(torch.addmv), (torch.empty(3), torch.empty(3, 4), torch.empty(4)))
    batch = load_network(Function(torch.addbmm), (torch.empty(3, 5), torch.empty(2, 3, 4), torch.empty(2, 4, 5)))
    assert (vector.macs, batch.macs) == (12, 2 * 3 * 4 * 5)


@pytest.mark.parametrize(("module", "shape"), [
    (nn.Conv3d(4, 6, 3, 2, 1), (2, 4, 6, 8, 8)), (nn.Conv3d(6, 6, (3, 1, 1), padding=(1, 0, 0), groups=6),
                                                  (1, 6, 4, 5, 5)),
    (nn.Sequential(nn.Conv3d(3, 4, (1, 3, 3)), nn.BatchNorm3d(4), nn.ReLU(), nn.Conv3d(4, 5, (3, 1, 1))),
     (1, 3, 4, 8, 8))])
def test_convolutions_over_three_axes_are_layers(module: nn.Module, shape: tuple[int, ...], tmp_path: Path) -> None:
    network = checked(module.eval(), shape, tmp=tmp_path)
    assert all(link.fusable for link in network.links())


def test_a_convolution_with_computed_weights_reads_them() -> None:
    network = checked(Function(functional.conv2d), (1, 3, 8, 8), (5, 3, 3, 3))
    (node,) = network.layers
    assert node.operands == ("Inputs", "Weights")


@pytest.mark.parametrize(("module", "products"), [
    (nn.LSTM(8, 16, 2, bidirectional=True), 8), (nn.LSTM(8, 16, proj_size=4), 3), (nn.GRU(8, 16, batch_first=True), 2),
    (nn.RNN(8, 16), 2)])
def test_a_recurrent_layer_is_one_product_over_all_steps_and_one_for_every_step(module: nn.Module, products: int,
                                                                                tmp_path: Path) -> None:
    network = checked(module.eval(), (5, 3, 8), tmp=tmp_path)
    steps = 3 if getattr(module, "batch_first", False) else 5
    assert len(network.layers) == products
    assert {node.layer.repeat for node in network.layers if node.layer} == {1, steps}


def test_cells_are_products() -> None:
    checked(nn.LSTMCell(8, 16).eval(), (3, 8))
    checked(nn.GRUCell(8, 16).eval(), (3, 8))


class Regions(nn.Module):
    """A product without gradients, one in another number format, one in neither."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            x = self.layer(x)
        with torch.autocast("cpu"):
            x = self.layer(x)
        return self.layer(x.float())


def test_regions_without_gradients_or_in_other_formats_are_entered() -> None:
    network = load_network(Regions(), torch.empty(4, 8))
    assert network.macs == 3 * 4 * 64


def test_a_batch_norm_in_training_mode_needs_the_whole_batch_and_all_points() -> None:
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3)).train()
    (link,) = checked(module, (2, 3, 8, 8)).links()
    assert link.fusable and link.whole == ("N", "P", "Q")


class Positions(nn.Module):
    """A bias that is computed from constants by a layer, as in Swin Transformer V2."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.bias = nn.Linear(8, 8), nn.Linear(2, 8)
        self.register_buffer("places", torch.zeros(5, 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + self.bias(self.places)


def test_what_reads_constants_alone_is_listed_and_no_layer(tmp_path: Path) -> None:
    network = checked(Positions(), (5, 8), tmp=tmp_path)
    assert [(entry.node, entry.what, entry.macs) for entry in network.folded] == [("bias", "linear", 80)]
    assert "computed from constants alone" in " ".join(coverage(network).sentences())


def test_operators_without_products_are_told_from_unknown_ones() -> None:
    def function(x: torch.Tensor) -> Any:
        y = x @ x
        top, places = torch.topk(y, 3)
        return torch.zeros_like(y).scatter(1, places, top) + torch.isnan(y).float() + y.var(1, keepdim=True)
    network = load_network(Function(function), torch.empty(8, 8))
    assert network.not_understood() == ()
    assert coverage(network).free["sort"] == 2


def test_a_tensor_without_elements_carries_nothing(tmp_path: Path) -> None:
    def function(x: torch.Tensor) -> Any:
        return torch.cat([x[:, :0], x @ x], 1)
    network = checked(Function(function), (8, 8), tmp=tmp_path)
    assert network.outputs == tuple(node.name for node in network.layers)


@pytest.mark.parametrize(("weight", "products"), [
    (nn.Parameter(torch.zeros(5, 4, 3)), [(8, 4, 15), (5, 3, 1)]), (None, [(4, 8, 4), (8, 4, 20), (5, 4, 1)])])
def test_a_bilinear_form_is_two_products(weight: torch.Tensor | None, products: list[tuple[int, int, int]]) -> None:
    """[8, 4] with [out, 4, in'] once for all rows, then for every row with its [in']; weights may be computed."""
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return functional.bilinear(x, y, torch.stack([x.t() @ x] * 5) if weight is None else weight)
    network = load_network(Function(function), (torch.empty(8, 4), torch.empty(8, 4 if weight is None else 3)))
    assert network.not_understood() == ()
    found = [tuple(node.layer.problem.bounds[dim] for dim in "NCM") for node in network.layers if node.layer]
    assert found == products
    assert network.layers[-1].layer is not None
    assert network.layers[-1].layer.repeat == 8


def test_distances_by_a_product_are_counted_and_others_are_named() -> None:
    """PyTorch multiplies where a side has more than 25 rows; only Euclidean distances are products."""
    for power, rows, macs in ((2.0, 32, 32 * 32 * 6), (2.0, 8, 0), (1.0, 32, 0)):
        def function(x: torch.Tensor, y: torch.Tensor, power: float = power) -> torch.Tensor:
            return torch.cdist(x @ x.t() @ x, y, p=power)
        network = load_network(Function(function), (torch.empty(rows, 4), torch.empty(rows, 4)))
        assert network.macs == 2 * rows * rows * 4 + macs
        assert [node.what for node in network.not_understood()] == ([] if macs else ["_cdist_forward"])


def test_fourier_transforms_are_named() -> None:
    network = load_network(Function(lambda x: torch.fft.fft2(x @ x).real), torch.empty(8, 8))
    assert [node.what for node in network.not_understood()] == ["_fft_c2c"]


# Mixtures of experts

class Experts(nn.Module):
    """Eight experts, of which a router picks two for each token, each token with matrices of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(8, 16, 4))

    def forward(self, x: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen = torch.topk(scores, 2, dim=-1)[1].reshape(-1)
        return torch.bmm(self.weights[chosen], x.repeat_interleave(2, 0).unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize(("tokens", "busy", "products"), [
    (12, None, [(8, 3)]), (3, None, [(6, 1)]), (12, 2, [(2, 12)]), (5, None, [(2, 2), (6, 1)])])
def test_experts_read_their_weights_once_for_all_their_rows(tokens: int, busy: int | None,
                                                            products: list[tuple[int, int]]) -> None:
    inputs = (torch.empty(tokens, 4), torch.empty(tokens, 8))
    network = load_network(Experts(), inputs, busy_experts=busy)
    assert [(node.layer.repeat, node.layer.problem.bounds["N"]) for node in network.layers if node.layer] == products
    assert network.macs == tokens * 2 * 16 * 4
    assert {node.operands for node in network.layers} == {("Inputs",)}
    assert "spread evenly over" in " ".join(coverage(network).sentences())


# Python

def test_one_tensor_needs_no_tuple_and_a_network_is_saved_in_one_call(tmp_path: Path) -> None:
    network = load_network(nn.Linear(8, 4), torch.empty(2, 8), name="tiny")
    save_network(network, tmp_path / "tiny.yaml")
    assert load_network(tmp_path / "tiny.yaml") == network
    with pytest.raises(FadiffError, match=r"accepted: \.yaml, \.yml"):
        save_network(network, tmp_path / "tiny.onnx")


def test_a_refused_file_comes_with_the_line_that_works() -> None:
    with pytest.raises(FadiffError, match=r'load_network\(torch\.export\.load\("model\.pt2"\)\), "network\.yaml"\)'):
        load_network("model.pt2")
