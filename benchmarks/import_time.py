"""How the time to read a PyTorch module grows with its blocks: one row per size, beside PyTorch's own way.

    python benchmarks/import_time.py [--blocks N ...] [--without-pytorchs-own] [-o FILE]

The network is a language model of N equal blocks as frameworks write them: grouped-query attention with a rotary
embedding and a mask, RMSNorm, a gated feed-forward part, a head over the vocabulary. Positions are computed without
gradients and the mask by an operator that only its decomposition explains, so that the exported program needs changes
before it can be read. "PyTorch's own" are the two calls of `ExportedProgram.run_decompositions` that would make them.
All is processor time; no weights are made.
"""

from __future__ import annotations

import argparse
import time
import warnings

import torch
from provenance import add_output, heading, markdown, row
from torch import nn
from torch.nn import functional

from fadiff_mapper import load_network

WIDTH, HEADS, SHARED, INNER, WORDS = 4096, 32, 8, 14336, 128256
"""Extents of Llama-3-8B: channels, heads of queries, heads of keys and values, inner channels, vocabulary."""


class Norm(nn.Module):
    """RMSNorm in elementary operators."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scaled: torch.Tensor = self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))
        return scaled


class Block(nn.Module):
    """Attention and a feed-forward part, each behind a norm and beside a residual."""

    def __init__(self) -> None:
        super().__init__()
        shared = WIDTH // HEADS * SHARED
        self.norm1, self.norm2 = Norm(), Norm()
        self.q, self.out = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, shared, bias=False) for _ in range(2))
        self.gate, self.up = (nn.Linear(WIDTH, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, WIDTH, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        def heads(y: torch.Tensor) -> torch.Tensor:
            return y.view(*y.shape[:2], -1, WIDTH // HEADS).transpose(1, 2)

        def turned(y: torch.Tensor) -> torch.Tensor:
            low, high = y.chunk(2, -1)
            return y * cos + torch.cat((-high, low), -1) * sin
        y = self.norm1(x)
        q, k, v = turned(heads(self.q(y))), turned(heads(self.k(y))), heads(self.v(y))
        attended = functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        x = x + self.out(attended.transpose(1, 2).reshape(x.shape))
        y = self.norm2(x)
        z: torch.Tensor = x + self.down(functional.silu(self.gate(y)) * self.up(y))
        return z


class LanguageModel(nn.Module):
    """Tokens [1, N] to scores of all words [1, N, words]."""

    def __init__(self, blocks: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.norm, self.head = Norm(), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        with torch.no_grad():
            turns = torch.outer(places.float(), torch.ones(WIDTH // HEADS // 2, device=tokens.device))
            angles = torch.cat((turns, turns), -1)
            cos, sin = angles.cos(), angles.sin()
        mask = (places[:, None] >= places[None, :]).__and__(tokens[:, None, None, :] >= 0)
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cos, sin, mask)
        scores: torch.Tensor = self.head(self.norm(x))
        return scores


def exported(blocks: int, tokens: int = 512) -> torch.export.ExportedProgram:
    """The program of a model of `blocks` blocks for a number of tokens."""
    with torch.device("meta"):
        return torch.export.export(LanguageModel(blocks), (torch.zeros(1, tokens, dtype=torch.long),))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", nargs="+", type=int, default=[4, 8, 16, 32])
    parser.add_argument("--without-pytorchs-own", action="store_true")
    add_output(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    load_network(exported(1))   # loads all code
    with markdown(options.output) as write:
        write(heading("blocks", "calls", "layers", "links", "torch.export s", "reader s", "ms per block",
                      "PyTorch's own s"))
        for blocks in options.blocks:
            start = time.process_time()
            program = exported(blocks)
            traced = time.process_time()
            network = load_network(program, name="model")
            links = network.links()
            read = time.process_time()
            own = "" if options.without_pytorchs_own else f"{seconds_of_pytorchs_own(program):.1f}"
            write(row(blocks, len(program.graph.nodes), len(network.layers), len(links), f"{traced - start:.1f}",
                      f"{read - traced:.2f}", f"{(read - traced) / blocks * 1e3:.0f}", own))


def seconds_of_pytorchs_own(program: torch.export.ExportedProgram) -> float:
    """Processor time in which PyTorch takes regions and the one unknown operator out of a program."""
    start = time.process_time()
    unknown = torch.ops.aten.__and__.Tensor
    program.run_decompositions({}).run_decompositions({unknown: torch.export.default_decompositions()[unknown]})
    return time.process_time() - start


if __name__ == "__main__":
    main()
