"""No command replaces what is no regular file, or searches for long before it says so."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest
from fadiff_validation.cli import main as validate

from fadiff_mapper.base.bundled_files import one_path
from fadiff_mapper.cli import main
from fadiff_mapper.output import PLAN_FILES, RUN_FILES
from fadiff_mapper.timeloop.launchers import main as launcher

MESH = Path(__file__).parents[1] / "recorded" / "emit" / "mesh.yaml"
DESIGN, LAYER = "bundled:arch/gemmini_small", "bundled:layers/resnet18/fc_512_1000"
NETWORK = "bundled:networks/resnet18"
SECTION = "design_space: {version: 0.1, parameters: {columns: {path: PEColumns.spatial.meshX, values: [8, 16]}}}\n"

TAKEN: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link": lambda path: (path.with_name("target").write_text("theirs"), path.symlink_to("target"))[1],
    "link to a device": lambda path: path.symlink_to(os.devnull)}

COMMANDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "import": ("net.yaml", ("import", NETWORK, "-o", "{file}")),
    "calibrate": ("model.json", ("calibrate", "missing.csv", DESIGN, "-o", "{file}")),
    "map": ("fadiff.result.json", ("map", DESIGN, LAYER, "-o", "{folder}", "--energy", "bundled")),
    **{f"network {name}": (name, ("network", NETWORK, DESIGN, "-o", "{folder}", "--energy", "bundled"))
       for name in (*PLAN_FILES, "fadiff.checkpoint.json")},
    **{f"design {name}": (name, ("design", "bundled:spaces/gemmini_small", NETWORK, "-o", "{folder}"))
       for name in RUN_FILES},
    "shim": ("timeloop-model", ("shim", "{folder}")),
    "shim --remove": ("timeloop-mapper", ("shim", "--remove", "{folder}")),
    "launcher": ("timeloop-model.stats.txt", ("timeloop-model", str(MESH), "-o", "{folder}")),
    "validate": ("answers.jsonl.gz", ("record", "--backend", "native", "-o", "{file}"))}


def searches(*_: object, **__: object) -> NoReturn:
    raise AssertionError("the search began")


@pytest.mark.parametrize("kind", TAKEN)
@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_no_regular_file_stays(command: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                       capsys: pytest.CaptureFixture[str]) -> None:
    for search in ("network.map_network.plan_network", "design.search_design.search_design",
                   "search.map_layers.search_all"):
        monkeypatch.setattr(f"fadiff_mapper.{search}", searches)
    name, words = COMMANDS[command]
    TAKEN[kind](tmp_path / name)
    before = (tmp_path / name).lstat()
    begun = time.process_time()
    given = [word.format(file=tmp_path / name, folder=tmp_path) for word in words]
    program, failed, start = {"launcher": (launcher, 1, "ERROR: "), "validate": (validate, 2, "error: ")}.get(
        command, (main, 2, "error: "))
    assert program(given) == failed
    said = capsys.readouterr().err
    assert said.startswith(f"{start}{tmp_path / name}: ")
    assert time.process_time() - begun < 5
    assert os.path.samestat((tmp_path / name).lstat(), before)
    assert {path.name for path in tmp_path.iterdir()} - {"target"} == {name}
    if kind == "link":
        assert (tmp_path / "target").read_text() == "theirs"


def test_a_link_to_a_folder_takes_the_files(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to("disk")
    assert main(["map", DESIGN, LAYER, "-o", str(tmp_path / "out"), "--energy", "bundled", "--quiet", "--effort",
                 "light"]) == 0
    assert main(["import", NETWORK, "-o", str(tmp_path / "out" / "net.yaml")]) == 0
    assert (tmp_path / "out").is_symlink()
    assert {"fadiff.result.json", "net.yaml"} <= {path.name for path in (tmp_path / "disk").iterdir()}


@pytest.mark.parametrize(("name", "content", "words"), [
    ("net.onnx", "", ("import", "{file}", "-o", "{file}")),
    ("net.yaml", "", ("import", "{folder}/../{here}/net.yaml", "-o", "{file}")),
    ("measured.csv", "", ("calibrate", "{file}", DESIGN, "-o", "{file}")),
    ("arch.yaml", "", ("calibrate", "missing.csv", "{file}", "-o", "{file}")),
    ("fadiff.input.yaml", "bundled:layers/resnet18/fc_512_1000", ("map", DESIGN, "{file}", "-o", "{folder}")),
    ("timeloop-mapper.ERT.yaml", "bundled:tables/gemmini_small.ERT",
     ("map", DESIGN, LAYER, "{file}", "-o", "{folder}")),
    ("plan.yaml", NETWORK, ("network", "{file}", DESIGN, "-o", "{folder}")),
    ("architecture.yaml", DESIGN, ("design", "{file}", NETWORK, "-o", "{folder}"))])
def test_no_result_takes_the_place_of_an_input(name: str, content: str, words: tuple[str, ...], tmp_path: Path,
                                               capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / name
    before = one_path(content).read_text() + (SECTION if words[0] == "design" else "") if content else "theirs"
    file.write_text(before)
    assert main([word.format(file=file, folder=tmp_path, here=tmp_path.name) for word in words]) == 2
    said = f"error: {file}: cannot be written: this command reads it; accepted: another output\n"
    assert capsys.readouterr().err == said
    assert [path.name for path in tmp_path.iterdir()] == [name] and file.read_text() == before


def test_no_result_leaves_the_folder_whatever_the_names_of_problems(tmp_path: Path) -> None:
    problems = tmp_path / "problems"
    problems.mkdir()
    for name in ("...yaml", "..yaml", "fc.yaml"):
        (problems / name).write_text(one_path(LAYER).read_text())
    assert main(["map", DESIGN, str(problems), "-o", str(tmp_path / "out"), "--energy", "bundled", "--quiet",
                 "--effort", "quick"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"problems", "out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"_..", "_.", "fc", "fadiff.summary.json"}
