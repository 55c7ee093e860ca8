"""Writes the networks of AGATF's comparison as network files, from torchvision through `torch.export`.

    python -m benchmarks.agatf.import_networks

The files in `networks/` are what it wrote; they are read, so that only this script needs torchvision. Modules are made
on the meta device: shapes alone, no weights.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path

import torch

from fadiff_mapper import Workload, load_network, save_network

FOLDER = Path(__file__).with_name("networks")

INPUTS = {"resnet50": 224, "vgg16": 224, "inception_v3": 299, "mobilenet_v2": 224}
"""Network -> extent of its square input."""


def main() -> None:
    for name, extent in INPUTS.items():
        network = imported(name, extent)
        save_network(network, FOLDER / f"{name}.yaml")
        print(f"{name}: {len(network.layers)} layers, {len(network.distinct())} of them distinct")


def imported(name: str, extent: int) -> Workload:
    """A network of torchvision in evaluation mode, batch 1."""
    options = {"init_weights": False} if name == "inception_v3" else {}    # takes minutes, and no weight is read
    with warnings.catch_warnings(), torch.device("meta"):
        warnings.simplefilter("ignore")
        module = import_module("torchvision.models").get_model(name, weights=None, **options).eval()
        return load_network(module, (torch.empty(1, 3, extent, extent),), name=name)


def network(name: str) -> Workload:
    """Reads a network that has been written."""
    return load_network(FOLDER / f"{name}.yaml")


if __name__ == "__main__":
    main()
