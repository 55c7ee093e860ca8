"""Network files, a YAML form of the graph whose format timeloop_specs/networks/README.md describes: read and written.

    workload:
      version: 1
      name: two_layers
      inputs: {image: [1, 3, 32, 32]}
      shapes:                                   # each distinct operator once
      - {id: c, op: conv, dims: {N: 1, M: 8, C: 3, P: 32, Q: 32, R: 3, S: 3}}
      graph:                                    # nodes: operators name a shape, all others an op
      - {name: conv1, shape: c, from: [image], pad: [1, 1]}
      - {name: relu1, op: relu, from: [conv1]}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import fields
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.inputs.spec import keys
from fadiff_mapper.inputs.spec.keys import MAP, NATURAL, POSITIVE, TEXT, TRUTH, one, table, table_of, tables_of
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.inputs.yaml.load import load_files
from fadiff_mapper.inputs.yaml.located import (
    REQUIRED,
    Map,
    Reader,
    Seq,
    each,
    integer,
    natural,
    plain,
    positive,
    readers,
    text,
)
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Folded, Node, Operator, Window, Workload, build_workload, make_operator
from fadiff_mapper.workload.node import GENERIC, INPUT, KIND, NOT_UNDERSTOOD
from fadiff_mapper.workload.operations import COPIES
from fadiff_mapper.workload.operator import TEMPLATES, problem_operator, sliding

VERSION = 1  # version of the format
DEFAULTS = {field.name: field.default for field in fields(Node)}  # what a file need not say of a node


def _pad(value: Any, where: Where) -> tuple[int, int]:
    """Padding along an axis: a number for both sides, or [before, after]."""
    pair = each(integer)(value, where) if isinstance(value, list) else (natural(value, where),) * 2
    if len(pair) != 2:
        raise where.error(f"found {len(pair)} numbers", "[before, after]")
    return pair[0], pair[1]


EXTENTS, STEPS, WHOLE, PADS, SHAPES = (keys.kind(each(check), "list", type="array") for check in (
    natural, positive, integer, _pad, each(natural)))  # a tensor may have no elements
NETWORK_FILE = table(("workload", table_of("network"), REQUIRED, "the network"))
NETWORK = table(
    ("version", POSITIVE, REQUIRED, f"version of the format: {VERSION}"),
    ("name", TEXT, REQUIRED, "its name"),
    ("inputs", MAP, None, "extents, or null, of the tensors from outside; by default one, `input`, of unknown extents"),
    ("outputs", keys.NAMES, None, "tensors that the network returns; by default those that no node reads"),
    ("shapes", tables_of("network shape"), REQUIRED, "each distinct operator once"),
    ("graph", tables_of("network node"), REQUIRED, "its nodes"),
    ("folded", tables_of("folded operator"), None, "operators that read only constants"))
SHAPE = table(
    ("id", TEXT, REQUIRED, "its name in the graph"),
    ("op", one(*TEMPLATES, "problem"), REQUIRED, "its template, or `problem`"),
    ("count", POSITIVE, None, "number of nodes of this shape; checked where given"),
    ("repeat", POSITIVE, 1, "times that a node runs it back to back, such as heads of attention"),
    ("problem", table_of("problem"), None, "of `op: problem`: a problem of Timeloop"),
    ("dims", MAP, None, "of a template: the bounds of its dimensions"),
    ("stride", STEPS, None, "of a template: strides along its sliding axes; by default 1"),
    ("dilation", STEPS, None, "of a template: dilations along its sliding axes; by default 1"),
    ("densities", MAP, None, "of a template: densities by data space, as in [instance](#instance)"),
    ("bits", MAP, None, "of a template: bits by data space, as in [instance](#instance)"))
NODE = table(
    ("name", TEXT, REQUIRED, "name of the node and of the tensor that it writes"),
    ("from", keys.NAMES, REQUIRED, "the tensors that it reads"),
    ("out", EXTENTS, None, "extents of its tensor"),
    ("shape", TEXT, None, "of an operator: the id of its shape; other nodes have `op`"),
    ("weights_from", TEXT, None, "of an operator: the tensor that is its second operand"),
    ("as", keys.NAMES, None, "of an operator: the data spaces that the tensors in `from` become; by default Inputs"),
    ("experts", POSITIVE, None, "of a repeated gemm: number of experts, of which `repeat` are at work"),
    ("op", one(*(op for op in KIND if op != INPUT)), None, "operation of a node without multiply-accumulates"),
    ("what", TEXT, None, "a remark, or the framework's name of the operation"),
    ("pad", PADS, None, "of an operator or a pool: padding per sliding axis, or [before, after]"),
    ("kernel", STEPS, None, "of a pool: extents of its window"),
    ("stride", STEPS, None, "of a pool: strides of its window; by default its kernel"),
    ("dilation", STEPS, None, "of a pool: dilations of its window; by default 1"),
    ("start", EXTENTS, None, "of a slice: the first point along each of `axes`"),
    ("step", STEPS, None, "of a slice: the step along each of `axes`; by default 1"),
    ("axes", WHOLE, None, "axes that are reduced, reordered, read whole, or cut"),
    ("macs", NATURAL, None, "multiply-accumulates of a node that is no operator"),
    ("possible", NATURAL, None, "of `not_understood`: multiply-accumulates that the node may well have"),
    ("constants", SHAPES, None, "extents of the constants that it reads"),
    ("causal", POSITIVE, None, "of a softmax: queries of which each sees the keys up to its own"),
    ("unit", TEXT, None, "the compute unit on which the node runs"),
    ("moves", TRUTH, False, "whether a rearrangement is a copy"))
FOLDED = table(
    ("name", TEXT, REQUIRED, "its name"),
    ("what", TEXT, REQUIRED, "its operator"),
    ("macs", POSITIVE, REQUIRED, "its multiply-accumulates"))
"""The keys of a network file, of its shapes, its nodes, and its operators that read only constants. A shape or node
accepts only the keys that its operator reads."""


def read_network(path: Path) -> Workload:
    """Reads a network file. Raises SpecError for a mistake, with file, line and YAML path."""
    document = load_files([path])
    if document.get("workload") is None:
        raise document.where.error(f"is no network file (found: {listed(document) or 'no section'})",
                                   "workload:, an ONNX model, or a folder of problems with edges.yaml")
    reader = Reader(document, NETWORK_FILE)
    where = reader.at("workload")
    section = Reader(reader.read("workload"), NETWORK)
    reader.finish(" in a network file")
    if (version := section.read("version")) != VERSION:
        raise section.at("version").error(f"found version {version}", str(VERSION))
    name, items, operators = section.read("name"), section.read("shapes"), dict[str, Operator]()
    for reader in readers(items, SHAPE):
        identity = reader.read("id")
        if identity in operators:
            raise reader.at("id").error(f'there are two shapes called "{identity}"')
        op, _, repeat = reader.read("op"), reader.read("count"), reader.read("repeat")
        if op == "problem":
            operators[identity] = problem_operator(reader.read("problem", REQUIRED), reader.at("problem"), repeat)
        else:
            dims, stride, dilation = (reader.read("dims", REQUIRED), reader.read("stride"), reader.read("dilation"))
            for key, numbers in (("stride", stride), ("dilation", dilation)):
                names = [f"along {axis[0]}" for axis in sliding(op)]
                if numbers is not None and len(numbers) != len(names):
                    raise reader.at(key).error(f"found {len(numbers)} numbers", f"[{', '.join(names)}]")
            operators[identity] = make_operator(op, dims, stride, dilation, repeat, reader.at("dims"),
                                                reader.read("densities"), reader.read("bits"))
        reader.finish(" of a shape", whole=False)
    graph, given = section.read("graph"), section.read("inputs", Map({"input": None}, where=where))
    inputs = [Node(text(name, given.at(name)), INPUT, where=given.at(name), shape=None if given[name] is None else
                   each(natural)(given[name], given.at(name))) for name in given]  # null: extents are left open
    outputs, folded = section.read("outputs", ()), []
    for reader in readers(section.read("folded", Seq(where=where)), FOLDED):
        folded.append(Folded(*map(reader.read, FOLDED)))
        reader.finish(" of an operator that reads constants alone")
    section.finish(" of a network", whole=False)
    nodes = [_node(reader, operators) for reader in readers(graph, NODE)]
    counts = Counter(item.get("shape") for item in graph)
    for item, place in items.placed():
        stated = item.get("count")
        if stated is not None and stated != counts[item["id"]]:
            raise place.error(f"{item['id']}: count is {stated}, the graph has {counts[item['id']]} of it")
    return build_workload(name, inputs + nodes, outputs, where, folded)


def _node(reader: Reader, operators: dict[str, Operator]) -> Node:
    """A node of a network file. The operands of an operator are Inputs and, from `weights_from`, Weights, or the data
    spaces that `as` names; a node without multiply-accumulates has the details that its kind needs."""
    name, inputs, shape = reader.read("name"), reader.read("from"), reader.read("out")
    if "shape" in reader.node:
        identity = reader.read("shape", REQUIRED)
        if identity not in operators:
            raise reader.at("shape").error(f'there is no shape "{identity}"{nearest(identity, list(operators))}',
                                           "the id of an entry of shapes")
        layer, second = operators[identity], reader.read("weights_from")
        operands = reader.read("as", ("Inputs",) * len(inputs)) + (("Weights",) if second else ())
        inputs += (second,) if second else ()
        accepted = [space for space in layer.views if space != layer.problem.output.name]
        if not set(operands) <= set(accepted) or len(set(operands)) != len(operands) or len(operands) != len(inputs):
            raise reader.node.where.error(
                f"{name} reads {len(inputs)} tensors as {', '.join(operands)}",
                f"one tensor for each of {', '.join(accepted)} that is not a constant, in the order of \"as\"")
        experts = reader.read("experts", 0)
        if experts and (layer.op != "gemm" or layer.repeat > experts):
            raise reader.at("experts").error(f"{name} ({layer.op}, repeat {layer.repeat}): {experts} experts",
                                             "a gemm that is repeated at most once for each expert")
        node = Node(name, layer.op, inputs, shape, layer, operands, reader.read("pad"), what=reader.read("what", ""),
                    experts=experts, where=reader.node.where)
    else:
        op = reader.read("op", REQUIRED)
        kind, sliced = KIND[op], op in ("slice", "scatter")
        window = _window(reader, sliced) if kind in ("pool", "opaque") else None
        axes: tuple[int, ...] = ()
        if kind in ("rows", "reduce", "transpose", "opaque"):
            axes = reader.read("axes", () if kind in ("rows", "opaque") else REQUIRED)
        entries = len(window.kernel) if window else len(axes)
        if (sliced or op == "pad") and entries != len(axes):
            raise reader.at("axes").error(f"{name} ({op}): the axes {list(axes)}, entries for {entries}",
                                          "one entry per axis")
        details = {"constants": kind in ("join", "rows"), "causal": op == "softmax", "unit": True,
                   "moves": op in COPIES, "macs": kind in ("reduce", "pool", NOT_UNDERSTOOD),
                   "possible": op == NOT_UNDERSTOOD}
        stated = {key: reader.read(key, DEFAULTS[key]) for key, there in details.items() if there}
        what = reader.read("what", REQUIRED) if op in (*GENERIC, NOT_UNDERSTOOD) else ""
        if kind not in ("join", "opaque", NOT_UNDERSTOOD) and len(inputs) != 1:
            raise reader.at("from").error(f"{name} ({op}) reads {len(inputs)} tensors", "one")
        node = Node(name, op, inputs, shape, window=window, axes=axes, what=what, where=reader.node.where, **stated)
    reader.finish(f' of the node "{name}"', whole=False)
    return node


def _window(reader: Reader, sliced: bool) -> Window | None:
    """The window of a pool, or the window of one point through which a slice reads: its first points and steps.

    None where the file does not state it.
    """
    first = reader.read("start") if sliced else reader.read("kernel")
    if first is None:
        return None
    ones = (1,) * len(first)
    if sliced:
        steps = reader.read("step", ones)
        if len(steps) != len(first):
            raise reader.at("step").error(f"{len(first)} starts and {len(steps)} steps", "one of each per axis")
        return Window(ones, steps, tuple((-start, 0) for start in first), ones)
    stride, dilation = reader.read("stride", first), reader.read("dilation", ones)
    pad = reader.read("pad", ((0, 0),) * len(first))
    if not len(first) == len(stride) == len(dilation) == len(pad):
        raise reader.at("kernel").error("kernel, stride, pad and dilation have different lengths", "one entry per axis")
    return Window(first, stride, pad, dilation)


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
    inputs = {node.name: None if node.shape is None else list(node.shape) for node in network.nodes if node.op == INPUT}
    body: dict[str, Any] = {"version": VERSION, "name": network.name, "inputs": inputs,
                            "outputs": list(network.outputs), "shapes": [], "graph": []}
    for identity, (layer, nodes) in shapes.items():
        own: dict[str, Any] = {"problem": layer.literal}
        if layer.op != "problem":
            own = {"dims": dict(layer.problem.bounds), "stride": list(layer.strides), "dilation": list(layer.dilations)}
            own |= {key: layer.literal["instance"][key] for key in ("densities", "bits")
                    if layer.literal.get("instance", {}).get(key)}
        body["shapes"].append({"id": identity, "op": layer.op, "count": nodes, "repeat": layer.repeat} | own)
    for node in network.nodes:      # without keys that have their default
        if node.op == INPUT:
            continue
        entry: dict[str, Any] = {"name": node.name}
        if node.layer:
            entry |= {"shape": ids[_key(node.layer)], "from": list(node.inputs)}
            if node.operands != ("Inputs",) * len(node.inputs):
                entry["as"] = list(node.operands)
        else:
            entry |= {"op": node.op, "from": list(node.inputs)}
        pad = node.window.pad if node.window else node.pad
        if node.op in ("slice", "scatter") and node.window:
            steps = {"step": list(node.window.stride)} if set(node.window.stride) != {1} else {}
            entry |= {"start": [-before for before, _ in node.window.pad], **steps}
            pad = None
        elif node.window:
            entry |= {"kernel": list(node.window.kernel), "stride": list(node.window.stride),
                      "dilation": list(node.window.dilation)}
        entry |= {} if pad is None else {"pad": plain(pad)}
        entry |= {key: plain(getattr(node, key)) for key in (
            "axes", "what", "experts", "macs", "possible", "causal", "unit", "moves", "constants")
            if getattr(node, key) != DEFAULTS[key]}
        body["graph"].append(entry if node.shape is None else entry | {"out": list(node.shape)})
    if network.folded:
        body["folded"] = [{"name": entry.node, "what": entry.what, "macs": entry.macs} for entry in network.folded]
    return dump({"workload": body})


def _key(layer: Operator) -> Hashable:
    """A key for `shapes`: operators with equal keys share an entry, which also states the repeats."""
    return layer.op, layer.key, layer.repeat


def shape_id(layer: Operator) -> str:
    """A descriptive name of an operator, not unique.

    Returns:
        A name such as conv3x3_64_64_56_s1 (channels in and out, output rows, stride), dw3x3_32_112_s1 (channels, output
        rows, stride), gemm_8_64_64_x4 (rows, inner extent, columns, repeats) or fc_512_1000 (channels in and out).
    """
    d = layer.problem.bounds
    times = f"_x{layer.repeat}" if layer.repeat > 1 else ""
    if layer.op == "problem":
        return (layer.problem.name or "problem") + times
    if layer.op == "gemm":
        return (f"fc_{d['C']}_{d['M']}" if d["N"] == 1 else f"gemm_{d['N']}_{d['C']}_{d['M']}") + times
    kernel, across = ("x".join(str(d[dim]) for dim in dims if dim in d) for dims in ("TRS", "ZPQ"))
    stride = "x".join(map(str, layer.strides))
    if "Z" not in d:    # of images, short where both extents are the same
        across, stride = f"{d['P']}" if d["P"] == d["Q"] else across, f"{layer.strides[-2]}"
    if layer.op == "depthwise":
        return f"dw{kernel}_{d['G']}_{across}_s{stride}{times}"
    groups = f"_g{d['G']}" if "G" in d else ""
    return f"conv{kernel}{groups}_{d['C']}_{d['M']}_{across}_s{stride}{times}"
