"""Mappings as `timeloop-model` understands them: the directives of `mapping:` -> a `Mapping`, and back.

Permutations are written innermost loop first; the first `split` dimensions of a spatial one lie on X.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.arch import whole_number
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping, with_residual
from fadiff_mapper.inputs.spec.problem import Problem, single_letter
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.leniency import STRICT, Leniency, Oddity
from fadiff_mapper.inputs.yaml.load import dump
from fadiff_mapper.inputs.yaml.located import Reader, anything, kind_of, mapping, one_of, sequence, text
from fadiff_mapper.inputs.yaml.place import Where

ACCEPTED = '"C=2 M=3", "C2 M3", "C<=4" or "C>=2", with the dimensions'

# The name ends where the number begins, so "C2M3" is C=2 M=3; with an operator a name may hold digits.
_FACTOR = re.compile(r"(?P<name>[A-Za-z_]\w*?)\s*(?P<operator><=|>=|=*)\s*(?P<value>\d+)(?=[\s,A-Za-z_]|$)")
_FOUND_FACTOR = re.compile(r"[A-Za-z_]\w*?\s*(?:<=|>=|=*)\s*\d+(?:,\d+)?")
_UNREAD = re.compile(r"^[^\sA-Za-z_,]+")
_RESIDUAL = re.compile(r"\s*,\s*(?P<last>\d+)(?=[\s,A-Za-z_]|$)")


@dataclass(frozen=True)
class LoopFactor:
    """One factor, or a limit on one.

    Attributes:
        dimension: Its dimension.
        operator: "=", "<=" or ">=".
        value: At least 1; a 0 in the text, for the whole dimension, is already the dimension's bound.
        where: Place of the text.
        last: The residual of an imperfect factor (`P=4,2`): iterations of the last run. None: as many as in all runs.
    """

    dimension: str
    operator: str
    value: int
    where: Where
    last: int | None = None


def parse_factors(value: Any, where: Where, dimensions: AnyMapping[str, int], *, bounded: bool = True,
                  residuals: bool = False, leniency: Leniency = STRICT) -> tuple[LoopFactor, ...]:
    """Reads the factors in a string or a list of strings.

    As in Timeloop, "=" may be left out, 0 stands for the whole dimension (not for the remainder), and text from "#"
    on is a comment.

    Args:
        value: A string or a list of strings.
        where: Its place.
        dimensions: Bound by dimension.
        bounded: Whether a factor may be at most its dimension. The factors of a mapping are checked as a product
            instead.
        residuals: Whether a factor may have a residual.
        leniency: Decides about input that Timeloop skips: a factor above its dimension, leftover text, and the first
            of two values for the same dimension.

    Returns:
        The factors in the order of the text, without those that are skipped.

    Raises:
        SpecError: A residual that is out of range or has no place here (`P=5,3`), a dimension that is unknown, and,
            where strict, whatever Timeloop skips.
    """
    factors: list[LoopFactor] = []
    for part, place in _strings(value, where):
        for factor in _scan(part.split("#")[0], place, dimensions, residuals, leniency):
            if bounded and factor.operator == "=" and factor.value > dimensions[factor.dimension]:
                leniency.meet([_above(factor, dimensions)])
                continue
            same = [f for f in factors if (f.dimension, f.operator) == (factor.dimension, factor.operator)]
            if not same:
                factors.append(factor)
            elif (same[0].value, same[0].last) != (factor.value, factor.last):
                leniency.meet([_twice(same[0], factor)])
                factors[factors.index(same[0])] = factor
    return tuple(factors)


def _above(factor: LoopFactor, dimensions: AnyMapping[str, int]) -> Oddity:
    name, bound = factor.dimension, dimensions[factor.dimension]
    return Oddity(factor.where, f"{name}={factor.value} of {bound}",
                  f'"{name}={factor.value}" is larger than the dimension {name}={bound}',
                  f"factors of {bound}, or 0 for the whole dimension",
                  f"Timeloop ignores it, {name} is free here")


def _twice(first: LoopFactor, second: LoopFactor) -> Oddity:
    return Oddity(second.where, f"{factor_text(first)} and {factor_text(second)}",
                  f'found both "{factor_text(first)}" and "{factor_text(second)}"', "one value for each dimension",
                  "Timeloop takes the second")


MOST_DIGITS = 15
"""Digits of a factor; all such whole numbers are exact in float64."""


def factor_text(factor: LoopFactor) -> str:
    """A factor as both dialects read it, such as "C<=4"."""
    residual = "" if factor.last is None else f",{factor.last}"
    return f"{factor.dimension}{factor.operator}{factor.value}{residual}"


def factors_text(factors: Sequence[LoopFactor]) -> str:
    """Several factors as one string, which both dialects read."""
    return ",".join(map(factor_text, factors))


def _strings(value: Any, where: Where) -> Iterator[tuple[str, Where]]:
    """The string itself, or each entry of the list; an entry may be split up, as in [C, "=", 2]."""
    if isinstance(value, str):
        yield value, where
        return
    if not isinstance(value, list | tuple):
        raise where.error(f"found {kind_of(value)}", f"a string or a list of strings such as {ACCEPTED}")
    entries = sequence(value, where)
    for i, entry in enumerate(entries):
        whole = "".join(text(piece, entries.at(i)) for piece in entry) if isinstance(entry, list) else entry
        yield text(whole, entries.at(i)), entries.at(i)


def _scan(line: str, where: Where, dimensions: AnyMapping[str, int], residuals: bool,
          leniency: Leniency) -> Iterator[LoopFactor]:
    rest = line.strip(" \t\n,")
    while rest:
        match = _FACTOR.match(rest)
        if match is None:
            leniency.meet([Oddity(where, f"text {rest}", f'found "{rest.split()[0]}"',
                                  f"factors such as {ACCEPTED} {listed(dimensions)}")])
            rest = _from_next_factor(rest)
            continue
        residual = _RESIDUAL.match(rest, match.end())
        if residual and not residuals:
            leniency.meet([_cut_short(rest[:match.end()], residual, where)])
            rest, residual = rest[:match.end()] + rest[residual.end():], None
        if len(match["value"]) > MOST_DIGITS:
            raise where.error(f'found a factor of {len(match["value"])} digits', f"at most {MOST_DIGITS} digits")
        factor = _factor(match["name"], match["operator"].strip("=") + "=", int(match["value"]), where, dimensions)
        yield _with_residual(factor, residual, where) if residual else factor
        rest = rest[(residual or match).end():].lstrip(" \t\n,")


def _cut_short(factor: str, residual: re.Match[str], where: Where) -> Oddity:
    """A residual in a constraint, where Timeloop's reader searches for the next name behind the number."""
    found = f"{factor}{residual[0]}"
    return Oddity(where, found, f'the residual of "{found}" has no meaning in a constraint',
                  "factors such as P=5; residuals in a mapping alone", f"Timeloop reads {factor}")


def _with_residual(factor: LoopFactor, residual: re.Match[str], where: Where) -> LoopFactor:
    """An exact factor with its residual, which follows its comma at once, as Timeloop reads it."""
    found = f"{factor_text(factor)}{residual[0]}"
    last = int(residual["last"][:MOST_DIGITS])
    if residual[0] != f",{residual['last']}":
        raise where.error(f'found a blank in the imperfect factor "{found}"', f'"{factor_text(factor)},{last}"')
    if factor.operator != "=" or not 1 <= last <= factor.value:
        raise where.error(f'found the imperfect factor "{found}"',
                          f"a residual from 1 to the factor, such as {factor.dimension}={factor.value},1")
    return replace(factor, last=None if last == factor.value else last)


def _from_next_factor(text: str) -> str:
    """The text from the next factor on, as Timeloop searches for one; empty where there is none.

    Timeloop takes the digits of "K=2.0" and goes on searching behind them.
    """
    following = _FOUND_FACTOR.search(text)
    if following is None:
        return ""
    return f"{following[0]} {_UNREAD.sub('', text[following.end():], count=1)}"


def _factor(name: str, operator: str, value: int, where: Where, dimensions: AnyMapping[str, int]) -> LoopFactor:
    if name not in dimensions:
        raise where.error(f'unknown dimension "{name}" in "{name}{operator}{value}"'
                          f"{nearest(name, list(dimensions))}", listed(dimensions))
    if value == 0 and operator != "=":
        raise where.error(f'found "{name}{operator}0"', f"a limit of 1 or more (0 is the whole dimension in {name}=0)")
    return LoopFactor(name, operator, value or dimensions[name], where)


SEPARATOR = "_"
"""Between the innermost and the outermost loops of a partial order: the loops in between are free."""


def parse_permutation(
    value: Any, where: Where, dimensions: Collection[str], *, commas: bool = False,
    idle: Collection[str] = (), leniency: Leniency = STRICT
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Reads a permutation.

    The loops before `_` (all of them, where there is none) are the innermost ones, the loops after it the outermost.
    In a string every letter is a dimension and blanks do not count; longer names stand apart, in a list or between
    blanks. Text from "#" on is a comment, as in Timeloop.

    Args:
        value: A string or a list of strings.
        where: Its place.
        dimensions: Names of the problem's dimensions.
        idle: Dimensions without a loop here. Where those that are left out are idle too, Timeloop puts up with an idle
            one that stands twice: both are loops of one iteration.
        leniency: Decides about these.
        commas: Whether a string may hold commas, which the v0.4 front end reads; `timeloop-model` crashes on them.

    Returns:
        (innermost, outermost) dimensions, both from the inside outwards.

    Raises:
        SpecError: An unknown dimension, a dimension named twice, a second `_`, a comma.
    """
    names = [name for token, place in _tokens(value, where, commas) for name in _names(token, place, dimensions)]
    if names.count(SEPARATOR) > 1:
        raise where.error(f'found "{SEPARATOR}" {names.count(SEPARATOR)} times', f'at most one "{SEPARATOR}"')
    for name in sorted({name for name in names if names.count(name) > 1}):
        found = f'the dimension "{name}" stands twice in the permutation'
        if not {name, *(left for left in dimensions if left not in names)} <= {*idle}:
            raise where.error(found, "each dimension once")
        leniency.meet([Oddity(where, f"permutation {value}", found, "each dimension once",
                              "it has no loop here")])
    names = list(dict.fromkeys(names))
    split = names.index(SEPARATOR) if SEPARATOR in names else len(names)
    return tuple(names[:split]), tuple(names[split + 1:])


def permutation_text(inner: Sequence[str], outer: Sequence[str] = ()) -> str:
    """An order as one string of letters, which the native dialect reads.

    Args:
        inner: The innermost dimensions, innermost first; their names are single letters.
        outer: The outermost dimensions, innermost first.
    """
    return "".join(inner) + (SEPARATOR + "".join(outer) if outer else "")


def _tokens(value: Any, where: Where, commas: bool) -> list[tuple[str, Where]]:
    """The words of a string, or the entries of a list, with their places."""
    if isinstance(value, str):
        line = value.split("#")[0]
        if "," in line and not commas:
            raise where.error(f'found commas in "{value}"', "letters side by side, innermost first")
        return [(token, where) for token in line.replace(",", " ").split()]
    if isinstance(value, list | tuple):
        entries = sequence(value, where)
        return [(text(entry, entries.at(i)).strip(), entries.at(i)) for i, entry in enumerate(entries)]
    raise where.error(f"found {kind_of(value)}", "a string of dimensions, innermost first, or a list of them")


def _names(token: str, where: Where, dimensions: Collection[str]) -> list[str]:
    """One dimension or separator, or the letters of the token where each of them is one."""
    known = {*dimensions, SEPARATOR}
    if token in known:
        return [token]
    if all(letter in known for letter in token):
        return list(token)
    wrong = next(letter for letter in token if letter not in known) if max(map(len, known)) == 1 else token
    raise where.error(f'unknown dimension "{wrong}" in the permutation{nearest(wrong, list(dimensions))}',
                      listed(dimensions))


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


def map_yaml(spec: Spec, mapping: Mapping) -> str:
    """A mapping as a YAML document.

    Args:
        spec: Architecture and problem of the mapping.
        mapping: The mapping.

    Returns:
        YAML with the one key `mapping`: every factor, order and bypass spelled out, no expressions.
    """
    return dump({"mapping": literal_mapping(mapping, spec.arch, spec.problem)})
