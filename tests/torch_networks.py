"""Networks as plain torch.nn modules, in the usual way of writing them. Made on the "meta" device: no weights exist."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Function(nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.function(*tensors)


def convolution(cin: int, cout: int, k: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(cin, cout, k, stride, k // 2, groups=groups, bias=False), nn.BatchNorm2d(cout),
                         nn.ReLU())


class Block(nn.Module):
    """ResNet's basic block."""

    def __init__(self, cin: int, cout: int, stride: int) -> None:
        super().__init__()
        self.first = convolution(cin, cout, 3, stride)
        self.second = nn.Sequential(nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout))
        self.skip = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False),
                                  nn.BatchNorm2d(cout)) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.second(self.first(x)) + self.skip(x))


def resnet18() -> nn.Module:
    blocks = [Block(a, b, s) for cin, cout, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2))
              for a, b, s in ((cin, cout, stride), (cout, cout, 1))]
    return nn.Sequential(convolution(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *blocks, nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(512, 1000))


def vgg16() -> nn.Module:
    layers: list[nn.Module] = []
    cin = 3
    for channels, repeats in ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)):
        for _ in range(repeats):
            layers += [nn.Conv2d(cin, channels, 3, padding=1), nn.ReLU()]
            cin = channels
        layers.append(nn.MaxPool2d(2))
    head = [nn.Linear(25088, 4096), nn.ReLU(), nn.Dropout(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1000)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


def mobilenet_v1() -> nn.Module:
    layers: list[nn.Module] = [convolution(3, 32, 3, 2)]
    cin = 32
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    for channels, stride in plan:
        layers += [convolution(cin, cin, 3, stride, groups=cin), convolution(cin, channels, 1)]
        cin = channels
    return nn.Sequential(*layers, nn.AvgPool2d(7), nn.Flatten(), nn.Linear(1024, 1000))


class Decoder(nn.Module):
    """A GPT block, pre-normalised, with one of PyTorch's ways to write attention."""

    def __init__(self, width: int, heads: int, fused: bool) -> None:
        super().__init__()
        self.heads, self.fused = heads, fused
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        q, k, v = (self.split(project(y)) for project in (self.q, self.k, self.v))
        if self.fused:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


def gpt3_6b7_block(fused: bool = True) -> nn.Module:
    return Decoder(4096, 32, fused)


INPUTS = {"resnet18": (1, 3, 224, 224), "vgg16": (1, 3, 224, 224), "mobilenet_v1": (1, 3, 224, 224),
          "gpt3_6b7_block": (1, 2048, 4096)}
