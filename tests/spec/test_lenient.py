"""Lenient reading: what Timeloop ignores or puts up with is a warning with file, line and the nearest accepted key.

Strict reading, the default, refuses the same. For every oddity of the native dialect the answer of the real
`timeloop-model` is recorded; the front end's treatment (lists of mappings, hyphens, unknown keys) was tried with
`pytimeloop.timeloopfe.v4` of the same time.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from v04_designs import PROBLEM, buffer

from fadiff_mapper import SpecError, evaluate, load
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.output.run_files import result_json
from fadiff_mapper.search.result import Result
from fadiff_mapper.timeloop.find_programs import MODEL
from fadiff_mapper.timeloop.programs import ProgramSettings, run
from fadiff_mapper.timeloop.verify import compared, differences
from fadiff_mapper.workload.readers.load_network import load_network

RECORDED = json.loads(gzip.decompress(
    (Path(__file__).parents[1] / "recorded" / "lenient" / "timeloop_model.json.gz").read_bytes()))

NATIVE = """\
architecture:
  version: '0.3'
  subtree:
  - name: chip
    local:
    - {name: DRAM, class: DRAM, attributes: {word_bits: 16, read_bandwidth: 2}}
    - {name: Buffer, class: SRAM, attributes: {entries: 64, word_bits: 16}}
    - {name: 'MAC[0..3]', class: mac, attributes: {word_bits: 16}}
problem:
  shape:
    name: conv
    dimensions: [P, R, K]
    coefficients: [{name: Hstride, default: 1}]
    data_spaces:
    - {name: W, projection: [[[K]], [[R]]]}
    - {name: I, projection: [[[P, Hstride], [R]]]}
    - {name: O, projection: [[[K]], [[P]]], read_write: true}
  instance: {P: 4, R: 3, K: 4}
mapping:
- {target: DRAM, type: temporal, factors: P=4 R=1 K=1, permutation: PRK}
- {target: Buffer, type: temporal, factors: P=1 R=3 K=1, permutation: RPK}
- {target: Buffer, type: spatial, factors: P=1 R=1 K=4, permutation: KPR}
mapper: {num_threads: 2}
ERT:
  version: '0.4'
  tables:
  - {name: chip.DRAM, actions: [{name: read, energy: 100}, {name: write, energy: 110}, {name: update, energy: 120}]}
  - {name: chip.Buffer, actions: [{name: read, energy: 2}, {name: write, energy: 3}, {name: update, energy: 4}]}
  - {name: 'chip.MAC[0..3]', actions: [{name: compute, energy: 1}]}
"""


def written(tmp_path: Path, old: str = "", new: str = "", text: str = NATIVE) -> Path:
    """The design in a file, with one part of its text replaced."""
    assert old in text
    (tmp_path / "design.yaml").write_text(text.replace(old, new, 1))
    return tmp_path / "design.yaml"


def meaning(spec: Spec) -> dict[str, Any]:
    """Everything that a spec says but for its warnings, notes, and the text of its input."""
    return {"levels": spec.arch.levels, "arithmetic": spec.arch.arithmetic, "problem": spec.problem,
            "constraints": spec.constraints.levels, "mapping": spec.mapping, "mapper": spec.mapper}


OLD_LISTS = """\
arch:
  arithmetic: {instances: 4, word-bits: 8}
  storage:
  - {name: Registers, entries: 16, instances: 4, word-bits: 8, cluster-size: 2, network-word-bits: 16}
  - {name: DRAM, technology: DRAM, instances: 1, word-bits: 8, block-size: 4, bandwidth: 2.0}
problem:
  shape:
    name: conv
    dimensions: [P, R, K]
    data-spaces:
    - {name: W, projection: [[[K]], [[R]]]}
    - {name: I, projection: [[[P], [R]]]}
    - {name: O, projection: [[[K]], [[P]]], read-write: true}
  P: 4
  R: 3
  K: 4
mapping:
- {target: DRAM, type: temporal, factors: P4 R1 K1, permutation: PRK}
- {target: DRAM, type: spatial, factors: P1 R1 K4, permutation: KPR}
- {target: Registers, type: temporal, factors: P1 R3 K1, permutation: RPK}
"""
"""The old format of CoSA's and DOSA's architectures, in which the arithmetic has no name."""

ODDITIES = {
    "hyphenated attribute": (
        "word_bits: 16, read_bandwidth: 2", "word_bits: 16, read_bandwidth: 2, write-bandwidth: 1", 6,
        'Timeloop ignores the attribute "write-bandwidth" of "DRAM" (did you mean "write_bandwidth"?)'),
    "misspelt attribute": (
        "entries: 64", "entries: 64, multiple_bufering: 2", 7,
        'Timeloop ignores the attribute "multiple_bufering" of "Buffer" (did you mean "multiple_buffering"?)'),
    "key of a component": (
        "class: mac,", "class: mac, atributes: 3,", 8,
        'unknown key "atributes" of the component "MAC[0..3]" (did you mean "attributes"?): Timeloop ignores it'),
    "key of an instance": (
        "{P: 4, R: 3, K: 4}", "{P: 4, R: 3, K: 4, HStride: 2}", 18,
        '"HStride" is neither a dimension nor a coefficient of the shape, so Timeloop would drop it (did you mean '
        '"Hstride"?): dropped; Hstride is 1'),
    "key of a shape": (
        "    name: conv", "    name: conv\n    color: red", 12, 'unknown key "color" in the problem\'s shape'),
    "key of a directive": (
        "permutation: PRK}", "permutation: PRK, permutatoin: RPK}", 20,
        'unknown key "permutatoin" of a temporal directive (did you mean "permutation"?): Timeloop ignores it'),
    "key of the mapper": (
        "num_threads: 2", "num_threads: 2, num_thread: 3", 23,
        'unknown key "num_thread" in the mapper section (did you mean "num_threads"?): Timeloop ignores it'),
    "section": (
        "mapper:", "maper: {a: 1}\nmapper:", 23,
        'unknown section "maper" (did you mean "mapper"?): Timeloop ignores it'),
    "leftover text": (
        "factors: P=4 R=1 K=1", "factors: P=4 ; R=1 K=1", 20, 'found ";": Timeloop ignores it'),
}


@pytest.mark.parametrize(("old", "new", "line", "warning"), ODDITIES.values(), ids=ODDITIES)
def test_what_timeloop_ignores_is_a_warning_that_names_file_and_line(
        tmp_path: Path, old: str, new: str, line: int, warning: str) -> None:
    plain = load(written(tmp_path))
    file = written(tmp_path, old, new)
    with pytest.raises(SpecError, match=rf"design\.yaml:{line}: "):
        load(file)
    lenient = load(file, strict=False)
    assert len(lenient.warnings) == 1
    assert lenient.warnings[0].startswith(f"{file}:{line}: ")
    assert warning in lenient.warnings[0]
    assert meaning(lenient) == meaning(plain)


@pytest.mark.parametrize("name", RECORDED["cases"])
def test_the_numbers_are_those_of_the_real_timeloop(tmp_path: Path, name: str) -> None:
    """Recorded by timeloop-model of the commit that the file names, on the same text."""
    case = RECORDED["cases"][name]
    spec = load(written(tmp_path, text=case["text"]), strict=False)
    if case["error"]:
        assert "violates architecture constraints" in case["error"]  # a constraint that is not ignored is checked
        assert spec.warnings == ()
        return
    assert not list(differences(case["result"], compared(evaluate(spec))))
    assert bool(spec.warnings) == (name not in ("as it is", "links that carry nothing"))


def test_every_oddity_is_recorded() -> None:
    texts = [case["text"] for case in RECORDED["cases"].values()]
    assert all(NATIVE.replace(old, new, 1) in texts for old, new, _, _ in ODDITIES.values())
    assert OLD_LISTS in texts


def test_a_strict_reading_warns_of_nothing(tmp_path: Path) -> None:
    assert load(written(tmp_path)).warnings == load(written(tmp_path), strict=False).warnings == ()


CONSTRAINTS = "constraints:\n- {target: Buffer, type: temporal, factors: P<=2 K=8 R=3}\nmapper:"


def test_a_fixed_factor_above_its_dimension_is_no_constraint(tmp_path: Path) -> None:
    file = written(tmp_path, "mapper:", CONSTRAINTS)
    with pytest.raises(SpecError, match='"K=8" is larger than the dimension K=4'):
        load(file)
    lenient = load(file, strict=False)
    assert [text.split(": ", 2)[2] for text in lenient.warnings] == [
        '"K=8" is larger than the dimension K=4: Timeloop ignores it, K is free here']
    temporal = lenient.constraints.levels[0].temporal
    assert (temporal.fixed, temporal.maximum) == ({"R": 3}, {"P": 2})


def test_a_residual_in_a_constraint_is_cut_off(tmp_path: Path) -> None:
    """`timeloop-mapper` splits P = 16 into 4 x 4 for "P=4,3": it reads names and numbers, and skips the rest."""
    file = written(tmp_path, "mapper:", CONSTRAINTS.replace("P<=2 K=8 R=3", "'P<=2 K=4,3 R=3'"))
    with pytest.raises(SpecError, match='the residual of "K=4,3" has no meaning in a constraint'):
        load(file)
    lenient = load(file, strict=False)
    assert lenient.warnings[0].endswith('the residual of "K=4,3" has no meaning in a constraint: Timeloop reads K=4')
    assert lenient.constraints.levels[0].temporal.fixed == {"K": 4, "R": 3}


def test_of_two_factors_the_second_counts(tmp_path: Path) -> None:
    file = written(tmp_path, "mapper:", CONSTRAINTS.replace("K=8", "K=2 K=4"))
    lenient = load(file, strict=False)
    assert 'found both "K=2" and "K=4": Timeloop takes the second' in lenient.warnings[0]
    assert lenient.constraints.levels[0].temporal.fixed == {"K": 4, "R": 3}


def test_a_mistake_counts_once_per_file(tmp_path: Path) -> None:
    text = NATIVE.replace("word_bits: 16", "word_bits: 16, read-bandwidth: 1")
    warnings = load(written(tmp_path, text=text), strict=False).warnings
    assert len(warnings) == 1
    assert warnings[0].endswith("(and 2 more in this file)")
    assert ":6: " in warnings[0]


@pytest.mark.parametrize(("old", "new", "message"), [
    ("K=1, permutation: PRK", "K=2, permutation: PRK", "product of all factors of dimension K is 8"),
    ("entries: 64", "entries: many", "found a string"),
    ("{P: 4, R: 3, K: 4}", "{P: 4, R: 3}", 'the dimension "K" has no bound'),
    ("num_threads: 2", "optimization_metric: speed", "speed"),
])
def test_what_timeloop_refuses_stays_refused(tmp_path: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        load(written(tmp_path, old, new), strict=False)


# The v0.4 dialect: the front end refuses unknown keys, and hands attributes and instances on.

def v04(*nodes: str, sections: str = "", problem: str = PROBLEM) -> str:
    lines = [f"  - {node}" for node in ("!Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}",
                                        *nodes, "!Component {name: MAC, class: intmac}")]
    return "\n".join(["architecture:", "  nodes:", *lines, sections, problem])


def test_the_front_ends_refusals_stay(tmp_path: Path) -> None:
    for nodes, message in (
            (buffer(more="atributes: {}"), 'unknown key "atributes"'),
            (buffer(attributes="width: 8, datawidth: 8, depth: 16, read-bandwidth: 2"),
             'the attribute "read-bandwidth" is refused by Timeloop'),
            (buffer(attributes="width: 8, datawidth: 8, depth: twice(8)"), 'there is no function "twice"')):
        with pytest.raises(SpecError, match=message):
            load(written(tmp_path, text=v04(nodes)), strict=False)


def test_code_from_files_is_refused_by_name(tmp_path: Path) -> None:
    text = v04(buffer(), sections="globals: {expression_custom_functions: [my_functions.py]}")
    with pytest.raises(SpecError, match=r"calls? no code from files \(my_functions\.py\)"):
        load(written(tmp_path, text=text), strict=False)


def test_code_from_files_is_refused_before_the_expressions_that_call_it(tmp_path: Path) -> None:
    text = v04(buffer(attributes="width: 8, datawidth: 8, depth: size"),
               sections="variables: {size: twice(8)}\nglobals: {expression_custom_functions: [my_functions.py]}")
    with pytest.raises(SpecError) as caught:
        load(written(tmp_path, text=text), strict=False)
    problem, = caught.value.problems
    assert "(my_functions.py)" in problem and problem.endswith("given to fadiff_mapper.call_mapper")


def test_the_front_end_hands_unknown_mapper_options_on(tmp_path: Path) -> None:
    lenient = load(written(tmp_path, text=v04(buffer(), sections="mapper: {num_thread: 3}")), strict=False)
    assert [text.split(": ", 2)[2] for text in lenient.warnings] == [
        'unknown key "num_thread" in the mapper section (did you mean "num_threads"?): Timeloop ignores it']


def test_variables_may_be_a_list_of_mappings(tmp_path: Path) -> None:
    text = v04(buffer(attributes="width: WIDTH, datawidth: 8, depth: DEPTH"),
               sections="variables:\n- {WIDTH: 8}\n- {DEPTH: 2 * WIDTH}")
    with pytest.raises(SpecError, match="variables: found a list"):
        load(written(tmp_path, text=text))
    lenient = load(written(tmp_path, text=text), strict=False)
    assert lenient.arch.levels[0].size == 16
    assert "found a list: its mappings count as one" in lenient.warnings[0]


def test_the_front_end_counts_with_factors_that_timeloop_ignores(tmp_path: Path) -> None:
    fan = "!Container {name: PE, spatial: {meshX: 32}, constraints: {spatial: {factors: [N=32], maximize_dims: [[M]]}}}"
    lenient = load(written(tmp_path, text=v04(buffer(), fan)), strict=False)
    assert '"N=32" is larger than the dimension N=16' in lenient.warnings[0]
    level = lenient.arch.level_names().index("inter_PE_spatial")
    assert lenient.constraints.levels[level].spatial.fixed == {"M": 1}  # 32 PEs are taken by N, says the front end


# Where it shows.

def test_programs_in_timeloops_place_are_lenient(tmp_path: Path) -> None:
    file = written(tmp_path, "word_bits: 16,", "word_bits: 16, read-bandwidth: 1,")
    said: list[str] = []
    done = run(MODEL, [str(file)], ProgramSettings({}), said.append, tmp_path)
    assert done.stats.to_dict() == evaluate(load(written(tmp_path))).to_dict()
    assert [line for line in said if "read-bandwidth" in line] == [f"WARNING: {done.spec.warnings[0]}"]


def test_warnings_stand_in_the_notes_of_a_result(tmp_path: Path) -> None:
    spec = load(written(tmp_path, "word_bits: 16,", "word_bits: 16, read-bandwidth: 1,"), strict=False)
    assert spec.mapping is not None
    result = Result(spec, spec.mapping, evaluate(spec), "converged", (), {"seed": 0}, 1, 0.0)
    assert json.loads(result_json(result))["notes"][0] == f"warning: {spec.warnings[0]}"


def test_a_network_reads_its_design_as_told() -> None:
    sections = yaml.safe_load(NATIVE.replace("word_bits: 16,", "word_bits: 16, read-bandwidth: 1,", 1))
    design = {key: sections[key] for key in ("architecture", "ERT")}
    network = load_network("bundled:networks/gpt3_6b7_block")
    with pytest.raises(SpecError, match="read-bandwidth"):
        specs_of(network, design)
    specs = specs_of(network, design, strict=False)
    assert {len(spec.warnings) for spec in specs} == {1}
    assert specs_of(network, specs[0])[-1].warnings == specs[0].warnings


def test_the_command_line_is_strict_unless_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = written(tmp_path, "word_bits: 16,", "word_bits: 16, read-bandwidth: 1,")
    assert main(["check", str(file), "--energy", "built-in"]) == 2
    assert main(["check", str(file), "--energy", "built-in", "--lenient"]) == 0
    assert f"warning: {file}:6: " in capsys.readouterr().out.replace("\n", " ")


# Switches that change nothing here.

def test_links_that_carry_nothing_may_be_switched_off(tmp_path: Path) -> None:
    """The sparse tensor core of Sparseloop's artifact does so for a matrix product, whose tiles never overlap."""
    off = load(written(tmp_path, "factors: P=1 R=1 K=4", "no_link_transfer: [W, O], factors: P=1 R=1 K=4"))
    assert evaluate(off).to_dict() == evaluate(load(written(tmp_path))).to_dict()
    constraint = "constraints: [{target: Buffer, type: spatial, no_link_transfer: [W]}]\nmapper:"
    assert load(written(tmp_path, "mapper:", constraint)).warnings == ()
