"""ONNX files are read without their weights: the same network, in the memory of the graph alone."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("onnx")

import onnx
import onnx_networks
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from fadiff_mapper import FadiffError, SpecError, load_network
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.readers import onnx_file
from fadiff_mapper.workload.readers.onnx_file import VALUES, read_thin
from fadiff_mapper.workload.readers.onnx_shapes import SMALL

MIB = 1 << 20


def varint(value: int) -> bytes:
    """A number of the format, seven bits a byte."""
    return bytes([value & 127 | 128]) + varint(value >> 7) if value >= 128 else bytes([value])


def field(number: int, content: bytes, length: int | None = None) -> bytes:
    """A field of stated length, of which the last part may be missing."""
    return varint(number << 3 | 2) + varint(len(content) if length is None else length) + content


def thin(folder: Path, data: bytes) -> onnx.ModelProto:
    path = folder / "model.onnx"
    path.write_bytes(data)
    return read_thin(path, Where(str(path)))


def small_model() -> onnx.ModelProto:
    """Constants of all sizes around the limit, kept and skipped fields, a graph in a graph."""
    constants = [helper.make_tensor(name, TensorProto.INT64, [size], range(size))
                 for name, size in (("few", 2), ("most", SMALL), ("many", SMALL + 1))]
    raw = helper.make_tensor("raw", TensorProto.FLOAT, [64, 64], bytes(64 * 64 * 4), raw=True)
    inner = helper.make_graph([helper.make_node("Identity", ["few"], ["y"], doc_string="said")], "inner", [],
                              [helper.make_tensor_value_info("y", TensorProto.INT64, [2])], [raw])
    node = helper.make_node("If", ["c"], ["z"], then_branch=inner, else_branch=inner, floats=[0.5, -2.0], negative=-7)
    stated = helper.make_node("Constant", [], ["w"], value=raw)
    graph = helper.make_graph([node, stated], "outer", [helper.make_tensor_value_info("c", TensorProto.BOOL, ["n"])],
                              [helper.make_tensor_value_info("z", TensorProto.INT64, [2])], [*constants, raw])
    return helper.make_model(graph, doc_string="long" * 1000)


def lightened(message: object) -> None:
    """Clears what is skipped, in a message and all that lie in it, by other means than the reader's."""
    if isinstance(message, onnx.TensorProto) and math.prod(message.dims) > SMALL:
        for name in VALUES:
            message.ClearField(name)
    for name in ("doc_string", "metadata_props"):
        if name in message.DESCRIPTOR.fields_by_name:
            message.ClearField(name)
    for kind, value in message.ListFields():
        if kind.message_type is not None:
            for inner in value if kind.is_repeated else [value]:
                lightened(inner)


@pytest.mark.parametrize("build", [small_model, onnx_networks.resnet18, onnx_networks.gpt3_6b7_block])
def test_all_but_weights_and_documentation_is_read(build: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    model = build()
    found = thin(tmp_path, model.SerializeToString())
    lightened(model)
    assert found == model


def test_a_file_of_more_than_a_gibibyte_of_weights_takes_the_memory_of_its_graph(tmp_path: Path) -> None:
    weights = 20_000 * 16_000 * 4
    tensor = onnx.TensorProto(name="large", data_type=TensorProto.FLOAT, dims=[20_000, 16_000]).SerializeToString()
    values = field(9, b"", weights)
    constant = field(5, tensor + values, len(tensor) + len(values) + weights)
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.write(onnx_networks.resnet18().SerializeToString() + field(7, constant, len(constant) + weights))
        file.truncate(file.tell() + weights)  # a hole, which takes no room on disk
    assert path.stat().st_size > 1 << 30
    # VmHWM is the peak of this program alone; ru_maxrss would count the process that started it.
    code = ("import re, sys\nfrom fadiff_mapper import load_network\nprint(load_network(sys.argv[1]).macs, "
            "re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])")
    said = subprocess.run([sys.executable, "-c", code, str(path)], check=True, capture_output=True, text=True).stdout
    macs, kibibytes = map(int, said.split())
    assert macs == load_network("bundled:networks/resnet18").macs
    assert kibibytes < 300 * 1024


@pytest.mark.parametrize("content", [
    pytest.param(field(7, field(1, b"") * 5000), id="nodes"),
    pytest.param(field(7, field(1, field(5, b"") * 5000)), id="attributes"),
    pytest.param(field(7, field(13, b"") * 5000), id="values"),
    pytest.param(field(8, b"") * 5000, id="operator sets"),
    pytest.param(field(7, field(1, field(5, field(8, bytes(100_000))))), id="numbers"),
    pytest.param(field(7, field(1, field(1, b"") * 20_000)), id="names"),
    pytest.param(field(7, field(2, b"x" * 5_000_000)), id="text")])
def test_a_graph_that_would_take_much_memory_is_refused(content: bytes, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx_networks.resnet18().SerializeToString()
    monkeypatch.setattr(onnx_file.MemoryLeft.__init__, "__defaults__", (4 * MIB, onnx_file.FIELDS, onnx_file.STEPS))
    assert thin(tmp_path, model).graph.node
    with pytest.raises(SpecError, match="MiB of memory without its weights"):
        thin(tmp_path, model + content)


def test_a_graph_of_very_many_fields_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file.MemoryLeft.__init__, "__defaults__", (onnx_file.MEMORY, 1000, onnx_file.STEPS))
    thin(tmp_path, bytes((32, 32)) * 1000)  # its version as a number, again and again
    with pytest.raises(SpecError, match="fields without its weights"):
        thin(tmp_path, bytes((32, 32)) * 1001)


@pytest.mark.parametrize("skipped", [
    pytest.param(field(6, b"") * 5000, id="documentation"), pytest.param(field(14, b"") * 5000, id="metadata"),
    pytest.param(field(7, field(10, b"") * 5000), id="documentation of the graph"),
    pytest.param(field(7, field(5, field(2, bytes([TensorProto.STRING])) + field(6, b"") * 9000)), id="texts"),
    pytest.param((varint(999 << 3) + b"\xff" * 9 + b"\x01") * 1000, id="unknown fields")])
def test_skipped_fields_are_counted_as_well(skipped: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = onnx_networks.resnet18().SerializeToString()
    monkeypatch.setattr(onnx_file.MemoryLeft.__init__, "__defaults__", (onnx_file.MEMORY, onnx_file.FIELDS, 10_000))
    assert thin(tmp_path, model).graph.node
    with pytest.raises(SpecError, match="MiB of numbers, lengths and names of fields"):
        thin(tmp_path, model + skipped)


@pytest.mark.parametrize("start", [b"", field(7, b"", 1_900_000_000)], ids=["a hole", "a graph that is a hole"])
def test_a_large_file_of_nothing_is_refused_at_once(start: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(start)
    os.truncate(path, 1_900_000_000 + len(start))
    begun = time.process_time()
    with pytest.raises(SpecError, match="is no ONNX model"):
        read_thin(path, Where(str(path)))
    assert time.process_time() - begun < 1


def test_messages_may_lie_within_one_another_as_deep_as_in_protobuf_itself(tmp_path: Path) -> None:
    def nested(times: int) -> bytes:
        content = b""
        for _ in range(times):  # a graph in an attribute of a node
            content = field(1, field(5, field(6, content)))
        return field(7, content)
    assert thin(tmp_path, nested(30)) == onnx.ModelProto.FromString(nested(30))
    with pytest.raises(SpecError, match="is no ONNX model"):
        thin(tmp_path, nested(40))


@given(cut=st.integers(0, 10_000), flipped=st.integers(0, 80_000))
def test_cut_and_damaged_files_are_read_as_protobuf_reads_them_or_refused(tmp_path_factory: pytest.TempPathFactory,
                                                                         cut: int, flipped: int) -> None:
    data = bytearray(small_model().SerializeToString()[:cut])
    if data:
        data[flipped // 8 % len(data)] ^= 1 << flipped % 8
    folder = tmp_path_factory.mktemp("damaged")
    try:
        found = thin(folder, bytes(data))
    except FadiffError as error:
        assert "is no ONNX model" in str(error)
    else:
        assert found.IsInitialized()
