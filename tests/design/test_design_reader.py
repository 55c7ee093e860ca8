"""Reading a design with many layers at once gives what reading it for each layer gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_spaces import SECTION, small_network, small_question

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.design.evaluate_design import DesignReader
from fadiff_mapper.design.proposers import all_points
from fadiff_mapper.design.question import DesignOptions, DesignQuestion
from fadiff_mapper.design.space import design_document, read_space
from fadiff_mapper.inputs.load import read_spec, with_problem
from fadiff_mapper.inputs.spec.spec import Spec


def read_one_by_one(question: DesignQuestion, point: tuple[int, ...]) -> list[Spec]:
    document = design_document(question.space, point)
    return [read_spec(with_problem(document, layer.literal), question.space.files, question.energy)
            for layer in question.layers]


def test_every_design_is_read_as_if_each_layer_were_read_by_itself(tmp_path: Path) -> None:
    question = small_question(tmp_path)
    reader = DesignReader(question)
    for point in all_points(question.space):
        assert list(reader.specs(point)) == read_one_by_one(question, point)
    assert len(reader.readings) == 1  # constraints are read once, not for every depth and number of columns


ARCHITECTURE = """\
architecture:
  version: 0.4
  nodes:
  - !Component {name: DRAM, class: DRAM, attributes: {width: 64, datawidth: 8}}
  - !Component {name: Buffer, class: SRAM, attributes: {depth: 4096, width: 64, datawidth: 8}%s}
  - !Container {name: Lanes, spatial: {meshX: 4}%s}
  - !Component {name: MACC, class: intmac, attributes: {width: 8, datawidth: 8}}
design_space:
  version: 0.1
  parameters:
    lanes: {path: Lanes.spatial.meshX, powers_of_two: [4, 16]}
    depth: {path: Buffer.attributes.depth, values: [2048, 4096%s]}
"""


@pytest.mark.parametrize(("buffer", "lanes"), [
    (", constraints: {temporal: {factors: [C=0]}}", ""),  # all of a dimension, whose bound is the layer's
    ("", ", constraints: {spatial: {maximize_dims: [[C, M]]}}"),  # as much as layer and fan-out allow
])
def test_constraints_that_depend_on_layer_and_fanout_are_those_of_each(buffer: str, lanes: str, tmp_path: Path) -> None:
    file = tmp_path / "arch.yaml"
    file.write_text(ARCHITECTURE % (buffer, lanes, ""), encoding="utf-8")
    question = DesignQuestion(read_space(file), (small_network(tmp_path),), (1.0,), DesignOptions())
    reader = DesignReader(question)
    for point in all_points(question.space):
        assert list(reader.specs(point)) == read_one_by_one(question, point)


def test_notes_on_a_design_are_those_of_a_full_reading(tmp_path: Path) -> None:
    file = tmp_path / "arch.yaml"
    ert = """\
ERT:
  version: 0.4
  tables:
  - {name: "Lanes.MACC[1..4]", actions: [{name: compute, arguments: {}, energy: 0.5}]}
"""
    text = (ARCHITECTURE % ("", "", "")).replace("{width: 64, ", "{read_bandwith: 7, width: 64, ")
    file.write_text(text + ert, encoding="utf-8")
    space = read_space(file, energy="bundled", strict=False)
    question = DesignQuestion(space, (small_network(tmp_path),), (1.0,), DesignOptions())
    reader = DesignReader(question)
    for point in all_points(question.space):
        document = design_document(question.space, point)
        assert list(reader.specs(point)) == [
            read_spec(with_problem(document, layer.literal), question.space.files, "bundled", strict=False)
            for layer in question.layers]
    assert any("read_bandwith" in note for note in reader.specs(point)[1].notes)
    assert any("the ERT has no energy for" in note for note in reader.specs(point)[1].notes)
    assert len(reader.readings) == 1


def test_an_attribute_that_looks_at_the_layer_is_worked_out_for_each(tmp_path: Path) -> None:
    bandwidth = "datawidth: 8, read_bandwidth: len(spec.problem.instance)}}\n  - !Container"
    text = (ARCHITECTURE % ("", "", "")).replace("datawidth: 8}}\n  - !Container", bandwidth)
    file = tmp_path / "arch.yaml"
    file.write_text(text, encoding="utf-8")
    question = DesignQuestion(read_space(file), (small_network(tmp_path),), (1.0,), DesignOptions())
    reader = DesignReader(question)
    for point in all_points(question.space):
        assert list(reader.specs(point)) == read_one_by_one(question, point)
    assert not reader.readings


def test_a_point_that_is_no_design_says_where(tmp_path: Path) -> None:
    question = small_question(tmp_path, SECTION.replace("[512,", "[-1, 512,"))
    with pytest.raises(SpecError, match=r"depth.path: found -1; accepted: a whole number >= 0"):
        DesignReader(question).specs((0, 0))
