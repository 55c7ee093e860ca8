"""Rearrangements: folded into the operators around them, or copies of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fadiff_mapper import (
    FadiffError,
    NetworkOptions,
    SpecError,
    Workload,
    infer,
    load_network,
    map_network,
    save_network,
)
from fadiff_mapper.cli import main
from fadiff_mapper.output.network_files import plan_yaml
from fadiff_mapper.workload import Node, build_workload, coverage, make_operator

TPU = "bundled:inference/tpu_v4i_like"
ROWS, INNER, COLUMNS, CACHED = 24, 64, 32, 40


def product(name: str, source: str, rows: int, summed: int, columns: int) -> Node:
    layer = make_operator("gemm", {"N": rows, "C": summed, "M": columns, "P": 1, "Q": 1, "R": 1, "S": 1})
    return Node(name, "gemm", (source,), layer=layer, operands=("Inputs",))


def network() -> Workload:
    """Two products; in between columns are split, turned, put behind cached ones, and a part of all is taken."""
    return build_workload("turned", [
        Node("x", "input", shape=(ROWS, INNER)), Node("cached", "input", shape=(COLUMNS, CACHED)),
        product("first", "x", ROWS, INNER, COLUMNS), Node("split", "reshape", ("first",), (ROWS, 1, COLUMNS)),
        Node("joined", "reshape", ("split",), (ROWS, COLUMNS)),
        Node("turned", "transpose", ("joined",), (COLUMNS, ROWS), axes=(1, 0)),
        Node("all", "concat", ("cached", "turned"), (COLUMNS, CACHED + ROWS)),
        Node("part", "slice", ("all",), (COLUMNS, 16)), product("second", "part", COLUMNS, 16, 8)])


def test_they_are_folded_unless_asked_for_and_then_move_every_word_in_and_out() -> None:
    assert network().vector_operators() == ()
    assert network().rearrangements() == {"reshape": 2, "transpose": 1, "concat": 1, "slice": 1}
    moved = network().unfolded()
    words, whole = ROWS * COLUMNS, COLUMNS * (CACHED + ROWS)
    assert [(own.op, own.read, own.written, dict(own.operations)) for own in moved.vector_operators()] == [
        ("transpose", words, words, {}), ("concat", whole, whole, {}), ("slice", COLUMNS * 16, COLUMNS * 16, {})]
    assert moved.rearrangements() == {"reshape": 2}  # all elements stay where they are
    assert moved.links() == network().links() and moved.distinct() == network().distinct()


def test_repetition_and_padding_write_more_than_they_read() -> None:
    nodes = [Node("x", "input", shape=(1, INNER)), Node("again", "expand", ("x",), (ROWS, INNER), moves=True),
             product("first", "again", ROWS, INNER, COLUMNS),
             Node("padded", "pad", ("first",), (ROWS + 2, COLUMNS), moves=True)]
    found = build_workload("more", nodes).vector_operators()
    assert [(own.read, own.written) for own in found] == [(INNER, ROWS * INNER), (ROWS * COLUMNS, (ROWS + 2) * COLUMNS)]


def test_a_plan_charges_copies_on_units_and_says_what_is_folded() -> None:
    folded, moved = (map_network(each, TPU, NetworkOptions(threads=1, fuse=False)) for each in (
        network(), network().unfolded()))
    assert folded.operators == () and [own.node for own in moved.operators] == ["turned", "all", "part"]
    dram = 112.48  # pJ a word
    words = 2 * (ROWS * COLUMNS + COLUMNS * (CACHED + ROWS) + COLUMNS * 16)
    assert moved.joined.energy_pj > dram * words
    assert moved.stats.energy_pj == pytest.approx(folded.stats.energy_pj + moved.joined.energy_pj)
    assert "5 rearrangements are folded into their neighbours (2 reshape, 1 transpose, 1 concat, 1 slice)" in (
        coverage(network(), units=True).free_words)
    assert "folded_into_neighbours" in plan_yaml(moved)
    assert coverage(network().unfolded()).as_dict()["folded_into_neighbours"] == {"reshape": 2}


def test_a_network_file_says_which_ones_are_copies(tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    save_network(build_workload("net", [
        Node(**{**vars(node), "moves": node.op == "transpose"}) for node in network().nodes]), file)
    assert [own.node for own in load_network(file).vector_operators()] == ["turned"]
    assert [own.node for own in load_network(file, fold=False).vector_operators()] == ["turned", "all", "part"]
    file.write_text(file.read_text().replace("moves: true", "moves: some"))
    with pytest.raises(SpecError, match=r"net.yaml:.*workload.graph\[3\].moves: found a string \('some'\)"):
        load_network(file)
    file.write_text(file.read_text().replace("moves: some", "moves: true").replace("op: transpose", "op: reshape"))
    with pytest.raises(SpecError, match=r"workload.graph\[3\]"):  # no element changes its place
        load_network(file)


def test_the_switch_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_network(network(), tmp_path / "net.yaml")
    told = {}
    for flag in ([], ["--no-folding"]):
        assert main(["network", str(tmp_path / "net.yaml"), TPU, "-o", str(tmp_path / f"out{len(flag)}"), *flag]) == 0
        told[bool(flag)] = " ".join(capsys.readouterr().out.split())
    assert "5 rearrangements are folded into their neighbours (2 reshape," in told[False]
    assert "0 operations of 3 operators; 2 rearrangements are folded into their neighbours (2 reshape)" in told[True]


def test_an_inference_without_folding_copies_the_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 512, "vocab_size": 1000, "max_position_embeddings": 1024}
    folded, moved = (infer(tiny, TPU, prompt=256, generate=2, fold=fold) for fold in (True, False))
    copies = {share.operator for share in moved.operators} - {share.operator for share in folded.operators}
    assert {"keys.all", "values.all", "attention.keys", "attention.q.heads"} <= copies
    assert set(folded.folded) == {"reshape", "transpose", "slice", "concat"} and set(moved.folded) == {"reshape"}
    at = next(share for share in moved.operators if share.operator == "keys.all")
    assert at.outermost_words == 2 * 2 * 256 * 256  # in and out, of both layers
    assert moved.batches[0].seconds > folded.batches[0].seconds
    with pytest.raises(FadiffError, match="serving_profile: found fold=False; accepted: fold=True"):
        infer(tiny, TPU, prompt=256, generate=2, fold=False, serving_profile=True, output=tmp_path / "out")
    assert main(["infer", "bundled:models/llama3_8b", TPU, "-o", str(tmp_path / "out"), "--no-folding",
                 "--serving-profile"]) == 2
    assert capsys.readouterr().err.count("\n") == 1 and not (tmp_path / "out").exists()
