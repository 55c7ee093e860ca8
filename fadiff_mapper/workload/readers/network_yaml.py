"""Network files: reading. The format is described in timeloop_specs/networks/README.md."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import nearest
from fadiff_mapper.workload import Node, Operator, Window, Workload, build_workload, make_operator
from fadiff_mapper.workload.node import INPUT, KIND, NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import TEMPLATES, problem_operator
from fadiff_mapper.yaml.load import load_files
from fadiff_mapper.yaml.located import Map, Reader, Seq, Where, integer, mapping, one_of, sequence, text

VERSION = 1


def read_network(path: Path) -> Workload:
    """The network in a file. Raises SpecError with file, line and YAML path."""
    document = load_files([path])
    reader = Reader(document)
    where = reader.at("workload")
    section = Reader(reader.take("workload", mapping))
    reader.finish(" in a network file")
    version = section.take("version", integer(1))
    if version != VERSION:
        raise section.at("version").error(f"found version {version}", str(VERSION))
    name = section.take("name", text)
    layers = _layers(section.take("shapes", sequence))
    graph = section.take("graph", sequence)
    inputs = _inputs(section.take("inputs", mapping, Map({"input": None}, where=where)))
    outputs = section.take("outputs", names, ())
    section.finish(" of a network")
    nodes = [_node(item, graph.at(index), layers) for index, item in enumerate(graph)]
    _check_counts(section.node["shapes"], nodes, Counter(item.get("shape") for item in graph))
    return build_workload(name, inputs + nodes, outputs, where)


def _layers(items: Seq) -> dict[str, Operator]:
    found: dict[str, Operator] = {}
    for index, item in enumerate(items):
        reader = Reader(mapping(item, items.at(index)))
        identity = reader.take("id", text)
        if identity in found:
            raise reader.at("id").error(f'there are two shapes called "{identity}"')
        op = reader.take("op", one_of(*TEMPLATES, "problem"))
        reader.take("count", integer(1), 1)
        repeat = reader.take("repeat", integer(1), 1)
        if op == "problem":
            found[identity] = problem_operator(reader.take("problem", mapping), reader.at("problem"), repeat)
        else:
            dims = reader.take("dims", mapping)
            found[identity] = make_operator(op, dims, reader.take("stride", _pair, (1, 1)),
                                            reader.take("dilation", _pair, (1, 1)), repeat, reader.at("dims"))
        reader.finish(" of a shape")
    return found


def _inputs(node: Map) -> list[Node]:
    return [Node(text(name, node.at(name)), INPUT, where=node.at(name),
                 shape=None if node[name] is None else extents(node[name], node.at(name))) for name in node]


def _node(item: Any, where: Where, layers: dict[str, Operator]) -> Node:
    reader = Reader(mapping(item, where))
    name = reader.take("name", text)
    common: dict[str, Any] = {"inputs": reader.take("from", names), "shape": reader.take("out", extents, None),
                              "where": where}
    node = _layer_node(name, common, reader, layers) if reader.has("shape") else _operator(name, common, reader)
    reader.finish(f' of the node "{name}"')
    return node


def _layer_node(name: str, common: dict[str, Any], reader: Reader, layers: dict[str, Operator]) -> Node:
    """A node with a `shape`: its operands are Inputs and, given by `weights_from`, Weights, or those named by `as`."""
    identity = reader.take("shape", text)
    if identity not in layers:
        raise reader.at("shape").error(f'there is no shape "{identity}"{nearest(identity, list(layers))}',
                                       "the id of an entry of shapes")
    layer = layers[identity]
    second = reader.take("weights_from", text, None)
    operands = reader.take("as", names, ("Inputs",) * len(common["inputs"]))
    common["inputs"] += (second,) if second else ()
    operands += ("Weights",) if second else ()
    accepted = [space for space in layer.views if space != layer.problem.output.name]
    wrong = [operand for operand in operands if operand not in accepted]
    if wrong or len(set(operands)) != len(operands) or len(operands) != len(common["inputs"]):
        raise reader.node.where.error(
            f"{name} reads {len(common['inputs'])} tensors as {', '.join(operands)}",
            f"one tensor for each of {', '.join(accepted)} that is not a constant, in the order of \"as\"")
    return Node(name, layer.op, layer=layer, operands=operands, pad=reader.take("pad", _pads, None), **common)


def _operator(name: str, common: dict[str, Any], reader: Reader) -> Node:
    op = reader.take("op", one_of(*(op for op in KIND if op != INPUT)))
    kind = KIND[op]
    details: dict[str, Any] = {}
    if kind == "pool":
        details["window"] = _window(reader)
    if kind in ("rows", "reduce", "transpose"):
        details["axes"] = reader.take("axes", _integers, ()) if kind == "rows" else reader.take("axes", _integers)
    if op == NOT_UNDERSTOOD:
        details |= {"what": reader.take("what", text), "macs": reader.take("macs", integer(0), None)}
    if kind not in ("join", "opaque", NOT_UNDERSTOOD) and len(common["inputs"]) != 1:
        raise reader.at("from").error(f"{name} ({op}) reads {len(common['inputs'])} tensors", "one")
    return Node(name, op, **common, **details)


def _window(reader: Reader) -> Window | None:
    kernel = reader.take("kernel", extents, None)
    if kernel is None:
        return None
    ones = (1,) * len(kernel)
    stride, dilation = reader.take("stride", extents, kernel), reader.take("dilation", extents, ones)
    pad = reader.take("pad", _pads, ((0, 0),) * len(kernel))
    if not len(kernel) == len(stride) == len(dilation) == len(pad):
        raise reader.at("kernel").error("kernel, stride, pad and dilation have different lengths", "one entry per axis")
    return Window(kernel, stride, pad, dilation)


def _check_counts(shapes: Seq, nodes: list[Node], counted: Counter[str]) -> None:
    for index, item in enumerate(shapes):
        stated = item.get("count")
        if stated is not None and stated != counted[item["id"]]:
            raise shapes.at(index).error(f"{item['id']}: count is {stated}, the graph has {counted[item['id']]} of it")


def names(value: Any, where: Where) -> tuple[str, ...]:
    items = sequence(value, where)
    return tuple(text(item, items.at(index)) for index, item in enumerate(items))


def extents(value: Any, where: Where) -> tuple[int, ...]:
    items = sequence(value, where)
    return tuple(integer(1)(item, items.at(index)) for index, item in enumerate(items))


def _integers(value: Any, where: Where) -> tuple[int, ...]:
    items = sequence(value, where)
    return tuple(integer()(item, items.at(index)) for index, item in enumerate(items))


def _pair(value: Any, where: Where) -> tuple[int, int]:
    found = extents(value, where)
    if len(found) != 2:
        raise where.error(f"found {len(found)} numbers", "[along P, along Q]")
    return found[0], found[1]


def _pads(value: Any, where: Where) -> tuple[tuple[int, int], ...]:
    """One entry per axis: a number for both sides, or [before, after]."""
    found = []
    for index, item in enumerate(items := sequence(value, where)):
        pair = _integers(item, items.at(index)) if isinstance(item, list) else (integer(0)(item, items.at(index)),) * 2
        if len(pair) != 2:
            raise items.at(index).error(f"found {len(pair)} numbers", "[before, after]")
        found.append((pair[0], pair[1]))
    return tuple(found)
