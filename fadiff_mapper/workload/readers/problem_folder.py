"""Reads a folder of Timeloop problem files and `edges.yaml`, which says how their tensors are connected.

    network:
      name: two_layers
      layers:                                   # optional: without it every problem file once, under its own name
      - {name: first, problem: conv.yaml, repeat: 1}
      edges:
      - {from: first, to: second, as: Inputs, axes: {C: M}}

`as` is the consumer's data space for the tensor, by default "Inputs". `axes` maps dimensions of the consumer to
dimensions of the producer's output; dimensions of the same name, and a last pair that is left, need no entry.
"""

from __future__ import annotations

from pathlib import Path

from fadiff_mapper.base.errors import listed, nearest
from fadiff_mapper.inputs.spec.keys import MAP, POSITIVE, TEXT, table, table_of, tables_of
from fadiff_mapper.inputs.yaml.load import load_files
from fadiff_mapper.inputs.yaml.located import REQUIRED, Map, Reader, Seq, one_of, readers
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Node, Operator, Workload, build_workload
from fadiff_mapper.workload.operator import REPEAT, problem_operator

EDGES = "edges.yaml"  # name of the file that describes the graph
FILE = table(("network", table_of("network of problems"), REQUIRED, "the graph"))
GRAPH = table(
    ("name", TEXT, None, "its name; by default that of the folder"),
    ("layers", tables_of("problem file"), None, "its layers; by default every problem file once, under its own name"),
    ("edges", tables_of("edge"), None, "tensors that one layer writes and another one reads"))
LAYER = table(
    ("name", TEXT, REQUIRED, "its name"),
    ("problem", TEXT, REQUIRED, "name of a file in the same folder with its problem"),
    ("repeat", POSITIVE, 1, "times that it runs back to back"))
EDGE = table(
    ("from", TEXT, REQUIRED, "the layer that writes the tensor"),
    ("to", TEXT, REQUIRED, "the layer that reads it"),
    ("as", TEXT, "Inputs", "data space of the reading layer that the tensor is"),
    ("axes", MAP, None, "reading layer's dimension -> the tensor's; by default of its name, or the last one left"))
"""The keys of `edges.yaml`, of its graph, layers and edges."""


def read_folder(folder: Path) -> Workload:
    """Reads a folder of problems with `edges.yaml`. Raises SpecError for a mistake, with file, line and YAML path."""
    reader = Reader(load_files([folder / EDGES]), FILE)
    where = reader.at("network")
    section = Reader(reader.read("network"), GRAPH)
    reader.finish(f" in {EDGES}")
    name, items = section.read("name", folder.name), section.read("layers")
    layers: dict[str, tuple[Operator, Where]] = {}
    if items is None:
        files = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml") and path.name != EDGES)
        layers = {path.stem: (_read(path, 1), Where(str(path))) for path in files}
    for reader in readers(items or Seq(where=where), LAYER):
        own, file, repeat = reader.read("name"), reader.read("problem"), reader.read("repeat")
        if own in layers:
            raise reader.at("name").error(f'there are two layers called "{own}"')
        if Path(file).name != file or not (folder / file).exists():
            beside = sorted(path.name for path in folder.iterdir())
            found = (f'found "{file}"' if Path(file).name != file else
                     f'there is no file "{file}"{nearest(file, beside)}')
            raise reader.at("problem").error(found, "the name of a file in the same folder")
        layers[own] = (_read(folder / file, repeat), reader.node.where)
        reader.finish(" of a layer")
    edges = section.read("edges", Seq(where=where))
    section.finish(" of a network")
    turns: list[Node] = []  # transposes, where the consumer's axes have another order
    reads: dict[str, dict[str, str]] = {name: {} for name in layers}
    for reader in readers(edges, EDGE):
        place = reader.node.where
        producer, consumer = (reader.read(key, check=one_of(*layers)) for key in ("from", "to"))
        layer, operand = layers[consumer][0], reader.read("as")
        accepted = [ds.name for ds in layer.problem.dataspaces if not ds.read_write]
        if operand not in accepted:
            raise place.error(f'{consumer} has no operand "{operand}"{nearest(operand, accepted)}', listed(accepted))
        if operand in reads[consumer]:
            raise place.error(f"{operand} of {consumer} is written by two edges", "one edge for each operand")
        order = _order(layers[producer][0], layer, operand, reader.read("axes", Map(where=place)))
        reader.finish(" of an edge")
        reads[consumer][operand] = producer
        if order != tuple(range(len(order))):
            turned = Node(f"{producer}->{consumer}.{operand}", "transpose", (producer,), axes=order, where=place)
            turns.append(turned)
            reads[consumer][operand] = turned.name
    nodes = [Node(own, layer.op, tuple(reads[own].values()), layer=layer, operands=tuple(reads[own]), where=place)
             for own, (layer, place) in layers.items()]
    return build_workload(name, nodes + turns, (), where)


def _read(path: Path, repeat: int) -> Operator:
    """The operator of a problem file."""
    document = load_files([path])
    if "problem" not in document:
        raise document.where.error("the file has no problem section", "problem: with shape and instance")
    return problem_operator(document["problem"], document.at("problem"), repeat)


def _order(first: Operator, second: Operator, operand: str, axes: Map) -> tuple[int, ...]:
    """For each axis of the operand, the index of the same axis in the producer's output.

    Empty where only one of the two operators is repeated: the axes do not match, and the link gets its obstacle later.
    """
    output = [axis[0] for axis in first.view(first.problem.output.name)]
    wanted = [axis[0] for axis in second.view(operand)]
    if REPEAT in (output[0], wanted[0]) and output[0] != wanted[0]:
        return ()
    for dimension, other in axes.items():
        if dimension not in wanted or other not in output:
            raise axes.at(dimension).error(f"found {dimension}: {other}",
                                           f"one of {listed(wanted)}: one of {listed(output)}")
    match = {name: axes.get(name, name) for name in wanted if axes.get(name, name) in output}
    open_first = [name for name in output if name not in match.values()]
    open_second = [name for name in wanted if name not in match]
    if len(open_first) == len(open_second) == 1:
        match[open_second[0]] = open_first[0]
    if len(match) != len(wanted) or sorted(match.values()) != sorted(output):
        raise axes.where.error(f"{operand} has the axes {listed(wanted)}, the tensor {listed(output)}",
                               "axes: with the tensor's dimension for each of them")
    return tuple(output.index(match[name]) for name in wanted)
