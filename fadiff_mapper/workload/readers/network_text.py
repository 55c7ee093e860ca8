"""Writes network files, which `network_yaml` reads back as the same network."""

from __future__ import annotations

from collections.abc import Hashable
from os import PathLike
from pathlib import Path
from typing import Any

from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.yaml.load import dump
from fadiff_mapper.workload import Node, Operator, Workload
from fadiff_mapper.workload.node import INPUT


def save_network(network: Workload, path: str | PathLike[str]) -> None:
    """Writes a network as a file that the command line and `load_network` read, whole or not at all.

    Args:
        network: any network, such as one traced from a PyTorch module.
        path: the file, ending in .yaml or .yml.

    Raises:
        FadiffError: the name ends otherwise, or the file cannot be written.
    """
    file = Path(path)
    if file.suffix not in (".yaml", ".yml"):
        raise FadiffError(f"{file}: found the suffix \"{file.suffix}\"; accepted: .yaml, .yml")
    atomic_files.write_files(file.parent, {file.name: network_text(network)})


def network_text(network: Workload) -> str:
    """The text of a network file, whatever the network was read from."""
    ids: dict[Hashable, str] = {}
    shapes: dict[str, tuple[Operator, int]] = {}  # with the number of nodes that have it
    for layer in (node.layer for node in network.layers if node.layer):
        if _key(layer) not in ids:
            hint = shape_id(layer)
            taken = sum(name == hint or name.startswith(f"{hint}.") for name in ids.values())
            ids[_key(layer)] = f"{hint}.{taken + 1}" if taken else hint
        identity = ids[_key(layer)]
        shapes[identity] = (layer, shapes.get(identity, (layer, 0))[1] + 1)
    body: dict[str, Any] = {"version": 1, "name": network.name}
    body["inputs"] = {node.name: _list(node.shape) for node in network.nodes if node.op == INPUT}
    body["outputs"] = list(network.outputs)
    body["shapes"] = [_shape(identity, layer, count) for identity, (layer, count) in shapes.items()]
    body["graph"] = [_node(node, ids) for node in network.nodes if node.op != INPUT]
    if network.folded:
        body["folded"] = [{"name": entry.node, "what": entry.what, "macs": entry.macs} for entry in network.folded]
    return dump({"workload": body})


def _key(layer: Operator) -> Hashable:
    """Operators of one key share an entry of `shapes`, which also states the repeats."""
    return layer.op, layer.key, layer.repeat


def shape_id(layer: Operator) -> str:
    """A telling name of an operator, not unique.

    Returns:
        Such as conv3x3_64_64_56_s1 (channels in and out, output rows, stride), dw3x3_32_112_s1 (channels, output rows,
        stride), gemm_8_64_64_x4 (rows, inner extent, columns, repeats) or fc_512_1000.
    """
    d = layer.problem.bounds
    times = f"_x{layer.repeat}" if layer.repeat > 1 else ""
    if layer.op == "problem":
        return (layer.problem.name or "problem") + times
    if layer.op == "gemm":
        return (f"fc_{d['C']}_{d['M']}" if d["N"] == 1 else f"gemm_{d['N']}_{d['C']}_{d['M']}") + times
    if "Z" in d:
        groups = f"_g{d['G']}" if "G" in d else ""
        return (f"conv{d['T']}x{d['R']}x{d['S']}{groups}_{d['C']}_{d['M']}_{d['Z']}x{d['P']}x{d['Q']}"
                f"_s{'x'.join(map(str, layer.strides))}{times}")
    across = f"{d['P']}" if d["P"] == d["Q"] else f"{d['P']}x{d['Q']}"
    tail = f"{across}_s{layer.strides[-2]}{times}"
    if layer.op == "depthwise":
        return f"dw{d['R']}x{d['S']}_{d['G']}_{tail}"
    groups = f"_g{d['G']}" if "G" in d else ""
    return f"conv{d['R']}x{d['S']}{groups}_{d['C']}_{d['M']}_{tail}"


def _shape(identity: str, layer: Operator, count: int) -> dict[str, Any]:
    """An entry of the section `shapes`."""
    head = {"id": identity, "op": layer.op, "count": count, "repeat": layer.repeat}
    if layer.op == "problem":
        return head | {"problem": layer.literal}
    densities = layer.literal.get("instance", {}).get("densities")
    return head | {"dims": dict(layer.problem.bounds), "stride": list(layer.strides),
                   "dilation": list(layer.dilations)} | ({"densities": densities} if densities else {})


def _node(node: Node, ids: dict[Hashable, str]) -> dict[str, Any]:
    """An entry of the section `graph`, without keys that have their default."""
    entry: dict[str, Any] = {"name": node.name}
    if node.layer:
        entry |= {"shape": ids[_key(node.layer)], "from": list(node.inputs)}
        if node.operands != ("Inputs",) * len(node.inputs):
            entry["as"] = list(node.operands)
    else:
        entry |= {"op": node.op, "from": list(node.inputs)}
    if node.op in ("slice", "scatter") and node.window:
        steps = {"step": list(node.window.stride)} if set(node.window.stride) != {1} else {}
        entry |= {"start": [-before for before, _ in node.window.pad], **steps}
    elif node.window:
        entry |= {"kernel": list(node.window.kernel), "stride": list(node.window.stride),
                  "dilation": list(node.window.dilation)}
    pad = None if node.op in ("slice", "scatter") else node.window.pad if node.window else node.pad
    extra = {"pad": None if pad is None else [list(pair) for pair in pad], "axes": list(node.axes) or None,
             "what": node.what or None, "experts": node.experts or None, "macs": node.macs,
             "possible": node.possible, "out": _list(node.shape)}
    return entry | {key: value for key, value in extra.items() if value is not None}


def _list(shape: tuple[int, ...] | None) -> list[int] | None:
    return None if shape is None else list(shape)
