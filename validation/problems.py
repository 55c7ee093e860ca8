"""The problems that are recorded: the bundled shapes at various sizes, and shapes that no bundled file has."""

from __future__ import annotations

from functools import cache
from typing import Any

import yaml

from fadiff_mapper.base import bundled_files

UNUSUAL: dict[str, dict[str, Any]] = {      # what the bundled shapes lack, one thing each
    "conv1d": {
        "name": "conv1d", "dimensions": ["K", "C", "P", "R"], "data_spaces": [
            {"name": "Weights", "projection": [[["K"]], [["C"]], [["R"]]]},
            {"name": "Inputs", "projection": [[["C"]], [["P"], ["R"]]]},
            {"name": "Outputs", "projection": [[["K"]], [["P"]]], "read_write": True}]},
    "two_ranks": {  # P lies in two ranks of the inputs, and one rank is a sum of three dimensions
        "name": "two_ranks", "dimensions": ["K", "P", "R", "S"], "coefficients": [{"name": "Step", "default": 2}],
        "data_spaces": [
            {"name": "Weights", "projection": [[["K"]], [["R"]], [["S"]]]},
            {"name": "Inputs", "projection": [[["P"], ["R"]], [["P", "Step"], ["R"], ["S"]]]},
            {"name": "Outputs", "projection": [[["K"]], [["P"]]], "read_write": True}]},
    "four_spaces": {  # a sampled product: one more operand, hyphenated keys
        "name": "four_spaces", "dimensions": ["M", "K", "N"], "data-spaces": [
            {"name": "Weights", "projection": [[["K"]], [["N"]]]},
            {"name": "Inputs", "projection": [[["M"]], [["K"]]]},
            {"name": "Mask", "projection": [[["M"]], [["N"]]]},
            {"name": "Outputs", "projection": [[["M"]], [["N"]]], "read-write": True}]},
}


@cache
def _shape(name: str) -> dict[str, Any]:
    """An unusual shape, else the bundled one."""
    if name in UNUSUAL:
        return UNUSUAL[name]
    shape: dict[str, Any] = yaml.safe_load(bundled_files.find(f"problems/{name}").read_text())["problem"]["shape"]
    return shape


def problem(shape: str, **instance: int) -> dict[str, Any]:
    """A bundled or unusual shape at some size, as a native problem.

    Args:
        shape: Name of a bundled shape or key of `UNUSUAL`.
        **instance: Bounds and coefficients; all others are 1.
    """
    named = _shape(shape)
    ones = dict.fromkeys((*named["dimensions"], *(c["name"] for c in named.get("coefficients", ()))), 1)
    return {"shape": named, "instance": ones | instance}


def strided(shape: str, stride: int, **instance: int) -> dict[str, Any]:
    """A shape at some size with the same stride in both directions; see `problem`."""
    return problem(shape, Wstride=stride, Hstride=stride, **instance)


def conv_letters() -> dict[str, dict[str, Any]]:
    """Problems in the dimensions that the bundled designs' constraints name: id -> native problem."""
    return {
        "conv3x3": problem("conv", C=64, M=64, P=56, Q=56, R=3, S=3),
        "conv3x3_batch": problem("conv", N=4, C=16, M=32, P=14, Q=14, R=3, S=3),
        "conv3x3_stride2": strided("conv", 2, C=64, M=128, P=28, Q=28, R=3, S=3),
        "conv7x7_stride2": strided("conv", 2, C=3, M=64, P=112, Q=112, R=7, S=7),
        "conv2x2_stride3": strided("conv", 3, C=8, M=16, P=12, Q=12, R=2, S=2),
        "conv1x1": problem("conv", C=256, M=64, P=56, Q=56),
        "conv3x3_dilated": problem("conv", C=32, M=32, P=28, Q=28, R=3, S=3, Wdilation=2, Hdilation=2),
        "conv3x5_mixed": problem("conv", C=12, M=20, P=10, Q=18, R=3, S=5, Wstride=2, Hdilation=3),
        "conv_primes": problem("conv", C=7, M=11, P=13, Q=5, R=3, S=3),
        "patches": strided("conv", 16, C=3, M=192, P=14, Q=14, R=16, S=16),
        "fully_connected": problem("conv", N=4, C=1024, M=1000),
        "depthwise3x3": problem("depthwise", G=64, P=56, Q=56, R=3, S=3),
        "depthwise5x5_stride2": strided("depthwise", 2, G=72, P=28, Q=28, R=5, S=5),
        "depthwise31x31": problem("depthwise", G=96, P=14, Q=14, R=31, S=31),
        "grouped3x3": problem("grouped_conv", G=4, C=16, M=32, P=14, Q=14, R=3, S=3),
    }


def other_letters() -> dict[str, dict[str, Any]]:
    """Problems in other dimensions: id -> native problem."""
    return {
        "matmul": problem("matmul", N=128, C=256, M=64),
        "matmul_primes": problem("matmul", N=17, C=13, M=19),
        "attention": problem("batched_matmul", G=12, N=128, C=64, M=128),
        "conv1d": problem("conv1d", K=12, C=6, P=30, R=5),
        "two_ranks": {"shape": _shape("two_ranks"), "instance": {"K": 6, "P": 12, "R": 4, "S": 3}},
        "four_spaces": problem("four_spaces", M=24, K=30, N=16),
    }
