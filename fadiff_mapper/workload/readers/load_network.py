"""Reads networks of every kind: finds the reader for a source, and imports only the framework that it needs."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError, listed
from fadiff_mapper.base.extras import installed
from fadiff_mapper.base.rare_collections import rare_collections
from fadiff_mapper.inputs.yaml.located import Map, known, with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload import Workload, build_workload
from fadiff_mapper.workload.rewrites import spread_over

REFUSED = (".py", ".pt", ".pth", ".pt2", ".pkl", ".pickle", ".torchscript", ".h5", ".keras", ".pb", ".tflite")
"""Suffixes of files that run code when they are opened, or whose format is not known here."""

ACCEPTED = ("a network file (YAML), a folder of Timeloop problems with edges.yaml, an ONNX model (.onnx), "
            f"or {bundled_files.PREFIX}networks/NAME")


@rare_collections()
def load_network(source: Any, example_inputs: Sequence[Any] | None = None, *,
                 example_kwargs: Mapping[str, Any] | None = None, dims: Mapping[str, int] | None = None,
                 shapes: Mapping[str, Sequence[int]] | None = None, values: Mapping[str, int] | None = None,
                 busy_experts: int | None = None, name: str | None = None,
                 bits: Mapping[str, Any] | str | None = None, fold: bool = True) -> Workload:
    """Reads a network. Files are data: weights are not read, nothing is executed.

    Args:
        source: a path (a network file, a folder of Timeloop problems with `edges.yaml`, an ONNX model, or
            "bundled:networks/NAME"), an `onnx.ModelProto`, a `torch.nn.Module` or a `torch.export.ExportedProgram`.
        example_inputs: for a module, its positional arguments, or a tensor if it is the only argument; they fix all
            shapes. The module is exported, not run, so tensors on the "meta" device are enough.
        example_kwargs: for a module, its keyword arguments.
        dims: for an ONNX model, numbers for the named dimensions of its inputs.
        shapes: for an ONNX model, whole shapes of inputs by name.
        values: for an ONNX model, values of inputs on which conditions or shapes depend, by name.
        busy_experts: for a network with mixtures of experts, the number of experts over which rows are spread evenly;
            by default as a file states, and for a module all experts.
        name: name of the network; by default the name of the file, graph or class.
        bits: bits of an element by tensor of the layers' problems (see `load`), in place of those in a file; or
            "auto", as the types of a PyTorch module or ONNX model say.
        fold: Whether rearrangements (transposes, slices, concatenations, repetitions, padding) are folded into the
            operators around them; else each is a copy, which costs time on compute units (`Workload.unfolded`).

    Returns:
        The checked network.

    Raises:
        SpecError: a mistake in the source, with its place.
        FadiffError: a source of another kind, or an argument that does not apply to the source.
    """
    if not (bits is None or bits == "auto" or isinstance(bits, Mapping)):
        raise FadiffError(f"bits: found {bits}; accepted: bits of an element by tensor, or auto")
    for key, shape in (shapes or {}).items():
        if not all(isinstance(size, int) and size > 0 for size in shape):
            raise FadiffError(f"shapes: found {key}: {list(shape)}; accepted: whole numbers >= 1")
    example = {"example_inputs": example_inputs, "example_kwargs": example_kwargs}
    onnx = {"dims": dims or {}, "shapes": {key: tuple(shape) for key, shape in (shapes or {}).items()},
            "values": values or {}}
    network = _read(source, example, onnx, busy_experts, name, bits == "auto")
    if isinstance(bits, Mapping):
        network = with_bits(network, with_places(dict(bits), Where("bits")))
    return network if fold else network.unfolded()


def _read(source: Any, example: Mapping[str, Any], onnx: Mapping[str, Any], busy_experts: int | None,
          name: str | None, typed: bool) -> Workload:
    """The network of a source; `example` and `onnx` are the arguments for modules and for ONNX models."""
    if isinstance(source, str | os.PathLike):
        _refuse(example, source, "a torch.nn.Module")
        if not os.fspath(source).lower().endswith(".onnx"):
            _refuse(onnx, source, "an ONNX model")
        read = _from_path(os.fspath(source), onnx, name, typed)
        return read if busy_experts is None else build_workload(
            read.name, spread_over(read.name, read.nodes, busy_experts), read.outputs, folded=read.folded)
    if busy_experts is not None and busy_experts < 1:
        raise FadiffError(f"busy_experts: found {busy_experts}; accepted: a whole number >= 1")
    source_type = type(source)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(source, torch.nn.Module | torch.export.ExportedProgram):
        from fadiff_mapper.workload.readers.torch_program import read_module
        _refuse(onnx, source_type.__name__, "an ONNX model")
        return read_module(source, example["example_inputs"], example["example_kwargs"], name, busy_experts, typed)
    if source_type.__name__ == "ModelProto" and source_type.__module__.startswith("onnx"):
        from fadiff_mapper.workload.readers.onnx_model import read_model
        _refuse(example, "an onnx.ModelProto", "a torch.nn.Module")
        return read_model(source, name or source.graph.name or "onnx", Where("onnx model"), **onnx, typed=typed)
    raise FadiffError(f"a network: found {source_type.__name__}; accepted: {ACCEPTED}, an onnx.ModelProto, a "
                      "torch.nn.Module with example inputs, a torch.export.ExportedProgram")


def _refuse(arguments: Mapping[str, Any], source: object, accepted: str) -> None:
    """Raises FadiffError for given arguments that have no effect on a source."""
    if names := [name for name, value in arguments.items() if value is not None and value != {}]:
        raise FadiffError(f"{listed(names)}: found for {source}; accepted: {accepted}")


def with_bits(network: Workload, bits: Map) -> Workload:
    """A network with other bits of elements, by data space. Raises SpecError for a name that no layer has."""
    names = {space.name: None for node in network.layers if node.layer for space in node.layer.problem.dataspaces}
    for name in bits:
        known(name, bits.at(name), names, "data space")
    nodes = [replace(node, layer=node.layer.with_bits(bits)) if node.layer else node for node in network.nodes]
    return build_workload(network.name, nodes, network.outputs, folded=network.folded)


def _from_path(text: str, onnx: Mapping[str, Any], name: str | None, typed: bool) -> Workload:
    """The network of a path, by its suffix; network files and folders state their own names."""
    path = bundled_files.one_path(text)
    suffix = path.suffix.lower()
    if suffix in REFUSED:
        source = f'torch.export.load("{text}")' if suffix == ".pt2" else "module, inputs"
        torch = "" if installed("torch") else ', with PyTorch: pip install "fadiff-mapper[gradient]"'
        raise FadiffError(f"{text}: cannot be read without running code from it or knowing its format; accepted: "
                          f"{ACCEPTED}; in Python fadiff_mapper.save_network(fadiff_mapper.load_network({source}), "
                          f'"network.yaml"){torch}')
    if suffix == ".onnx":
        from fadiff_mapper.workload.readers.onnx_model import read_model
        return read_model(path, name or path.stem, Where(str(path)), **onnx, typed=typed)
    if typed:
        raise FadiffError(f"bits: found auto for {text}, which says no types; accepted: an ONNX model or a PyTorch "
                          "module, or bits of an element by tensor")
    if path.is_dir():
        from fadiff_mapper.workload.readers.problem_folder import read_folder
        return read_folder(path)
    from fadiff_mapper.workload.readers.network_text import read_network
    return read_network(path)
