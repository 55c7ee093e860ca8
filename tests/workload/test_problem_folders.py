"""Folders of Timeloop problems and a file of edges as networks."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from made_graphs import bundled_network, link

from fadiff_mapper import SpecError, load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.workload.readers.network_text import network_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, layer in (("first", "conv3x3_64_64_56_s1"), ("second", "conv3x3_64_128_28_s2")):
        shutil.copy(bundled_files.find(f"layers/resnet18/{layer}"), tmp_path / f"{name}.yaml")
    return tmp_path


def test_a_folder_of_problems_and_edges_is_a_network(folder: Path) -> None:
    (folder / "edges.yaml").write_text("network: {name: two, edges: [{from: first, to: second}]}\n")
    found = load_network(folder)
    listed = link(bundled_network("resnet18"), "layer1.1.conv2", "layer2.0.conv1")
    assert link(found, "first", "second").axes == listed.axes
    (folder / "net.yaml").write_text(network_text(found))
    assert load_network(folder / "net.yaml") == found


def test_a_folder_may_use_a_file_twice_and_name_axes(folder: Path) -> None:
    (folder / "edges.yaml").write_text(
        "network:\n  layers: [{name: a, problem: first.yaml}, {name: b, problem: first.yaml}]\n"
        "  edges: [{from: a, to: b, as: Inputs, axes: {C: M, P: Q, Q: P}}]\n")
    found = load_network(folder)
    assert [entry.nodes for entry in found.distinct()] == [("a", "b")]
    assert [(axis.dimension, axis.producer) for axis in link(found, "a", "b").axes] == [
        ("C", "M"), ("P", "Q"), ("Q", "P")]


@pytest.mark.parametrize(("edge", "message"), [
    ("{from: first, to: third}", r"found a string \('third'\).*accepted: first, second"),
    ("{from: second, to: first}", "Inputs has 64 along C, the tensor 1 x 128 x 28 x 28 has 128"),
    ("{from: first, to: second, as: Input}", 'no operand "Input" .did you mean "Inputs"'),
    ("{from: first, to: second, axes: {C: P}}", "axes: with the tensor's dimension for each of them"),
    ("{from: first, to: second, axes: {K: M}}", "found K: M; accepted: one of N, C, P, Q")])
def test_a_wrong_edge_is_named(folder: Path, edge: str, message: str) -> None:
    (folder / "edges.yaml").write_text(f"network:\n  edges:\n  - {edge}\n")
    with pytest.raises(SpecError, match=message):
        load_network(folder)


def test_a_file_that_is_missing_is_told_where_it_is_named(folder: Path) -> None:
    (folder / "edges.yaml").write_text("network:\n  layers:\n  - {name: a, problem: frist.yaml}\n  edges: []\n")
    with pytest.raises(SpecError, match=r"edges\.yaml:3: network\.layers\[0\]\.problem: there is no file .frist\.yaml. "
                                        r"\(did you mean .first\.yaml.\?\); accepted: the name of a file in the same"):
        load_network(folder)


BROKEN_EDGES = {
    "empty": "", "nothing": "null", "text": "network", "a list": "- network", "cut off": "network: {edges: [{from: fir",
    "no network": "edges: []", "network of nothing": "network:", "network of a list": "network: [{from: first}]",
    "network of a number": "network: 3", "edges of a mapping": "network: {edges: {from: first, to: second}}",
    "edges of text": "network: {edges: first}", "an edge of nothing": "network: {edges: [null]}",
    "an edge of a list": "network: {edges: [[first, second]]}", "an edge of text": "network: {edges: [first]}",
    "an edge from nowhere": "network: {edges: [{to: second}]}",
    "an edge to nowhere": "network: {edges: [{from: first}]}",
    "an edge from a list": "network: {edges: [{from: [first], to: second}]}",
    "an edge to itself": "network: {edges: [{from: first, to: first}]}",
    "a circle": "network: {layers: [{name: a, problem: first.yaml}, {name: b, problem: first.yaml}], "
                "edges: [{from: a, to: b, axes: {C: M, P: Q, Q: P}}, {from: b, to: a, axes: {C: M, P: Q, Q: P}}]}",
    "an edge twice": "network: {edges: [{from: first, to: second}, {from: first, to: second}]}",
    "an unknown key of an edge": "network: {edges: [{from: first, to: second, over: C}]}",
    "an operand of a list": "network: {edges: [{from: first, to: second, as: [Inputs]}]}",
    "axes of a list": "network: {edges: [{from: first, to: second, axes: [C, M]}]}",
    "axes of lists": "network: {edges: [{from: first, to: second, axes: {C: [M]}}]}",
    "axes of nothing": "network: {edges: [{from: first, to: second, axes: {C: null}}]}",
    "one axis for two": "network: {edges: [{from: first, to: second, axes: {C: P, P: P}}]}",
    "no layers": "network: {layers: [], edges: []}", "layers of text": "network: {layers: first}",
    "a layer of text": "network: {layers: [first]}", "a layer without problem": "network: {layers: [{name: a}]}",
    "a layer without name": "network: {layers: [{problem: first.yaml}]}",
    "a layer twice": "network: {layers: [{name: a, problem: first.yaml}, {name: a, problem: first.yaml}]}",
    "a problem elsewhere": "network: {layers: [{name: a, problem: ../first.yaml}]}",
    "a problem that is missing": "network: {layers: [{name: a, problem: third.yaml}]}",
    "the folder as problem": "network: {layers: [{name: a, problem: .}]}",
    "itself as problem": "network: {layers: [{name: a, problem: edges.yaml}]}",
    "no repetition": "network: {layers: [{name: a, problem: first.yaml, repeat: 0}]}",
    "repeated without end": "network: {layers: [{name: a, problem: first.yaml, repeat: 1e99}]}",
}


@pytest.mark.parametrize("broken", BROKEN_EDGES)
def test_a_broken_file_of_edges_ends_in_lines_that_name_it(broken: str, folder: Path) -> None:
    (folder / "edges.yaml").write_text(BROKEN_EDGES[broken])
    with pytest.raises(SpecError) as caught:
        load_network(folder)
    assert all(line.startswith(str(folder)) for line in str(caught.value).splitlines())


def test_edges_without_their_problems_end_in_a_line(tmp_path: Path) -> None:
    (tmp_path / "edges.yaml").write_text("network: {edges: []}")
    with pytest.raises(SpecError, match="edges"):
        load_network(tmp_path)
