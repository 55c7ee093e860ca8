"""Reads a LoopTree (`v4fused`) input: problem, mapping, architecture and ERT to frozen values.

    problem        a list of layers: shape (name, dimensions, data_spaces with isl projections), instance (isl bounds)
    mapping        {type: fused, nodes: [...]}: storage, temporal, spatial, sequential, pipeline and compute nodes
    architecture   a flat list of components, the outermost level first, the arithmetic last
    ERT            energies in pJ per action, as Accelergy writes them

Unknown keys and values are errors that name the place; `with_places` gives values of a dict places, too.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.tables import read_tables
from fadiff_mapper.inputs.spec.keys import ANY, LIST, MAP, NATURAL, POSITIVE, TEXT, TRUTH, one, table
from fadiff_mapper.inputs.spec.tables import component_name
from fadiff_mapper.inputs.yaml.expressions import MAX_DEPTH, MAX_TEXT, ExpressionError, syntax_tree
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import REQUIRED, Map, Reader, Seq, mapping, readers, sequence, text, with_places
from fadiff_mapper.inputs.yaml.place import Where

T = TypeVar("T")

MOST_LAYERS = 64
"""Layers of a chain: a plain safety limit."""

MOST_DEEP = 20
"""Splits inside one another: a plain safety limit for the recursion over branches."""

DOCUMENT = table(
    ("problem", LIST, REQUIRED, "the layers"), ("architecture", MAP, REQUIRED, "the levels"),
    ("mapping", MAP, REQUIRED, "the tree"), ("ERT", MAP, REQUIRED, "energies in pJ"))
LAYER = table(("shape", MAP, REQUIRED, "ranks and tensors"), ("instance", TEXT, REQUIRED, "isl bounds of the ranks"))
SHAPE = table(
    ("name", TEXT, REQUIRED, "its name"), ("dimensions", LIST, REQUIRED, "names of the ranks"),
    ("data_spaces", LIST, REQUIRED, "the tensors"))
TENSOR = table(
    ("name", TEXT, REQUIRED, "its name"), ("dimensions", LIST, REQUIRED, "a name for each axis"),
    ("projection", TEXT, REQUIRED, "the axes, in isl"), ("read_write", TRUTH, False, "whether it is the output"))
ARCHITECTURE = table(("version", ANY, None, "not read"), ("nodes", LIST, REQUIRED, "levels, from the outside in"))
COMPONENT = table(
    ("name", TEXT, REQUIRED, "its name"),
    *((key, ANY, None, "for Accelergy") for key in ("class", "attributes", "required_actions")))
MAPPING = table(("type", one("fused"), REQUIRED, "fused"), ("nodes", LIST, REQUIRED, "the nodes, outermost first"))
_TYPE = ("type", one("storage", "temporal", "spatial", "sequential", "pipeline", "compute"), REQUIRED, "its kind")
_TARGET = ("target", NATURAL, REQUIRED, "index of the level, from the outside")
_LOOP = table(
    _TYPE, ("rank", TEXT, REQUIRED, "rank of the loop"), ("tile_shape", POSITIVE, REQUIRED, "extent of a step"),
    ("factor", ANY, None, "refused"))
_SPLIT = table(_TYPE, ("branches", LIST, REQUIRED, "a list of nodes for each branch"))
NODES = {
    "storage": table(_TYPE, _TARGET, ("dspace", LIST, REQUIRED, "the tensors that the level stores")),
    "temporal": _LOOP, "spatial": _LOOP, "sequential": _SPLIT, "pipeline": _SPLIT,
    "compute": table(_TYPE, _TARGET, ("einsum", TEXT, REQUIRED, "the layer that is computed"))}
"""The keys of an input, of its parts, and of the nodes of a mapping by their type."""


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
    reader = Reader(tree, DOCUMENT)
    chain = _chain(reader.read("problem"))
    components = _components(reader.read("architecture"))
    nodes = _mapping(reader.read("mapping"), chain, len(components))
    tables = read_tables(reader.read("ERT"), reader.at("ERT"), None, reader.at("ART"), "ERT in the input")
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
    reader = Reader(row, LAYER)
    shape = Reader(reader.read("shape"), SHAPE)
    name, given, spaces = map(shape.read, SHAPE)
    names = [text(rank, given.at(i)) for i, rank in enumerate(given)]
    if not names:
        raise given.where.error("found no dimension", "the names of the layer's dimensions")
    ranks = _parsed(bounds, reader.read("instance"), names, reader.at("instance"))
    shape.finish(" of a layer's shape")
    reader.finish(" of a layer")
    accesses = tuple(_access(space, names) for space in readers(spaces, TENSOR))
    _refuse_repeated([access.tensor for access in accesses], "tensor", spaces.where)
    if sum(access.written for access in accesses) != 1:
        raise spaces.where.error(f"the layer {name} writes {sum(a.written for a in accesses)} tensors",
                                 "one with read_write: true")
    return Einsum(name, ranks, accesses)


def _access(reader: Reader, ranks: list[str]) -> Access:
    """An entry of `data_spaces`; the names of its own dimensions count its axes and mean nothing else."""
    name, own, written_axes, written = map(reader.read, TENSOR)
    axes = _parsed(projection, written_axes, ranks, reader.at("projection"))
    if len(axes) != len(own):
        raise reader.at("projection").error(f"found {len(axes)} expressions", f"one for each of {listed(own)}")
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
    reader = Reader(architecture, ARCHITECTURE)
    rows = reader.read("nodes")
    reader.finish(" of the architecture")
    names = []
    for node in readers(rows, COMPONENT):
        if node.node.tag not in (None, "!Component"):
            raise node.node.where.error(f"found {node.node.tag}", "!Component: levels one inside the other")
        names.append(node.read("name"))
        node.finish(" of a component")
    if len(names) < 2:
        raise rows.where.error(f"found {len(names)} components", "at least one storage level and the arithmetic")
    _refuse_repeated(names, "component", rows.where)
    return tuple(names)


def _mapping(node: Map, chain: Chain, levels: int) -> tuple[TreeNode, ...]:
    """The section `mapping`: a tree that computes every layer once and stores all its tensors."""
    reader = Reader(node, MAPPING)
    _, rows = map(reader.read, MAPPING)
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
    nodes = tuple(_node(mapping(row, at), scope) for row, at in rows.placed())
    for i, node in enumerate(nodes[:-1]):
        if isinstance(node, Compute | Split):
            raise rows.at(i).error("nodes follow a compute node or a split", "it as the last node of a branch")
    if not nodes or not isinstance(nodes[-1], Compute | Split):
        raise rows.where.error("the branch does not end in a compute node or a split",
                               "type: compute, sequential or pipeline at the end")
    return nodes


def _node(row: Map, scope: _MappingScope) -> TreeNode:
    """A node of the mapping, by its type."""
    node_type = Reader(row, _LOOP).read("type")
    reader = Reader(row, NODES[node_type])
    node = _READ[node_type](reader, scope)
    reader.finish(f" of a {node_type} node")
    return node


def _storage(reader: Reader, scope: _MappingScope) -> Storage:
    """A storage node."""
    level = _level(reader, scope.levels - 1)
    given = reader.read("dspace")
    return Storage(level, tuple(_known(text(name, given.at(i)), scope.chain.tensors(), "tensor", given.at(i))
                                for i, name in enumerate(given)))


def _loop(reader: Reader, scope: _MappingScope) -> Loop:
    """A temporal or spatial loop."""
    ranks = [rank for einsum in scope.chain.einsums for rank in einsum.ranks]
    rank = _known(reader.read("rank"), ranks, "rank", reader.at("rank"))
    reader.refuse("factor", "LoopTree evaluates tile_shape only")
    tile = reader.read("tile_shape")
    return Loop(rank, min(tile, MOST), reader.node["type"] == "spatial")


def _split(reader: Reader, scope: _MappingScope) -> Split:
    """A sequential or pipeline node."""
    rows = reader.read("branches")
    if not rows:
        raise rows.where.error("found no branch", "one list of nodes for each layer")
    branches = tuple(_nodes(sequence(row, rows.at(i)), scope.inner()) for i, row in enumerate(rows))
    return Split(reader.node["type"] == "pipeline", branches)


def _compute(reader: Reader, scope: _MappingScope) -> Compute:
    """A compute node, whose target is the last component."""
    names = [einsum.name for einsum in scope.chain.einsums]
    name = _known(reader.read("einsum"), names, "layer", reader.at("einsum"))
    level = _level(reader, scope.levels)
    if level != scope.levels - 1:
        raise reader.at("target").error(f"found {level}", f"{scope.levels - 1}, the last component")
    return Compute(name, level)


_READ: Mapping[str, Callable[[Reader, _MappingScope], TreeNode]] = {
    "storage": _storage, "temporal": _loop, "spatial": _loop, "sequential": _split, "pipeline": _split,
    "compute": _compute}


def _level(reader: Reader, count: int) -> int:
    """The index in `target`, below `count`."""
    level: int = reader.read("target")
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


@dataclass(frozen=True)
class Access:
    """A layer's use of a tensor.

    Attributes:
        tensor: name of the tensor, common to all layers that use it.
        axes: per axis of the tensor, its index as an affine expression of the layer's ranks.
        written: True if the layer writes the tensor (and reads its partial sums back).
    """

    tensor: str
    axes: tuple[Affine, ...]
    written: bool


@dataclass(frozen=True)
class Einsum:
    """A layer.

    Attributes:
        name: name of the layer.
        ranks: the values of each of its dimensions; rank names are unique over the whole chain.
        accesses: its tensors; exactly one is written.
    """

    name: str
    ranks: Mapping[str, range]
    accesses: tuple[Access, ...]

    @property
    def reads(self) -> tuple[Access, ...]:
        """The tensors that the layer reads only."""
        return tuple(access for access in self.accesses if not access.written)

    @property
    def writes(self) -> tuple[Access, ...]:
        """The tensor that the layer writes."""
        return tuple(access for access in self.accesses if access.written)

    def access(self, tensor: str) -> Access | None:
        """The layer's use of a tensor; None where it does not use it."""
        return next((access for access in self.accesses if access.tensor == tensor), None)


@dataclass(frozen=True)
class Chain:
    """Layers that hand tensors to one another.

    Attributes:
        einsums: the layers in the order of the input. A tensor that one layer writes and another reads ties them
            together.
    """

    einsums: tuple[Einsum, ...]

    def einsum(self, name: str) -> Einsum:
        """A layer by its name."""
        return next(einsum for einsum in self.einsums if einsum.name == name)

    def writer(self, tensor: str) -> Einsum | None:
        """The layer that writes a tensor; None for inputs of the chain."""
        return next((einsum for einsum in self.einsums if any(a.tensor == tensor for a in einsum.writes)), None)

    def readers(self, tensor: str) -> tuple[Einsum, ...]:
        """The layers that read a tensor."""
        return tuple(einsum for einsum in self.einsums if any(a.tensor == tensor for a in einsum.reads))

    def tensors(self) -> tuple[str, ...]:
        """All tensors, in the order of their first use."""
        return tuple(dict.fromkeys(access.tensor for einsum in self.einsums for access in einsum.accesses))


@dataclass(frozen=True)
class Storage:
    """A storage node: from here on, tensors are held in a level.

    Attributes:
        level: index of the level; 0 is the outermost, unlike in the rest of the package.
        tensors: names of the tensors.
    """

    level: int
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Loop:
    """A loop over tiles of a rank.

    Attributes:
        rank: a rank of the layer below, or above a split of the last layer below.
        tile: points per tile; the last tile may be smaller.
        spatial: True if the tiles run side by side, False if one after the other.
    """

    rank: str
    tile: int
    spatial: bool


@dataclass(frozen=True)
class Compute:
    """The end of a branch: all operations of one layer that are left at this point, in one step.

    Attributes:
        einsum: name of the layer.
        level: index of the arithmetic, the last component.
    """

    einsum: str
    level: int


@dataclass(frozen=True)
class Split:
    """The end of a trunk: one branch per layer or group of layers.

    Attributes:
        pipelined: True if the branches run as stages of a pipeline, False if one after the other.
        branches: the nodes of each branch.
    """

    pipelined: bool
    branches: tuple[tuple[TreeNode, ...], ...]


TreeNode: TypeAlias = Storage | Loop | Compute | Split
Path: TypeAlias = tuple[TreeNode, ...]
"""The nodes from the root to one `Compute`; a `Split` on it stands for its own step."""


def paths(nodes: tuple[TreeNode, ...]) -> Iterator[Path]:
    """Every path from the root to a leaf.

    Args:
        nodes: a branch, whose last node is a split or a compute node.

    Yields:
        Paths in the order of the branches.
    """
    *trunk, last = nodes
    if isinstance(last, Split):
        for branch in last.branches:
            for rest in paths(branch):
                yield (*trunk, last, *rest)
    else:
        yield nodes


def leaf(path: Path) -> Compute:
    """The compute node at the end of a path."""
    last = path[-1]
    assert isinstance(last, Compute)
    return last


def layers_below(nodes: tuple[TreeNode, ...]) -> tuple[str, ...]:
    """Names of the layers that run below these nodes, in the order of the branches."""
    return tuple(leaf(path).einsum for path in paths(nodes))


MOST = 1 << 31
"""Size of any coefficient, constant or bound: a plain safety limit, so that a product of two fits into int64."""

_IMPLICIT_PRODUCT = re.compile(r"(?<!\w)(\d+)\s*(?=[A-Za-z_(])(?!(?:and|or|not|in|is|if|else)\b)")


@dataclass(frozen=True)
class Affine:
    """An affine expression, `constant + sum(coefficient * rank)`.

    Attributes:
        terms: rank -> coefficient; ranks with coefficient 0 are left out.
        constant: the constant.
    """

    terms: Mapping[str, int]
    constant: int = 0


def projection(text: str, ranks: Sequence[str]) -> tuple[Affine, ...]:
    """Parses an isl tuple of affine expressions.

    Args:
        text: such as "[ C1, 2*P1 + R1 ]"; a number may stand directly before a rank, as in "2P1".
        ranks: the names that may occur.

    Returns:
        An expression per entry.

    Raises:
        ExpressionError: the text is no tuple, names another rank, or has an entry that is not affine.
    """
    node = _syntax(text)
    if not isinstance(node, ast.List):
        raise ExpressionError(f'found "{text.strip()}"; accepted: a tuple such as [ {listed(ranks[:2])} ]')
    return tuple(_affine(entry, ranks, 0) for entry in node.elts)


def bounds(text: str, ranks: Sequence[str]) -> dict[str, range]:
    """Parses comparisons of ranks with numbers that are joined by `and`.

    Args:
        text: such as "0 <= P1 < 14 and 0 <= R1 < 3".
        ranks: the ranks to bound.

    Returns:
        The values of every rank, in the order of `ranks`.

    Raises:
        ExpressionError: a rank has no lower or no upper bound or no value, or the text is no such comparison.
    """
    node = _syntax(text)
    parts = node.values if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And) else [node]
    low: dict[str, int] = {}
    high: dict[str, int] = {}
    for part in parts:
        if not isinstance(part, ast.Compare):
            raise ExpressionError(f'found "{_written(part)}"; accepted: 0 <= {ranks[0]} < 8 and so on')
        sides = [_affine(side, ranks, 0) for side in (part.left, *part.comparators)]
        for left, op, right in zip(sides, part.ops, sides[1:], strict=False):
            _take_bound(left, op, right, low, high)
    for rank in ranks:
        if rank not in low or rank not in high:
            raise ExpressionError(f"the rank {rank} has no {'upper' if rank in low else 'lower'} bound; "
                                  f"accepted: 0 <= {rank} < 8")
        if high[rank] < low[rank]:
            raise ExpressionError(f"the rank {rank} has no value: {low[rank]} <= {rank} <= {high[rank]}")
    return {rank: range(low[rank], high[rank] + 1) for rank in ranks}


def _syntax(text: str) -> ast.expr:
    """The syntax tree of isl text, with the products that isl leaves implicit ("2P1") written out."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"the text has {len(text)} characters; accepted: at most {MAX_TEXT}")
    return syntax_tree(_IMPLICIT_PRODUCT.sub(r"\1*", text))


_MIRRORED: Mapping[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE, ast.Eq: ast.Eq}
"""The comparisons that are read -> the same comparison with its sides exchanged."""


def _take_bound(left: Affine, op: ast.cmpop, right: Affine, low: dict[str, int], high: dict[str, int]) -> None:
    """Tightens the bounds of a rank by `rank op number` or `number op rank`."""
    comparison = type(op)
    if right.terms and not left.terms:
        left, right, comparison = right, left, _MIRRORED.get(comparison, comparison)
    if right.terms or len(left.terms) != 1 or set(left.terms.values()) != {1} or comparison not in _MIRRORED:
        raise ExpressionError("found a bound that is not a comparison of one rank with a number; "
                              "accepted: 0 <= P < 8 and so on")
    (rank,) = left.terms
    value = right.constant - left.constant
    if comparison in (ast.Gt, ast.GtE, ast.Eq):
        least = value + (comparison is ast.Gt)
        low[rank] = max(least, low.get(rank, least))
    if comparison in (ast.Lt, ast.LtE, ast.Eq):
        most = value - (comparison is ast.Lt)
        high[rank] = min(most, high.get(rank, most))


_SUMS: Mapping[type[ast.operator], Callable[[int, int], int]] = {ast.Add: operator.add, ast.Sub: operator.sub}


def _affine(node: ast.expr, ranks: Sequence[str], depth: int) -> Affine:
    """An affine expression; `depth` levels of nesting surround it."""
    if depth > MAX_DEPTH:
        raise ExpressionError(f"the expression is nested too deeply; accepted: at most {MAX_DEPTH} levels")
    match node:
        case ast.Constant(value=int() as value) if not isinstance(value, bool):
            return _checked({}, value)
        case ast.Name(id=name):
            if name not in ranks:
                raise ExpressionError(f'there is no rank "{name}"{nearest(name, ranks)}; accepted: {listed(ranks)}')
            return Affine({name: 1})
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _scaled(_affine(operand, ranks, depth + 1), -1)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
            first, second = _affine(left, ranks, depth + 1), _affine(right, ranks, depth + 1)
            combine = _SUMS[type(op)]
            names = dict.fromkeys([*first.terms, *second.terms])
            return _checked({name: combine(first.terms.get(name, 0), second.terms.get(name, 0)) for name in names},
                            combine(first.constant, second.constant))
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            first, second = _affine(left, ranks, depth + 1), _affine(right, ranks, depth + 1)
            if not first.terms:
                return _scaled(second, first.constant)
            if not second.terms:
                return _scaled(first, second.constant)
    raise ExpressionError(f'"{_written(node)}" is not affine; accepted: sums of number * rank')


def _written(node: ast.expr) -> str:
    """The text of a part, or a word for it where it is nested too deeply to write down."""
    try:
        return ast.unparse(node)
    except RecursionError:
        return "..."


def _scaled(value: Affine, factor: int) -> Affine:
    """The expression times a number."""
    return _checked({name: factor * coefficient for name, coefficient in value.terms.items()},
                    factor * value.constant)


def _checked(terms: Mapping[str, int], constant: int) -> Affine:
    """The expression without zero terms. Raises ExpressionError where a number is too large."""
    if any(abs(value) > MOST for value in (*terms.values(), constant)):
        raise ExpressionError(f"a number is too large; accepted: at most {MOST}")
    return Affine({name: value for name, value in terms.items() if value}, constant)
