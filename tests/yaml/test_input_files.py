"""Every door that reads a file refuses what is no regular file, and none is waited for or read without end."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.cli import main
from fadiff_mapper.inputs.yaml.input_file import open_input, read_text
from fadiff_mapper.search.explanation.explain_run import INPUT, RESULT

ENDLESS: dict[str, Callable[[Path], None]] = {
    "pipe": os.mkfifo,
    "link to a pipe": lambda path: (os.mkfifo(path.with_name("pipe")), path.symlink_to("pipe"))[1],
    "device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/tty"),
    "memory of this process": lambda path: path.symlink_to("/proc/self/pagemap"),
    "hole": lambda path: (path.touch(), os.truncate(path, 1 << 40))[1],
    "folder": lambda path: path.mkdir()}
"""What stands in the place of a file. /proc/self/pagemap is, like /proc/kmsg, a regular file of no bytes without an
end; to read that one would take the messages of the machine's kernel away."""

LAYER = "bundled:layers/resnet18/fc_512_1000"
DESIGN = "bundled:arch/gemmini_small"
DOORS: dict[str, tuple[str, ...]] = {
    "architecture.yaml": ("check", "{file}", LAYER),
    "problem.yaml": ("map", DESIGN, "{file}", "-o", "{out}"),
    "start.map.yaml": ("map", DESIGN, LAYER, "--warm-start", "{file}", "-o", "{out}"),
    "net.yaml": ("import", "{file}", "-o", "{out}/net.yaml"),
    "net.onnx": ("import", "{file}", "-o", "{out}/net.yaml"),
    "plan.yaml": ("network", "{file}", DESIGN, "-o", "{out}"),
    "space.yaml": ("design", "{file}", "bundled:networks/resnet18", "-o", "{out}"),
    "measured.csv": ("calibrate", "{file}", DESIGN, "-o", "{out}/model.json"),
    "model.json": ("map", DESIGN, LAYER, "--calibration", "{file}", "-o", "{out}"),
    "fadiff.checkpoint.json": ("network", "bundled:networks/resnet18", DESIGN, "-o", "{folder}"),
    INPUT: ("explain", "{folder}"), RESULT: ("explain", "{folder}")}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_is_none_is_refused_at_once(door: str, kind: str, tmp_path: Path,
                                                capsys: pytest.CaptureFixture[str]) -> None:
    folder, out = tmp_path / "run", tmp_path / "out"
    folder.mkdir()
    for name in (INPUT, RESULT) if door in (INPUT, RESULT) else ():
        (folder / name).write_text("{}")
    (folder / door).unlink(missing_ok=True)
    ENDLESS[kind](folder / door)
    words = [word.format(file=folder / door, folder=folder, out=out) for word in DOORS[door]]
    begun = time.process_time()
    assert main([*words, "--energy", "bundled"] if words[0] in ("map", "check", "network") else words) == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ") and str(folder) in said
    assert time.process_time() - begun < 5
    assert not out.exists() and (folder / door).lstat()


def test_no_more_is_read_than_a_file_says_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_text(tmp_path / "file", "a file", 5) == "12345"
    with pytest.raises(SpecError, match=r"has 0.0 MiB; accepted: at most 0 MiB"):
        read_text(tmp_path / "file", "a file", 4)
    assert read_text(Path("/proc/self/pagemap"), "a file", 100) == ""
    assert read_text(Path("/proc/self/status"), "a file", 100) == ""


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(tmp_path: Path,
                                                                monkeypatch: pytest.MonkeyPatch) -> None:
    regular = tmp_path / "regular"
    regular.write_bytes(b"12345")
    status = regular.stat()
    assert stat.S_ISREG(status.st_mode)
    os.mkfifo(tmp_path / "file")
    with monkeypatch.context() as patched:
        patched.setattr(Path, "stat", lambda _: status)
        file, size = open_input(tmp_path / "file", "a file", 100)
    with file:
        assert file.read(size) == b""
