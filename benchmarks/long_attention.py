"""The EDP that fusion saves on attention of 16 heads of 64 words, from 2,048 to 131,072 tokens, softmax charged.

    python benchmarks/long_attention.py [--tokens N ...] [-o FILE]

Two products with a softmax in between, planned by `map_network`. `gemmini_large` has no compute units: of the softmax
in one pass, the words of maxima, denominators and corrected sums are charged. `tpu_v4i_like` has a vector unit, which
charges every operation of the softmax and of its corrections, too. "Exponential" is the saving with an exponential in
the place of the softmax, on the design without units: it needs no whole rows and no corrections, so the difference is
what these charges take. Loops are dimensions with the extents of their tiles, outermost first, of the product behind
the softmax: C are keys, N queries.
"""

from __future__ import annotations

import argparse

from provenance import add_output, heading, markdown, row

from fadiff_mapper import NetworkOptions, NetworkResult, Workload, map_network
from fadiff_mapper.workload import Node, build_workload, make_operator

TOKENS = tuple(2048 << step for step in range(7))
HEADS, SIZE = 16, 64
DESIGNS = {"gemmini_large": "bundled:arch/gemmini_large", "tpu_v4i_like": "bundled:inference/tpu_v4i_like"}


def attention(tokens: int, between: str) -> Workload:
    """Product, softmax or another operator `between`, and product."""
    def product(name: str, left: str, right: str, summed: int, columns: int) -> Node:
        dims = {"N": tokens, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1}
        layer = make_operator("gemm", dims, repeat=HEADS)
        return Node(name, "gemm", (left, right), layer=layer, operands=("Inputs", "Weights"))
    axes = (-1,) if between == "softmax" else ()
    return build_workload(f"attention_{tokens}", [
        Node("q", "input", shape=(HEADS, tokens, SIZE)), Node("k", "input", shape=(HEADS, SIZE, tokens)),
        Node("v", "input", shape=(HEADS, tokens, SIZE)), product("scores", "q", "k", SIZE, tokens),
        Node(between, between, ("scores",), (HEADS, tokens, tokens), axes=axes),
        product("results", between, "v", tokens, SIZE)])


def form(plan: NetworkResult) -> str:
    """How the plan runs the softmax."""
    if not plan.groups:
        return "unfused"
    return "one pass" if plan.groups[0].group.one_pass else "whole rows"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=TOKENS)
    add_output(parser)
    options = parser.parse_args()
    with markdown(options.output) as write:
        write(heading("design", "tokens", "unfused EDP", "plan EDP", "saved", "exponential", "gap", "softmax", "loops",
                      "bound by", "s"))
        for name, design in DESIGNS.items():
            for tokens in options.tokens:
                plan = map_network(attention(tokens, "softmax"), design, NetworkOptions(threads=1))
                other = None if plan.operators else map_network(
                    attention(tokens, "exp"), design, NetworkOptions(threads=1))
                loops = [f"{loop.dim} in {loop.tile:,}" for outcome in plan.groups for loop in outcome.group.loops]
                write(row(name, f"{tokens:,}", f"{plan.unfused_stats.edp:.6g}", f"{plan.stats.edp:.6g}",
                          f"{plan.gain:.2%}", f"{other.gain:.2%}" if other else "",
                          "" if plan.gap is None else f"{plan.gap:.1%}", form(plan), " ".join(loops),
                          plan.groups[0].cost.bound if plan.groups else "", f"{plan.time_s:.1f}"))


if __name__ == "__main__":
    main()
