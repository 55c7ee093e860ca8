"""Mappings as `timeloop-model` understands them: the directives of `mapping:` -> a `Mapping`, and back.

Permutations are written innermost loop first; the first `split` dimensions of a spatial one lie on X.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec.arch import Architecture
from fadiff_mapper.inputs.spec.keys import DIRECTIVES, MAPPING_TYPES, OF_CONSTRAINTS
from fadiff_mapper.inputs.spec.mapping import LevelMapping, Mapping, with_residual
from fadiff_mapper.inputs.spec.problem import Problem, single_letter
from fadiff_mapper.inputs.yaml.located import Reader, Seq, kind_of, known, readers, sequence, text
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Oddity, Where

ACCEPTED = '"C=2 M=3", "C2 M3", "C<=4" or "C>=2", with the dimensions'
MOST_DIGITS = 15  # digits of a factor; all such whole numbers are exact in float64

# The name ends where the number begins, so "C2M3" is C=2 M=3; with an operator a name may hold digits.
_FACTOR = re.compile(r"(?P<name>[A-Za-z_]\w*?)\s*(?P<operator><=|>=|=*)\s*(?P<value>\d+)(?=[\s,A-Za-z_]|$)")
_FOUND_FACTOR = re.compile(r"[A-Za-z_]\w*?\s*(?:<=|>=|=*)\s*\d+(?:,\d+)?")
_UNREAD = re.compile(r"^[^\sA-Za-z_,]+")
_RESIDUAL = re.compile(r"\s*,\s*(?P<last>\d+)(?=[\s,A-Za-z_]|$)")


@dataclass(frozen=True)
class LoopFactor:
    """One factor, or a limit on one."""

    dimension: str  # its dimension
    operator: str  # "=", "<=" or ">="
    value: int  # at least 1; a 0 in the text, for the whole dimension, is already the dimension's bound
    where: Where  # place of the text
    last: int | None = None  # iterations of the last run, of an imperfect factor (`P=4,2`); None: as in all runs

    def __str__(self) -> str:
        """The factor as both dialects read it, such as "C<=4"; commas separate several in one string."""
        return f"{self.dimension}{self.operator}{self.value}" + ("" if self.last is None else f",{self.last}")


def parse_factors(value: Any, where: Where, dimensions: AnyMapping[str, int], *, bounded: bool = True,
                  residuals: bool = False, leniency: Leniency = STRICT) -> tuple[LoopFactor, ...]:
    """Reads the factors in a string or a list of strings, in the order of the text.

    As in Timeloop, "=" may be left out, 0 stands for the whole dimension (not for the remainder), text from "#" on is a
    comment, and an entry of a list may be split up, as in [C, "=", 2].

    Args:
        dimensions: Bound by dimension.
        bounded: Whether a factor may be at most its dimension; the factors of a mapping are checked as a product
            instead.
        residuals: Whether a factor may have a residual.
        leniency: Decides about input that Timeloop skips: a factor above its dimension, leftover text, and the first
            of two values for the same dimension.
    """
    if not isinstance(value, str | list | tuple):
        raise where.error(f"found {kind_of(value)}", f"a string or a list of strings such as {ACCEPTED}")
    factors: dict[tuple[str, str], LoopFactor] = {}
    for entry, place in [(value, where)] if isinstance(value, str) else sequence(value, where).placed():
        line = text("".join(text(piece, place) for piece in entry) if isinstance(entry, list) else entry, place)
        rest = line.split("#")[0].strip(" \t\n,")
        while rest:
            match = _FACTOR.match(rest)
            if match is None:
                leniency.meet([Oddity(place, f"text {rest}", f'found "{rest.split()[0]}"',
                                      f"factors such as {ACCEPTED} {listed(dimensions)}")])
                # As in Timeloop, which searches for the next factor: of "K=2.0" it takes K=2 and goes on behind.
                following = _FOUND_FACTOR.search(rest)
                rest = f"{following[0]} {_UNREAD.sub('', rest[following.end():], count=1)}" if following else ""
                continue
            residual = _RESIDUAL.match(rest, match.end())
            if residual and not residuals:  # in constraints Timeloop searches for a name behind the number
                found = f"{rest[:match.end()]}{residual[0]}"
                leniency.meet([Oddity(place, found, f'the residual of "{found}" has no meaning in a constraint',
                                      "factors such as P=5; residuals in a mapping alone",
                                      f"Timeloop reads {rest[:match.end()]}")])
                rest, residual = rest[:match.end()] + rest[residual.end():], None
            if len(match["value"]) > MOST_DIGITS:
                raise place.error(f'found a factor of {len(match["value"])} digits', f"at most {MOST_DIGITS} digits")
            name, operator, number = match["name"], match["operator"].strip("=") + "=", int(match["value"])
            if name not in dimensions:
                raise place.error(f'unknown dimension "{name}" in "{name}{operator}{number}"'
                                  f"{nearest(name, list(dimensions))}", listed(dimensions))
            if number == 0 and operator != "=":
                raise place.error(f'found "{name}{operator}0"',
                                  f"a limit of 1 or more (0 is the whole dimension in {name}=0)")
            bound = dimensions[name]
            factor = LoopFactor(name, operator, number or bound, place)
            if residual:  # it follows its comma at once, as Timeloop reads it
                last = int(residual["last"][:MOST_DIGITS])
                if residual[0] != f",{residual['last']}":
                    raise place.error(f'found a blank in the imperfect factor "{factor}{residual[0]}"',
                                      f'"{factor},{last}"')
                if factor.operator != "=" or not 1 <= last <= factor.value:
                    raise place.error(f'found the imperfect factor "{factor}{residual[0]}"',
                                      f"a residual from 1 to the factor, such as {name}={factor.value},1")
                factor = replace(factor, last=None if last == factor.value else last)
            rest = rest[(residual or match).end():].lstrip(" \t\n,")
            if bounded and operator == "=" and factor.value > bound:
                leniency.meet([Oddity(place, f"{name}={factor.value} of {bound}",
                                      f'"{name}={factor.value}" is larger than the dimension {name}={bound}',
                                      f"factors of {bound}, or 0 for the whole dimension",
                                      f"Timeloop ignores it, {name} is free here")])
                continue
            first = factors.get((name, operator))
            if first and (first.value, first.last) != (factor.value, factor.last):
                leniency.meet([Oddity(place, f"{first} and {factor}", f'found both "{first}" and "{factor}"',
                                      "one value for each dimension", "Timeloop takes the second")])
                first = None
            factors[name, operator] = first or factor
    return tuple(factors.values())


SEPARATOR = "_"  # between the innermost and the outermost loops of a partial order: the loops in between are free
Order = tuple[tuple[str, ...], tuple[str, ...]]  # innermost and outermost dimensions, from the inside outwards


def parse_permutation(value: Any, where: Where, dimensions: Collection[str], *, commas: bool = False,
                      idle: Collection[str] = (), leniency: Leniency = STRICT) -> Order:
    """Reads a permutation.

    The loops before `_` (all of them, where there is none) are the innermost ones, the loops after it the outermost.
    In a string every letter is a dimension and blanks do not count; longer names are separated, in a list or between
    blanks. Text from "#" on is a comment, as in Timeloop.

    Args:
        value: A string or a list of strings.
        dimensions: Names of the problem's dimensions.
        commas: Whether a string may hold commas, which the v0.4 front end reads; `timeloop-model` crashes on them.
        idle: Dimensions without a loop here. Where the omitted dimensions are idle too, Timeloop puts up with an idle
            one that is listed twice: both are loops of one iteration.
        leniency: Decides about such repetitions.
    """
    if isinstance(value, str):
        line = value.split("#")[0]
        if "," in line and not commas:
            raise where.error(f'found commas in "{value}"', "letters side by side, innermost first")
        tokens = [(token, where) for token in line.replace(",", " ").split()]
    elif isinstance(value, list | tuple):
        tokens = [(text(entry, place).strip(), place) for entry, place in sequence(value, where).placed()]
    else:
        raise where.error(f"found {kind_of(value)}", "a string of dimensions, innermost first, or a list of them")
    known, names = {*dimensions, SEPARATOR}, []
    for token, place in tokens:
        letters = [token] if token in known else list(token)
        if not known.issuperset(letters):
            wrong = next(letter for letter in token if letter not in known) if max(map(len, known)) == 1 else token
            raise place.error(f'unknown dimension "{wrong}" in the permutation{nearest(wrong, list(dimensions))}',
                              listed(dimensions))
        names += letters
    if names.count(SEPARATOR) > 1:
        raise where.error(f'found "{SEPARATOR}" {names.count(SEPARATOR)} times', f'at most one "{SEPARATOR}"')
    for name in sorted({name for name in names if names.count(name) > 1}):
        found = f'the dimension "{name}" stands twice in the permutation'
        if not {name, *(left for left in dimensions if left not in names)} <= {*idle}:
            raise where.error(found, "each dimension once")
        leniency.meet([Oddity(where, f"permutation {value}", found, "each dimension once", "it has no loop here")])
    names = list(dict.fromkeys(names))
    split = names.index(SEPARATOR) if SEPARATOR in names else len(names)
    return tuple(names[:split]), tuple(names[split + 1:])


def permutation_text(inner: Sequence[str], outer: Sequence[str] = ()) -> str:
    """An `Order` of dimensions of one letter as one string, which the native dialect reads."""
    return "".join(inner) + (SEPARATOR + "".join(outer) if outer else "")


def read_mapping(node: Any, where: Where, arch: Architecture, problem: Problem, leniency: Leniency = STRICT) -> Mapping:
    """Reads a mapping, a list of directives, with Timeloop's defaults for everything left out.

    Missing factors are 1, missing dimensions of a permutation are appended (outermost) in the order of the shape, a
    data space that no directive mentions is kept, and spatial loops lie on X without a `split`. Of two directives
    for the same loops the later one counts, but for a `no_reuse` that it does not mention.
    """
    directives = underscored(sequence(node, where))
    ones, names = dict.fromkeys(problem.dimensions, 1), arch.level_names()
    levels = [LevelMapping(ones, problem.dimensions, ones, problem.dimensions, len(problem.dimensions),
                           frozenset(problem.dataspace_names()))] * len(names)
    for reader in readers(directives, DIRECTIVES["temporal"], leniency):
        target = known(reader.read("target"), reader.at("target"), names, "level")
        index, kind = names.index(target), reader.read("type")
        level = levels[index]
        if kind == "skew":
            raise reader.at("type").error('"skew" is not supported: skewed spatial loops are not modelled',
                                          listed(MAPPING_TYPES))
        if kind in OF_CONSTRAINTS:
            leniency.meet([Oddity(reader.at("type"), f"type {kind}",
                                  f'timeloop-model refuses the type "{kind}" in a mapping', listed(MAPPING_TYPES),
                                  "read as datatype")])
        reader.refuse("no_multicast_no_reduction", "timeloop-model does not read it in a mapping, only no_reuse")
        reader.table = DIRECTIVES.get(kind, DIRECTIVES["datatype"])
        if kind == "temporal":
            factors, last, order = _loops(reader, problem)
            if reader.node.get("no_reuse") is not None and reader.node.get("no_temporal_reuse") is not None:
                raise reader.at("no_temporal_reuse").error("there is both no_reuse, no_temporal_reuse", "one of them")
            levels[index] = replace(
                level, temporal=factors, temporal_last=last, order=order,
                no_temporal_reuse=_spaces(reader, "no_reuse", problem, level.no_temporal_reuse),
                rmw_first_update=_spaces(reader, "rmw_first_update", problem, level.rmw_first_update))
        elif kind == "spatial":
            fanned_out = [unit.name for i, unit in enumerate(arch.levels) if math.prod(arch.fanout(i)) > 1]
            if target not in fanned_out:
                raise reader.node.where.error(f'"{target}" has no fan-out, so it takes no spatial loops',
                                              listed(fanned_out))
            factors, last, order = _loops(reader, problem)
            levels[index] = replace(
                level, spatial=factors, spatial_last=last, spatial_order=order,
                split=min(reader.read("split", len(order)), len(order)),
                no_multicast=_spaces(reader, "no_reuse", problem, level.no_multicast),
                no_link_transfer=_spaces(reader, "no_link_transfer", problem, level.no_link_transfer))
        else:
            passing = _spaces(reader, "no_coalesce", problem, level.no_coalesce)
            keep, bypass = (_spaces(reader, key, problem, frozenset()) for key in ("keep", "bypass"))
            levels[index] = replace(level, keep=(level.keep | keep) - bypass, no_coalesce=passing)
        reader.finish(f" of a {kind} directive")
    found = Mapping(tuple(levels))
    problems = [f"{where}: product of all factors of dimension {name} is {found.covered(name)}, which is not equal "
                f"to the dimension size of the workload {bound}"
                for name, bound in problem.bounds.items() if found.covered(name) != bound]
    # `timeloop-model` aborts on a residual of a spatial loop with no loop of its dimension further out.
    for name in problem.bounds:
        for level in reversed(found.levels):
            if level.temporal[name] > 1:
                break
            if name in level.spatial_last:
                problems.append(f"{where}: the outermost loop of dimension {name} is the spatial factor "
                                f"{level.spatial[name]} with the residual {level.spatial_last[name]}; accepted: a "
                                "residual where a loop of the same dimension lies further out")
            if level.spatial[name] > 1:
                break
    if problems:
        raise SpecError(*problems)
    return found


def _loops(reader: Reader, problem: Problem) -> tuple[dict[str, int], dict[str, int], tuple[str, ...]]:
    """(factor by dimension, residual where there is one, full order) of a temporal or spatial directive."""
    def unless_list(key: str, found: str, accepted: str) -> Any:
        """The value of a key; a list, which Timeloop ignores where dimensions have one letter, counts as absent."""
        value = reader.read(key, "")
        if not isinstance(value, list) or not single_letter(problem.dimensions):
            return value
        reader.leniency.meet([Oddity(reader.at(key), f"list of {key}", found, accepted, outcome="")])
        return ""

    factors, last = dict.fromkeys(problem.dimensions, 1), {}
    written = unless_list("factors", "timeloop-model ignores a list of factors", 'one string such as "C=2 M=3"')
    for factor in parse_factors(written, reader.at("factors"), problem.bounds, bounded=False, residuals=True,
                                leniency=reader.leniency):
        if factor.operator != "=":
            raise factor.where.error(f'found "{factor}"', "exact factors in a mapping")
        factors[factor.dimension] = factor.value
        if factor.last is not None:
            last[factor.dimension] = factor.last
    written = unless_list("permutation", "timeloop-model ignores a list as permutation", 'one string such as "RSP"')
    # A split counts the names, so with a split no name may be listed twice.
    idle = [] if "split" in reader.node else [name for name, factor in factors.items() if factor == 1]
    inner, outer = parse_permutation(written, reader.at("permutation"), problem.dimensions, idle=idle,
                                     leniency=reader.leniency)
    if outer:
        raise reader.at("permutation").error('found "_"', "one letter per dimension, innermost first")
    return factors, last, inner + tuple(name for name in problem.dimensions if name not in inner)


def _spaces(reader: Reader, key: str, problem: Problem, before: frozenset[str]) -> frozenset[str]:
    """The data spaces that a key of this directive lists; without the key, those of the directives `before`."""
    names = reader.read(key)
    return before if names is None else frozenset(known_spaces(names, problem))


def known_spaces(names: Seq, problem: Problem, *more: str) -> list[str]:
    """The names in a list of data spaces, and of `more` words; SpecError for an unknown one."""
    accepted = (*problem.dataspace_names(), *more)
    return [known(name, where, accepted, "data space") for name, where in names.placed()]


def literal_mapping(mapping: Mapping, arch: Architecture, problem: Problem) -> list[dict[str, Any]]:
    """A mapping as directives that `timeloop-model` reads, with nothing left to its defaults.

    From the outermost level inwards: data spaces, temporal loops, and spatial loops where there is a fan-out.
    """
    def loops(factors: dict[str, int], last: dict[str, int], order: Sequence[str]) -> dict[str, Any]:
        return {"factors": " ".join(f"{name}={with_residual(name, value, last)}" for name, value in factors.items()),
                "permutation": "".join(order)}

    directives: list[dict[str, Any]] = []
    names = problem.dataspace_names()
    for index, level in reversed(list(enumerate(mapping.levels))):
        kinds: list[tuple[str, dict[str, Any], dict[str, frozenset[str]]]] = [
            ("datatype", {"keep": [name for name in names if name in level.keep],
                          "bypass": [name for name in names if name not in level.keep]},
             {"no_coalesce": level.no_coalesce}),
            ("temporal", loops(level.temporal, level.temporal_last, level.order),
             {"no_reuse": level.no_temporal_reuse, "rmw_first_update": level.rmw_first_update})]
        if math.prod(arch.fanout(index)) > 1:
            kinds.append(("spatial",
                          loops(level.spatial, level.spatial_last, level.spatial_order) | {"split": level.split},
                          {"no_reuse": level.no_multicast, "no_link_transfer": level.no_link_transfer}))
        directives += [{"target": arch.levels[index].name, "type": kind} | always | {
            key: [name for name in names if name in spaces] for key, spaces in listed.items() if spaces}
            for kind, always, listed in kinds]
    return directives
