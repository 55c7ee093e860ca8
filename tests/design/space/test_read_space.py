"""A space of designs as files say it: values, paths, ties, limits, templates, and the error for every mistake."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.design.space import (
    broken_limit,
    design_architecture,
    limit_values,
    parameter_values,
    read_space,
    values_of_text,
)
from fadiff_mapper.inputs.yaml.place import Where

ARCHITECTURE = """
architecture:
  version: 0.4
  nodes:
  - !Container {name: System, attributes: {technology: "45nm"}}
  - !Component {name: DRAM, class: DRAM, attributes: {type: "LPDDR4", width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 1024, width: 64, datawidth: 8}}
  - !Container {name: PE, spatial: {meshX: 4}}
  - !Parallel
    nodes:
    - !Component {name: Weights, class: regfile, attributes: {depth: 8, width: 8, datawidth: 8}}
    - !Hierarchical
      nodes:
      - !Component {name: Sums, class: regfile, attributes: {depth: 4, width: 8, datawidth: 8}}
  - !Component {name: MAC, class: intmac}
"""

SECTION = """
design_space:
  version: 0.1
  parameters:
    columns: {path: PE.spatial.meshX, powers_of_two: [4, 32]}
    depth: {path: Buffer.attributes.depth, range: [512, 2048], step: 512}
    word: {path: Weights.attributes.datawidth, values: [8, 4]}
  ties: {Buffer.attributes.shared_bandwidth: 2 * columns, Sums.attributes.depth: ceil(columns / 3)}
  limits: {area_mm2: 3.0, columns * depth: 20000}
"""


def written(folder: Path, *texts: str) -> list[Path]:
    """The texts as files."""
    files = [folder / f"part{number}.yaml" for number in range(len(texts))]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    return files


def mistakes(folder: Path, section: str, architecture: str = ARCHITECTURE, **options: object) -> str:
    """The error of a space with this section."""
    with pytest.raises(SpecError) as caught:
        read_space(*written(folder, architecture, section), **options)
    return str(caught.value)


@pytest.mark.parametrize("beside", [False, True])
def test_a_space_is_an_architecture_with_one_more_section(tmp_path: Path, beside: bool) -> None:
    texts = (ARCHITECTURE, SECTION) if beside else (ARCHITECTURE + SECTION,)
    space = read_space(*written(tmp_path, *texts))
    assert space.size == 4 * 4 * 2
    columns, depth, word = (list(parameter.values) for parameter in space.parameters)
    assert (columns, depth, word) == ([4, 8, 16, 32], [512, 1024, 1536, 2048], [4, 8])
    assert space.limits == {"area_mm2": 3.0, "columns * depth": 20000}
    assert "design_space" not in space.document
    assert pickle.loads(pickle.dumps(space)) == space


def test_a_design_is_the_architecture_with_parameters_and_ties_put_in(tmp_path: Path) -> None:
    space = read_space(*written(tmp_path, ARCHITECTURE, SECTION))
    point = (3, 1, 0)
    assert parameter_values(space, point) == {"columns": 32, "depth": 1024, "word": 4}
    arch = design_architecture(space, point)
    levels = {level.name: level for level in arch.levels}
    assert arch.arithmetic.instances == 32
    assert (levels["Buffer"].size, levels["Buffer"].shared_bandwidth) == (1024 * 8, 64)
    assert levels["Weights"].word_bits == 4
    assert levels["Sums"].size == 11 == -(-32 // 3)


@pytest.mark.parametrize(("path", "entry"), [
    ("System.attributes.technology", '"45nm"'), ("PE.spatial.meshY", "4"), ("Sums.attributes.depth", "4"),
    ("MAC.class", "intmac"), ("DRAM.attributes.shared_bandwidth", "4"), ("variables.side", "4")])
def test_paths_reach_every_attribute_mesh_and_variable_at_any_depth(tmp_path: Path, path: str, entry: str) -> None:
    values = {"System.attributes.technology": '["22nm", "45nm"]', "MAC.class": "[fpmac, intmac]"}.get(path, "[2, 4]")
    section = f"design_space:\n  version: 0.1\n  parameters:\n    p: {{path: {path}, values: {values}}}\n"
    before = ARCHITECTURE + "variables: {version: 0.4, side: 3}\n"
    space = read_space(*written(tmp_path, before, section))
    first, last = design_architecture(space, (0,)), design_architecture(space, (1,))
    assert first.native != last.native or first.arithmetic.kind != last.arithmetic.kind
    assert space.parameters[0].numeric is (values == "[2, 4]")


def test_an_alias_in_the_file_is_changed_in_one_place_alone(tmp_path: Path) -> None:
    shared = ARCHITECTURE.replace("attributes: {depth: 8, width: 8, datawidth: 8}",
                                  "attributes: &spad {depth: 8, width: 8, datawidth: 8}").replace(
        "attributes: {depth: 4, width: 8, datawidth: 8}", "attributes: *spad")
    section = "design_space: {version: 0.1, parameters: {p: {path: Sums.attributes.depth, values: [2, 16]}}}\n"
    space = read_space(*written(tmp_path, shared, section))
    sizes = {level.name: level.size for level in design_architecture(space, (1,)).levels}
    assert (sizes["Weights"], sizes["Sums"]) == (8, 16)


def test_a_variable_of_templates_is_a_parameter(tmp_path: Path) -> None:
    template = ARCHITECTURE.replace("depth: 1024", "depth: {{ depth }}").replace("meshX: 4", "meshX: {{ side }}")
    space = read_space(*written(tmp_path, template), vary=["side=2:8:x2", "depth=256,512"],
                       limits={"side * depth": 1024})
    assert space.size == 6
    arch = design_architecture(space, (2, 1))
    assert arch.arithmetic.instances == 8
    assert next(level.size for level in arch.levels if level.name == "Buffer") == 512 * 8
    assert broken_limit(space, (2, 1)) == "side * depth is 4096; the limit is 1024"
    assert broken_limit(space, (0, 0)) is None
    assert read_space(*space.sources, vary={"side": {"powers_of_two": [2, 8]}, "depth": [512, 256]}).size == 6


@pytest.mark.parametrize(("text", "values"), [
    ("8,16,24", (8, 16, 24)), ("24, 8", (8, 24)), ("4:32:x2", (4, 8, 16, 32)), ("1:10:3", (1, 4, 7, 10)),
    ("0.1:0.4:0.1", (0.1, 0.2, 0.3, 0.4)), ("LPDDR4,HBM2", ("LPDDR4", "HBM2")),
    ("1:1000000000:1", range(1, 10**9 + 1))])
def test_ranges_of_a_command_line(text: str, values: tuple[object, ...]) -> None:
    found = values_of_text(text, Where("vary"))
    assert found == values if isinstance(values, range) else tuple(found) == values


def test_a_limit_given_besides_takes_the_place_of_the_files(tmp_path: Path) -> None:
    space = read_space(*written(tmp_path, ARCHITECTURE, SECTION), limits={"columns * depth": 8192, "units": 16})
    assert space.limits == {"area_mm2": 3.0, "columns * depth": 8192, "units": 16}
    assert limit_values(space, (1, 3, 0)) == {"columns * depth": (16384.0, 8192)}


@pytest.mark.parametrize(("section", "said"), [
    ("a: {path: Bufer.attributes.depth, values: [1]}",
     ("part1.yaml:2: design_space.parameters.a.path", 'no node "Bufer" (did you mean "Buffer"?)', "accepted: System")),
    ("a: {path: Buffer.attributes.dpth, values: [1]}", ('attribute of "Buffer" named "dpth" (did you mean "depth"?)',)),
    ("a: {path: PE.spatial.meshZ, values: [1]}", ('named "meshZ"', "accepted: meshX, meshY")),
    ("a: {path: PE.spatal.meshX, values: [1]}", ('"PE" has no entry "spatal.meshX"', "did you mean")),
    ("a: {path: PE.spatial.meshX}", ("found no values", "powers_of_two: [LOW, HIGH]")),
    ("a: {path: PE.spatial.meshX, values: [1], range: [1, 2], step: 1}", ("found values and range",)),
    ("a: {path: PE.spatial.meshX, powers_of_two: [3, 8]}", ("found 3; accepted: powers of two, such as 2 or 4",)),
    ("a: {path: PE.spatial.meshX, range: [8, 4], step: 1}", ("found [8, 4]",)),
    ("a: {path: PE.spatial.meshX, range: [1, 1e30], step: 1}",
     ("found [1, 1000000000000000019884624838656]; accepted: whole numbers of at most 9007199254740992",)),
    ("a: {path: PE.spatial.meshX, range: [4, 8], step: 0}", ("found 0; accepted: a number > 0",)),
    ("a: {path: PE.spatial.meshX, range: [4, 8]}", ('the key "step" is missing',)),
    ("a: {path: PE.spatial.meshX, values: [4, 8], step: 2}", ('found "step" without "range"',)),
    ("a: {path: PE.spatial.meshX, values: [4, four]}", ("found numbers and words",)),
    ("a: {path: PE.spatial.meshX, values: [4, 4]}", ("found 4 twice",)),
    ("a: {path: PE.spatial.meshX, values: [true]}", ("found a boolean",)),
    ("a: {path: PE.spatial.meshX, values: []}", ("found an empty list",)),
    ("a: {path: PE.spatial.meshX, valus: [4]}", ("found no values",)),
    ("a: {values: [4]}", ('"a" changes nothing', "--vary NAME=RANGE")),
    ("pi: {path: PE.spatial.meshX, values: [4]}", ('named "pi"',)),
    ("a: {path: PE.spatial.meshX, values: [4]}, b: {path: PE.spatial.meshX, values: [4]}", ("have one path",))])
def test_a_wrong_parameter_is_told_with_its_place(tmp_path: Path, section: str, said: tuple[str, ...]) -> None:
    message = mistakes(tmp_path, f"design_space: {{version: 0.1,\n parameters: {{{section}}}}}\n")
    assert all(words in message for words in said), message


@pytest.mark.parametrize(("section", "said"), [
    ("ties: {Buffer.attributes.width: 8 * colums}", ('"colums" is no parameter (did you mean "columns"?)', "ties")),
    ("ties: {Buffer.attributes.width: ceiling(columns)}", ('no function "ceiling" (did you mean "ceil"?)',)),
    ("ties: {Buffer.attributes.width: 8 *}", ("is not an expression",)),
    ("ties: {PE.spatial.meshX: 4}", ('the parameter "columns" has this path already',)),
    ("ties: {PE.spatial.meshY: columns / 3}", ("part1.yaml:3: design_space.ties.PE.spatial.meshY", "a whole number")),
    ("ties: {PE.spatial.meshY: 1 / 0}", ("division by zero",)),
    ("limits: {area: 3}", ('"area" is no parameter (did you mean "area_mm2"?)',)),
    ("limits: {area_mm2: small}", ("found a string",)),
    ("limit: {area_mm2: 3}", ('unknown key "limit"', 'did you mean "limits"')),
    ("energy: cheap", ("found a string ('cheap')",))])
def test_wrong_ties_and_limits_are_told_with_their_place(tmp_path: Path, section: str, said: tuple[str, ...]) -> None:
    message = mistakes(tmp_path, "design_space: {version: 0.1, parameters: {columns: {path: PE.spatial.meshX, "
                                 f"values: [4, 8]}}}},\n\n {section}}}\n")
    assert all(words in message for words in said), message


def test_expressions_call_no_code(tmp_path: Path) -> None:
    for text in ("__import__('os').getcwd()", "columns.__class__", "open('x')"):
        message = mistakes(tmp_path, "design_space: {version: 0.1, parameters: {columns: {path: PE.spatial.meshX, "
                                     f'values: [4]}}}}, ties: {{PE.spatial.meshY: "{text}"}}}}\n')
        assert "accepted" in message or "not available" in message or "there is no" in message


@pytest.mark.parametrize(("section", "said"), [
    ("design_space: {version: 0.1}", "there are no parameters"),
    ("design_space: {parameters: {a: {path: PE.spatial.meshX, values: [4]}}}", 'the key "version" is missing'),
    ("design_space: {version: 2, parameters: {a: {path: PE.spatial.meshX, values: [4]}}}", "found version 2"),
    ("design_space: [1]", "found a list; accepted: a mapping")])
def test_a_wrong_section_is_told(tmp_path: Path, section: str, said: str) -> None:
    assert said in mistakes(tmp_path, section)


def test_only_a_tree_of_nodes_can_be_a_space(tmp_path: Path) -> None:
    native = "architecture: {version: 0.3, subtree: []}\n"
    assert "the v0.4 dialect" in mistakes(tmp_path, SECTION, native)


def test_mistakes_are_told_all_at_once(tmp_path: Path) -> None:
    message = mistakes(tmp_path, SECTION.replace("PE.spatial", "PEs.spatial").replace("Buffer.attributes.depth",
                                                                                      "Buffer.attributes.dept"))
    assert len(message.splitlines()) == 2
