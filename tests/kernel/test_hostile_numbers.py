"""Numbers that would lead out of an array are refused before compiled code follows them."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from fuzz.compiled import BATCH, attacked, layer_of, layer_table, small_space, space_of
from kernel_parts import parts

from fadiff_mapper.kernel import _kernel

LAYER = layer_of(layer_table())
SPACE = space_of(LAYER, small_space())
NEST = parts.random_points(LAYER, SPACE, BATCH, 1)[:6]
TEMPORAL, SPATIAL, ORDER, SPATIAL_ORDER = 0, 1, 2, 5


def changed(array: int, value: float, at: tuple[int, ...] = (0, 0, -1)) -> list[np.ndarray]:
    """The arrays of a batch with one number replaced."""
    arrays = [np.array(one) for one in NEST]
    arrays[array][at] = value
    return arrays


CALLS: dict[str, Callable[[list[np.ndarray]], Any]] = {
    "score": lambda nest: _kernel.score(LAYER, nest, None, None, np.empty((5, BATCH)), 0, BATCH, True),
    "traffic": lambda nest: _kernel.traffic(LAYER, nest, True),
    "neighbours": lambda nest: parts.all_neighbours(LAYER, SPACE, nest, 0),
    "chains": lambda nest: _kernel.Chains(LAYER, SPACE, [(1.0, _kernel.Metric.edp)], None, None, 0).start_at(nest)}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("array", [ORDER, SPATIAL_ORDER])
@pytest.mark.parametrize("wrong", [-1, 5, 63, 64, 255, 256, 2 ** 62])
def test_an_order_names_dimensions_of_the_layer(call: str, array: int, wrong: int) -> None:
    with pytest.raises(ValueError, match="not each dimension once"):
        CALLS[call](changed(array, wrong))


@pytest.mark.parametrize("call", CALLS)
def test_an_order_names_every_dimension(call: str) -> None:
    with pytest.raises(ValueError, match="not each dimension once"):
        CALLS[call](changed(ORDER, NEST[ORDER][0, 1, -1]))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("array", [TEMPORAL, SPATIAL])
@pytest.mark.parametrize("wrong", [0.5, 0, -2, -np.inf, np.nan])
def test_factors_are_at_least_1(call: str, array: int, wrong: float) -> None:
    with pytest.raises(ValueError, match="a factor below 1"):
        CALLS[call](changed(array, wrong))


def test_columns_that_are_not_asked_for_are_not_looked_at() -> None:
    _kernel.score(LAYER, changed(ORDER, -1), None, None, np.empty((5, BATCH)), 0, BATCH - 1, True)


@pytest.mark.parametrize("wrong", [2.0 ** 31, 2.0 ** 53, 1e300, np.inf])
def test_more_receivers_than_can_be_counted_make_a_mapping_illegal(wrong: float) -> None:
    out = np.empty((5, BATCH))
    _kernel.score(LAYER, changed(SPATIAL, wrong), None, None, out, 0, BATCH, True)
    assert not out[4, -1]
    assert _kernel.traffic(LAYER, changed(SPATIAL, wrong), True)[0].shape == (2, 3, BATCH)


WIRES: dict[str, Any] = {"kind": _kernel.InterconnectKind.Legacy, "level": 0, "reduces": True, "hop": 0.0,
                         "router": 0.0, "ingress": 0.0, "adder": 0.0, "transfers": []}


def with_level(**changed: Any) -> list[dict[str, Any]]:
    """The levels of the layer with constants of the innermost one replaced."""
    innermost, outermost = layer_table()["levels"]
    return [innermost | changed, outermost]


def with_space(**changed: Any) -> list[dict[str, Any]]:
    """The data spaces of the layer, with properties of the first one replaced."""
    first, *others = layer_table()["spaces"]
    return [first | changed, *others]


@pytest.mark.parametrize(("name", "wrong", "message"), [
    ("levels", [], "levels"), ("dims", 0, "dims"), ("dims", 65, "dims"),
    ("spaces", with_space(ranks=[[(5, 1.0)]]), "ranks"), ("spaces", with_space(ranks=[[(-1, 1.0)]]), "ranks"),
    ("spaces", with_space(dims=0), "dims"), ("spaces", with_space(dims=65), "dims"), ("spaces", [], "spaces"),
    ("spaces", with_space(dims=6), "spaces"), ("levels", with_level(gate=2), "gate"),
    ("levels", with_level(gate=-1), "gate"), ("levels", with_level(fanout_x=float("nan")), "fanout_x"),
    ("interconnects", [WIRES | {"level": 2}], "interconnects: level"),
    ("interconnects", [WIRES | {"transfers": [[]]}], "interconnects: transfers")])
def test_a_layer_is_refused_whose_tables_lead_out_of_others(name: str, wrong: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        layer_of(layer_table() | {name: wrong})


@pytest.mark.parametrize(("name", "wrong"), [
    ("held", [-1] * 6), ("interconnects", [WIRES | {"kind": 3}]), ("levels", with_level(leak="x")),
    ("units", [{}] * 3)])
def test_a_layer_is_refused_whose_tables_have_entries_of_another_type(name: str, wrong: Any) -> None:
    with pytest.raises(TypeError):
        layer_of(layer_table() | {name: wrong})


def test_fan_outs_beyond_the_range_of_the_type_are_as_good_as_no_limit() -> None:
    levels = layer_table()["levels"]
    wide = [layer_of(layer_table() | {"levels": [level | {"fanout_x": units, "fanout_y": units} for level in levels]})
            for units in (2 ** 30, 2 ** 53)]
    for few, many in zip(*(_kernel.traffic(layer, NEST, False) for layer in wide), strict=True):
        np.testing.assert_array_equal(few, many)


def spoiled(name: str, at: Any, value: Any) -> dict[str, Any]:
    """The map space with one number of a table replaced."""
    table = np.array(small_space()[name])
    table[at] = value
    return small_space() | {name: table}


@pytest.mark.parametrize("space", [
    pytest.param(small_space() | {"divisor": np.ones((5, width))}, id=f"width {width}") for width in (0, 2 ** 15)] + [
    pytest.param(spoiled(name, (0, 0, 0), value), id=f"{name} {value}")
    for name in ("quotient", "product") for value in (99, 2 ** 15 - 1)] + [
    pytest.param(spoiled("bound", 0, value), id=f"bound {value}") for value in (-1, 99)] + [
    pytest.param(spoiled("divisor", (0, 1), value), id=f"divisor {value}") for value in (0.5, np.nan)] + [
    pytest.param(spoiled("completable", (0, 0, 0, 1), True), id="completable"),
    pytest.param(small_space() | {"movable": [(4, 0)]}, id="place"),
    pytest.param(small_space() | {"movable": [(0, -1)]}, id="dimension"),
    pytest.param(small_space() | {"open": [(2, 0)]}, id="open"),
    pytest.param(small_space() | {"decisions": [(_kernel.Decision.ORDER, -1, 0)]}, id="level of a decision"),
    pytest.param(small_space() | {"orders": [[], [[0, 1, 2, 3, 4]]]}, id="no order"),
    pytest.param(small_space() | {"orders": [[[0, 1, 2, 3, 4]], [[0, 1, 2, 3, 5]]]}, id="order"),
    pytest.param(small_space() | {"layouts": [[], []]}, id="no layout"),
    pytest.param(small_space() | {"layouts": [[([0] * 5, [0] * 5)]] * 2}, id="layout")])
def test_a_map_space_is_refused_whose_tables_lead_out_of_others(space: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"out of range|wrong size"):
        space_of(LAYER, space)


def test_decisions_and_quantities_are_those_that_the_kernel_knows() -> None:
    with pytest.raises(TypeError):
        space_of(LAYER, small_space() | {"decisions": [(3, 0, 0)]})
    with pytest.raises(TypeError):
        _kernel.Chains(LAYER, SPACE, [(1.0, 5)], None, None, 0)  # type: ignore[list-item]


def test_a_map_space_is_refused_that_is_of_another_layer() -> None:
    table = layer_table()
    cells = ("bandwidth_scale", "held", "multicast", "linked", "first_written", "coalesced")
    fewer = layer_of(table | {"levels": table["levels"][:1], "units": table["units"][:2], "interconnects": [],
                              **{name: table[name][:3] for name in cells}})
    for call in (lambda: parts.random_points(fewer, SPACE, 1, 0),
                 lambda: parts.all_neighbours(fewer, SPACE, NEST, 0),
                 lambda: _kernel.Chains(fewer, SPACE, [(1.0, _kernel.Metric.edp)], None, None, 0)):
        with pytest.raises(ValueError, match=r"another layer|wrong shape"):
            call()


@pytest.mark.parametrize("sums", [(0.0, 1.0), (1.0, -1.0), (np.nan, 1.0)])
def test_shares_are_of_positive_sums(sums: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="sums"):
        _kernel.Chains(LAYER, SPACE, [(1.0, _kernel.Metric.share)], None, None, 0, sums=sums)


def test_a_search_cannot_keep_fewer_chains_than_none() -> None:
    chains = _kernel.Chains(LAYER, SPACE, [(1.0, _kernel.Metric.edp)], None, None, 0)
    chains.start_random(3)
    chains.keep_strongest(-1)
    assert chains.best_value < np.inf


@pytest.mark.parametrize(("name", "wrong"), [("start", 3), ("start", -1), ("left", 3), ("left", -1)])
def test_a_draw_of_factors_follows_no_number_out_of_its_table(name: str, wrong: int) -> None:
    tables: dict[str, Any] = {
        "divisor": np.ones((1, 1, 3)), "completable": np.ones((1, 2, 1, 3, 3), bool),
        "left": np.zeros((1, 1, 3, 3), np.int64), "start": np.zeros((1, 1), np.int64)}
    tables[name] = np.full_like(tables[name], wrong)
    with pytest.raises(ValueError, match="out of range"):
        _kernel.draw_columns(np.zeros((2, 1, 4)), None, 2.0, 1.0, np.zeros(4, np.int64), hard=np.zeros((2, 1, 4)),
                             slope=np.zeros((2, 1, 4)), **tables)


CHAINS: dict[str, Callable[[_kernel.Chains], Any]] = {
    "start_random": lambda chains: chains.start_random(1), "start_at": lambda chains: chains.start_at(NEST),
    "begin": lambda chains: chains.begin(1, 1.0, 1.0, 1, 1, 1, True), "anneal": lambda chains: chains.anneal(1),
    "keep_strongest": lambda chains: chains.keep_strongest(4), "start_again": lambda chains: chains.start_again(4),
    "polish": lambda chains: chains.polish(1), "history": lambda chains: chains.history(0),
    "best": lambda chains: chains.best(),
    **{name: lambda chains, name=name: getattr(chains, name)
       for name in ("agreed", "met", "best_value", "evaluations", "legal_evaluations")}}


@pytest.mark.parametrize("call", CHAINS)
def test_chains_are_used_by_one_call_at_a_time(call: str) -> None:
    refusal = ""
    with ThreadPoolExecutor(1) as pool:
        while not refusal:    # until the call falls into the time of the other thread's
            chains = _kernel.Chains(LAYER, SPACE, [(1.0, _kernel.Metric.edp)], None, None, 0)
            chains.start_random(4)
            chains.begin(400, 1.0, 0.1, 400, 5, 8, False)
            other = pool.submit(chains.anneal, 400)
            while not other.running() and not other.done():
                time.sleep(0)
            try:
                CHAINS[call](chains)
            except RuntimeError as error:
                refusal = str(error)
            other.exception()    # this thread's call may have come before it
    assert refusal == "in use by another call"
    CHAINS[call](chains)


@pytest.mark.filterwarnings("ignore:.*cast:RuntimeWarning")
def test_whatever_the_arguments_a_call_ends_with_a_result_or_an_exception() -> None:
    ended = attacked(cases=500, seed=1)
    assert ended["result"] > 100 < ended["ValueError"]


# Hops, for which only the outermost members of a column count

def hops_one_by_one(group: np.ndarray, width: int, height: int) -> list[float]:
    """By the definition in `kernel/receivers.hpp`."""
    middle, found = (height - 1) / 2, []
    for own in range(group.max() + 1):
        members = [divmod(e, width) for e in np.flatnonzero(group == own)]
        rows = [[down for down, across in members if across == column] for column in {across for _, across in members}]
        found.append(max((across for _, across in members), default=0)
                     + sum(max(0, middle - min(downs)) + max(0, max(downs) - middle) for downs in rows))
    return found


@pytest.mark.parametrize("seed", range(20))
def test_hops_are_those_of_their_definition(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width, height = rng.integers(1, 7, 2)
    count = rng.integers(1, width * height + 1)
    group = rng.integers(-1, min(count, 4), count)
    group[0] = max(group[0], 0)
    assert parts.count_hops(group, width, height).tolist() == hops_one_by_one(group, width, height)


def test_hops_over_a_long_column_are_counted_in_time_that_grows_with_its_length() -> None:
    count = 1 << 19
    hops = parts.count_hops(np.zeros(count, np.int64), 1, count)
    assert hops.tolist() == [count - 1]
