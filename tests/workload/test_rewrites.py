"""Networks rewritten: products that share a factor become one, and norms that are written out get their name."""

from __future__ import annotations

from made_graphs import product

from fadiff_mapper.workload import Node
from fadiff_mapper.workload.rewrites import with_named_norms, with_shared_operands

X = Node("x", "input", shape=(2, 8))
ROOT = (Node("square", "mul", ("x", "x")), Node("mean", "mean", ("square",), axes=(1,)),
        Node("root", "rsqrt", ("mean",)), Node("y", "mul", ("root", "x")))


def test_a_root_mean_square_that_nothing_else_reads_is_a_norm() -> None:
    _, norm = with_named_norms((X, *ROOT), ["y"])
    assert (norm.name, norm.op, norm.inputs, norm.axes) == ("y", "rmsnorm", ("x",), (1,))


def test_a_norm_stays_written_out_where_one_of_its_nodes_is_read_or_returned() -> None:
    read = (X, *ROOT, Node("z", "relu", ("mean",)))
    assert with_named_norms(read, ["y", "z"]) == read
    assert with_named_norms((X, *ROOT), ["y", "mean"]) == (X, *ROOT)


def test_a_difference_to_the_mean_makes_it_a_layernorm() -> None:
    nodes = (X, Node("centre", "mean", ("x",), axes=(1,)), Node("apart", "sub", ("x", "centre")),
             Node("square", "square", ("apart",)), Node("variance", "mean", ("square",), axes=(1,)),
             Node("deviation", "sqrt", ("variance",)), Node("y", "div", ("apart", "deviation")))
    _, norm = with_named_norms(nodes, ["y"])
    assert (norm.name, norm.op, norm.inputs) == ("y", "layernorm", ("x",))


def repeated(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[Node, ...]:
    """Six products of 5 x 8 times 8 x 4, whose right factors are repeated from two or three different ones."""
    return with_shared_operands((
        Node("queries", "input", shape=(6, 5, 8)), Node("keys", "input", shape=before),
        Node("again", "expand", ("keys",), after), Node("heads", "reshape", ("again",), (6, 8, 4)),
        product("scores", "queries", "heads", n=5, c=8, m=4, repeat=6)), ["scores"])


def test_products_that_share_a_factor_are_one_over_all_their_rows() -> None:
    *before, scores = repeated((2, 1, 8, 4), (2, 3, 8, 4))
    assert scores.layer is not None
    assert (scores.layer.repeat, scores.layer.problem.bounds["N"]) == (2, 15)
    assert "again" not in {node.name for node in before}
    assert before[-1].shape == (2, 8, 4) and scores.inputs == ("queries", before[-1].name)


def test_factors_that_take_turns_stay_apart() -> None:
    """Repeated as a whole, the factors of neighbouring products differ."""
    *before, scores = repeated((1, 3, 8, 4), (2, 3, 8, 4))
    assert scores.layer is not None and scores.layer.repeat == 6
    assert [node.name for node in before] == ["queries", "keys", "again", "heads"]
