"""The command line end to end: real processes, real files."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from fadiff_validation.cli import main as validate

from fadiff_mapper.calibration.correction import Calibration, FitVerdict, calibration_text
from fadiff_mapper.calibration.features import NAMES
from fadiff_mapper.cli import main

BUNDLED_TABLES = ("--energy", "bundled")
"""The same numbers whether Accelergy is installed or not."""
DESIGNS = ("eyeriss_like", "gemmini_large", "gemmini_small", "output_stationary", "simba_like", "weight_stationary")
LAYER = "bundled:layers/resnet18/conv3x3_64_64_56_s1"


def run(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "fadiff_mapper", *map(str, arguments)], capture_output=True, text=True,
                          cwd=cwd, timeout=120, check=False)


@pytest.mark.parametrize("design", DESIGNS)
def test_check_prints_what_was_understood(design: str) -> None:
    done = run("check", f"bundled:arch/{design}", LAYER, *BUNDLED_TABLES)
    assert done.returncode == 0, done.stderr
    for expected in ("115605504 multiply-accumulates", "levels, outermost first", f"energies: bundled with {design}",
                     "constraints in force", "map space:", "DRAM"):
        assert expected in done.stdout


def test_files_may_stand_between_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bundled:arch/gemmini_small", *BUNDLED_TABLES, LAYER, "--bits", "Weights=4"]) == 0
    assert "bundled with gemmini_small" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["check", "bundled:arch/gemmini_small", *BUNDLED_TABLES, LAYER, "--bit"])
    assert ended.value.code == 2 and "see fadiff-mapper check --help" in capsys.readouterr().err


@pytest.mark.slow
def test_map_writes_a_mapping_that_evaluates_to_the_same_numbers(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("map", "bundled:arch/gemmini_small", LAYER, "-o", out, "--effort", "light", "--seed", 3,
               *BUNDLED_TABLES)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in out.iterdir() if not path.name.startswith(".")}
    assert {"timeloop-mapper.map.yaml", "timeloop-mapper.map.txt", "timeloop-mapper.stats.txt", "fadiff.input.yaml",
            "fadiff.result.json"} <= names
    result = json.loads((out / "fadiff.result.json").read_text())
    again = run("evaluate", out / "fadiff.input.yaml", "--json")
    assert again.returncode == 0, again.stderr
    stats = json.loads(again.stdout)
    for key in ("cycles", "computes", "utilization", "levels", "networks", "arithmetic"):
        assert stats[key] == result["stats"][key]
    assert stats["energy_pj"] == pytest.approx(result["stats"]["energy_pj"], rel=1e-12)
    assert result["seed"] == 3 and result["status"] and result["history"]


def test_the_merged_input_is_literal_yaml_without_constraints(tmp_path: Path) -> None:
    assert run("map", "bundled:arch/eyeriss_like", LAYER, "-o", tmp_path, "--effort", "light",
               *BUNDLED_TABLES).returncode == 0
    text = (tmp_path / "fadiff.input.yaml").read_text()
    document = yaml.safe_load(text)
    assert {"architecture", "problem", "mapping", "ERT"} <= set(document)
    assert "architecture_constraints" not in document and "{{" not in text and "!" not in text


@pytest.mark.slow
def test_the_same_seed_gives_the_same_files(tmp_path: Path) -> None:
    texts = []
    for name in ("first", "second"):
        assert run("map", "bundled:arch/gemmini_large", LAYER, "-o", tmp_path / name, "--effort", "light",
                   "--seed", 7, *BUNDLED_TABLES).returncode == 0
        result = json.loads((tmp_path / name / "fadiff.result.json").read_text())
        result.pop("timing")
        texts.append((json.dumps(result), (tmp_path / name / "timeloop-mapper.map.yaml").read_text()))
    assert texts[0] == texts[1]


def test_evaluate_a_bundled_mapping() -> None:
    done = run("evaluate", "bundled:arch/gemmini_large", LAYER, "bundled:mappings/gemmini_large", *BUNDLED_TABLES)
    assert done.returncode == 0, done.stderr
    assert "cycles" in done.stdout and "Scratchpad" in done.stdout


def test_doctor_and_version_and_listing() -> None:
    assert "timeloop-model" in run("doctor").stdout
    assert run("--version").stdout.startswith("fadiff-mapper ")
    assert "bundled:arch/gemmini_large" in run("bundled", "arch").stdout.splitlines()


MANY = ("bundled:arch/gemmini_small", "bundled:layers/mobilenet_v1", *BUNDLED_TABLES)


@pytest.mark.slow
def test_map_takes_a_folder_of_problems_and_sums_them_up(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run("map", *MANY, "-o", out, "--effort", "light")
    assert done.returncode == 0, done.stderr
    summary = json.loads((out / "fadiff.summary.json").read_text())
    results = {name: json.loads((out / name / "fadiff.result.json").read_text()) for name in summary["layers"]}
    assert len(results) == 20 and "20 problems" in done.stdout
    assert summary["cycles"] == sum(result["stats"]["cycles"] for result in results.values())
    assert summary["edp"] == pytest.approx(
        summary["cycles"] * sum(result["stats"]["energy_pj"] for result in results.values()))


@pytest.mark.slow
def test_ctrl_c_ends_with_the_best_so_far_and_a_second_run_has_to_wait(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fadiff_mapper", "map", *MANY, "-o", str(tmp_path), "--imperfect",
               "--jobs", "1"]
    written = tmp_path / "conv1x1_1024_1024_7_s1" / "fadiff.result.json"
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not written.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        second = run("map", "bundled:arch/gemmini_small", LAYER, "-o", tmp_path, *BUNDLED_TABLES)
        assert second.returncode == 2 and f"another run writes to {tmp_path}" in second.stderr
        process.send_signal(signal.SIGINT)
        said, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "interrupted: the best mapping so far" in said, errors
    again = run("evaluate", written.with_name("fadiff.input.yaml"), "--json")
    assert json.loads(again.stdout)["edp"] == json.loads(written.read_text())["stats"]["edp"]


@pytest.mark.slow
def test_a_warm_start_must_fit_the_problem(tmp_path: Path) -> None:
    quick = ("--effort", "light", *BUNDLED_TABLES)
    design = "bundled:arch/gemmini_large"
    assert run("map", design, LAYER, "-o", tmp_path / "first", *quick).returncode == 0
    given = tmp_path / "first" / "timeloop-mapper.map.yaml"
    better = run("map", design, LAYER, "-o", tmp_path / "second", "--warm-start", given, *quick)
    assert better.returncode == 0, better.stderr
    edp = [json.loads((tmp_path / name / "fadiff.result.json").read_text())["stats"]["edp"]
           for name in ("first", "second")]
    assert edp[1] <= edp[0]
    for other in ((design, "bundled:layers/vgg16/fc_4096_4096"), ("bundled:arch/eyeriss_like", LAYER),
                  (design, "bundled:layers/resnet18")):
        refused = run("map", *other, "-o", tmp_path / "third", "--warm-start", given, *quick)
        assert refused.returncode == 2 and refused.stderr.startswith("error: ") and not (tmp_path / "third").exists()


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a calibration, of any prices, that beats the exact model."""
    file = tmp_path_factory.mktemp("calibrated") / "model.json"
    better = FitVerdict(100, 0.9, 0.1, 0.8, 0.2)
    file.write_text(calibration_text(Calibration("gemmini", ("DRAM",), 1.0, (1.0,) * len(NAMES), 2.0, better, better)))
    return file


SPACE, NETWORK = "bundled:spaces/gemmini_small", "bundled:networks/resnet18"
INPUTS: dict[str, tuple[str, ...]] = {
    "check": ("bundled:arch/gemmini_small", LAYER), "check a space": (SPACE,),
    "evaluate": ("bundled:arch/gemmini_small", LAYER), "map": ("bundled:arch/gemmini_small", LAYER, "-o", "out"),
    "network": (NETWORK, "bundled:arch/gemmini_small", "-o", "out"), "design": (SPACE, NETWORK, "-o", "out"),
    "infer": ("bundled:models/llama3_8b", "bundled:inference/tpu_v4i_like", "-o", "out"),
    "calibrate": ("measured.csv", "bundled:arch/gemmini_small", "-o", "out"), "import": (NETWORK, "-o", "out.yaml"),
    "bundled": (), "shim": ("out",), "mcp": ()}
"""Arguments that a command needs."""


@pytest.mark.parametrize(("command", "words", "sentence"), [
    ("check", "-D side=4 -D side=8", 'argument -D: found "side" twice; accepted: each name once'),
    ("check", "--bits Weights=4,Weights=8", 'argument --bits: found "Weights=4,Weights=8"; accepted: NAME=N,... with'),
    ("check", "--energy auto --built-in-energies", "argument --built-in-energies: not allowed with argument --energy"),
    ("check a space", "--bits Weights=4", "--bits: found with a space of designs"),
    ("check a space", "--energy estimate", "--energy: found with a space of designs"),
    ("check a space", "-D side=4 --vary side=4,8", "vary: found side, which a variable of the templates (-D) fixes"),
    ("evaluate", "--built-in-energies --energy auto", "argument --energy: not allowed with argument --built-in"),
    ("map", "--effort longer", "effort: found 'longer'; accepted: light, quick, short, full"),
    ("map", "--method descent", "method: found 'descent'; accepted: annealing, gradient, exhaustive"),
    ("map", "--method annealing --exhaustive", "argument --exhaustive: not allowed with argument --method"),
    ("map", "--model paper", "model: found 'paper' with the method annealing; accepted: the method gradient"),
    ("map", "--effort light --exhaustive", "effort: found 'light' with the method exhaustive"),
    ("map", "--imperfect --exhaustive", "imperfect: found with the method exhaustive"),
    ("map", "--prove --exhaustive", "proof: found with the method exhaustive"),
    ("map", "--prove --imperfect", "proof: found with imperfect factors"),
    ("map", "--gap 0.1", "gap: found without prove; accepted: both, or neither"),
    ("map", "--certificate proof.json", "--certificate proof.json: found without --prove"),
    ("map", "--sensitivities --imperfect", "sensitivities: found with imperfect"),
    ("map", "--metric edp --metric energy --metric edp", "metric: found edp, energy, edp; accepted: each metric once"),
    ("map", "--calibration MODEL --metric energy", "calibration: found with the metric energy, which does not depend"),
    ("map", "--calibration MODEL --imperfect", "imperfect: found with a calibration; accepted: one of them"),
    ("map", "--force", "--force: found without --calibration"),
    ("map", "--exhaustive-limit 5", "exhaustive_limit: found with the method annealing; accepted: the method exhausti"),
    ("network", "--model paper", "model: found 'paper' with the method annealing; accepted: the method gradient"),
    ("network", "--method gradient --no-fusion", "method: found gradient with layers by themselves"),
    ("network", "--longest 4 --no-fusion", "longest: found with layers by themselves"),
    ("network", "--gap 0.1 --calibration MODEL", "gap: found with a calibration; accepted: one of them"),
    ("network", "--metric energy --calibration MODEL", "calibration: found with the metric energy, which does not dep"),
    ("map", "--energy none", "energy: found 'none'"),
    ("network", "--energy none", "energy: found 'none'"),
    ("network", "--metric area", "metric: found 'area'; accepted: edp, energy, delay"),
    ("network", "--method exhaustive", "method: found 'exhaustive'; accepted: annealing, gradient"),
    ("design", "--energy none", "energy: found 'none'"),
    ("infer", "--metric area", "metric: found 'area'; accepted: edp, energy, delay"),
    ("infer", "--energy none", "energy: found 'none'"),
    ("network", "--longest 40", "longest: found 40; accepted: a whole number from 2 to 16"),
    ("network", "--dim batch=2", f"dims: found for {NETWORK}; accepted: an ONNX model"),
    ("network", "--shape x=1x3 --value rate=4", f"shapes, values: found for {NETWORK}; accepted: an ONNX model"),
    ("network", "--busy-experts 2", "resnet18: busy_experts: found 2, but no operator is a product of experts"),
    ("design", "--limit area_mm2=3 --limit area_mm2=2", 'argument --limit: found "area_mm2" twice; accepted: each na'),
    ("design", "--metric edp --metric edp", "metric: found edp, edp; accepted: one to three different metrics"),
    ("design", "--metric energy --calibration MODEL", "calibration: found with the metric energy, which does not dep"),
    ("design", "--gap 0.1 --calibration MODEL", "gap: found with a calibration, with which nothing is proven"),
    ("design", "--method bounds --shard 1/2", "shard: the method bounds learns from every design"),
    ("design", "--method bounds --study ours", "study: found with the method bounds"),
    ("design", "--address tcp://host:8786", "address: found 'tcp://host:8786' with the backend processes"),
    ("design", "--backend dask --address tcp://host:8786 --jobs 2", "jobs: found 2 with the address tcp://host:8786"),
    ("infer", "--batch 1,1", "batch: found 1, 1; accepted: each number once"),
    ("infer", "--frequency -3", "frequency: found -3.0; accepted: cycles a second > 0"),
    ("calibrate", "--seed -1", "measured.csv: no such file"),
    ("import", "--dim batch=2", f"dims: found for {NETWORK}; accepted: an ONNX model"),
    ("bundled", "lyers", 'no bundled file begins with "lyers" (did you mean "layers/"?); accepted: names in arch/'),
    ("shim", "--remove --seed 3", "--remove: found with --seed or --time-limit of launchers that are written"),
    ("shim", "--time-limit 0", "time limit: found 0.0; accepted: seconds greater than 0"),
    ("mcp", "--time-limit 0", "time limit: found 0.0; accepted: seconds greater than 0")])
def test_options_that_are_none_or_do_nothing_are_one_line(
        tmp_path: Path, command: str, words: str, sentence: str, calibrated: Path, monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    given = words.replace("MODEL", str(calibrated)).split()
    try:
        code = main([command.split()[0], *INPUTS[command], *given])
    except SystemExit as ended:
        code = ended.code
    said = capsys.readouterr().err
    assert code == 2 and not list(tmp_path.iterdir())
    assert said.startswith(f"error: {sentence}") and said.count("\n") == 1


@pytest.mark.parametrize("words", [("check", "9" * 5000), ("evaluate", "x.yaml" + "y" * 5000)])
def test_lines_of_errors_have_a_length(words: tuple[str, str]) -> None:
    done = run(*words)
    [line] = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("error: ") and len(line) < 3100


@pytest.mark.parametrize("jobs", ["999999999999", "1025", "99999999999999999999", "0", "-1", "two"])
@pytest.mark.parametrize("words", [["map", "a", "-o", "b"], ["network", "a", "b", "-o", "c"],
                                   ["design", "a", "b", "-o", "c"], ["run"]])
def test_more_at_a_time_than_any_machine_can_do_is_refused(words: list[str], jobs: str,
                                                           capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        (validate if words == ["run"] else main)([*words, f"--jobs={jobs}"])
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(
        f'error: argument --jobs: found "{jobs}"; accepted: a whole number from 1 to 1024')
