"""Training steps as joint graphs of `torch.export`: gradients are layers; modules that cannot be read say what can."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.export.experimental
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from fadiff_mapper import FadiffError, Workload, load_network
from fadiff_mapper.workload import coverage


class Loss(nn.Module):
    """The loss of a classifier."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor]:
        return (functional.cross_entropy(self.module(x), labels),)


class Last(nn.Module):
    """The last state of a recurrent layer."""

    def forward(self, states: tuple[torch.Tensor, ...]) -> torch.Tensor:
        return states[0][:, -1]


def step(module: nn.Module, x: torch.Tensor) -> tuple[Workload, int]:
    """The network of a training step, and the multiply-accumulates of the same as PyTorch counts them."""
    loss, given = Loss(module), (x, torch.zeros(len(x), dtype=torch.long))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.export.experimental._export_forward_backward(torch.export.export(loss, given))
    with FlopCounterMode(display=False) as counter:
        loss(*given)[0].backward()
    network = load_network(program)
    assert coverage(network).complete and network.not_understood() == ()
    return network, int(counter.get_total_flops()) // 2


def test_of_a_perceptron_every_product_has_two_gradients_but_that_of_the_input() -> None:
    network, counted = step(nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)), torch.zeros(16, 32))
    assert network.macs == counted == 2 * 16 * 32 * 64 + 3 * 16 * 64 * 8


@pytest.mark.slow
@pytest.mark.parametrize(("module", "shape"), [
    (nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                   nn.Conv2d(8, 8, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)),
     (4, 3, 32, 32)),
    (nn.Sequential(nn.Conv2d(3, 8, 1), nn.GELU(), nn.ConvTranspose2d(8, 4, 2, stride=2), nn.AvgPool2d(2),
                   nn.Upsample(scale_factor=2), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(4, 5)), (4, 3, 8, 8)),
    (nn.Sequential(nn.Conv1d(3, 8, 3, padding=2, dilation=2), nn.ReLU(), nn.Conv1d(8, 4, 3, stride=3), nn.Flatten(),
                   nn.Linear(20, 5)), (4, 3, 15)),
    (nn.Sequential(nn.Conv3d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5)), (2, 3, 4, 4, 4)),
    (nn.Sequential(nn.GRU(8, 16, batch_first=True), Last(), nn.Linear(16, 5)), (4, 6, 8))])
def test_gradients_of_convolutions_and_recurrent_layers_are_counted_as_pytorch_counts_them(
        module: nn.Module, shape: tuple[int, ...]) -> None:
    network, counted = step(module, torch.zeros(shape))
    assert network.macs + sum(entry.macs for entry in network.folded) == counted


@pytest.mark.slow
def test_gradients_of_attention_are_five_products() -> None:
    attend = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
    tokens, rows = 10, 2 * 10
    network, counted = step(nn.Sequential(attend, nn.Flatten(), nn.Linear(320, 5)), torch.zeros(2, tokens, 32))
    products = 3 * rows * (4 * 32 * 32 + 2 * 32 * 64) + 3 * 2 * 320 * 5 - rows * 32 * 96    # the input has no gradient
    assert counted == products, "PyTorch's counter knows no kernel of attention for the CPU"
    assert network.macs == products + (2 + 5) * 2 * 4 * tokens * tokens * 8


def gradients(module: nn.Module, x: torch.Tensor, *wanted: bool) -> Workload:
    """The network of the gradients of a convolution's input, weights and bias."""
    conv: Any = module
    settings = (list(conv.stride), list(conv.padding), list(conv.dilation), conv.transposed, list(conv.output_padding),
                conv.groups)

    class Gradients(nn.Module):
        def forward(self, gradient: torch.Tensor, x: torch.Tensor) -> Any:
            found = torch.ops.aten.convolution_backward(gradient, x, conv.weight, [conv.out_channels], *settings,
                                                        list(wanted))
            return [each for each in found if each is not None]
    return load_network(Gradients(), (torch.zeros(conv(x).shape), x))


@pytest.mark.parametrize(("module", "shape"), [
    (nn.Conv2d(8, 12, 3, groups=4, padding=1), (4, 8, 8, 8)),
    (nn.Conv2d(8, 12, 3, groups=4, padding=2, dilation=2), (4, 8, 9, 10)), (nn.Conv2d(8, 8, 3, groups=8, padding=1),
                                                                           (4, 8, 6, 6)),
    (nn.Conv2d(3, 8, 3, stride=2, padding=1), (4, 3, 32, 32)), (nn.Conv2d(3, 8, 2, stride=2), (4, 3, 9, 8)),
    (nn.ConvTranspose2d(8, 4, 4, stride=2, padding=1), (4, 8, 6, 6)),
    (nn.Conv3d(4, 4, 3, padding=1, groups=4), (2, 4, 6, 6, 6))])
def test_a_gradient_of_a_convolution_has_as_many_products_as_the_convolution(module: Any,
                                                                             shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape)
    points = x if module.transposed else module(x)
    macs = points.numel() * module.weight[0].numel()
    assert gradients(module, x, False, True, False).macs == macs
    if shape[2] % module.stride[0] == 0:    # else some inputs are read by fewer windows, which phases do not count
        assert gradients(module, x, True, False, False).macs == macs


def test_gradients_of_weights_read_the_input_through_the_windows_of_the_convolution() -> None:
    """A kernel of 16 x 16 points, 2 apart, over 33 x 33 points of padded rows: 3 x 3 taps, the last row cut off."""
    (node,) = gradients(nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.zeros(4, 3, 32, 32), False, True, False).layers
    assert node.layer is not None
    assert node.layer.problem.bounds == {"N": 3, "M": 8, "C": 4, "P": 3, "Q": 3, "R": 16, "S": 16}
    assert (node.layer.strides, node.layer.dilations, node.pad) == ((1, 1), (2, 2), ((1, 0), (1, 0)))


def test_the_example_of_the_guide_counts_what_it_says() -> None:
    guide = (Path(__file__).parents[2] / "docs/guides/networks.md").read_text()
    (example,) = [block for block in re.findall(r"```python\n(.*?)```", guide, re.DOTALL) if "_export_forward" in block]
    names: dict[str, Any] = {"torch": torch, "load_network": load_network}
    exec(example, names)
    stated = re.search(r"step\.macs +# ([0-9 *+]+):", example)
    assert stated is not None and names["step"].macs == eval(stated[1]) == 90112


# Modules that cannot be read

class Step(nn.Module):
    """A step that computes its gradients itself."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(32, 64), nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> Any:
        return torch.autograd.grad(self.b(functional.relu(self.a(x))).sum(), list(self.parameters()))


class Transformed(Step):
    """The same by `torch.func`."""

    def forward(self, x: torch.Tensor) -> Any:
        return torch.func.grad(lambda weight: (x @ weight.t()).pow(2).sum())(self.a.weight)


@pytest.mark.parametrize("module", [Step, Transformed])
def test_a_module_that_computes_gradients_is_told_of_the_joint_graph(module: type[nn.Module]) -> None:
    with pytest.raises(FadiffError, match=r"accepted: .*of a training step the module of its loss, as "
                       r"load_network\(torch\.export\.experimental\._export_forward_backward\(") as caught:
        load_network(module(), torch.zeros(16, 32))
    assert "\n" not in str(caught.value)


def test_a_module_with_packed_weights_is_told_to_be_read_before_they_are_packed() -> None:
    module = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        packed = torch.ao.quantization.quantize_dynamic(module, {nn.Linear})
    with pytest.raises(FadiffError, match=r"accepted: the module before prepare or convert of torch\.ao\.quantization"):
        load_network(packed, torch.zeros(4, 64))
    assert load_network(module, torch.zeros(4, 64)).macs == 4 * (64 * 128 + 128 * 8)


def test_fake_quantised_modules_are_read() -> None:
    module: Any = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module.qconfig = torch.ao.quantization.get_default_qat_qconfig("fbgemm")
        network = load_network(torch.ao.quantization.prepare_qat(module), torch.zeros(1, 3, 8, 8))
    assert network.macs == 36 * 9 * 3 * 8 + 16 * 9 * 8 * 8
    assert coverage(network).complete and [link.in_tiles for link in network.links()] == [True]
