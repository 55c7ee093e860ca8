"""ResNet-50 (He et al. 2016) at 224 x 224 as a network file, strides in the 3 x 3 convolutions: 24 distinct layers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

STAGES = ((64, 3, 56), (128, 4, 28), (256, 6, 14), (512, 3, 7))
"""Inner channels, blocks and output rows of each stage; blocks end in four times as many channels."""


def write_resnet50(folder: Path) -> Path:
    """Writes the network.

    Args:
        folder: Where to write it.

    Returns:
        The file, as `load_network` reads it.
    """
    shapes: dict[str, dict[str, Any]] = {}
    graph: list[dict[str, Any]] = []

    def add(name: str, source: str, channels: tuple[int, int], rows: int, kernel: int, stride: int) -> str:
        into, out = channels
        identity = f"conv{kernel}x{kernel}_{into}_{out}_{rows}_s{stride}"
        entry = shapes.setdefault(identity, {
            "id": identity, "op": "conv", "count": 0, "repeat": 1, "stride": [stride] * 2, "dilation": [1, 1],
            "dims": {"N": 1, "M": out, "C": into, "P": rows, "Q": rows, "R": kernel, "S": kernel}})
        entry["count"] += 1
        graph.append({"name": name, "shape": identity, "from": [source]})
        return name

    last, width = add("conv1", "input", (3, 64), 112, 7, 2), 64
    graph.append({"name": "maxpool", "op": "maxpool", "from": [last], "kernel": [3, 3], "stride": [2, 2],
                  "pad": [1, 1]})
    last = "maxpool"
    for stage, (inner, blocks, rows) in enumerate(STAGES, 1):
        for block in range(blocks):
            name, stride = f"layer{stage}.{block}", 2 if block == 0 and stage > 1 else 1
            first = add(f"{name}.conv1", last, (width, inner), rows * stride, 1, 1)
            second = add(f"{name}.conv2", first, (inner, inner), rows, 3, stride)
            third = add(f"{name}.conv3", second, (inner, 4 * inner), rows, 1, 1)
            beside = add(f"{name}.downsample", last, (width, 4 * inner), rows, 1, stride) if block == 0 else last
            graph.append({"name": f"{name}.add", "op": "add", "from": [third, beside]})
            last, width = f"{name}.add", 4 * inner
    graph.append({"name": "avgpool", "op": "avgpool", "from": [last], "kernel": [7, 7]})
    shapes["fc"] = {"id": "fc_2048_1000", "op": "gemm", "count": 1, "repeat": 1, "stride": [1, 1], "dilation": [1, 1],
                    "dims": {"N": 1, "M": 1000, "C": 2048, "P": 1, "Q": 1, "R": 1, "S": 1}}
    graph.append({"name": "fc", "shape": "fc_2048_1000", "from": ["avgpool"]})
    file = folder / "resnet50.yaml"
    network = {"version": 1, "name": "resnet50", "inputs": {"input": [1, 3, 224, 224]}, "shapes": list(shapes.values()),
               "graph": graph}
    file.write_text(yaml.safe_dump({"workload": network}, sort_keys=False), encoding="utf-8")
    return file
