"""Tensors that joins read besides the one that flows on: those that no operator accounts for, and no others."""

from __future__ import annotations

import pytest

from fadiff_mapper.workload import Node, build_workload, make_operator
from fadiff_mapper.workload.producer_consumer import OtherInput, other_inputs

WIDE = (4, 16)


def product(name: str, source: str, columns: int = 16) -> Node:
    dims = {"N": 4, "M": columns, "C": 16, "P": 1, "Q": 1, "R": 1, "S": 1}
    return Node(name, "gemm", (source,), layer=make_operator("gemm", dims), operands=("Inputs",))


def found(*nodes: Node) -> list[OtherInput]:
    return list(other_inputs(build_workload("net", [Node("x", "input", shape=WIDE), *nodes]).nodes))


def test_a_residual_sum_reads_the_tensor_around_the_block() -> None:
    assert found(product("a", "x"), Node("s", "add", ("a", "x"))) == [OtherInput("s", "x", 64)]
    assert found(product("a", "x"), Node("s", "add", ("x", "a"))) == [OtherInput("s", "x", 64)]


def test_every_further_residual_is_read_again() -> None:
    assert found(product("a", "x"), Node("s", "add", ("x", "a")), product("b", "s"), Node("t", "add", ("s", "b")),
                 Node("u", "relu", ("t",)), product("c", "u"), Node("v", "add", ("u", "c"))) == [
        OtherInput("s", "x", 64), OtherInput("t", "s", 64), OtherInput("v", "u", 64)]


def test_of_two_projections_one_is_read_besides() -> None:
    assert found(product("gate", "x"), product("up", "x"), Node("a", "silu", ("gate",)),
                 Node("m", "mul", ("a", "up")), product("down", "m")) == [OtherInput("m", "up", 64)]


@pytest.mark.parametrize("joined", [
    [Node("s", "sigmoid", ("a",)), Node("m", "mul", ("a", "s"))],
    [Node("u", "mean", ("a",), axes=(-1,), shape=(4, 1)), Node("m", "sub", ("a", "u"))],
    [Node("r", "gather", ("a",), WIDE, axes=(1,)), Node("c", "sin", ("r",)), Node("m", "add", ("a", "c"))],
    [Node("m", "mul", ("a",))], [Node("m", "add", ("a", "a"))]])
def test_what_is_computed_from_the_tensor_that_flows_on_is_not_read_besides(joined: list[Node]) -> None:
    assert found(product("a", "x"), *joined, product("b", "m")) == []


def test_a_factor_counts_the_words_that_it_has_before_it_is_repeated() -> None:
    column = product("g", "x", columns=1)
    assert found(column, Node("m", "mul", ("x", "g"))) == [OtherInput("m", "g", 4)]
    repeated = Node("e", "expand", ("g",), WIDE)
    assert found(column, repeated, Node("m", "mul", ("x", "e"))) == [OtherInput("m", "e", 4)]
