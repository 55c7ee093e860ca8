"""Mappings as `timeloop-model` understands them: the directives of `mapping:` -> a `Mapping`, and back.

Permutations are written innermost loop first; the first `split` dimensions of a spatial one lie on X.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.mapping import LevelMapping, Mapping, with_residual
from fadiff_mapper.spec.native.attributes import whole_number
from fadiff_mapper.spec.native.factors import factor_text, parse_factors
from fadiff_mapper.spec.native.hyphens import underscored
from fadiff_mapper.spec.native.permutation import parse_permutation
from fadiff_mapper.spec.problem import Problem, single_letter
from fadiff_mapper.yaml.leniency import STRICT, Leniency, Oddity
from fadiff_mapper.yaml.located import Reader, anything, mapping, one_of, sequence, text
from fadiff_mapper.yaml.place import Where

KINDS = ("temporal", "spatial", "datatype", "bypass")
"""Types of directives; the last two mean the same, the data spaces that a level keeps."""
OF_CONSTRAINTS = ("dataspace", "bypassing")
"""Types that mean these data spaces in constraints; `timeloop-model` refuses them in a mapping."""
REFUSED = {"no_multicast_no_reduction": "timeloop-model does not read it in a mapping, only no_reuse"}
"""Switches of a directive that are not modelled -> the reason."""


def read_mapping(node: Any, where: Where, arch: Architecture, problem: Problem,
                 leniency: Leniency = STRICT) -> Mapping:
    """Reads a mapping, with Timeloop's defaults for everything left out.

    Missing factors are 1, missing dimensions of a permutation are appended (outermost) in the order of the shape, a
    data space that no directive mentions is kept, and spatial loops lie on X without a `split`. Of two directives
    for the same loops the later one counts, but for a `no_reuse` that it does not mention.

    Args:
        node: The list of directives.
        where: Its place.
        arch: The architecture, whose levels the directives name.
        problem: The problem, whose dimensions and data spaces they name.
        leniency: Decides about keys and lists that Timeloop ignores, and types of directives that it refuses.

    Raises:
        SpecError: A directive cannot be understood, is not modelled, or is spatial where there is no fan-out; or the
            factors of a dimension do not multiply to its bound.
    """
    directives = underscored(sequence(node, where))
    levels = [_untouched(problem) for _ in arch.levels]
    for i, item in enumerate(directives):
        directive = mapping(item, directives.at(i))
        reader = Reader(directive, leniency)
        index = _target(reader, arch)
        kind = reader.take("type", one_of(*KINDS, *OF_CONSTRAINTS, "skew"))
        if kind == "skew":
            raise reader.at("type").error('"skew" is not supported: skewed spatial loops are not modelled',
                                          listed(KINDS))
        if kind in OF_CONSTRAINTS:
            leniency.meet([Oddity(reader.at("type"), f"type {kind}",
                                  f'timeloop-model refuses the type "{kind}" in a mapping', listed(KINDS),
                                  "read as datatype")])
        for switch, reason in REFUSED.items():
            reader.refuse(switch, reason)
        if kind == "temporal":
            factors, last, order = _loops(reader, problem)
            off = _unused(reader, ("no_reuse", "no_temporal_reuse"), levels[index].no_temporal_reuse, problem)
            read = _unused(reader, ("rmw_first_update",), levels[index].rmw_first_update, problem)
            levels[index] = replace(levels[index], temporal=factors, temporal_last=last, order=order,
                                    no_temporal_reuse=off, rmw_first_update=read)
        elif kind == "spatial":
            levels[index] = _spatial(reader, levels[index], index, arch, problem)
        else:
            passing = _unused(reader, ("no_coalesce",), levels[index].no_coalesce, problem)
            levels[index] = replace(levels[index], keep=_keep(reader, levels[index].keep, problem), no_coalesce=passing)
        reader.finish(f" of a {kind} directive")
    found = Mapping(tuple(levels))
    _check_products(found, problem, where)
    return found


def _untouched(problem: Problem) -> LevelMapping:
    """A level that no directive mentions: no loops, and every data space kept."""
    ones = dict.fromkeys(problem.dimensions, 1)
    return LevelMapping(ones, problem.dimensions, ones, problem.dimensions, len(problem.dimensions),
                        frozenset(problem.dataspace_names()))


def _target(reader: Reader, arch: Architecture) -> int:
    """Number of the level that a directive names."""
    name = reader.take(("target", "name"), text)
    names = arch.level_names()
    if name not in names:
        raise reader.at("target").error(f'unknown level "{name}"{nearest(name, names)}', listed(names))
    return names.index(name)


def _loops(reader: Reader, problem: Problem) -> tuple[dict[str, int], dict[str, int], tuple[str, ...]]:
    """(factor by dimension, residual where there is one, full order) of a temporal or spatial directive."""
    written = _unless_list(reader, "factors", problem, ("timeloop-model ignores a list of factors",
                                                        'one string such as "C=2 M=3"'))
    factors, last = dict.fromkeys(problem.dimensions, 1), {}
    for factor in parse_factors(written, reader.at("factors"), problem.bounds, bounded=False, residuals=True,
                                leniency=reader.leniency):
        if factor.operator != "=":
            raise factor.where.error(f'found "{factor_text(factor)}"', "exact factors in a mapping")
        factors[factor.dimension] = factor.value
        if factor.last is not None:
            last[factor.dimension] = factor.last
    permutation = _unless_list(reader, "permutation", problem, ("timeloop-model ignores a list as permutation",
                                                                'one string such as "RSP"'))
    # A split counts the names, so with one no name may stand twice.
    idle = [] if reader.has("split") else [name for name, factor in factors.items() if factor == 1]
    inner, outer = parse_permutation(permutation, reader.at("permutation"), problem.dimensions, idle=idle,
                                     leniency=reader.leniency)
    if outer:
        raise reader.at("permutation").error('found "_"', "one letter per dimension, innermost first")
    return factors, last, inner + tuple(name for name in problem.dimensions if name not in inner)


def _unless_list(reader: Reader, key: str, problem: Problem, complaint: tuple[str, str]) -> Any:
    """The value of a key; a list, which Timeloop ignores where dimensions have one letter, counts as absent."""
    value = reader.take(key, anything, "")
    if not isinstance(value, list) or not single_letter(problem.dimensions):
        return value
    reader.leniency.meet([Oddity(reader.at(key), f"list of {key}", *complaint, outcome="")])
    return ""


def _spatial(reader: Reader, level: LevelMapping, index: int, arch: Architecture, problem: Problem) -> LevelMapping:
    if math.prod(arch.fanout(index)) == 1:
        fanned_out = [unit.name for i, unit in enumerate(arch.levels) if math.prod(arch.fanout(i)) > 1]
        raise reader.node.where.error(f'"{arch.levels[index].name}" has no fan-out, so it takes no spatial loops',
                                      listed(fanned_out))
    factors, last, order = _loops(reader, problem)
    split = min(reader.take("split", whole_number(0, reader.leniency), len(order)), len(order))
    off = _unused(reader, ("no_reuse",), level.no_multicast, problem)
    unlinked = _unused(reader, ("no_link_transfer",), level.no_link_transfer, problem)
    return replace(level, spatial=factors, spatial_last=last, spatial_order=order, split=split, no_multicast=off,
                   no_link_transfer=unlinked)


def _unused(reader: Reader, keys: tuple[str, ...], before: frozenset[str], problem: Problem) -> frozenset[str]:
    """The data spaces whose reuse is switched off: by this directive or, where it is silent, by an earlier one."""
    if all(reader.node.get(key) is not None for key in keys) and len(keys) > 1:
        raise reader.at(keys[1]).error(f"there is both {listed(keys)}", "one of them")
    listed_here = _spaces(reader, keys, problem)
    return before if listed_here is None else listed_here


def _spaces(reader: Reader, key: str | tuple[str, ...], problem: Problem) -> frozenset[str] | None:
    names, values = problem.dataspace_names(), reader.take(key, sequence, None)
    for i, name in enumerate(values or ()):
        if name not in names:
            raise values.at(i).error(f'unknown data space "{name}"{nearest(str(name), names)}', listed(names))
    return None if values is None else frozenset(values)


def _keep(reader: Reader, kept: frozenset[str], problem: Problem) -> frozenset[str]:
    keep, bypass = (_spaces(reader, key, problem) or frozenset() for key in ("keep", "bypass"))
    return (kept | keep) - bypass


def _check_products(mapping: Mapping, problem: Problem, where: Where) -> None:
    """Raises SpecError, in Timeloop's words, for dimensions whose factors do not multiply to their bound."""
    problems = []
    for name, bound in problem.bounds.items():
        product = mapping.covered(name)
        if product != bound:
            problems.append(f"{where}: product of all factors of dimension {name} is {product}, which is not equal "
                            f"to the dimension size of the workload {bound}")
    problems += [f"{where}: {reason}" for name in problem.bounds for reason in _outermost_residuals(mapping, name)]
    if problems:
        raise SpecError(*problems)


def _outermost_residuals(mapping: Mapping, dimension: str) -> Iterator[str]:
    """Why the outermost loop of a dimension cannot be spatial with a residual: `timeloop-model` ends on it."""
    for level in reversed(mapping.levels):
        if level.temporal[dimension] > 1:
            return
        if dimension in level.spatial_last:
            yield (f"the outermost loop of dimension {dimension} is the spatial factor {level.spatial[dimension]} with "
                   f"the residual {level.spatial_last[dimension]}; accepted: a residual where a loop of the same "
                   "dimension lies further out")
        if level.spatial[dimension] > 1:
            return


def literal_mapping(mapping: Mapping, arch: Architecture, problem: Problem) -> list[dict[str, Any]]:
    """A mapping as directives that `timeloop-model` reads, with nothing left to its defaults.

    Args:
        mapping: The mapping.
        arch: Its architecture.
        problem: Its problem.

    Returns:
        Directives from the outermost level inwards: data spaces, temporal loops, and spatial loops where there is a
        fan-out.
    """
    names = problem.dataspace_names()
    directives: list[dict[str, Any]] = []
    for index in reversed(range(len(arch.levels))):
        level, target = mapping.levels[index], arch.levels[index].name
        directives.append({"target": target, "type": "datatype", "keep": [n for n in names if n in level.keep],
                           "bypass": [n for n in names if n not in level.keep]}
                          | _switches(names, no_coalesce=level.no_coalesce))
        temporal = _factor_text(level.temporal, level.temporal_last)
        directives.append({"target": target, "type": "temporal", "factors": temporal,
                           "permutation": "".join(level.order)}
                          | _switches(names, no_reuse=level.no_temporal_reuse, rmw_first_update=level.rmw_first_update))
        if math.prod(arch.fanout(index)) > 1:
            spatial = _factor_text(level.spatial, level.spatial_last)
            directives.append({"target": target, "type": "spatial", "factors": spatial,
                               "permutation": "".join(level.spatial_order), "split": level.split}
                              | _switches(names, no_reuse=level.no_multicast,
                                          no_link_transfer=level.no_link_transfer))
    return directives


def _switches(names: tuple[str, ...], **off: frozenset[str]) -> dict[str, list[str]]:
    """The keys that switch reuse off, each where there is anything to switch off."""
    return {key: [name for name in names if name in spaces] for key, spaces in off.items() if spaces}


def _factor_text(factors: dict[str, int], last: dict[str, int]) -> str:
    return " ".join(f"{name}={with_residual(name, value, last)}" for name, value in factors.items())
