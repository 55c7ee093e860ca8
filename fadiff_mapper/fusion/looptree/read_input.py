"""Reads a LoopTree (`v4fused`) input: problem, mapping, architecture and ERT to frozen values.

    problem        a list of layers: shape (name, dimensions, data_spaces with isl projections), instance (isl bounds)
    mapping        {type: fused, nodes: [...]}: storage, temporal, spatial, sequential, pipeline and compute nodes
    architecture   a flat list of components, the outermost level first, the arithmetic last
    ERT            energies in pJ per action, as Accelergy writes them

Unknown keys and values are errors that name the place; `with_places` gives values of a dict places, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.fusion.looptree import affine
from fadiff_mapper.fusion.looptree.chain import (
    Access,
    Chain,
    Compute,
    Einsum,
    Loop,
    Path,
    Split,
    Storage,
    TreeNode,
    layers_below,
    leaf,
    paths,
)
from fadiff_mapper.spec.native.tables import read_tables
from fadiff_mapper.spec.tables import component_name
from fadiff_mapper.yaml.bounded_arithmetic import ExpressionError
from fadiff_mapper.yaml.load import load_text
from fadiff_mapper.yaml.located import (
    Map,
    Reader,
    Seq,
    anything,
    boolean,
    integer,
    mapping,
    one_of,
    sequence,
    text,
    with_places,
)
from fadiff_mapper.yaml.place import Where

T = TypeVar("T")

MOST_LAYERS = 64
"""Layers of a chain: a plain safety limit."""

MOST_DEEP = 20
"""Splits inside one another: a plain safety limit for the recursion over branches."""


@dataclass(frozen=True)
class FusedInput:
    """A LoopTree input.

    Attributes:
        chain: the layers.
        nodes: the mapping tree.
        components: names of the levels, outermost first; the last one computes.
        energies: component -> action -> pJ.
    """

    chain: Chain
    nodes: tuple[TreeNode, ...]
    components: tuple[str, ...]
    energies: Mapping[str, Mapping[str, float]]


def read_fused(document: Mapping[str, Any] | str) -> FusedInput:
    """Reads a LoopTree input.

    Args:
        document: a dict or YAML text with `problem`, `mapping`, `architecture` and `ERT`.

    Raises:
        SpecError: a mistake, with its place and the accepted values.
    """
    tree = load_text(document, "input") if isinstance(document, str) else with_places(dict(document), Where("input"))
    assert isinstance(tree, Map)
    reader = Reader(tree)
    chain = _chain(reader.take("problem", sequence))
    components = _components(reader.take("architecture", mapping))
    nodes = _mapping(reader.take("mapping", mapping), chain, len(components))
    tables = read_tables(reader.take("ERT", mapping), reader.at("ERT"), None, reader.at("ART"), "ERT in the input")
    reader.finish(" in a fused input")
    energies = {component_name(table.component): table.actions for table in tables.ert}
    return FusedInput(chain, nodes, components, energies)


def _chain(rows: Seq) -> Chain:
    """The section `problem`; layers agree on the number of a tensor's axes, and no tensor has two writers."""
    if not 1 <= len(rows) <= MOST_LAYERS:
        raise rows.where.error(f"found {len(rows)} layers", f"1 to {MOST_LAYERS}")
    chain = Chain(tuple(_einsum(mapping(row, rows.at(i)), rows.at(i)) for i, row in enumerate(rows)))
    _refuse_repeated([einsum.name for einsum in chain.einsums], "layer", rows.where)
    _refuse_repeated([rank for einsum in chain.einsums for rank in einsum.ranks], "rank", rows.where)
    for tensor in chain.tensors():
        uses = [access for einsum in chain.einsums for access in einsum.accesses if access.tensor == tensor]
        if len({len(access.axes) for access in uses}) > 1:
            raise rows.where.error(f"the tensor {tensor} has {listed(sorted({len(a.axes) for a in uses}))} axes",
                                   "the same number in every layer")
        if sum(access.written for access in uses) > 1:
            raise rows.where.error(f"several layers write {tensor}", "one writer for each tensor")
    return chain


def _refuse_repeated(names: list[str], what: str, where: Where) -> None:
    """Raises SpecError where a name occurs twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise where.error(f"the {what} {listed(repeated)} is there more than once", f"one {what} of each name")


def _einsum(row: Map, where: Where) -> Einsum:
    """An entry of the section `problem`: shape and instance."""
    reader = Reader(row)
    shape = Reader(reader.take("shape", mapping))
    name = shape.take("name", text)
    given = shape.take("dimensions", sequence)
    names = [text(rank, given.at(i)) for i, rank in enumerate(given)]
    if not names:
        raise given.where.error("found no dimension", "the names of the layer's dimensions")
    ranks = _parsed(affine.bounds, reader.take("instance", text), names, reader.at("instance"))
    spaces = shape.take("data_spaces", sequence)
    shape.finish(" of a layer's shape")
    reader.finish(" of a layer")
    accesses = tuple(_access(Reader(mapping(space, spaces.at(i))), names) for i, space in enumerate(spaces))
    _refuse_repeated([access.tensor for access in accesses], "tensor", spaces.where)
    if sum(access.written for access in accesses) != 1:
        raise spaces.where.error(f"the layer {name} writes {sum(a.written for a in accesses)} tensors",
                                 "one with read_write: true")
    return Einsum(name, ranks, accesses)


def _access(reader: Reader, ranks: list[str]) -> Access:
    """An entry of `data_spaces`; the names of its own dimensions count its axes and mean nothing else."""
    name = reader.take("name", text)
    own = reader.take("dimensions", sequence)
    axes = _parsed(affine.projection, reader.take("projection", text), ranks, reader.at("projection"))
    if len(axes) != len(own):
        raise reader.at("projection").error(f"found {len(axes)} expressions", f"one for each of {listed(own)}")
    written = reader.take("read_write", boolean, False)
    reader.finish(" of a tensor")
    return Access(name, axes, written)


def _parsed(parse: Callable[[str, list[str]], T], given: str, ranks: list[str], where: Where) -> T:
    """The value of an isl text, with the place of the text in errors."""
    try:
        return parse(given, ranks)
    except ExpressionError as error:
        raise SpecError(f"{where}: {error}") from None


def _components(architecture: Map) -> tuple[str, ...]:
    """Names of the storage levels and of the arithmetic, in the order of the file; `target` counts them from 0."""
    reader = Reader(architecture)
    reader.take("version", anything, None)
    rows = reader.take("nodes", sequence)
    reader.finish(" of the architecture")
    names = []
    for i, row in enumerate(rows):
        node = Reader(mapping(row, rows.at(i)))
        if node.node.tag not in (None, "!Component"):
            raise rows.at(i).error(f"found {node.node.tag}", "!Component: levels one inside the other")
        names.append(node.take("name", text))
        for key in ("class", "attributes", "required_actions"):
            node.take(key, anything, None)
        node.finish(" of a component")
    if len(names) < 2:
        raise rows.where.error(f"found {len(names)} components", "at least one storage level and the arithmetic")
    _refuse_repeated(names, "component", rows.where)
    return tuple(names)


def _mapping(node: Map, chain: Chain, levels: int) -> tuple[TreeNode, ...]:
    """The section `mapping`: a tree that computes every layer once and stores all its tensors."""
    reader = Reader(node)
    reader.take("type", one_of("fused"))
    rows = reader.take("nodes", sequence)
    reader.finish(" of the mapping")
    nodes = _nodes(rows, _MappingScope(chain, levels))
    names = layers_below(nodes)
    missing = [einsum.name for einsum in chain.einsums if einsum.name not in names]
    if missing:
        raise rows.where.error(f"no branch computes {listed(missing)}", "one compute node for every layer")
    _refuse_repeated(list(names), "compute node of layer", rows.where)
    for path in paths(nodes):
        _check_path(path, chain, rows.where)
    return nodes


@dataclass(frozen=True)
class _MappingScope:
    """Names that the nodes of a mapping may use, and the number of splits around them.

    Attributes:
        chain: the layers.
        levels: number of components.
        depth: splits around the nodes.
    """

    chain: Chain
    levels: int
    depth: int = 0

    def inner(self) -> _MappingScope:
        """The scope inside one more split."""
        return _MappingScope(self.chain, self.levels, self.depth + 1)


def _nodes(rows: Seq, scope: _MappingScope) -> tuple[TreeNode, ...]:
    """A branch, which ends in a compute node or a split and has neither elsewhere."""
    if scope.depth > MOST_DEEP:
        raise rows.where.error(f"splits are nested more than {MOST_DEEP} deep")
    nodes = tuple(_node(Reader(mapping(row, rows.at(i))), scope) for i, row in enumerate(rows))
    for i, node in enumerate(nodes[:-1]):
        if isinstance(node, Compute | Split):
            raise rows.at(i).error("nodes follow a compute node or a split", "it as the last node of a branch")
    if not nodes or not isinstance(nodes[-1], Compute | Split):
        raise rows.where.error("the branch does not end in a compute node or a split",
                               "type: compute, sequential or pipeline at the end")
    return nodes


def _node(reader: Reader, scope: _MappingScope) -> TreeNode:
    """A node of the mapping, by its type."""
    node_type = reader.take("type", one_of("storage", "temporal", "spatial", "sequential", "pipeline", "compute"))
    node = _READ[node_type](reader, scope)
    reader.finish(f" of a {node_type} node")
    return node


def _storage(reader: Reader, scope: _MappingScope) -> Storage:
    """A storage node."""
    level = _level(reader, scope.levels - 1)
    given = reader.take("dspace", sequence)
    return Storage(level, tuple(_known(text(name, given.at(i)), scope.chain.tensors(), "tensor", given.at(i))
                                for i, name in enumerate(given)))


def _loop(reader: Reader, scope: _MappingScope) -> Loop:
    """A temporal or spatial loop."""
    ranks = [rank for einsum in scope.chain.einsums for rank in einsum.ranks]
    rank = _known(reader.take("rank", text), ranks, "rank", reader.at("rank"))
    reader.refuse("factor", "LoopTree evaluates tile_shape only")
    tile = reader.take("tile_shape", integer(1))
    return Loop(rank, min(tile, affine.MOST), reader.node["type"] == "spatial")


def _split(reader: Reader, scope: _MappingScope) -> Split:
    """A sequential or pipeline node."""
    rows = reader.take("branches", sequence)
    if not rows:
        raise rows.where.error("found no branch", "one list of nodes for each layer")
    branches = tuple(_nodes(sequence(row, rows.at(i)), scope.inner()) for i, row in enumerate(rows))
    return Split(reader.node["type"] == "pipeline", branches)


def _compute(reader: Reader, scope: _MappingScope) -> Compute:
    """A compute node, whose target is the last component."""
    names = [einsum.name for einsum in scope.chain.einsums]
    name = _known(reader.take("einsum", text), names, "layer", reader.at("einsum"))
    level = _level(reader, scope.levels)
    if level != scope.levels - 1:
        raise reader.at("target").error(f"found {level}", f"{scope.levels - 1}, the last component")
    return Compute(name, level)


_READ: Mapping[str, Callable[[Reader, _MappingScope], TreeNode]] = {
    "storage": _storage, "temporal": _loop, "spatial": _loop, "sequential": _split, "pipeline": _split,
    "compute": _compute}


def _level(reader: Reader, count: int) -> int:
    """The index in `target`, below `count`."""
    level = reader.take("target", integer(0))
    if level >= count:
        raise reader.at("target").error(f"found {level}", f"0 to {count - 1}, counted from the outermost component")
    return level


def _known(name: str, accepted: list[str] | tuple[str, ...], what: str, where: Where) -> str:
    """The name, if it is accepted."""
    if name not in accepted:
        raise where.error(f'there is no {what} "{name}"{nearest(name, accepted)}', listed(accepted))
    return name


def _check_path(path: Path, chain: Chain, where: Where) -> None:
    """Every tensor of the layer is stored, in each level at most once."""
    einsum = chain.einsum(leaf(path).einsum)
    for access in einsum.accesses:
        levels = [node.level for node in path if isinstance(node, Storage) and access.tensor in node.tensors]
        if not levels:
            raise where.error(f"{access.tensor} is stored nowhere above the compute node of {einsum.name}",
                              "a storage node for every tensor of a layer")
        if len(set(levels)) < len(levels):
            raise where.error(f"{access.tensor} is stored twice in one level above the compute node of {einsum.name}",
                              "each level once")
