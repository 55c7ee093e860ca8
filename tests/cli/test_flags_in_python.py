"""What a flag of a command says, an argument of the Python interface says, too."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import fadiff_mapper as fm
from fadiff_mapper.cli import program_parser
from fadiff_mapper.cli.mcp_server import serve
from fadiff_mapper.design.question import BACKENDS
from fadiff_mapper.design.question import METHODS as DESIGN_METHODS
from fadiff_mapper.inputs.energy.source_names import CHOICES
from fadiff_mapper.inputs.spec.spec import METRICS
from fadiff_mapper.network import options as network_options
from fadiff_mapper.output.schema import OWN_SECTIONS, SECTIONS
from fadiff_mapper.search.explanation.explain_run import RunExplanation
from fadiff_mapper.search.options import EFFORTS, METHODS, MODELS

RENAMED = {"files": "sources", "variables": "jinja_data", "lenient": "strict", "quiet": "on_progress",
           "network": "source", "no_fusion": "fuse", "no_folding": "fold", "json": "to_dict",
           "remove": "remove_launchers"}
"""Name of a flag's value on the command line -> in Python, where they differ."""

LAYER = (fm.load, fm.load_layers)
NETWORK = (fm.load_network, fm.map_network, fm.NetworkOptions, fm.read_calibration, fm.NetworkResult)

COMMANDS: dict[str, tuple[tuple[Callable[..., object], ...], dict[str, str]]] = {
    "quickstart": ((fm.quickstart,), {}),
    "check": ((*LAYER, fm.read_space), {}),
    "evaluate": ((*LAYER, fm.evaluate, fm.Stats, fm.verify), {}),
    "map": ((*LAYER, fm.map_layer, fm.SearchOptions, fm.read_calibration, fm.Result), {"jobs": "threads"}),
    "network": ((fm.load, *NETWORK), {"jobs": "threads"}),
    "design": ((fm.load_network, fm.read_space, fm.search_design, fm.DesignOptions, fm.DesignWorkers,
                fm.read_calibration, fm.DesignResult), {"arch": "space"}),
    "infer": ((fm.infer,), {"files": "design"}),
    "calibrate": ((fm.calibrate,), {}),
    "explain": ((fm.read_run, fm.explain_run, RunExplanation), {}),
    "import": ((fm.load_network, fm.save_network), {"model": "source", "output": "path"}),
    "schema": ((fm.json_schema,), {}),
    "bundled": ((fm.bundled_names,), {}),
    "doctor": ((fm.examine,), {}),
    "shim": ((fm.write_launchers, fm.remove_launchers), {}),
    "mcp": ((serve,), {}),  # serves the commands themselves on the streams of its process, so `cli` has it
}
"""Command -> what does the same in Python, with names that differ for it alone."""


def test_every_command_has_a_form_in_python() -> None:
    assert set(COMMANDS) == set(parsers())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_flag_is_an_argument_or_a_method(command: str) -> None:
    callables, own = COMMANDS[command]
    known = {name for each in callables for name in (each.__name__, *inspect.signature(each).parameters)}
    for result in filter(inspect.isclass, callables):
        known |= {name for name in dir(result) if not name.startswith("_")}
        known |= set(inspect.signature(result.write).parameters) if hasattr(result, "write") else set()
    flags = {action.dest for action in parsers()[command]._actions} - {"help"}
    assert {flag for flag in flags if (own | RENAMED).get(flag, flag) not in known and
            own.get(flag, flag) not in known} == set()


@pytest.mark.parametrize(("flag", "commands", "accepted"), [
    ("--metric", ["map"], METRICS), ("--metric", ["network", "infer"], network_options.METRICS),
    ("--method", ["map"], METHODS), ("--method", ["network"], network_options.METHODS),
    ("--method", ["design"], DESIGN_METHODS), ("--effort", ["map"], tuple(EFFORTS)),
    ("--model", ["map", "network"], MODELS), ("--backend", ["design"], BACKENDS),
    ("--energy", ["map", "network", "design", "infer"], tuple(CHOICES)),
    ("kind", ["schema"], (*SECTIONS, *OWN_SECTIONS, "model"))])
def test_the_help_of_a_flag_names_every_word_that_is_accepted(
        flag: str, commands: list[str], accepted: tuple[str, ...]) -> None:
    for command in commands:
        [action] = [action for action in parsers()[command]._actions if flag in (*action.option_strings, action.dest)]
        assert action.help and [word for word in accepted if not re.search(rf"\b{word}\b", action.help)] == []


def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parser of each command."""
    commands, = (action for action in program_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


@pytest.mark.parametrize("options", [fm.SearchOptions, fm.NetworkOptions, fm.DesignOptions,
                                     fm.DesignWorkers])
def test_options_are_at_most_a_dozen(options: type) -> None:
    assert len(inspect.signature(options).parameters) <= 12


@pytest.mark.slow
def test_a_run_into_a_folder_is_the_same_from_python(tmp_path: Path) -> None:
    specs = fm.load_layers("bundled:arch/gemmini_small", "bundled:layers/resnet18/conv1x1_64_128_28_s2",
                           "bundled:layers/resnet18/fc_512_1000")
    results = fm.map_layers(specs, fm.SearchOptions(effort="light"), output=tmp_path / "map", sensitivities=True)
    assert all(result.sensitivities for result in results)
    for name, result in zip(specs, results, strict=True):
        written = json.loads((tmp_path / "map" / name / "fadiff.result.json").read_text())
        assert written["stats"]["edp"] == result.stats.edp
    assert (tmp_path / "map" / "fadiff.summary.json").exists()
    with pytest.raises(fm.FadiffError, match="output: found several problems without names"):
        fm.map_layers(list(specs.values()), output=tmp_path / "list")
    network = fm.load_network("bundled:networks/gpt3_6b7_block")
    plan = fm.map_network(network, "bundled:arch/gemmini_small", output=tmp_path / "plan", time_limit=5)
    names = {path.name for path in (tmp_path / "plan").iterdir()}
    assert {"plan.yaml", "report.html", "fadiff.checkpoint.json"} <= names
    assert json.loads((tmp_path / "plan" / "fadiff.network.json").read_text())["edp"] == plan.stats.edp
