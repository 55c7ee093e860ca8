"""Write layers/<network>/<shape id>.yaml: every distinct layer of networks/ as a Timeloop problem file.

usage: python make_layers.py [OUT_DIR]        (OUT_DIR: the folder "layers" beside this file)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
TEMPLATE = {"conv": "conv", "gemm": "conv", "depthwise": "depthwise"}
"""The problem whose shape an operator takes. A matrix product is a 1 x 1 convolution, so that constraints on
P, Q, R and S hold for all layers of a network alike."""


def instance(shape: dict[str, Any]) -> dict[str, int]:
    """Bounds and coefficients of one entry of a network's `shapes`; strides and dilations are [along P, along Q]."""
    coefficients = {"Wstride": shape["stride"][0], "Hstride": shape["stride"][1],
                    "Wdilation": shape["dilation"][0], "Hdilation": shape["dilation"][1]}
    return {**shape["dims"], **coefficients}


def layer_text(network: str, shape: dict[str, Any]) -> str:
    """The problem file of one layer: the shape as its template writes it, with this layer's instance."""
    template = (HERE / "problems" / f"{TEMPLATE[shape['op']]}.yaml").read_text()
    body = template[template.index("problem:"):template.index("  instance:")]
    times = shape["count"] * shape["repeat"]
    values = ", ".join(f"{name}: {value}" for name, value in instance(shape).items())
    return f"# {shape['id']}: {times} x in {network}.\n{body}  instance: {{{values}}}\n"


def layers() -> Iterator[tuple[Path, str]]:
    """Every layer file: its path below the folder of layers, and its text."""
    for path in sorted((HERE / "networks").glob("*.yaml")):
        network = yaml.safe_load(path.read_text())["workload"]
        for shape in network["shapes"]:
            yield Path(network["name"], f"{shape['id']}.yaml"), layer_text(network["name"], shape)


def main(out: Path) -> None:
    for path, text in layers():
        (out / path).parent.mkdir(parents=True, exist_ok=True)
        (out / path).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE / "layers")
