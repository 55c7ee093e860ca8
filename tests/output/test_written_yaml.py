"""Every YAML file that a command writes is read by the package's own reader, and is what its command reads again."""

from __future__ import annotations

from pathlib import Path

import pytest
from fadiff_validation.looptree import evaluate_fused
from small_network import result
from small_specs import TWO_LAYERS

from fadiff_mapper import load_network
from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.yaml.load import load_text
from fadiff_mapper.inputs.yaml.located import Map
from fadiff_mapper.timeloop.launchers import main as launched

DESIGN = str(bundled_files.find("arch/gemmini_small"))
EFFORT = ("--quiet", "--energy", "bundled", "--effort", "light")


def read_all(folder: Path) -> set[str]:
    """The names of all YAML files below a folder, each of which our reader understands."""
    files = list(folder.rglob("*.yaml"))
    for path in files:
        assert isinstance(load_text(path.read_text(encoding="utf-8"), path.name), Map)
    return {path.name for path in files}


@pytest.fixture(scope="module")
def mapped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a mapped layer."""
    out = tmp_path_factory.mktemp("map") / "out"
    assert main(["map", DESIGN, "bundled:layers/vgg16/fc_4096_1000", "-o", str(out), *EFFORT]) == 0
    return out


def test_map(mapped: Path) -> None:
    assert read_all(mapped) >= {"fadiff.input.yaml", "timeloop-mapper.map.yaml", "timeloop-mapper.ERT.yaml",
                                "timeloop-mapper.ART.yaml"}
    assert main(["evaluate", str(mapped / "fadiff.input.yaml")]) == 0
    assert main(["evaluate", DESIGN, "bundled:layers/vgg16/fc_4096_1000",
                 str(mapped / "timeloop-mapper.map.yaml")]) == 0


@pytest.mark.slow
@pytest.mark.parametrize("program", ["timeloop-mapper", "timeloop-model"])
def test_launchers(program: str, mapped: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert launched(["--time-limit", "0.2", program, str(mapped / "fadiff.input.yaml"), "-o", str(tmp_path)]) == 0
    assert read_all(tmp_path) >= {f"{program}.ERT.yaml", f"{program}.ART.yaml"}


def test_import(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text(TWO_LAYERS)
    assert main(["import", str(tmp_path / "net.yaml"), "-o", str(tmp_path / "out" / "net.yaml")]) == 0
    assert read_all(tmp_path / "out") == {"net.yaml"}
    assert load_network(tmp_path / "out" / "net.yaml") == load_network(tmp_path / "net.yaml")


def test_a_network_with_a_fused_group(tmp_path: Path) -> None:
    result().write(tmp_path)
    assert read_all(tmp_path) >= {"plan.yaml", "fadiff.input.yaml", "timeloop-mapper.map.yaml", "looptree.yaml"}
    text = (tmp_path / "groups" / "1" / "looptree.yaml").read_text(encoding="utf-8")
    first, tagged = text.splitlines()[0], [line for line in text.splitlines() if "!" in line]
    assert first.startswith("# An input of LoopTree") and "read by timeloopfe.v4fused" in first and tagged
    assert evaluate_fused(text).to_dict()
