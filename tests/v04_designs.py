"""Small designs in the v0.4 dialect for tests, and a look into their native form."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.inputs.v04.document import translate
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import Map, plain

PROBLEM = """
problem:
  shape:
    name: gemm
    dimensions: [M, N, K]
    data_spaces:
    - {name: A, projection: [[[M]], [[K]]]}
    - {name: B, projection: [[[N]], [[K]]]}
    - {name: Z, projection: [[[M]], [[N]]], read_write: true}
  instance: {M: 64, N: 16, K: 24}
"""
DRAM = "{name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}"
MAC = "{name: MAC, class: intmac}"


def buffer(name: str = "Buf", more: str = "", attributes: str = "width: 8, datawidth: 8, depth: 16") -> str:
    return f"!Component {{name: {name}, class: SRAM, attributes: {{{attributes}}}{', ' + more if more else ''}}}"


def document(*nodes: str, sections: str = "", problem: str = PROBLEM) -> Map:
    """A design with these nodes between a DRAM and the MACs."""
    lines = [f"  - {node}" for node in (f"!Component {DRAM}", *nodes, f"!Component {MAC}")]
    return load_text("\n".join(["architecture:", "  nodes:", *lines, sections, problem]), "design.yaml")


def to_native(document: Map) -> Map:
    """A v0.4 document in the native dialect."""
    return translate(document)[0]


def levels(native: Map) -> list[dict[str, Any]]:
    return list(plain(native)["architecture"]["subtree"][0]["local"])


def constraints(native: Map, target: str, kind: str, section: str = "architecture_constraints") -> dict[str, Any]:
    """A native document's part about the loops or data spaces of one level."""
    entries = plain(native)[section]
    entries = entries["targets"] if isinstance(entries, dict) else entries
    found = [entry for entry in entries if (entry["target"], entry["type"]) == (target, kind)]
    assert len(found) <= 1
    return {key: value for key, value in found[0].items() if key not in ("target", "type")} if found else {}
