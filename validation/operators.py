"""The operators of the paper's section 4.2, and the two products of an attention block, as layers."""

from __future__ import annotations

from typing import Any

from .problems import problem, strided


def operators() -> dict[str, dict[str, Any]]:
    """The operators that the models are judged on.

    Returns:
        Operator -> native problem (`shape` and `instance`), in the dimensions that the bundled designs' constraints
        name.
    """
    return {
        "conv 3x3": problem("conv", C=64, M=64, P=56, Q=56, R=3, S=3),
        "conv 3x3, stride 2": strided("conv", 2, C=64, M=128, P=28, Q=28, R=3, S=3),
        "depthwise 3x3": problem("depthwise", G=256, P=28, Q=28, R=3, S=3),
        "pointwise": problem("conv", C=256, M=64, P=56, Q=56),
        "depthwise 31x31": problem("depthwise", G=96, P=14, Q=14, R=31, S=31),
        "fully connected": problem("conv", N=4, C=1024, M=1000),
        "attention scores": problem("grouped_conv", G=12, N=128, C=64, M=128),
        "attention values": problem("grouped_conv", G=12, N=128, C=128, M=64),
    }
