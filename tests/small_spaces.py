"""Small spaces of designs and networks, whose layers are mapped in milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fadiff_mapper.design import layer_entries
from fadiff_mapper.design.question import DesignOptions, DesignQuestion
from fadiff_mapper.design.space import DesignSpace, read_space
from fadiff_mapper.workload import Workload
from fadiff_mapper.workload.readers.load_network import load_network

SECTION = """\
design_space:
  version: 0.1
  parameters:
    columns: {path: PEColumns.spatial.meshX, powers_of_two: [4, 16]}
    depth: {path: Scratchpad.attributes.depth, values: [512, 1024, 4096, 16384]}
"""

NETWORK = """\
workload:
  version: 1
  name: two_layers
  inputs: {input: [1, 8, 8, 8]}
  shapes:
  - {id: first, op: conv, count: 1, repeat: 1, dims: {N: 1, M: 16, C: 8, P: 8, Q: 8, R: 1, S: 1}}
  - {id: second, op: conv, count: 2, repeat: 1, dims: {N: 1, M: 16, C: 16, P: 8, Q: 8, R: 1, S: 1}}
  graph:
  - {name: a, shape: first, from: [input]}
  - {name: b, shape: second, from: [a]}
  - {name: c, shape: second, from: [b]}
"""


def small_space(folder: Path, section: str = SECTION, **settings: Any) -> DesignSpace:
    """Twelve sizes of `gemmini_small`, or those of another section."""
    file = folder / "space.yaml"
    file.write_text(section, encoding="utf-8")
    return read_space("bundled:arch/gemmini_small", file, **settings)


def small_network(folder: Path) -> Workload:
    """Three pointwise convolutions, two of them equal."""
    file = folder / "two_layers.yaml"
    file.write_text(NETWORK, encoding="utf-8")
    return load_network(file)


def small_question(folder: Path, section: str = SECTION, **settings: Any) -> DesignQuestion:
    """The question for the size of `gemmini_small` that is best for these layers, one by one unless asked otherwise."""
    return DesignQuestion(small_space(folder, section), (small_network(folder),), (1.0,),
                          DesignOptions(**{"fuse": False} | settings))


def forbid_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on layers of designs come from the store, or the test fails."""
    def searched(*_: object, **__: object) -> None:
        raise AssertionError("a layer was searched again")

    monkeypatch.setattr(layer_entries, "search_all", searched)
