"""Reads `problem:` into a `Problem`: shape (inline or by name), instance, coefficients.

A rank of a data space is the sum of coefficient * dimension. A coefficient has its value from the instance, else the
shape's default. Timeloop drops keys of an instance that the shape does not know, and with a misspelt stride it
computes another layer without a word; here such a key is an error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from fadiff_mapper.base.errors import SpecError, listed, nearest
from fadiff_mapper.inputs.native.hyphens import underscored
from fadiff_mapper.inputs.spec import keys
from fadiff_mapper.inputs.spec.problem import Bits, DataSpace, Problem, Term, single_letter
from fadiff_mapper.inputs.spec.sparse_optimizations import BANDED, FIXED, Density
from fadiff_mapper.inputs.yaml.located import Map, Reader, Seq, known, mapping, readers, sequence, text
from fadiff_mapper.inputs.yaml.place import STRICT, Leniency, Oddity, Where

NAMED_SHAPES: dict[str, dict[str, Any]] = {
    "cnn_layer": {
        "name": "CNN_Layer",
        "dimensions": ["R", "S", "P", "Q", "C", "K", "N"],
        "coefficients": [{"name": name, "default": 1} for name in ("Wstride", "Hstride", "Wdilation", "Hdilation")],
        "data_spaces": [
            {"name": "Weights", "projection": [[["C"]], [["K"]], [["R"]], [["S"]]]},
            {"name": "Inputs", "projection": [
                [["N"]], [["C"]], [["R", "Wdilation"], ["P", "Wstride"]], [["S", "Hdilation"], ["Q", "Hstride"]]]},
            {"name": "Outputs", "projection": [[["N"]], [["K"]], [["Q"]], [["P"]]], "read_write": True}],
    },
    "gemm_ABZ": {
        "name": "gemm_ABZ",
        "dimensions": ["M", "N", "K"],
        "data_spaces": [
            {"name": "A", "projection": [[["M"]], [["K"]]]},
            {"name": "B", "projection": [[["N"]], [["K"]]]},
            {"name": "Z", "projection": [[["M"]], [["N"]]], "read_write": True}],
    },
}
"""The shapes that Timeloop ships with and that an old problem file names by `shape: NAME`."""
MOST_NAMES = 64  # dimensions, data spaces or coefficients of a shape; published ones have fewer than 10
MOST_COMPUTES = 2 ** 53  # multiply-accumulates of a problem, beyond which doubles no longer hold every count exactly
FOR_THE_READER = ("H", "W", "Hpad", "Wpad")
"""Input extents and padding that widespread problem files state beside the bounds; no projection uses them."""


class ReadProblem(NamedTuple):
    """A problem section as read."""

    problem: Problem
    literal: dict[str, Any]  # the same as plain data that every Timeloop version reads
    notes: tuple[str, ...]  # a sentence for each key of the instance that has no effect


def read_problem(node: Any, where: Where, leniency: Leniency = STRICT, instance_keys: Leniency = STRICT) -> ReadProblem:
    """Reads a problem section.

    Args:
        node: The section: `shape` (inline, or the name of one of `NAMED_SHAPES`) and `instance`; in the oldest form
            the bounds lie beside `shape`.
        leniency: Decides about unknown keys of the section and its shape.
        instance_keys: Decides about keys of the instance that are neither a dimension nor a coefficient of the shape
            and have a value other than 1. In both dialects it also decides about input that `timeloop-model` refuses:
            bounds such as 8.0, coefficients without a default, and dimensions of several letters.
    """
    reader = Reader(underscored(mapping(node, where)), keys.PROBLEM, leniency)
    reader.read("name")
    shape, at = reader.read("shape"), reader.at("shape")
    by_word = isinstance(shape, str)
    shape = mapping(NAMED_SHAPES[known(shape, at, NAMED_SHAPES, "shape")] if by_word else shape, at)
    if set(shape) == {"shape"} and not by_word:  # a shape file included as a whole
        shape = mapping(shape["shape"], shape.at("shape"))
    shape_reader = Reader(shape, keys.SHAPE, leniency)
    shape_reader.refuse("flatten", "flattened dimensions are not modelled")
    shape_reader.refuse("flattened_dimensions", "flattened dimensions are not modelled")
    name = shape_reader.read("name")
    dimensions = _names(shape_reader.read("dimensions"), "dimension")
    if not single_letter(dimensions):
        instance_keys.meet([Oddity(shape_reader.at("dimensions"), "long dimensions",
                                   "timeloop-model refuses dimensions of several letters: "
                                   + listed([name for name in dimensions if len(name) > 1]), "names of one letter",
                                   "they are read, and have no mapping file")])
    coefficient_rows, defaults = shape_reader.read("coefficients", Seq(where=shape.where)), dict[str, int]()
    if len(coefficient_rows) > MOST_NAMES:
        raise coefficient_rows.where.error(f"found {len(coefficient_rows)} coefficients", f"at most {MOST_NAMES}")
    for row in readers(coefficient_rows, keys.COEFFICIENT, leniency):
        coefficient = row.read("name")
        if row.node.get("default") is None:
            instance_keys.meet([Oddity(row.node.where, "default",
                                       f'timeloop-model refuses the coefficient "{coefficient}" without a default',
                                       "default: a whole number >= 0", "it is 1")])
        defaults[coefficient] = Reader(row.node, keys.COEFFICIENT, instance_keys).read("default")
        row.finish(" of a coefficient")
    spaces = shape_reader.read("data_spaces")
    if len(spaces) > MOST_NAMES:
        raise spaces.where.error(f"found {len(spaces)} data spaces", f"at most {MOST_NAMES}")
    shape_reader.finish(" in the problem's shape")

    if "instance" in reader.node:
        instance = reader.read("instance")
        reader.finish(" in the problem")
    else:  # the oldest form: bounds lie beside `shape`
        instance = reader.node.having({key: value for key, value in reader.node.items() if key not in keys.PROBLEM})
    known_names = [*dimensions, *defaults]
    unknown = []
    others = [key for key in map(str, instance) if key not in ("name", *keys.INSTANCE)]
    for key in others:  # a key that Timeloop drops may stay where it is 1, as dropping it loses nothing
        if key not in known_names and instance[key] != 1 and key not in FOR_THE_READER:
            meant = next((other for other in known_names if other.lower() == key.lower()), "")
            kept = f"; {meant} is {instance.get(meant, defaults[meant])}" if meant in defaults else ""
            unknown.append(Oddity(
                instance.at(key), f"instance {key}", f'"{key}" is neither a dimension nor a coefficient of the shape, '
                f"so Timeloop would drop it{nearest(key, known_names)}", listed(known_names), f"dropped{kept}"))
    problems = instance_keys.mistakes(unknown)
    problems += [f'{instance.where}: the dimension "{dimension}" has no bound; accepted: a whole number >= 1'
                 for dimension in dimensions if dimension not in instance]
    if problems:
        raise SpecError(*problems)
    bounds = {dimension: keys.whole_number(instance[dimension], instance.at(dimension), 1, instance_keys)
              for dimension in dimensions}
    coefficients = {coefficient: keys.whole_number(instance.get(coefficient, default), instance.at(coefficient), 0,
                                                   instance_keys) for coefficient, default in defaults.items()}
    dataspaces = []
    for row in readers(spaces, keys.DATA_SPACE, leniency):
        space, projection, read_write = map(row.read, ("name", "projection", "read_write"))
        row.finish(f' of the data space "{space}"')
        if projection and all(isinstance(item, str) for item in projection):
            projection = projection.having([[item]] for item in projection)
        if not projection:
            raise projection.where.error("an empty projection", "a list of ranks, at least one")
        ranks = []
        for rank, at in projection.placed():
            if not (written_terms := sequence(rank, at)):
                raise at.error("an empty rank", "a list of [dimension] or [dimension, coefficient]")
            terms = []
            for term, place in written_terms.placed():
                parts = [text(part, place) for part in sequence(term, place)]
                if len(parts) not in (1, 2):
                    raise place.error(f"found {len(parts)} names", "[dimension] or [dimension, coefficient]")
                for part, accepted, word in zip(parts, (bounds, coefficients), ("dimension", "coefficient"),
                                                strict=False):
                    known(part, place, accepted, word)
                terms.append(Term(parts[0]) if len(parts) == 1 else Term(parts[0], coefficients[parts[1]], parts[1]))
            ranks.append(tuple(terms))
        dataspaces.append(DataSpace(space, tuple(ranks), read_write))
    _names(spaces.having(space.name for space in dataspaces), "data space")
    written = [space.name for space in dataspaces if space.read_write]
    if len(written) != 1:
        raise spaces.where.error(f"read_write data spaces: {listed(written)}", "exactly one (the output)")
    # As in Timeloop, `commonDensity` holds for every tensor and hides `densities`; tensors without a density are dense.
    names, given = [space.name for space in dataspaces], Reader(instance, keys.INSTANCE)
    common, by_name = given.read("commonDensity"), given.read("densities", Map(where=instance.where))
    if common is not None:
        densities = dict.fromkeys(names, _density(common, given.at("commonDensity")))
    else:
        for space in by_name:
            known(space, by_name.at(space), names, "data space")
        densities = {str(space): _density(value, by_name.at(space)) for space, value in by_name.items()
                     if value is not None}
    widths = given.read("bits", Map(where=instance.where))
    for space in widths:
        known(space, widths.at(space), names, "data space")
    problem = Problem(name=name, bounds=bounds, dataspaces=with_bits(dataspaces, widths), densities=densities)
    if problem.computes > MOST_COMPUTES:
        raise instance.where.error(f"{problem.computes} multiply-accumulates",
                                   f"at most {MOST_COMPUTES} (2^53), beyond which counts are not exact")
    used = {*dimensions, *(term.name for ds in dataspaces for rank in ds.ranks for term in rank)}
    notes = tuple(f"problem.instance.{key} has no effect: extents follow from the projections" for key in others
                  if key not in used and (key in FOR_THE_READER or instance[key] == 1))
    return ReadProblem(problem, _literal(problem, defaults, coefficients), notes if "instance" in reader.node else ())


def _literal(problem: Problem, defaults: dict[str, int], coefficients: dict[str, int]) -> dict[str, Any]:
    """A problem as plain YAML data, with defaults and values of its coefficients."""
    shape: dict[str, Any] = {"name": problem.name or "problem", "dimensions": list(problem.dimensions)}
    if defaults:
        shape["coefficients"] = [{"name": name, "default": value} for name, value in defaults.items()]
    shape["data_spaces"] = [
        {"name": ds.name, "projection": [[[term.dimension] if term.name is None else [term.dimension, term.name]
                                          for term in rank] for rank in ds.ranks]}
        | ({"read_write": True} if ds.read_write else {}) for ds in problem.dataspaces]
    instance: dict[str, Any] = {**problem.bounds, **coefficients, **literal_bits(problem.dataspaces)}
    if problem.densities:
        instance["densities"] = {
            name: {"distribution": BANDED, "band_width": density.band_width} if density.distribution == BANDED
            else {"distribution": density.distribution, "density": density.density}
            for name, density in problem.densities.items()}
    return {"version": "0.4", "instance": instance, "shape": shape}


def _names(node: Seq, word: str) -> list[str]:
    """The names in a list, at least one and each once. Raises SpecError; `word` is the noun for a name in messages."""
    if len(node) > MOST_NAMES:
        raise node.where.error(f"found {len(node)} names", f"at most {MOST_NAMES}, each a {word}")
    names = [text(value, where) for value, where in node.placed()]
    for i, name in enumerate(names):
        if name in names[:i]:
            raise node.at(i).error(f'the {word} "{name}" is listed twice')
    if not names:
        raise node.where.error(f"no {word} is listed")
    return names


def with_bits(dataspaces: Iterable[DataSpace], widths: Map) -> tuple[DataSpace, ...]:
    """Data spaces with the bits of their elements as an instance gives them by name; others keep theirs."""
    return tuple(replace(space, bits=_bits(widths[space.name], widths.at(space.name), space))
                 if widths.get(space.name) is not None else space for space in dataspaces)


def _bits(value: Any, where: Where, space: DataSpace) -> Bits:
    """Reads the bits of a tensor's elements; a plain number means elements without a scale factor."""
    if not isinstance(value, dict):
        return Bits(keys.BITS.read(value, where, STRICT))
    reader = Reader(mapping(value, where), keys.ELEMENT)
    bits, scale, per, partial = map(reader.read, ("bits", "scale", "per", "partial"))
    reader.finish(" of the bits of a tensor")
    if partial is not None and not space.read_write:
        raise reader.at("partial").error(f'found partial sums of "{space.name}", which is read only',
                                         "bits of partial sums of the output")
    if partial is not None and partial < (element := Bits(bits, scale, per).element):
        raise reader.at("partial").error(f"found {partial} bits", f"at least the {float(element):g} bits of an element")
    return Bits(bits, scale, per, partial)


def literal_bits(dataspaces: Iterable[DataSpace]) -> dict[str, Any]:
    """The key `bits` of an instance as plain data; empty where no data space has bits."""
    found = {space.name: asdict(space.bits) for space in dataspaces if space.bits}
    given = {name: {key: value for key, value in each.items() if value not in (None, 0) and (key, value) != ("per", 1)}
             for name, each in found.items()}
    return {"bits": {name: each if len(each) > 1 else each["bits"] for name, each in given.items()}} if given else {}


def _density(value: Any, where: Where) -> Density:
    """Reads the density of a tensor; a plain number is the density of the fixed distribution."""
    if not isinstance(value, dict):
        return Density(FIXED, keys.SHARE.read(value, where, STRICT))
    reader = Reader(mapping(value, where), keys.DENSITY)
    word = known(reader.read("distribution"), reader.at("distribution"), keys.DISTRIBUTIONS, "distribution")
    distribution = keys.DISTRIBUTIONS[word]
    share = reader.read("density", 1.0 if distribution == BANDED else None)
    band_width = reader.read("band_width")
    reader.finish(" of a density")
    if share is None:
        raise reader.node.where.error(f'the key "density" of the {word} distribution is missing',
                                      "a number from 0 to 1")
    return Density(distribution, share, band_width)
