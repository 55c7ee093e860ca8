"""Write networks/<block>.yaml: one block each of five published language models, at prefill and at decode.

usage: python make_blocks.py [OUT_DIR]        (OUT_DIR: the folder "networks" beside this file)

A block is written here as a module of PyTorch, in the elementary way in which such models run, with the extents that
its makers published. Prefill: 2048 tokens at once. Decode: one token after 2047, whose keys and values (for DeepSeek-V3
the latent vectors that stand for them) are inputs. Rotary embedding is a product with constants and a sum of rotated
halves. Tokens are spread evenly over experts; the router is a layer, its choice an input of the network (`picks`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from fadiff_mapper.workload import Node, Workload
from fadiff_mapper.workload.readers.network_text import network_text
from fadiff_mapper.workload.readers.torch_program import read_module
from fadiff_mapper.workload.rewrites import balance

TOKENS = 2048
"""Tokens of a prefill, and tokens that the last one of a decode attends to, itself included."""


@dataclass(frozen=True)
class Extents:
    """Extents of a block.

    Attributes:
        width: channels between blocks.
        heads: query heads.
        shared: heads of keys and values.
        size: channels of a head.
        inner: channels within the feed-forward part, of one expert where there are several.
        experts: experts of the feed-forward part, 1 for a dense one.
        used: experts that each token uses.
        head_norms: True normalises queries and keys within each head (Qwen3).
        sandwich: True normalises behind attention and feed-forward, too (Gemma 2).
        cap: True bounds the scores of attention by a scaled tanh (Gemma 2).
        activation: of the gate.
    """

    width: int
    heads: int
    shared: int
    size: int
    inner: int
    experts: int = 1
    used: int = 1
    head_norms: bool = False
    sandwich: bool = False
    cap: bool = False
    activation: Callable[[torch.Tensor], torch.Tensor] = functional.silu


GROUPED = {
    "llama3_8b": Extents(4096, 32, 8, 128, 14336),
    "qwen3_8b": Extents(4096, 32, 8, 128, 12288, head_norms=True),
    "gemma2_9b": Extents(3584, 16, 8, 256, 14336, sandwich=True, cap=True, activation=functional.gelu),
    "mixtral_8x7b": Extents(4096, 32, 8, 128, 14336, experts=8, used=2),
}
"""Models with grouped-query attention."""


class Norm(nn.Module):
    """RMSNorm as these models write it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))
        return scaled


class Rotary(nn.Module):
    """Rotary position embedding of tokens [heads, tokens, size]."""

    def __init__(self, tokens: int, size: int) -> None:
        super().__init__()
        self.register_buffer("cos", torch.ones(tokens, size))
        self.register_buffer("sin", torch.ones(tokens, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, -1)
        rotated: torch.Tensor = x * self.cos + torch.cat((-high, low), -1) * self.sin
        return rotated


class FeedForward(nn.Module):
    """A gated feed-forward part."""

    def __init__(self, width: int, inner: int, activation: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.gate, self.up = nn.Linear(width, inner, bias=False), nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.down(self.activation(self.gate(x)) * self.up(x))
        return result


class Experts(nn.Module):
    """Gated feed-forward parts, each on the tokens that were picked for it."""

    def __init__(self, busy: int, experts: int, width: int, inner: int) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.gate, self.up = nn.Parameter(torch.ones(busy, width, inner)), nn.Parameter(torch.ones(busy, width, inner))
        self.down = nn.Parameter(torch.ones(busy, inner, width))

    def forward(self, x: torch.Tensor, picks: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        """`picks`: tokens of each expert [busy, tokens]; `shares`: places of a token's outputs and of their weights."""
        scores = torch.softmax(self.router(x), -1)
        mine = x[picks]                                                   # [busy, tokens each, width]
        made = (functional.silu(mine @ self.gate) * (mine @ self.up)) @ self.down
        weights = scores.gather(1, shares)                                # [tokens, used]
        return (made.flatten(0, 1)[shares] * weights[..., None]).sum(1)


class GroupedBlock(nn.Module):
    """A block with grouped-query attention."""

    def __init__(self, extents: Extents, tokens: int) -> None:
        super().__init__()
        e = self.extents = extents
        self.q, self.k, self.v = (nn.Linear(e.width, count * e.size, bias=False)
                                  for count in (e.heads, e.shared, e.shared))
        self.out = nn.Linear(e.heads * e.size, e.width, bias=False)
        self.norm1, self.norm2 = Norm(e.width), Norm(e.width)
        self.after1, self.after2 = (Norm(e.width) if e.sandwich else nn.Identity() for _ in range(2))
        self.q_norm, self.k_norm = (Norm(e.size) if e.head_norms else nn.Identity() for _ in range(2))
        self.rotary = Rotary(tokens, e.size)
        self.mlp = (FeedForward(e.width, e.inner, e.activation) if e.experts == 1 else
                    Experts(min(e.experts, tokens * e.used), e.experts, e.width, e.inner))

    def forward(self, x: torch.Tensor, keys: torch.Tensor | None = None, values: torch.Tensor | None = None,
                picks: torch.Tensor | None = None, shares: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.after1(self.attention(self.norm1(x), keys, values))
        y = self.norm2(x)
        return x + self.after2(self.mlp(y) if picks is None else self.mlp(y, picks, shares))

    def attention(self, x: torch.Tensor, keys: torch.Tensor | None, values: torch.Tensor | None) -> torch.Tensor:
        e = self.extents
        q, k, v = (project(x).view(len(x), -1, e.size).transpose(0, 1) for project in (self.q, self.k, self.v))
        q, k = self.rotary(self.q_norm(q)), self.rotary(self.k_norm(k))
        if keys is not None and values is not None:
            k, v = torch.cat((keys, k), 1), torch.cat((values, v), 1)
        scores = q.reshape(e.shared, -1, e.size) @ k.transpose(1, 2)
        scores = torch.tanh(scores) if e.cap else scores
        rows = torch.softmax(scores, -1) @ v
        result: torch.Tensor = self.out(rows.reshape(e.heads, len(x), e.size).transpose(0, 1).reshape(len(x), -1))
        return result


class LatentBlock(nn.Module):
    """DeepSeek-V3: latent attention, a shared expert and 256 others of which each token uses 8.

    A decode multiplies its queries and its results by the latent vectors' projections instead of all keys and values
    (the absorbed form), so that all heads are rows of one product.
    """

    WIDTH, HEADS, PLAIN, TURNED, VALUE = 7168, 128, 128, 64, 128
    Q_LATENT, LATENT, INNER, EXPERTS, USED = 1536, 512, 2048, 256, 8

    def __init__(self, tokens: int) -> None:
        super().__init__()
        size = self.PLAIN + self.TURNED
        self.q_down, self.q_norm = nn.Linear(self.WIDTH, self.Q_LATENT, bias=False), Norm(self.Q_LATENT)
        self.q_up = nn.Linear(self.Q_LATENT, self.HEADS * size, bias=False)
        self.kv_down, self.kv_norm = nn.Linear(self.WIDTH, self.LATENT + self.TURNED, bias=False), Norm(self.LATENT)
        self.k_up = nn.Parameter(torch.ones(self.HEADS, self.PLAIN, self.LATENT))
        self.v_up = nn.Parameter(torch.ones(self.HEADS, self.LATENT, self.VALUE))
        self.kv_up = nn.Linear(self.LATENT, self.HEADS * (self.PLAIN + self.VALUE), bias=False)
        self.out = nn.Linear(self.HEADS * self.VALUE, self.WIDTH, bias=False)
        self.norm1, self.norm2, self.rotary = Norm(self.WIDTH), Norm(self.WIDTH), Rotary(tokens, self.TURNED)
        self.shared = FeedForward(self.WIDTH, self.INNER, functional.silu)
        self.experts = Experts(min(self.EXPERTS, tokens * self.USED), self.EXPERTS, self.WIDTH, self.INNER)

    def forward(self, x: torch.Tensor, picks: torch.Tensor, shares: torch.Tensor,
                latent: torch.Tensor | None = None) -> torch.Tensor:
        x = x + self.attention(self.norm1(x), latent)
        y = self.norm2(x)
        result: torch.Tensor = x + self.shared(y) + self.experts(y, picks, shares)
        return result

    def attention(self, x: torch.Tensor, latent: torch.Tensor | None) -> torch.Tensor:
        q = self.q_up(self.q_norm(self.q_down(x))).view(len(x), self.HEADS, -1).transpose(0, 1)
        plain, turned = q.split((self.PLAIN, self.TURNED), -1)
        kv, key = self.kv_down(x).split((self.LATENT, self.TURNED), -1)
        kv, turned, key = self.kv_norm(kv), self.rotary(turned), self.rotary(key)
        if latent is None:
            k, v = self.kv_up(kv).view(len(x), self.HEADS, -1).transpose(0, 1).split((self.PLAIN, self.VALUE), -1)
            q, k = torch.cat((plain, turned), -1), torch.cat((k, key.expand(self.HEADS, -1, -1)), -1)
            rows = torch.softmax(q @ k.transpose(1, 2), -1) @ v
        else:
            words = torch.cat((latent, torch.cat((kv, key), -1)), 0)                # [tokens, latent + turned]
            q = torch.cat((plain @ self.k_up, turned), -1).view(self.HEADS, -1)     # one token: heads are rows
            attended = torch.softmax(q @ words.t(), -1) @ words[:, :self.LATENT]
            rows = attended.view(self.HEADS, 1, self.LATENT) @ self.v_up
        result: torch.Tensor = self.out(rows.transpose(0, 1).reshape(len(x), -1))
        return result


def block(name: str) -> Workload:
    """A block as a network.

    Args:
        name: a model and a phase, such as "llama3_8b_decode".
    """
    model, _, phase = name.rpartition("_")
    tokens, before = (TOKENS, 0) if phase == "prefill" else (1, TOKENS - 1)
    with torch.device("meta"):
        e = GROUPED.get(model)
        used, experts = (e.used, e.experts) if e else (LatentBlock.USED, LatentBlock.EXPERTS)
        busy = min(experts, tokens * used)
        routing = {"picks": torch.empty(busy, tokens * used // busy, dtype=torch.long),
                   "shares": torch.empty(tokens, used, dtype=torch.long)} if experts > 1 else {}
        cache = ({} if not before else {name: torch.empty(e.shared, before, e.size) for name in ("keys", "values")}
                 if e else {"latent": torch.empty(before, LatentBlock.LATENT + LatentBlock.TURNED)})
        module = GroupedBlock(e, tokens) if e else LatentBlock(tokens)
        x = torch.empty(tokens, e.width if e else LatentBlock.WIDTH)
    return _stated(read_module(module.eval(), (x,), {**cache, **routing}, name), experts, tokens)


def _stated(network: Workload, experts: int, tokens: int) -> Workload:
    """The network in which the attention of several tokens says that its mask is causal, and products of experts say
    so: those with weights for each of the experts at work."""
    def stated(node: Node) -> Node:
        if node.op == "softmax" and node.shape and node.shape[-1] == tokens > 1:
            return replace(node, causal=tokens)
        among = node.name.startswith(("mlp.", "experts."))
        if experts == 1 or node.layer is None or node.layer.repeat == 1 or not among:
            return node
        busy, each = node.layer.repeat, node.layer.problem.bounds["N"]
        return replace(node, experts=experts, what=balance(busy * each, busy, experts))
    return replace(network, nodes=tuple(map(stated, network.nodes)))


BLOCKS = tuple(f"{model}_{phase}" for model in (*GROUPED, "deepseek_v3") for phase in ("prefill", "decode"))
"""Names of all blocks."""


def main(out: Path) -> None:
    for name in BLOCKS:
        (out / f"{name}.yaml").write_text(network_text(block(name)))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "networks")
