"""Arrays of the wrong shape or type are refused before compiled code touches them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fuzz.compiled import layer_of, layer_table
from kernel_parts import parts, space_table
from small_specs import product, whole_space

from fadiff_mapper.kernel import _kernel
from fadiff_mapper.model.loop_nest import nest_arrays
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.layer_family import family_of
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.refinement import compiled_space

SPEC = product()
LAYER = prepare_layer(SPEC.arch, SPEC.problem, SPEC.tables)
FAMILY = family_of(LAYER, [build_mapspace(SPEC.arch, SPEC.problem, SPEC.constraints)])
BATCH = 3
TERMS = [(1.0, _kernel.Metric.edp)]
NEST = whole_space(SPEC).take(slice(0, BATCH))
NAMES = tuple(type(NEST).__dataclass_fields__)[:6]


def wrong_nests() -> list[Any]:
    """The arrays of a nest, one of them with an axis less, an axis too long, or another batch."""
    found = []
    for at, name in enumerate(NAMES):
        for kind, change in (("flat", np.ravel), ("long", lambda array: np.concatenate([array, array])),
                             ("wide", lambda array: np.concatenate([array, array], axis=1)),
                             ("batch", lambda array: array[..., :-1]), ("empty", lambda array: array[:0])):
            arrays = list(nest_arrays(NEST))
            arrays[at] = change(arrays[at])
            found.append(pytest.param(arrays, id=f"{name}-{kind}"))
    return found


def chains(**space: Any) -> _kernel.Chains:
    table = space_table(FAMILY) | space
    return _kernel.Chains(LAYER.compiled, _kernel.SpaceTables(LAYER.compiled, **table), TERMS, None, None, 0)


def scored(arrays: Any, out: Any, *, words: Any = None, counted: Any = None, last: int = BATCH) -> None:
    _kernel.score(LAYER.compiled, arrays, words, counted, out, 0, last, False)


@pytest.mark.parametrize("arrays", wrong_nests())
def test_a_nest_whose_arrays_do_not_match_is_refused_everywhere(arrays: list[np.ndarray]) -> None:
    space = compiled_space(FAMILY, 0)
    for call in (lambda: scored(arrays, np.empty((5, arrays[0].shape[-1]))),
                 lambda: _kernel.traffic(LAYER.compiled, arrays, True), lambda: chains().start_at(arrays),
                 lambda: parts.tile_walk(LAYER.compiled, arrays, 0, 0),
                 lambda: parts.random_neighbours(LAYER.compiled, space, arrays, 1, 0),
                 lambda: parts.all_neighbours(LAYER.compiled, space, arrays, 0),
                 lambda: parts.layouts_fitted(LAYER.compiled, space, arrays, 0)):
        with pytest.raises(ValueError, match="wrong shape"):
            call()


@pytest.mark.parametrize("out", [np.empty((4, BATCH)), np.empty((5, BATCH + 1)), np.empty(5 * BATCH)])
def test_results_of_the_wrong_shape_are_refused(out: np.ndarray) -> None:
    with pytest.raises(ValueError, match="wrong shape"):
        scored(nest_arrays(NEST), out)


@pytest.mark.parametrize("out", [np.empty((5, BATCH), dtype=np.float32), np.empty((BATCH, 5)).T,
                                 np.empty((5, BATCH), dtype=np.int64), [[0.0] * BATCH] * 5, None])
def test_results_are_never_written_into_a_copy(out: Any) -> None:
    with pytest.raises(TypeError):
        scored(nest_arrays(NEST), out)


def test_results_that_may_not_be_written_are_refused() -> None:
    out = np.empty((5, BATCH))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="not writeable"):
        scored(nest_arrays(NEST), out)


def test_no_column_beyond_the_batch_is_scored() -> None:
    with pytest.raises(ValueError, match="wrong shape"):
        scored(nest_arrays(NEST), np.empty((5, BATCH)), last=BATCH + 1)
    with pytest.raises(TypeError):
        scored(nest_arrays(NEST), np.empty((5, BATCH)), last=-1)


def test_inputs_of_another_type_are_converted() -> None:
    exact, converted = np.empty((5, BATCH)), np.empty((5, BATCH))
    scored(nest_arrays(NEST), exact)
    arrays = [np.asfortranarray(array.astype(np.int32) if array.dtype != np.bool_ else array)
              for array in nest_arrays(NEST)]
    scored(arrays, converted)
    np.testing.assert_array_equal(exact, converted)


@pytest.mark.parametrize(("words", "counted"), [
    (np.ones((1, BATCH)), np.ones((2, 3, BATCH), dtype=bool)), (np.ones((2, BATCH)), np.ones((2, 3, 1), dtype=bool)),
    (np.ones(2), np.ones((2, 3, BATCH), dtype=bool))])
def test_a_room_of_the_wrong_shape_is_refused(words: np.ndarray, counted: np.ndarray) -> None:
    with pytest.raises(ValueError, match="room: wrong"):
        scored(nest_arrays(NEST), np.empty((5, BATCH)), words=words, counted=counted)


@pytest.mark.parametrize(("words", "counted"), [(np.ones((1, 1)), np.ones((2, 3, 1), dtype=bool)),
                                                (np.ones((2, 1)), np.ones((2, 2, 1), dtype=bool)),
                                                (np.ones((2, 2)), np.ones((2, 3, 2), dtype=bool))])
def test_chains_refuse_a_room_of_the_wrong_size(words: np.ndarray, counted: np.ndarray) -> None:
    with pytest.raises(ValueError, match="room: wrong"):
        _kernel.Chains(LAYER.compiled, compiled_space(FAMILY, 0), TERMS, words, counted, 0)


@pytest.mark.parametrize("name", ["divisor", "quotient", "product", "allowed", "completable", "bound", "keep", "orders",
                                  "layouts"])
def test_chains_refuse_tables_of_the_wrong_size(name: str) -> None:
    with pytest.raises(ValueError, match="wrong size"):
        chains(**{name: space_table(FAMILY)[name][:-1]})


def test_chains_refuse_a_table_that_is_not_there() -> None:
    for name, error in (("divisor", ValueError), ("movable", TypeError)):
        table = space_table(FAMILY)
        del table[name]
        with pytest.raises(error):
            _kernel.SpaceTables(LAYER.compiled, **table)


def test_a_factor_that_divides_no_bound_is_refused() -> None:
    arrays = [array.copy() for array in nest_arrays(NEST)]
    arrays[0][0, 0] = 3
    with pytest.raises(ValueError, match="divides no bound"):
        chains().start_at(arrays)


def test_before_the_first_chain_there_is_no_best_mapping() -> None:
    for ask in (lambda: chains().polish(1), lambda: chains().best()):
        with pytest.raises(ValueError, match="no chain"):
            ask()


@pytest.mark.parametrize("name", ["units", "levels", "bandwidth_scale", "held", "coalesced", "spaces"])
def test_a_layer_with_a_table_of_the_wrong_length_is_refused(name: str) -> None:
    layer_of(layer_table())
    with pytest.raises(ValueError, match="wrong length"):
        layer_of(layer_table() | {name: layer_table()[name][:-1]})


DRAW: dict[str, Any] = {
    "theta": np.zeros((2, 1, 4)), "noise": np.zeros((2, 1, 4, 3), dtype=np.float32), "alpha": 2.0, "tau": 1.0,
    "member": np.zeros(4, dtype=np.int64), "divisor": np.ones((1, 1, 3)), "completable": np.ones((1, 2, 1, 3, 3), bool),
    "left": np.zeros((1, 1, 3, 3), dtype=np.int64), "start": np.zeros((1, 1), dtype=np.int64),
    "hard": np.zeros((2, 1, 4)), "slope": np.zeros((2, 1, 4))}


@pytest.mark.parametrize("wrong", [
    {"theta": np.zeros((2, 4))}, {"divisor": np.ones(3)}, {"divisor": np.ones((1, 2, 3))},
    {"noise": np.zeros(3, dtype=np.float32)},
    {"member": np.zeros(3, dtype=np.int64)}, {"member": np.full(4, 1)}, {"member": np.full(4, -1)},
    {"completable": np.ones((1, 1, 1, 3, 3), bool)}, {"left": np.zeros((1, 1, 3), dtype=np.int64)},
    {"start": np.zeros(2, dtype=np.int64)}, {"hard": np.zeros((1, 1, 4))}, {"slope": np.zeros((1, 1, 4))}])
def test_a_draw_of_factors_refuses_arrays_that_do_not_match(wrong: dict[str, Any]) -> None:
    _kernel.draw_columns(**DRAW)
    with pytest.raises(ValueError, match=r"wrong|out of range"):
        _kernel.draw_columns(**DRAW | wrong)


def test_a_draw_is_never_written_into_a_copy() -> None:
    with pytest.raises(TypeError):
        _kernel.draw_columns(**DRAW | {"hard": np.zeros((2, 1, 4), dtype=np.float32)})


@pytest.mark.parametrize("call", [
    lambda: parts.walk_held(np.ones((2, 1)), np.ones((2, 1)), np.ones(1)),
    lambda: parts.walk_held(np.ones(2), np.ones((3, 1)), np.ones(1)),
    lambda: parts.walk_unheld(np.ones(2), np.ones((2, 2)), np.ones(1)),
    lambda: parts.find_linked(np.ones(4), 2, 2, np.ones(1)),
    lambda: parts.find_linked(np.ones((4, 2)), 2, 2, np.ones(1)),
    lambda: parts.find_linked(np.ones((5, 2)), 2, 2, np.ones(2)),
    lambda: parts.count_hops(np.zeros(5, int), 2, 2), lambda: parts.count_hops(np.full(4, 9), 2, 2),
    lambda: parts.tile_walk(LAYER.compiled, nest_arrays(NEST), 2, 0),
    lambda: parts.tile_walk(LAYER.compiled, nest_arrays(NEST), 0, -1)])
def test_parts_refuse_arrays_that_do_not_match(call: Any) -> None:
    with pytest.raises(ValueError, match=r"wrong shape|out of range"):
        call()


@pytest.mark.parametrize("dim", [-1, len(SPEC.problem.dimensions)])
def test_an_order_that_names_no_dimension_is_refused(dim: int) -> None:
    nest = whole_space(SPEC)
    arrays = [np.full_like(array, dim) if name == "order" else array
              for name, array in zip(NAMES, nest_arrays(nest), strict=True)]
    for call in (lambda: scored(arrays, np.empty((5, nest.batch)), last=nest.batch),
                 lambda: _kernel.traffic(LAYER.compiled, arrays, True), lambda: chains().start_at(arrays)):
        with pytest.raises(ValueError, match="dimension"):
            call()
