"""Hostile arrays and tables for the compiled kernel: `python -m tests.fuzz.compiled --cases 100000`.

Every function of the kernel is called with arguments of a small layer, one or two of which were changed: shapes, types,
and numbers that lead to other entries. A call ends with a result or with an exception; reading or writing beyond an
array ends the process, at once where the kernel is built with `-fsanitize=address,undefined`.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))  # helpers of the tests are imported as the tests import them

import numpy as np
from fuzz.doors import native
from fuzz.mutations import mutated_tree
from kernel_parts import parts, space_table

from fadiff_mapper import load
from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.layer_family import family_of
from fadiff_mapper.search.mapspace.build import build_mapspace

INDICES = (-1, -2, 1, 2, 3, 4, 5, 7, 63, 64, 65, 127, 128, 255, 256, 257, 2 ** 15 - 1, -2 ** 15)
FACTORS = (0.0, -1.0, 0.5, 1.5, 3.0, 1000.0, 2.0 ** 31, 2.0 ** 53, 1e300, np.nan, np.inf, -np.inf)

REFUSED = (ValueError, TypeError, KeyError, RuntimeError, OverflowError, IndexError, MemoryError)
"""How the kernel says that it takes something not: pybind11 raises the first four."""

BATCH = 11
"""Mappings of a batch: a full pack of eight and a part of one."""


@cache
def layer_table() -> dict[str, Any]:
    """The table of a small layer with a sliding window, as the package hands it over."""
    spec = load(native()["input"])
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    with mock.patch.multiple("fadiff_mapper.model.prepared_layer._kernel", Layer=_table, DataSpaceTable=dict,
                             Level=dict, Unit=dict, InterconnectTable=dict):
        return replace(layer).compiled  # type: ignore


def _table(layer: Any = None, **table: Any) -> dict[str, Any]:
    """The arguments of a class of the kernel by name."""
    return table


def layer_of(table: dict[str, Any]) -> _kernel.Layer:
    """The layer of a table."""
    classes = {"spaces": _kernel.DataSpaceTable, "levels": _kernel.Level, "units": _kernel.Unit,
               "interconnects": _kernel.InterconnectTable}
    return _kernel.Layer(**{name: [classes[name](**one) for one in value] if name in classes else value
                            for name, value in table.items()})


@cache
def small_space(residuals: bool = False) -> dict[str, Any]:
    """The table of a map space of that layer."""
    spec = load(native()["input"])
    layer = prepare_layer(spec.arch, spec.problem, spec.tables)
    return space_table(family_of(layer, [build_mapspace(spec.arch, spec.problem, spec.constraints)]), residuals)


def space_of(layer: _kernel.Layer, table: dict[str, Any]) -> _kernel.SpaceTables:
    """The map space of a table."""
    return _kernel.SpaceTables(layer, **table)


def changed_array(array: np.ndarray, rng: random.Random) -> Any:
    """An array of another shape, type or order in memory, or with a few other numbers."""
    match rng.randrange(12):
        case 0:
            return array[..., :-1]
        case 1:
            return np.concatenate([array, array], axis=rng.randrange(array.ndim)) if array.ndim else array
        case 2:
            return array.ravel()
        case 3:
            return np.asfortranarray(array)
        case 4:
            return array.astype(rng.choice((np.float32, np.int64, np.int8, np.bool_, np.complex128, object)))
        case 5:
            return rng.choice((None, 3, "x", [], [[1.0]], {}, array.tolist()))
        case _:
            changed = array.copy()
            for _ in range(rng.choice((1, 1, 4, 50)) if changed.size else 0):
                number = rng.choice(FACTORS if array.dtype.kind == "f" else INDICES)
                changed.flat[rng.randrange(changed.size)] = rng.random() < 0.5 if array.dtype == np.bool_ else number
            return changed


def changed_table(table: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A table with one entry changed or missing."""
    name = rng.choice(list(table))
    value = table[name]
    if isinstance(value, np.ndarray):
        return table | {name: changed_array(value, rng)}
    if isinstance(value, list) and value and rng.random() < 0.5:
        changed = mutated_tree({"": value}, rng)
        return table | {name: changed.get("") if isinstance(changed, dict) else changed}
    if isinstance(value, list) and value and isinstance(value[0], int | float):
        return table | {name: [rng.choice((*INDICES, *FACTORS)) if rng.random() < 0.3 else one for one in value]}
    if isinstance(value, int | float):
        return table | {name: rng.choice((*INDICES, *FACTORS))}
    return table | {name: [*value, *value[:1]]} if isinstance(value, list) else table


def chains_calls(layer: Any, space: dict[str, Any], nest: list[Any], rng: random.Random) -> None:
    """A search, in any order of its steps."""
    quantity = _kernel.Metric.edp if rng.random() < 0.9 else rng.choice(INDICES)
    terms: Any = [(1.0 if rng.random() < 0.9 else np.nan, quantity)]
    room = (None, None) if rng.random() < 0.7 else (np.ones((2, 1)), changed_array(np.ones((2, 3, 1), bool), rng))
    chains = _kernel.Chains(layer, space_of(layer, space), terms, *room, 1)
    small = rng.choice((-1, 0, 1, 3, 9))
    steps: list[Callable[[], Any]] = [
        lambda: chains.start_random(small), lambda: chains.start_at(nest), lambda: chains.anneal(small),
        lambda: chains.begin(small, rng.choice((0.0, 1.0, np.nan)), 0.1, small, small, rng.choice((-1, 0, 20)), False,
                             rng.random(), rng.random()),
        lambda: chains.keep_strongest(small), lambda: chains.start_again(small), lambda: chains.history(3),
        lambda: chains.polish(min(small, 2)), lambda: chains.best()]
    for step in (steps[0], steps[3], *rng.choices(steps, k=4)):
        step()


def draw_call(rng: random.Random) -> None:
    """A draw of factors, with one argument changed."""
    arguments: dict[str, Any] = {
        "theta": np.ones((4, 2, 5)), "noise": rng.choice((None, np.zeros((4, 2, 5, 3), np.float32))), "alpha": 2.0,
        "tau": rng.choice((1.0, 0.0, np.nan)), "member": np.zeros(5, np.int64), "divisor": np.ones((1, 2, 3)),
        "completable": np.ones((1, 4, 2, 3, 3), bool), "left": np.ones((1, 2, 3, 3), np.int64),
        "start": np.full((1, 2), 2), "hard": np.zeros((4, 2, 5)), "slope": np.zeros((4, 2, 5))}
    name = rng.choice([name for name, value in arguments.items() if isinstance(value, np.ndarray)])
    _kernel.draw_columns(**arguments | {name: changed_array(arguments[name], rng)})


def parts_call(rng: random.Random) -> None:
    """A walk, or receivers in a grid."""
    def some(*shape: int) -> Any:
        array = np.array(rng.choices((0.0, 1.0, 2.0, 5.0), k=int(np.prod(shape)))).reshape(shape)
        return array if rng.random() < 0.7 else changed_array(array, rng)
    size = rng.choice((1, 2, 6))
    width, height = (rng.choice((-1, 0, 1, 3, 7, 2 ** 30, 2 ** 31 - 1)) for _ in range(2))
    rng.choice((lambda: parts.walk_held(some(size), some(size, 2), some(2)),
                lambda: parts.walk_unheld(some(size), some(size, 2), some(2)),
                lambda: parts.find_linked(some(size, 2), width, height, some(2)),
                lambda: parts.count_hops(some(size), width, height)))()


def case(rng: random.Random) -> None:
    """One call, or one search."""
    if rng.random() < 0.2:
        return rng.choice((draw_call, parts_call))(rng)
    which = rng.choice(("layer", "space", "nest", "nest"))
    table = changed_table(layer_table(), rng) if which == "layer" else layer_table()
    space = small_space(residuals=rng.random() < 0.3)
    space = changed_table(space, rng) if which == "space" else space
    layer, same = layer_of(table), layer_of(layer_table())
    nest = list(parts.random_points(same, space_of(same, small_space()), BATCH, rng.randrange(1000))[:6])
    if which == "nest":
        nest += [nest[0].copy(), nest[1].copy()] if rng.random() < 0.4 else []
        at = rng.randrange(len(nest))
        nest[at] = changed_array(nest[at], rng)
    small, out = rng.choice((-1, 0, 1, 5)), np.empty((5, BATCH))
    room = (None, None) if rng.random() < 0.8 else (np.ones((2, BATCH)),
                                                    changed_array(np.ones((2, 3, BATCH), bool), rng))
    rng.choice((
        lambda: _kernel.score(layer, nest, *room, out, rng.choice((0, 3, 99)), rng.choice((0, 5, BATCH, 99)),
                              rng.random() < 0.5),
        lambda: _kernel.traffic(layer, nest, rng.random() < 0.5),
        lambda: parts.tile_walk(layer, nest, small, small),
        lambda: parts.random_points(layer, space_of(layer, space), small, 1),
        lambda: parts.random_neighbours(layer, space_of(layer, space), nest, small, 1),
        lambda: parts.all_neighbours(layer, space_of(layer, space), nest, 1),
        lambda: parts.layouts_fitted(layer, space_of(layer, space), nest, 1),
        lambda: chains_calls(layer, space, nest, rng)))()


def attacked(cases: int, seed: int) -> Counter[str]:
    """Number of cases by how they ended; any other exception ends the attack."""
    ended: Counter[str] = Counter()
    for number in range(cases):
        try:
            case(random.Random(f"{seed} compiled {number}"))
            ended["result"] += 1
        except REFUSED as error:
            ended[type(error).__name__] += 1
    return ended


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.compiled")
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"{options.cases} cases:", dict(attacked(options.cases, options.seed).most_common()))


if __name__ == "__main__":
    main()
