"""Exported programs made flat: the same numbers, without tracing the program anew, in time that grows with its size."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import ExportedProgram
from torch_networks import Function

from fadiff_mapper import load_network
from fadiff_mapper.workload.readers.torch_program import flattened, operator_name


@pytest.fixture
def exported(benchmarks: Path) -> Callable[..., ExportedProgram]:
    """Makes a language model of some blocks."""
    from import_time import exported as make
    return make  # type: ignore[no-any-return]


def regions(x: torch.Tensor) -> Any:
    """Regions whose results are read together, read by others and returned, one within another."""
    with torch.no_grad():
        y, z = x.exp(), x.sin()
        with torch.enable_grad():
            w = x @ x
    return y * z, z, w


def cells(x: torch.Tensor) -> Any:
    """Two equal calls of a cell, whose decomposition updates its own sums in place."""
    state = (x, x.cos())
    for _ in range(2):
        state = torch.ops.aten.lstm_cell.default(x, state, torch.cat([x] * 4), torch.cat([x.sin()] * 4))
    return state


def within_one_another(x: torch.Tensor) -> Any:
    """A difference is computed by slices, one of them in a narrowing."""
    return torch.addr(x, x[:, 0], x[0]), torch.movedim(x.repeat_interleave(2, 0), 0, 1), torch.diff(x, 1)


def padded(x: torch.Tensor) -> Any:
    """Sequences that are written into the rows of a new tensor."""
    return torch.nn.utils.rnn.pad_sequence([x, x[:2]]), torch.einsum("ij,kj,kl->il", x, x, x)


@pytest.mark.parametrize("function", [regions, cells, within_one_another, padded])
def test_a_flat_program_computes_the_same_with_known_operators(function: Callable[..., Any],
                                                               monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.arange(25.0).reshape(5, 5).sin()
    program = torch.export.export(Function(function), (x,))
    monkeypatch.setattr(ExportedProgram, "run_decompositions", traced_anew)
    flat = flattened(program)
    expected, found = program.module()(x), flat.module()(x)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    names = {operator_name(node.target) for node in flat.graph.nodes if node.op == "call_function"}
    assert not names & {"wrap_with_set_grad_enabled", "lstm_cell", "outer", "movedim", "diff", "pad_sequence"}
    assert program.module()(x) is not None  # the given program is what it was


def traced_anew(*arguments: Any) -> Any:
    raise NotImplementedError("the program is traced anew")


def test_inputs_keep_names_that_python_has_too() -> None:
    class Named(nn.Module):
        def forward(self, input: torch.Tensor) -> torch.Tensor:
            return torch.outer(input, input) @ torch.ones(3, 3)
    network = load_network(Named(), torch.empty(3))
    assert network.nodes[0].name == "input"


def test_a_program_that_nothing_is_to_be_changed_in_is_left_as_it_is() -> None:
    program = torch.export.export(nn.Linear(3, 3), (torch.empty(2, 3),))
    assert flattened(program) is program


@pytest.mark.slow
def test_what_pytorchs_own_decomposition_gives_is_given(exported: Callable[..., ExportedProgram]) -> None:
    """The whole network against the one from `run_decompositions`, which traces the program anew."""
    program = exported(2, tokens=8)
    own = program.run_decompositions({}).run_decompositions({
        target: torch.export.default_decompositions()[target]
        for target in (torch.ops.aten.__and__.Tensor, torch.ops.aten.outer.default)})
    found, expected = load_network(program, name="model"), load_network(own, name="model")
    assert [(node.op, node.shape, node.layer) for node in found.nodes] == [
        (node.op, node.shape, node.layer) for node in expected.nodes]
    assert [node.name for node in found.layers] == [node.name for node in expected.layers]
    assert [(link.producer, link.consumer, link.axes, link.whole, link.elsewhere) for link in found.links()] == [
        (link.producer, link.consumer, link.axes, link.whole, link.elsewhere) for link in expected.links()]


@pytest.mark.slow
def test_import_grows_with_the_network_and_no_faster(exported: Callable[..., ExportedProgram],
                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of Python functions, which no other load of the machine changes: twice as many further blocks at most 2.2
    times as many further calls, links included."""
    monkeypatch.setattr(ExportedProgram, "run_decompositions", traced_anew)
    programs = {blocks: exported(blocks, tokens=8) for blocks in (1, 2, 4)}
    load_network(programs[1]).links()   # fills caches
    calls = {blocks: counted(lambda program=program: load_network(program).links())  # type: ignore[misc]
             for blocks, program in programs.items()}
    assert calls[4] - calls[2] <= 2.2 * (calls[2] - calls[1])


def counted(function: Callable[[], object]) -> int:
    """Calls of Python functions that a function makes."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"
    before = sys.getprofile()
    sys.setprofile(count)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls
