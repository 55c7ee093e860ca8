"""Compute units beside the multiply-accumulators, in both dialects; without them a design is read as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from accelergy_stand_ins import stand_in

from fadiff_mapper import Spec, SpecError, load
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.native.units import FIGURES

LAYER = "bundled:layers/resnet18/conv1x1_64_128_28_s2"
DESIGN = bundled_files.find("arch/weight_stationary").read_text()
BEFORE = "  - !Container\n    name: ConvCore\n"
OPERATIONS = "{add: 1, max: , mac: 1, exp: {mac: 6, add: 1}, div: {cycles: 4, energy: 3.5}, sqrt: 2}"
UNIT = f"""  - !Component
    name: VectorUnit
    class: vector_compute
    attributes: {{lanes: 16, operations: {OPERATIONS}}}
"""


def design(folder: Path, nodes: str, more: str = "") -> Spec:
    """The bundled design with nodes between its memory and its array, and further sections."""
    path = folder / "design.yaml"
    path.write_text(DESIGN.replace(BEFORE, nodes + BEFORE) + more)
    return load(path, LAYER)


def test_a_unit_is_a_component_of_a_compute_class_with_operations(tmp_path: Path) -> None:
    spec, plain = design(tmp_path, UNIT), load("bundled:arch/weight_stationary", LAYER)
    (unit,) = spec.arch.units
    assert (unit.name, spec.arch.levels[unit.level].name, unit.instances, unit.lanes) == ("VectorUnit", "DRAM", 1, 16)
    found = {name: (operation.cycles, operation.energy) for name, operation in unit.operations.items()}
    mac, add = FIGURES["mac"], FIGURES["add"]
    assert found == {"add": (1, add), "max": (1, FIGURES["max"]), "mac": (1, mac), "exp": (7, 6 * mac + add),
                     "div": (4, 3.5), "sqrt": (2, FIGURES["sqrt"])}
    assert (spec.arch.levels, spec.arch.native, spec.literal, spec.constraints, spec.tables) == (
        plain.arch.levels, plain.arch.native, plain.literal, plain.constraints, plain.tables)


def test_the_same_unit_in_a_branch_and_in_a_section(tmp_path: Path) -> None:
    inner = "".join(f"  {line}\n" for line in UNIT.splitlines())
    branch = f"  - !Parallel\n    nodes:\n{inner}    - !Hierarchical\n"
    branch += "      nodes:\n      - !Container\n        name: Rest\n"
    (unit,) = design(tmp_path, UNIT).arch.units
    assert design(tmp_path, branch).arch.units == (unit,)
    spec = load("bundled:arch/weight_stationary", LAYER)
    document: dict[str, Any] = {**spec.arch.native, **spec.constraints.native, "problem": spec.literal["problem"]}
    document["units"] = [{"name": "VectorUnit", "level": "DRAM", "lanes": 16, "operations": {
        "add": 1, "max": None, "mac": 1, "exp": {"mac": 6, "add": 1}, "div": {"cycles": 4, "energy": 3.5}, "sqrt": 2}}]
    assert load(document).arch.units == (unit,)


def test_the_memory_of_a_unit_is_the_one_before_it_and_fanouts_multiply(tmp_path: Path) -> None:
    text = DESIGN.replace("  - !Component                      # 2 KB a cell", UNIT + "  - !Component  # 2 KB a cell")
    (tmp_path / "d.yaml").write_text(text)
    (unit,) = load(tmp_path / "d.yaml", LAYER).arch.units
    assert unit.instances == 16
    assert load(tmp_path / "d.yaml", LAYER).arch.levels[unit.level].name == "ConvBuffer"


def test_an_ert_prices_operations_first(tmp_path: Path) -> None:
    ert = """
ERT:
  version: 0.4
  tables:
  - {name: System.VectorUnit, actions: [{name: exp, energy: 9.5}, {name: div, energy: 2}]}
"""
    (unit,) = design(tmp_path, UNIT, ert).arch.units
    assert {name: unit.operations[name].energy for name in ("exp", "div", "sqrt")} == {
        "exp": 9.5, "div": 2, "sqrt": FIGURES["sqrt"]}
    assert unit.operations["exp"].source == "ERT in the input"


OF_KINDS = """
def figure(kind, attributes, action="", arguments={}):
    found = {"intmac": 3.0, "intadder": 0.5, "intmultiplier": 2.5, "comparator": 0.25}
    assert kind not in found or (attributes["technology"], attributes["width"]) == ("45nm", 8)
    return found.get(kind, 9.0) if action else 7.0
"""


def test_accelergy_prices_operations_as_primitive_components(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = stand_in(tmp_path / "bin", "write(ert, art)", OF_KINDS)
    monkeypatch.setenv("PATH", str(Path(program).parent))
    plain = {name: operation.energy for name, operation in design(tmp_path, UNIT).arch.units[0].operations.items()}

    def energies(**arguments: str) -> dict[str, float]:
        (unit,) = load(tmp_path / "design.yaml", LAYER, **arguments).arch.units
        return {name: operation.energy for name, operation in unit.operations.items()}
    asked = {"mac": 3.0, "add": 0.5, "max": 0.25, "exp": 6 * 3.0 + 0.5, "div": 3.5, "sqrt": FIGURES["sqrt"]}
    assert energies(energy="accelergy") == energies(energy="auto") == asked
    assert energies(energy="estimate") == energies(energy="bundled") == plain
    assert main(["check", str(tmp_path / "design.yaml"), LAYER, "--energy", "accelergy"]) == 0
    assert "(intadder)" in capsys.readouterr().out
    stand_in(tmp_path / "bin", """
if any(one["class"] == "intadder" for one in root["local"]):
    sys.exit("no plug-in knows an intadder")
write(ert, art)""", OF_KINDS)
    spec = load(tmp_path / "design.yaml", LAYER, energy="accelergy")
    assert {name: operation.energy for name, operation in spec.arch.units[0].operations.items()} == plain
    assert any(note.startswith("operations of compute units have bundled energies: ")
               and "no plug-in knows an intadder" in note for note in spec.notes)


@pytest.mark.parametrize(("old", "new", "message"), [
    ("add: 1", "adds: 1", 'unknown operation "adds" \\(did you mean "add"\\?\\)'),
    ("sqrt: 2", "other: 1", 'operations.other: the operation "other" has no energy; accepted: energy: PJ'),
    ("sqrt: 2", "sqrt: {exp: 2}", '"sqrt" takes "exp", which consists of others itself'),
    ("sqrt: 2", "sqrt: 0", "operations.sqrt: found 0; accepted: a number > 0"),
    ("sqrt: 2", "sqrt: {watts: 2}", 'unknown key "watts" of the operation "sqrt"'),
    ("lanes: 16", "lanes: 0", "lanes: found 0; accepted: a whole number >= 1"),
    (OPERATIONS, "{}", 'the class|has no operation|arithmetic'),
    ("name: VectorUnit", "name: MAC", 'the name "MAC" is already given'),
])
def test_a_wrong_unit_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        design(tmp_path, UNIT.replace(old, new))


def test_a_unit_outside_all_memories_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text(DESIGN.replace("  - !Component\n    name: DRAM", UNIT + "  - !Component\n    name: DRAM"))
    with pytest.raises(SpecError, match='the unit "VectorUnit" stands outside all memories'):
        load(path, LAYER)


def test_check_prints_units_with_their_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    design(tmp_path, UNIT)
    assert main(["check", str(tmp_path / "design.yaml"), LAYER]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "unit VectorUnit below DRAM: 1 x 16 lanes" in text
    assert "exp 7 cycles 111.326 pJ" in text
