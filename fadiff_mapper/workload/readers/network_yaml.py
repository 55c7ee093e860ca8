"""Reads network files, a YAML form of the graph whose format timeloop_specs/networks/README.md describes.

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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import nearest
from fadiff_mapper.inputs.yaml.load import load_files
from fadiff_mapper.inputs.yaml.located import Check, Map, Reader, Seq, T, integer, mapping, one_of, sequence, text
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Folded, Node, Operator, Window, Workload, build_workload, make_operator
from fadiff_mapper.workload.node import GENERIC, INPUT, KIND, NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import TEMPLATES, problem_operator, sliding

VERSION = 1
"""Version of the format."""


def read_network(path: Path) -> Workload:
    """Reads a network file.

    Args:
        path: the file.

    Raises:
        SpecError: a mistake, with file, line and YAML path.
    """
    document = load_files([path])
    reader = Reader(document)
    where = reader.at("workload")
    section = Reader(reader.take("workload", mapping))
    reader.finish(" in a network file")
    version = section.take("version", integer(1))
    if version != VERSION:
        raise section.at("version").error(f"found version {version}", str(VERSION))
    name = section.take("name", text)
    operators = _operators(section.take("shapes", sequence))
    graph = section.take("graph", sequence)
    inputs = _inputs(section.take("inputs", mapping, Map({"input": None}, where=where)))
    outputs = section.take("outputs", names, ())
    folded = section.take("folded", _folded, ())
    section.finish(" of a network")
    nodes = [_node(item, graph.at(index), operators) for index, item in enumerate(graph)]
    _check_counts(section.node["shapes"], Counter(item.get("shape") for item in graph))
    return build_workload(name, inputs + nodes, outputs, where, folded)


def _operators(items: Seq) -> dict[str, Operator]:
    """The section `shapes`: id -> operator."""
    operators: dict[str, Operator] = {}
    for index, item in enumerate(items):
        reader = Reader(mapping(item, items.at(index)))
        identity = reader.take("id", text)
        if identity in operators:
            raise reader.at("id").error(f'there are two shapes called "{identity}"')
        op = reader.take("op", one_of(*TEMPLATES, "problem"))
        reader.take("count", integer(1), 1)
        repeat = reader.take("repeat", integer(1), 1)
        if op == "problem":
            operators[identity] = problem_operator(reader.take("problem", mapping), reader.at("problem"), repeat)
        else:
            dims = reader.take("dims", mapping)
            operators[identity] = make_operator(op, dims, reader.take("stride", _per_axis(op), None),
                                                reader.take("dilation", _per_axis(op), None), repeat, reader.at("dims"),
                                                reader.take("densities", mapping, None))
        reader.finish(" of a shape")
    return operators


def _inputs(node: Map) -> list[Node]:
    """The section `inputs`: name -> extents, or null where they are left open."""
    return [Node(text(name, node.at(name)), INPUT, where=node.at(name),
                 shape=None if node[name] is None else _shape(node[name], node.at(name))) for name in node]


def _node(item: Any, where: Where, operators: dict[str, Operator]) -> Node:
    """An entry of the section `graph`."""
    reader = Reader(mapping(item, where))
    name = reader.take("name", text)
    common: dict[str, Any] = {"inputs": reader.take("from", names), "shape": reader.take("out", _shape, None),
                              "where": where}
    node = (_operator_node(name, common, reader, operators) if reader.has("shape")
            else _plain_node(name, common, reader))
    reader.finish(f' of the node "{name}"')
    return node


def _operator_node(name: str, common: dict[str, Any], reader: Reader, operators: dict[str, Operator]) -> Node:
    """An operator, whose operands are Inputs and, from `weights_from`, Weights, or the data spaces that `as` names."""
    identity = reader.take("shape", text)
    if identity not in operators:
        raise reader.at("shape").error(f'there is no shape "{identity}"{nearest(identity, list(operators))}',
                                       "the id of an entry of shapes")
    layer = operators[identity]
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
    experts = reader.take("experts", integer(1), 0)
    if experts and (layer.op != "gemm" or layer.repeat > experts):
        raise reader.at("experts").error(f"{name} ({layer.op}, repeat {layer.repeat}): {experts} experts",
                                         "a gemm that is repeated at most once for each expert")
    return Node(name, layer.op, layer=layer, operands=operands, pad=reader.take("pad", _pads, None),
                what=reader.take("what", text, ""), experts=experts, **common)


def _plain_node(name: str, common: dict[str, Any], reader: Reader) -> Node:
    """A node without multiply-accumulates, with the details that its kind needs."""
    op = reader.take("op", _plain_op)
    kind = KIND[op]
    details: dict[str, Any] = {}
    if kind in ("pool", "opaque"):
        details["window"] = _slice_window(reader) if op in ("slice", "scatter") else _window(reader)
    if kind in ("rows", "reduce", "transpose", "opaque"):
        details["axes"] = (reader.take("axes", _integers, ()) if kind in ("rows", "opaque")
                           else reader.take("axes", _integers))
    entries = len(details["window"].kernel) if details.get("window") else len(details.get("axes", ()))
    if op in ("pad", "slice", "scatter") and entries != len(details["axes"]):
        raise reader.at("axes").error(f"{name} ({op}): the axes {list(details['axes'])}, entries for "
                                      f"{entries}", "one entry per axis")
    if kind == "reduce":
        details["macs"] = reader.take("macs", integer(0), None)
    if op in GENERIC:
        details["what"] = reader.take("what", text)
    if op == NOT_UNDERSTOOD:
        details |= {"what": reader.take("what", text), "macs": reader.take("macs", integer(0), None),
                    "possible": reader.take("possible", integer(0), None)}
    if kind not in ("join", "opaque", NOT_UNDERSTOOD) and len(common["inputs"]) != 1:
        raise reader.at("from").error(f"{name} ({op}) reads {len(common['inputs'])} tensors", "one")
    return Node(name, op, **common, **details)


def _window(reader: Reader) -> Window | None:
    """The window of a pool; None where the file does not state it."""
    kernel = reader.take("kernel", extents, None)
    if kernel is None:
        return None
    ones = (1,) * len(kernel)
    stride, dilation = reader.take("stride", extents, kernel), reader.take("dilation", extents, ones)
    pad = reader.take("pad", _pads, ((0, 0),) * len(kernel))
    if not len(kernel) == len(stride) == len(dilation) == len(pad):
        raise reader.at("kernel").error("kernel, stride, pad and dilation have different lengths", "one entry per axis")
    return Window(kernel, stride, pad, dilation)


def _slice_window(reader: Reader) -> Window | None:
    """The window of one point through which a slice reads: its first points and steps; None where it states none."""
    starts = reader.take("start", _shape, None)
    if starts is None:
        return None
    ones = (1,) * len(starts)
    steps = reader.take("step", extents, ones)
    if len(steps) != len(starts):
        raise reader.at("step").error(f"{len(starts)} starts and {len(steps)} steps", "one of each per axis")
    return Window(ones, steps, tuple((-start, 0) for start in starts), ones)


def _check_counts(shapes: Seq, counted: Counter[str]) -> None:
    """Raises SpecError where a shape's `count`, if stated, is not the number of nodes that have it."""
    for index, item in enumerate(shapes):
        stated = item.get("count")
        if stated is not None and stated != counted[item["id"]]:
            raise shapes.at(index).error(f"{item['id']}: count is {stated}, the graph has {counted[item['id']]} of it")


_plain_op = one_of(*(op for op in KIND if op != INPUT))
"""The operation of a node without multiply-accumulates."""


def _each(check: Check[T]) -> Check[tuple[T, ...]]:
    """A check for a list, made of a check for its entries."""
    def checked(value: Any, where: Where) -> tuple[T, ...]:
        items = sequence(value, where)
        return tuple(check(item, items.at(index)) for index, item in enumerate(items))
    return checked


names = _each(text)
"""A list of names; a check for `Reader.take`."""
extents = _each(integer(1))
"""A list of positive whole numbers; a check for `Reader.take`."""
_integers = _each(integer())
"""A list of whole numbers."""
_shape = _each(integer(0))
"""The extents of a tensor, which may have no elements."""


def _per_axis(op: str) -> Callable[[Any, Where], tuple[int, ...]]:
    """A check for `Reader.take`: stride or dilation along the sliding axes of a template."""
    names = [axis[0] for axis in sliding(op)]

    def check(value: Any, where: Where) -> tuple[int, ...]:
        numbers = extents(value, where)
        if len(numbers) != len(names):
            raise where.error(f"found {len(numbers)} numbers", f"[{', '.join(f'along {name}' for name in names)}]")
        return numbers
    return check


def _folded(value: Any, where: Where) -> tuple[Folded, ...]:
    """The section `folded`: operators that read constants alone."""
    entries = []
    for index, item in enumerate(items := sequence(value, where)):
        reader = Reader(mapping(item, items.at(index)))
        entries.append(Folded(reader.take("name", text), reader.take("what", text), reader.take("macs", integer(1))))
        reader.finish(" of an operator that reads constants alone")
    return tuple(entries)


def _pads(value: Any, where: Where) -> tuple[tuple[int, int], ...]:
    """Padding per axis: a number for both sides, or [before, after]."""
    pads = []
    for index, item in enumerate(items := sequence(value, where)):
        pair = _integers(item, items.at(index)) if isinstance(item, list) else (integer(0)(item, items.at(index)),) * 2
        if len(pair) != 2:
            raise items.at(index).error(f"found {len(pair)} numbers", "[before, after]")
        pads.append((pair[0], pair[1]))
    return tuple(pads)
