"""What a flag of a command says, an argument of the Python interface says, too."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable

import pytest

import fadiff_mapper as fm
from fadiff_mapper.cli import _parser

RENAMED = {"files": "sources", "variables": "jinja_data", "lenient": "strict", "output": "folder",
           "quiet": "on_progress",
           "sensitivities": "with_sensitivities", "network": "source", "no_fusion": "fuse", "arch": "space"}
"""Name of a flag's value on the command line -> in Python, where they differ."""

COMMANDS: dict[str, tuple[tuple[Callable[..., object], ...], dict[str, str]]] = {
    "map": ((fm.load, fm.map_layer, fm.SearchOptions, fm.read_calibration, fm.Result), {"jobs": "threads"}),
    "network": ((fm.load_network, fm.load, fm.map_network, fm.NetworkOptions, fm.read_calibration, fm.NetworkResult),
                {"jobs": "threads"}),
    "design": ((fm.load_network, fm.read_space, fm.search_design, fm.read_calibration, fm.DesignResult), {}),
}
"""Command -> what does the same in Python, with names that differ for it alone."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_an_argument_or_a_method(command: str) -> None:
    callables, own = COMMANDS[command]
    known = {name for each in callables for name in inspect.signature(each).parameters}
    for result in (each for each in callables if inspect.isclass(each) and hasattr(each, "write")):
        known |= {name for name in dir(result) if not name.startswith("_")}
        known |= set(inspect.signature(result.write).parameters)
    commands, = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    flags = {action.dest for action in commands.choices[command]._actions} - {"help"}
    assert {flag for flag in flags if (own | RENAMED).get(flag, flag) not in known and
            own.get(flag, flag) not in known} == set()


@pytest.mark.parametrize("options", [fm.SearchOptions, fm.NetworkOptions])
def test_options_are_at_most_a_dozen(options: type) -> None:
    assert len(inspect.signature(options).parameters) <= 12
