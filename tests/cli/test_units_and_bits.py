"""Bad units, widths and lengths at the commands that read them: a line with the place, exit code 2, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from fadiff_mapper.base import bundled_files
from fadiff_mapper.cli import main

TPU, LAYER = "bundled:inference/tpu_v4i_like", "bundled:layers/llama3_8b_decode/fc_4096_1024"
MODEL, NETWORK = "bundled:models/llama3_8b", "bundled:networks/llama3_8b_decode"


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> str:
    """The line with which a command refuses its input."""
    try:
        code = main([*words, *([] if words[0] == "check" else ["-o", str(folder / "out")])])
    except SystemExit as error:
        code = int(error.code or 0)
    told = capsys.readouterr()
    assert (code, told.out, told.err.count("\n")) == (2, "", 1)
    assert not [file for file in folder.glob("out/**/*") if file.name != ".fadiff.lock"]
    return told.err


def changed(folder: Path, old: str, new: str) -> str:
    """The bundled design with another text, as a file."""
    text = bundled_files.find("inference/tpu_v4i_like").read_text()
    assert old in text
    (folder / "tpu.yaml").write_text(text.replace(old, new))
    return str(folder / "tpu.yaml")


@pytest.mark.parametrize("command", [("infer", MODEL), ("network", NETWORK)])
def test_an_operation_that_no_unit_can_do(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                          command: tuple[str, str]) -> None:
    line = refused(capsys, tmp_path, *command, changed(tmp_path, "exp: {mac: 6}, ", ""))
    place = "llama3_8b: " if command[0] == "infer" else "llama3_8b_decode.yaml:"
    assert place in line and "(softmax): no unit of the design does exp beside its other operations" in line
    assert "found: VectorUnit with " in line and "; accepted: a unit with add, div, exp" in line


@pytest.mark.parametrize("command", [("infer", MODEL), ("network", NETWORK), ("map",), ("check",)])
def test_a_unit_without_an_energy(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                  command: tuple[str, ...]) -> None:
    design = changed(tmp_path, "- {name: other, energy: 0.084}", "")
    line = refused(capsys, tmp_path, *command, design, *([] if len(command) > 1 else [LAYER]))
    assert f"{design}:" in line and ".other: " in line and 'the operation "other" has no energy' in line
    assert "accepted: energy: PJ, or an ERT with an action of this name" in line


@pytest.mark.parametrize("width", ["0", "300", "-4", "1.5"])
@pytest.mark.parametrize(("command", "name"), [
    (("infer", MODEL, TPU), "Weights"), (("network", NETWORK, TPU), "Weights"), (("map", TPU, LAYER), "Inputs"),
    (("check", TPU, LAYER), "Outputs")])
def test_a_width_that_no_element_has(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: tuple[str, ...],
                                     name: str, width: str) -> None:
    line = refused(capsys, tmp_path, *command, "--bits", f"{name}={width}")
    assert f"bits: {name}: found " in line and width in line and "accepted: a whole number from 1 to 256" in line


@pytest.mark.parametrize("width", [0, 300, {"bits": 4, "scale": 300}, {"bits": 4, "per": 0}])
def test_a_width_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str], width: object) -> None:
    problem = yaml.safe_load(bundled_files.find("layers/llama3_8b_decode/fc_4096_1024").read_text())
    problem["problem"]["instance"]["bits"] = {"Weights": width}
    (tmp_path / "layer.yaml").write_text(yaml.safe_dump(problem))
    line = refused(capsys, tmp_path, "map", TPU, str(tmp_path / "layer.yaml"))
    assert f"{tmp_path / 'layer.yaml'}:" in line and "problem.instance.bits.Weights" in line and "accepted: " in line
    shapes = [{"id": "p", "op": "gemm", "dims": {"N": 1, "M": 8, "C": 8, "P": 1, "Q": 1, "R": 1, "S": 1},
               "bits": {"Weights": width}}]
    (tmp_path / "net.yaml").write_text(yaml.safe_dump({"workload": {
        "version": 1, "name": "net", "inputs": {"x": [1, 8]}, "shapes": shapes,
        "graph": [{"name": "p", "shape": "p", "from": ["x"]}]}}))
    line = refused(capsys, tmp_path, "network", str(tmp_path / "net.yaml"), TPU)
    assert f"{tmp_path / 'net.yaml'}:" in line and "bits.Weights" in line and "accepted: " in line


@pytest.mark.parametrize(("words", "said"), [
    (("--prompt", "9000", "--generate", "1"), "prompt: found 9000 tokens and 1 to generate"),
    (("--prompt", "8192", "--generate", "1"), "prompt: found 8192 tokens and 1 to generate"),
    (("--prompt", "0"), "prompt: found 0; accepted: a whole number >= 1")])
def test_a_prompt_that_the_model_has_no_room_for(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                                 words: tuple[str, ...], said: str) -> None:
    line = refused(capsys, tmp_path, "infer", MODEL, TPU, *words)
    assert said in line and ("llama3_8b is made for 8192; accepted: at most so many together" in line or "0;" in said)
