"""`bundled:` names stand for files wherever Python takes files, as on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from fadiff_mapper import FadiffError, load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.inputs.load import files_of, load_layers, load_mapping
from fadiff_mapper.network.one_design import specs_of
from fadiff_mapper.workload.readers.load_network import load_network

DESIGN, LAYER = "arch/gemmini_large", "layers/resnet18/conv3x3_64_64_56_s1"
BUNDLED_DESIGN, BUNDLED_LAYER = f"bundled:{DESIGN}", f"bundled:{LAYER}"


def test_load_takes_bundled_names_and_records_their_paths() -> None:
    spec = load(BUNDLED_DESIGN, BUNDLED_LAYER)
    assert spec == load(find(DESIGN), find(LAYER))
    assert spec.files == (str(find(DESIGN)), str(find(LAYER)))


def test_load_and_the_command_line_agree() -> None:
    (spec,) = load_layers(BUNDLED_DESIGN, BUNDLED_LAYER).values()
    assert spec == load(BUNDLED_DESIGN, BUNDLED_LAYER)


def test_a_folder_of_bundled_files_stands_for_all_of_them() -> None:
    assert [path.stem for path in files_of(["bundled:mappings"])] == [
        path.stem for path in sorted(find("mappings/gemmini_large").parent.glob("*.yaml"))]


def test_a_mapping_is_found_by_its_bundled_name() -> None:
    spec = load(BUNDLED_DESIGN, BUNDLED_LAYER)
    assert load_mapping("bundled:mappings/gemmini_large", spec) == load_mapping(find("mappings/gemmini_large"), spec)


@pytest.mark.parametrize("design", [BUNDLED_DESIGN, [BUNDLED_DESIGN]])
def test_a_network_is_mapped_on_a_bundled_design(design: str | list[str]) -> None:
    workload = load_network("bundled:networks/resnet18")
    specs = specs_of(workload, design)
    assert specs == specs_of(workload, find(DESIGN))
    assert {spec.files for spec in specs} == {(str(find(DESIGN)),)}


def test_an_unknown_bundled_name_is_one_line_with_the_nearest_name() -> None:
    message = ('there is no bundled file "arch/gemmini_larg" (did you mean "arch/gemmini_large"?); '
               "accepted: what `fadiff-mapper bundled` lists")
    for call in (lambda: load("bundled:arch/gemmini_larg"), lambda: files_of(["bundled:arch/gemmini_larg"])):
        with pytest.raises(FadiffError) as caught:
            call()
        assert str(caught.value) == message


def test_every_problem_has_a_name_of_its_own_whatever_files_are_called(tmp_path: Path) -> None:
    files = [tmp_path / "one" / "in" / "x.yaml", tmp_path / "two" / "in" / "x.yaml", tmp_path / "in.x.2.yaml"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(find(LAYER).read_text())
    assert list(load_layers(BUNDLED_DESIGN, *files)) == ["in.x.1", "in.x.2", "in.x.2.3"]
    assert list(load_layers(BUNDLED_DESIGN, *files[:2])) == ["in.x.1", "in.x.2"]
