"""The bundled specs agree with each other: layers with networks, tables with designs, mappings with Timeloop."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
import yaml

from fadiff_mapper.inputs.load import load
from fadiff_mapper.model.evaluate import score
from fadiff_mapper.model.loop_nest import pack
from fadiff_mapper.model.prepared_layer import prepare_layer
from fadiff_mapper.search.mapspace.build import build_mapspace
from fadiff_mapper.search.mapspace.conflicts import check_mapping

SPECS = Path(__file__).parents[2] / "timeloop_specs"
DESIGNS = sorted(path.stem for path in (SPECS / "arch").glob("*.yaml"))
NETWORKS = sorted(path.stem for path in (SPECS / "networks").glob("*.yaml"))
COEFFICIENTS = ("Wstride", "Hstride", "Wdilation", "Hdilation")
EXAMPLES = ("resnet18/conv3x3_64_64_56_s1", "resnet18/conv7x7_3_64_112_s2", "mobilenet_v1/dw3x3_256_14_s2",
            "gpt3_6b7_block/gemm_2048_128_2048_x32")


class TaglessLoader(yaml.SafeLoader):
    """Reads `!Component {...}` as a mapping that remembers its tag under the key "!"."""


def tagged(loader: TaglessLoader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    assert isinstance(node, yaml.MappingNode)
    return {"!": suffix} | {str(key): value for key, value in loader.construct_mapping(node, deep=True).items()}


TaglessLoader.add_multi_constructor("!", tagged)


def read(path: str) -> Any:
    return yaml.load((SPECS / path).read_text(), TaglessLoader)


def network(name: str) -> dict[str, Any]:
    return dict(read(f"networks/{name}.yaml")["workload"])


def leaves(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Components and containers of a design in order, those inside `!Parallel` included."""
    return [leaf for node in nodes for leaf in (leaves(node["nodes"]) if "nodes" in node else [node])]


def components(design: str) -> dict[str, int]:
    """Instances of every component of a design, and of the fan-out level of every container with one."""
    found, instances = {}, 1
    for node in leaves(read(f"arch/{design}.yaml")["architecture"]["nodes"]):
        mesh = node.get("spatial", {})
        fanout = mesh.get("meshX", 1) * mesh.get("meshY", 1)
        if node["!"] == "Component":
            found[node["name"]] = instances
        elif fanout > 1:
            found[f"inter_{node['name']}_spatial"] = instances
        instances *= fanout
    return found


def table(design: str, kind: str) -> dict[str, dict[str, Any]]:
    """The entries of an ERT or ART by full component name."""
    return {entry["name"]: entry for entry in read(f"tables/{design}.{kind}.yaml")[kind]["tables"]}


# Layers and networks

@pytest.mark.parametrize("name", NETWORKS)
def test_every_distinct_layer_of_a_network_has_a_problem_file_and_no_other_file_is_there(name: str) -> None:
    files = {path.stem for path in (SPECS / "layers" / name).iterdir()}
    assert files == {shape["id"] for shape in network(name)["shapes"]}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_layer_file_has_the_bounds_strides_and_dilations_of_its_network_list(name: str) -> None:
    for shape in network(name)["shapes"]:
        problem = read(f"layers/{name}/{shape['id']}.yaml")["problem"]
        assert {d: problem["instance"][d] for d in problem["shape"]["dimensions"]} == shape["dims"]
        assert [problem["instance"][c] for c in COEFFICIENTS] == shape["stride"] + shape["dilation"]


@pytest.mark.parametrize("name", NETWORKS)
def test_a_layer_file_has_the_shape_of_the_problem_template_of_its_operator(name: str) -> None:
    template = {"conv": "conv", "gemm": "conv", "depthwise": "depthwise"}
    for shape in network(name)["shapes"]:
        wanted = read(f"problems/{template[shape['op']]}.yaml")["problem"]["shape"]
        assert read(f"layers/{name}/{shape['id']}.yaml")["problem"]["shape"] == wanted


def test_make_layers_writes_the_layer_files_as_they_are(tmp_path: Path) -> None:
    subprocess.run([sys.executable, SPECS / "make_layers.py", tmp_path], check=True)
    written = {path.relative_to(tmp_path): path.read_text() for path in tmp_path.rglob("*.yaml")}
    bundled = {path.relative_to(SPECS / "layers"): path.read_text() for path in SPECS.glob("layers/*/*.yaml")}
    assert written == bundled


@pytest.mark.parametrize("name", NETWORKS)
def test_the_counts_of_a_network_are_those_of_its_graph_and_its_edges_lead_to_earlier_nodes(name: str) -> None:
    workload = network(name)
    seen = set(workload.get("inputs", {"input": None}))
    for node in workload["graph"]:
        assert {*node["from"], *([node["weights_from"]] if "weights_from" in node else [])} <= seen, node["name"]
        assert node["name"] not in seen
        seen.add(node["name"])
    counted = Counter(node["shape"] for node in workload["graph"] if "shape" in node)
    assert {shape["id"]: shape["count"] for shape in workload["shapes"]} == counted


@pytest.mark.parametrize(("name", "giga"), [("resnet18", 1.814), ("vgg16", 15.470), ("vgg19", 19.632),
                                           ("mobilenet_v1", 0.569), ("gpt3_6b7_block", 446.7)])
def test_a_network_has_its_published_number_of_multiply_accumulates(name: str, giga: float) -> None:
    macs = sum(s["count"] * s["repeat"] * math.prod(s["dims"].values()) for s in network(name)["shapes"])
    assert macs / 1e9 == pytest.approx(giga, rel=5e-4)


# Problem templates

@pytest.mark.parametrize("path", sorted(SPECS.glob("problems/*.yaml")), ids=lambda path: path.stem)
def test_a_template_gives_a_value_to_every_dimension_and_coefficient_and_to_nothing_else(path: Path) -> None:
    problem = read(f"problems/{path.name}")["problem"]
    names = problem["shape"]["dimensions"] + [c["name"] for c in problem["shape"].get("coefficients", [])]
    assert sorted(problem["instance"]) == sorted(names)


# Tables

@pytest.mark.parametrize("design", DESIGNS)
def test_the_energy_table_names_every_component_with_its_instances_and_its_actions(design: str) -> None:
    real = {name: n for name, n in components(design).items() if not name.startswith("inter_")}
    found = table(design, "ERT")
    assert sorted(found) == sorted(f"System_top_level.{name}[1..{n}]" for name, n in real.items())
    *storage, arithmetic = found.values()
    for entry in storage:
        assert [action["name"] for action in entry["actions"]] == ["read", "write", "update", "leak"]
    assert [action["name"] for action in arithmetic["actions"]] == ["compute"]


@pytest.mark.parametrize("design", DESIGNS)
def test_the_area_table_names_every_component_and_fan_out_level_with_its_instances(design: str) -> None:
    assert sorted(table(design, "ART")) == sorted(f"System_top_level.{name}[1..{n}]"
                                                  for name, n in components(design).items())


@pytest.mark.parametrize("design", DESIGNS)
def test_tables_hold_plain_numbers_and_the_version_that_gave_them(design: str) -> None:
    energies = [action["energy"] for entry in table(design, "ERT").values() for action in entry["actions"]]
    areas = [entry["area"] for entry in table(design, "ART").values()]
    assert all(isinstance(value, float) and value >= 0 for value in energies + areas)
    for kind in ("ERT", "ART"):
        assert "Accelergy 0.4 (6911d15)" in (SPECS / f"tables/{design}.{kind}.yaml").read_text()


# Designs and mappings, through the package

@pytest.mark.parametrize("layer", EXAMPLES)
@pytest.mark.parametrize("design", DESIGNS)
def test_the_constraints_of_a_design_hold_for_convolutions_depthwise_layers_and_products(
        design: str, layer: str) -> None:
    spec = load(SPECS / f"arch/{design}.yaml", SPECS / f"layers/{layer}.yaml", SPECS / f"tables/{design}.ERT.yaml")
    build_mapspace(spec.arch, spec.problem, spec.constraints)


@pytest.mark.parametrize("problem", ["matmul", "batched_matmul", "grouped_conv"])
def test_weight_stationary_takes_every_problem_template_as_its_constraints_name_no_dimension(problem: str) -> None:
    spec = load(SPECS / "arch/weight_stationary.yaml", SPECS / f"problems/{problem}.yaml",
                SPECS / "tables/weight_stationary.ERT.yaml")
    build_mapspace(spec.arch, spec.problem, spec.constraints)


@pytest.mark.parametrize("design", DESIGNS)
def test_the_example_mapping_obeys_its_design_and_costs_what_timeloop_says_in_its_head(design: str) -> None:
    path = SPECS / f"mappings/{design}.yaml"
    head = path.read_text()
    layer = re.search(r"of (layers/\S+\.yaml)", head)
    measured = re.search(r"(\d+) cycles, (\S+) pJ\.", head)
    assert layer and measured
    spec = load(SPECS / f"arch/{design}.yaml", SPECS / layer[1], path, SPECS / f"tables/{design}.ERT.yaml")
    assert spec.mapping is not None
    assert check_mapping(build_mapspace(spec.arch, spec.problem, spec.constraints), spec.mapping) == []
    scores = score(prepare_layer(spec.arch, spec.problem, spec.tables), pack([spec.mapping], spec.problem))
    assert scores.legal.all()
    assert scores.cycles.tolist() == [int(measured[1])]
    assert scores.energy.tolist() == [pytest.approx(float(measured[2]), rel=1e-9)]


# Sources

def test_the_sources_name_every_file_and_only_files_that_are_there() -> None:
    text = (SPECS / "SOURCES.md").read_text()
    endings = (".yaml", ".py", ".md", ".csv", ".json")
    patterns = {word for word in re.findall(r"`([^`\s]+)`", text) if word.endswith(endings)}
    files = [path.relative_to(SPECS).as_posix() for path in SPECS.rglob("*")
             if path.is_file() and "__pycache__" not in path.parts]
    assert [name for name in files if not any(fnmatch(name, pattern) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(fnmatch(name, pattern) for name in files)] == []
