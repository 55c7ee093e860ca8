"""The JSON Schema of the keys takes every bundled file and no misspelt key; the page of keys is what the tables say."""

from __future__ import annotations

import ast
import copy
import inspect
import json
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from named_schema import errors_by_its_schema
from v04_designs import document

from fadiff_mapper import FadiffError, load_network, quickstart, save_network
from fadiff_mapper.cli import main
from fadiff_mapper.design import space
from fadiff_mapper.inference import language_model
from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.inputs.yaml.located import Table, plain
from fadiff_mapper.output.schema import OPEN, SECTIONS, json_schema, reference
from fadiff_mapper.workload.readers import network_text, problem_folder

ROOT = Path(__file__).parents[2]
BUNDLED = {"arch": "arch/*.yaml", "problem": "problems/*.yaml", "mapping": "mappings/*.yaml",
           "ERT": "tables/*.ERT.yaml", "ART": "tables/*.ART.yaml", "network": "networks/*.yaml",
           "space": "spaces/*.yaml"}
OWN_NAMES = (*OPEN, "inputs", "dims", "ties", "limits", "parameters")
"""Keys of mappings with names of the user's own."""
FILES = [(kind, path) for kind, pattern in BUNDLED.items() for path in sorted((ROOT / "timeloop_specs").glob(pattern))]
FILES += [("arch", ROOT / "timeloop_specs/quickstart/design.yaml"),
          ("problem", ROOT / "timeloop_specs/quickstart/layer.yaml"),
          ("network", ROOT / "timeloop_specs/quickstart/network.yaml"),
          ("space", ROOT / "timeloop_specs/quickstart/space.yaml")]
LAYERS = [("problem", path) for path in sorted((ROOT / "timeloop_specs" / "layers").rglob("*.yaml"))]


@cache
def validator(kind: str) -> Draft202012Validator:
    schema = json_schema(kind)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def mappings(value: Any) -> list[dict[str, Any]]:
    """All mappings in a value, but for those with names of the user's own."""
    inside = ([item for key, item in value.items() if key not in OWN_NAMES] + list(value.get("parameters", {}).values())
              if isinstance(value, dict) else value if isinstance(value, list) else ())
    return [*([value] if isinstance(value, dict) else []), *(found for item in inside for found in mappings(item))]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "path"), FILES, ids=lambda value: getattr(value, "stem", value))
def test_a_bundled_file_validates_and_its_misspelt_keys_do_not(kind: str, path: Path) -> None:
    content = plain(load_file(path))
    assert list(validator(kind).iter_errors(content)) == []
    tried = set[tuple[str, ...]]()
    for index, node in enumerate(mappings(content)):
        if tuple(node) in tried:
            continue
        tried.add(tuple(node))
        for key in node:
            wrong = copy.deepcopy(content)
            there = mappings(wrong)[index]
            there[f"{key}x"] = there.pop(key)
            assert not validator(kind).is_valid(wrong), key


def test_every_bundled_layer_validates() -> None:
    assert [path for kind, path in LAYERS if not validator(kind).is_valid(plain(load_file(path)))] == []


@pytest.mark.parametrize("kind", [*SECTIONS, "edges"])
def test_a_file_of_another_kind_does_not_validate(kind: str) -> None:
    assert not validator(kind).is_valid({}) and not validator(kind).is_valid({"workload": {}})


@pytest.mark.parametrize(("module", "tables"), [
    (network_text, (network_text.NETWORK, network_text.SHAPE, network_text.NODE)),
    (problem_folder, (problem_folder.GRAPH, problem_folder.EDGE)),
    (language_model, (language_model.MODEL,)),
    (space, (space.DESIGN_SPACE, space.PARAMETER))], ids=["network", "edges", "model", "space"])
def test_every_key_of_a_table_is_one_that_its_reader_names(module: ModuleType, tables: tuple[Table, ...]) -> None:
    functions = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.FunctionDef)]
    words = {node.value for function in functions for node in ast.walk(function) if isinstance(node, ast.Constant)}
    assert {name for table in tables for name in table} <= words


def test_an_edges_file_and_a_language_model_validate() -> None:
    edges = {"network": {"layers": [{"name": "a", "problem": "conv.yaml"}], "edges": [
        {"from": "a", "to": "b", "axes": {"C": "M"}}]}}
    assert validator("edges").is_valid(edges)
    assert not validator("edges").is_valid({"network": {"edges": [{"from": "a"}]}})
    models = [load_file(path) for path in sorted((ROOT / "timeloop_specs" / "models").iterdir())]
    assert models and [model for model in models if not validator("model").is_valid(plain(model))] == []
    assert not validator("model").is_valid({**plain(models[0]), "num_hidden_layers": 0})


def test_a_step_that_is_no_list_does_not_validate() -> None:
    network = plain(load_file(ROOT / "timeloop_specs/quickstart/network.yaml"))
    network["workload"]["graph"][0]["stride"] = 2
    assert not validator("network").is_valid(network)


def test_both_dialects_validate() -> None:
    whole = plain(document())
    assert validator("arch").is_valid(whole) and validator("problem").is_valid(whole)
    native = {"architecture": {"subtree": [{"name": "chip", "local": [
        {"name": "Buffer[0..3]", "class": "SRAM", "attributes": {"depth": 16, "word-bits": 8, "meshX": "0x4"}}]}]},
        "mapspace_constraints": [{"target": "Buffer", "type": "temporal", "factors": "C=2"}],
        "mapper": {"optimization-metric": ["energy", "delay"]}}
    assert validator("arch").is_valid(native)
    for kind, value in (("depth", -1), ("depth", True), ("multiple_buffering", 0), ("bandwidth", [])):
        native["architecture"]["subtree"][0]["local"][0]["attributes"] = {kind: value}
        assert not validator("arch").is_valid(native), kind


def test_files_that_are_written_to_be_edited_name_the_schema_beside_them(tmp_path: Path) -> None:
    save_network(load_network("bundled:networks/mixtral_8x7b_decode"), tmp_path / "network.yaml")
    written = [tmp_path / "network.yaml", *(path for path in quickstart(tmp_path / "first") if path.suffix == ".yaml")]
    assert [error for path in written for error in errors_by_its_schema(path)] == []
    assert len(written) == 5


def test_a_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "mapping"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema("mapping")
    with pytest.raises(FadiffError, match=r'found "map" \(did you mean "mapper"\?\); accepted: arch, problem, '):
        json_schema("map")


def test_the_page_of_keys_is_up_to_date() -> None:
    page = (ROOT / "docs" / "reference" / "keys.md").read_text(encoding="utf-8")
    assert page == reference(), "python docs/make_keys.py writes it"
