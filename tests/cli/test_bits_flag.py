"""`--bits` of the commands: the numbers of narrow tensors, the files of a run, and one line for what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from small_spaces import small_network

from fadiff_mapper import load, save_network
from fadiff_mapper.cli import main

DESIGN, LAYER = "bundled:arch/gemmini_small", "bundled:layers/resnet18/conv3x3_64_128_28_s2"
NARROW = "Weights=4,Inputs=8,Outputs=8"


def test_a_mapping_of_narrow_tensors_is_evaluated_again_from_its_files(tmp_path: Path,
                                                                     capsys: pytest.CaptureFixture[str]) -> None:
    for name, bits in ("wide", ()), ("narrow", ("--bits", NARROW)):
        assert main(["map", DESIGN, LAYER, *bits, "--quiet", "-o", str(tmp_path / name)]) == 0
    wide, narrow = (json.loads((tmp_path / name / "fadiff.result.json").read_text())["stats"]
                    for name in ("wide", "narrow"))
    assert narrow["energy_pj"] < wide["energy_pj"]
    text = (tmp_path / "narrow" / "fadiff.input.yaml").read_text()
    assert yaml.safe_load(text)["problem"]["instance"]["bits"] == {"Weights": 4, "Inputs": 8, "Outputs": 8}
    assert "bits" not in yaml.safe_load((tmp_path / "wide" / "fadiff.input.yaml").read_text())["problem"]["instance"]
    capsys.readouterr()
    assert main(["evaluate", str(tmp_path / "narrow" / "fadiff.input.yaml"), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["energy_pj"], again["cycles"]) == (narrow["energy_pj"], narrow["cycles"])
    assert main(["explain", str(tmp_path / "narrow")]) == 0
    assert main(["check", DESIGN, LAYER, "--bits", NARROW]) == 0
    assert "words of 4 bits" in capsys.readouterr().out


def test_a_network_file_and_a_plan_with_bits(tmp_path: Path) -> None:
    save_network(small_network(tmp_path), tmp_path / "network.yaml")
    assert main(["import", str(tmp_path / "network.yaml"), "--bits", NARROW, "-o", str(tmp_path / "packed.yaml")]) == 0
    assert main(["network", str(tmp_path / "packed.yaml"), DESIGN, "--quiet", "-o", str(tmp_path / "plan")]) == 0
    assert main(["network", str(tmp_path / "network.yaml"), DESIGN, "--bits", NARROW, "--quiet",
                 "-o", str(tmp_path / "again")]) == 0
    one, other = (json.loads((tmp_path / name / "fadiff.network.json").read_text()) for name in ("plan", "again"))
    assert (one["energy_pj"], one["cycles"]) == (other["energy_pj"], other["cycles"])


def test_the_flag_takes_the_place_of_what_the_input_says() -> None:
    given = {"Weights": {"bits": 4, "scale": 8, "per": 32}}
    spec = load(DESIGN, LAYER, bits={"Weights": 8, "Inputs": 4})
    assert [space.bits and space.bits.bits for space in spec.problem.dataspaces] == [8, 4, None]
    assert load(DESIGN, LAYER, bits=given).literal["problem"]["instance"]["bits"] == given


@pytest.mark.parametrize(("bits", "message"), [
    ("Weights=0", "bits: Weights: found 0; accepted: a whole number from 1 to 256"),
    ("Weights=300", "bits: Weights: found 300; accepted: a whole number from 1 to 256"),
    ("Weights=-8", "bits: Weights: found -8; accepted: a whole number from 1 to 256"),
    ("Weights=4.5", "bits: Weights: found 4.5; accepted: a whole number from 1 to 256"),
    ("Wights=4", 'bits: Wights: unknown data space "Wights" (did you mean "Weights"?); accepted: Weights, Inputs, '
                 "Outputs"),
    ("auto", "bits: found auto; accepted: bits of an element by tensor (of a network also auto)"),
    ("Weights=four", 'argument --bits: found "Weights=four"; accepted: NAME=N,... with bits from 1 to 256, each name '
                     "once; see fadiff-mapper map --help"),
])
def test_wrong_bits_are_one_line_and_nothing_is_written(bits: str, message: str, tmp_path: Path,
                                                        capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = main(["map", DESIGN, LAYER, "--bits", bits, "-o", str(tmp_path / "out")])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert (code, capsys.readouterr().err) == (2, f"error: {message}\n")
    assert not (tmp_path / "out").exists()
