"""Networks as graphs: layers that are the same, totals, chains, and networks that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_graphs import MACS, bundled_network, conv, network, pool, product

from fadiff_mapper import SpecError, load, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.workload import Node, build_workload
from fadiff_mapper.workload.node import KINDS
from fadiff_mapper.workload.readers.network_text import network_text

SHARED = Path(__file__).resolve().parents[3] / "shared" / "workloads"


@pytest.mark.parametrize("name", MACS)
def test_a_bundled_network_has_its_published_multiply_accumulates_and_distinct_layers(name: str) -> None:
    found = bundled_network(name)
    assert (found.macs, len(found.distinct()), len(found.layers)) == MACS[name]
    assert sum(entry.macs for entry in found.distinct()) == found.macs


@pytest.mark.parametrize("name", MACS)
def test_the_distinct_problems_are_those_of_the_layer_files(name: str) -> None:
    arch = bundled_files.find("arch/gemmini_small")
    files = [load(arch, path).problem for path in (bundled_files.ROOT / "layers" / name).iterdir()]
    found = [entry.layer.problem for entry in bundled_network(name).distinct()]
    assert all(problem in files for problem in found) and len(found) == len(files)


@pytest.mark.parametrize("name", MACS)
def test_a_written_network_loads_to_the_same_graph(name: str, tmp_path: Path) -> None:
    found = bundled_network(name)
    (tmp_path / "network.yaml").write_text(network_text(found))
    assert load_network(tmp_path / "network.yaml") == found


@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared networks are not here")
@pytest.mark.parametrize("name", MACS)
def test_a_network_file_without_windows_and_input_shapes_has_the_same_layers(name: str) -> None:
    found = load_network(SHARED / f"{name}.yaml")
    assert found.distinct() == bundled_network(name).distinct()
    assert {item.obstacle.name for item in found.links() if item.obstacle} <= {"window", "repeat"}


def test_nodes_come_after_their_inputs_with_shapes_and_operands() -> None:
    nodes = {node.name: node for node in bundled_network("gpt3_6b7_block").nodes}
    order = list(nodes)
    assert all(order.index(tensor) < order.index(name) for name, node in nodes.items() for tensor in node.inputs)
    product = nodes["av"]
    assert product.inputs[1] == "v_proj" and product.operands[1] == "Weights"
    assert nodes["v_proj"].shape == (2048, 4096) and nodes["softmax"].op == "softmax"


def test_the_totals_are_the_product_of_two_sums_over_all_runs() -> None:
    found = bundled_network("gpt3_6b7_block")
    costs = [(2.0 * index, 3 + index) for index in range(5)]
    times = [entry.times for entry in found.distinct()]
    assert times == [4, 32, 32, 1, 1]
    energy, cycles = (sum(t * cost[part] for t, cost in zip(times, costs, strict=True)) for part in (0, 1))
    totals = found.totals(costs)
    assert (totals.energy_pj, totals.cycles, totals.edp) == (energy, cycles, energy * cycles)


def test_problems_are_timeloop_input() -> None:
    (first, *_) = bundled_network("resnet18").problems()
    assert load({"architecture": {"version": 0.4, "subtree": [{"name": "s", "local": [
        {"name": "mem", "class": "DRAM", "attributes": {"width": 8, "datawidth": 8}},
        {"name": "mac", "class": "intmac", "attributes": {"datawidth": 8}}]}]}, **first}).problem.computes == 118013952


def test_layers_that_differ_in_name_and_padding_only_are_mapped_once_and_others_are_not() -> None:
    found = network(conv("a", "x", 4, 4, 8, 3, pad=((1, 1), (1, 1))), conv("b", "a", 4, 4, 8, 3),
                    conv("c", "b", 4, 4, 8), conv("d", "c", 4, 4, 4, 1, 2))
    assert [entry.nodes for entry in found.distinct()] == [("a", "b"), ("c",), ("d",)]


@pytest.mark.parametrize(("nodes", "message"), [
    ((), r"the network has no layer \(nodes: input\)"),
    ((conv("a", "b", 4, 4, 8), conv("b", "a", 4, 4, 8)), "cycle: a -> b -> a"),
    ((conv("a", "x", 4, 4, 8), conv("a", "x", 4, 4, 8)), 'two nodes called "a"'),
    ((conv("long", "x", 4, 4, 8), conv("b", "lung", 4, 4, 8)), 'reads "lung", which no node .* mean "long"'),
    ((conv("a", "x", 8, 4, 8),), "a: Inputs has 8 along C, the tensor 1 x 4 x 8 x 8 has 4"),
    ((conv("a", "x", 4, 4, 20),), "a: Inputs needs 20 along P, the tensor has 8 with any usual padding"),
    ((conv("a", "x", 4, 4, 8, 3, pad=((0, 0), (1, 1))),), r"a: Inputs needs 10 along P, the tensor has 8 with padding"),
    ((product("a", "x", n=1, c=100, m=1),), "a: Inputs is 1 x 100, 100 elements, the tensor 1 x 4 x 8 x 8 has 256"),
    ((conv("a", "x", 4, 2, 8), Node("s", "add", ("a", "x"))), "joins tensors that do not fit"),
    ((conv("a", "x", 4, 4, 8), Node("s", "add", ("a", "x"), (1, 256))), "said to be 1 x 256, its operands make it"),
    ((conv("a", "x", 4, 4, 8), Node("t", "transpose", ("a",), axes=(0, 1))), "do not reorder a tensor of"),
    ((conv("a", "x", 4, 4, 8), Node("s", "softmax", ("a",), axes=(4,))), "axes .4. of a tensor with 4 axes"),
    ((conv("a", "x", 4, 4, 8), Node("r", "relu", ("a",), (1, 4, 8, 9))), "is said to be 1 x 4 x 8 x 9"),
    ((conv("a", "x", 4, 4, 8), Node("r", "reshape", ("a",))), "r: a reshape does not say what to"),
    ((conv("a", "x", 4, 4, 8), pool("p", "a", 9, 1)), "a window of 9 does not fit into 8")])
def test_a_network_that_cannot_be_is_refused_in_one_line(nodes: tuple[Node, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        network(*nodes)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(("old", "new", "message"), [
    ("from: [conv1]", "from: [conv2]", r":\d+: workload.graph\[1\]: .*which no node writes"),
    ("op: avgpool", "op: avgpol", r'workload.graph\[\d+\].op: found a string .*did you mean "avgpool"'),
    ("shape: fc_512_1000,", "shape: fc_512_100,", 'there is no shape "fc_512_100"'),
    ("count: 4", "count: 5", "count is 5, the graph has 4 of it"),
    ("M: 1000, C: 512", "M: 1000, C: 513", "fc: Inputs is 1 x 513"),
    ("M: 1000, C: 512", "M: 1000, D: 512", 'workload.shapes.11..dims.* "C" has no bound'),
    ("stride: [1, 1], dilation", "stride: [1], dilation", r"shapes.1..stride: found 1 numbers; accepted: .along P"),
    ("version: 1", "version: 2", "found version 2; accepted: 1"),
    ("kernel: [3, 3], stride", "kernels: [3, 3], stride", 'unknown key "kernels".*did you mean "kernel"')])
def test_a_mistake_in_a_network_file_is_named_with_its_place(old: str, new: str, message: str, tmp_path: Path) -> None:
    text = bundled_files.find("networks/resnet18").read_text()
    assert old in text
    (tmp_path / "net.yaml").write_text(text.replace(old, new, 1))
    with pytest.raises(SpecError, match=message):
        load_network(tmp_path / "net.yaml")


def test_a_file_of_another_kind_is_no_network_file() -> None:
    with pytest.raises(SpecError, match=r"is no network file \(found: architecture\); accepted: workload:, an ONNX"):
        load_network("bundled:arch/gemmini_small")


def test_every_operator_has_one_kind() -> None:
    names = [op for ops in KINDS.values() for op in ops]
    assert len(names) == len(set(names))


def test_import_prints_what_it_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out" / "vgg16.yaml"
    assert main(["import", "bundled:networks/vgg16", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "vgg16: 22 nodes, 16 layers, 12 distinct, 15,470,264,320 multiply-accumulates" in printed
    assert load_network(out) == bundled_network("vgg16")


MOST = 2**53


@pytest.mark.parametrize(("node", "number"), [
    (Node("odd", "not_understood", ("fc",), (4, 8), what="spectrum", macs=MOST + 1), MOST + 1),
    (Node("odd", "other", ("fc",), (2 * MOST, 8), what="spread"), 2 * MOST),
    (pool("odd", "fc", 4 * MOST, 1), 4 * MOST)])
def test_numbers_that_no_network_file_may_have_are_refused(node: Node, number: int) -> None:
    with pytest.raises(SpecError, match=rf"odd \(\w+\) has the number {number}; accepted: at most 2\^53"):
        build_workload("large", [Node("x", "input", shape=(4, 8)), product("fc", "x", n=4, c=8, m=8), node])


def test_multiply_accumulates_that_a_node_may_well_have_count_as_many_as_a_file_may_say(tmp_path: Path) -> None:
    found = build_workload("large", [Node("x", "input", shape=(4, 8)), product("fc", "x", n=4, c=8, m=8),
                                     Node("odd", "not_understood", ("fc",), (4, 8), what="spectrum", possible=2**60)])
    assert [node.possible for node in found.not_understood()] == [MOST]
    (tmp_path / "network.yaml").write_text(network_text(found))
    assert load_network(tmp_path / "network.yaml") == found
