"""A v0.4 problem is read into values once, however many parts of the input need it."""

from __future__ import annotations

from typing import Any

import pytest
from v04_designs import document

from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs import load as inputs
from fadiff_mapper.spec.v04 import document as v04
from fadiff_mapper.yaml.load import load_files


@pytest.mark.parametrize("bundled", [False, True])
def test_the_problem_is_read_once(monkeypatch: pytest.MonkeyPatch, bundled: bool) -> None:
    """Also for a bundled design, whose recorded tables are found by comparing architectures."""
    calls: list[Any] = []
    read = v04.read_problem

    def counted(*arguments: Any) -> Any:
        calls.append(arguments)
        return read(*arguments)

    for module in (v04, inputs):
        monkeypatch.setattr(module, "read_problem", counted)
    tree = load_files([find("arch/gemmini_large"), find("problems/conv")]) if bundled else document()
    spec = inputs.read_spec(tree)
    assert len(calls) == 1
    assert spec.literal["problem"] == read(tree["problem"], tree.at("problem"))[1]
