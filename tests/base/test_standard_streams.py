"""What is printed: whatever the encoding, the names and the state of the streams."""

from __future__ import annotations

import ast
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fadiff_mapper
from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.standard_streams import printable, say, say_error, shown
from fadiff_mapper.base.text_formats import json_text
from fadiff_mapper.cli import main
from fadiff_mapper.output.terminal.console import Screen, table

PACKAGE = Path(fadiff_mapper.__file__).parent
ENCODINGS = ("ascii", "latin-1", "cp437", "shift_jis", "utf-8", "utf-16", None)

HOSTILE = "fürst日\x1b]0;title\x07\x1b[31mred\x9b2J\x7f\r\b\u202e\udcff [bold]:smile:"
"""A name that steers a terminal, turns its direction, is no Unicode, or is markup of rich."""

NETWORK = """workload:
  version: 1
  name: two
  inputs: {input: [1, 4, 8, 8]}
  shapes:
  - {id: one, op: conv, dims: {N: 1, M: 8, C: 4, P: 8, Q: 8, R: 3, S: 3}, stride: [1, 1]}
  graph:
  - {name: "fürst日", shape: one, from: [input]}
"""


def command(*words: object, cwd: Path, shell: str = "", **variables: str) -> subprocess.CompletedProcess[bytes]:
    """A command as a shell runs it, with redirections after its words."""
    said = " ".join([f'"{sys.executable}" -m fadiff_mapper', *map(str, words), shell])
    return subprocess.run(["bash", "-c", f"{said}"], cwd=cwd, env={**os.environ, **variables}, capture_output=True,
                          timeout=120, check=False)


# Text.

@given(st.text(), st.sampled_from(ENCODINGS))
def test_text_is_shown_in_printable_characters_of_the_encoding(text: str, encoding: str | None) -> None:
    found = shown(text, encoding)
    assert all(letter.isprintable() or letter in "\n\t" for letter in found)
    assert found.encode(encoding or "utf-8").decode(encoding or "utf-8") == found
    assert found.count("\n") == text.count("\n")


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text
    assert all(shown(text, encoding) == text for encoding in ENCODINGS)


def test_control_characters_are_written_as_in_python() -> None:
    assert printable("a\x1b[31m\n\u202e\udcff") == r"a\x1b[31m\n\u202e\udcff"
    assert printable("a\n\tb\r", "\n\t") == "a\n\tb\\r"


@pytest.mark.parametrize("encoding", ENCODINGS[:-1])
def test_tables_and_lines_hold_nothing_that_steers_a_terminal(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding, errors="strict"))
    rows = table(HOSTILE, HOSTILE, "b", text=1)
    rows.add_row(HOSTILE, "1")
    rows.caption = HOSTILE
    Screen().print(rows)
    Screen().print(f"written to {HOSTILE}")
    say(HOSTILE)
    sys.stdout.flush()
    lines = raw.getvalue().decode(encoding).splitlines()
    assert all(line.isprintable() for line in lines)
    assert sum(r"\x1b[31mred" in line and "[bold]:smile:" in line for line in lines) == 6


def test_json_is_the_same_in_any_encoding() -> None:
    content = {HOSTILE: [HOSTILE, 1.5]}
    assert json.loads(json_text(content, ascii_only=True)) == content
    assert all(shown(json_text(content, ascii_only=True), encoding) == json_text(content, ascii_only=True)
               for encoding in ENCODINGS)


def test_lines_of_an_error_have_a_length_and_a_mark(capsys: pytest.CaptureFixture[str]) -> None:
    say_error("x" * 5000 + "\nsecond\x1b")
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("error: xxx") and " ... " in first and len(first) < 3100
    assert second == r"error: second\x1b"


def test_everything_is_printed_through_these_functions() -> None:
    """No module prints by itself, or makes a console of its own."""
    named = re.compile(r"\b(?:print|Console|write|warn)\(")    # most files need not be parsed
    for path, text in ((path, path.read_text(encoding="utf-8")) for path in PACKAGE.rglob("*.py")):
        if path.name in ("standard_streams.py", "console.py") or not named.search(text):
            continue
        if path.name == "__main__.py":  # writes where no other module could be loaded
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                assert called not in ("print", "Console", "sys.stdout.write", "sys.stderr.write", "warnings.warn"), (
                    f"{path}:{node.lineno}")


# Commands.

@pytest.mark.slow
@pytest.mark.parametrize(("variables", "name"), [
    ({"PYTHONIOENCODING": "ascii"}, rb"f\xfcrst\u65e5"), ({"PYTHONIOENCODING": "latin-1"}, b"f\xfcrst\\u65e5"),
    ({"LC_ALL": "C"}, "fürst日".encode()),
    ({"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}, rb"f\xfcrst\u65e5"),
    ({"LC_ALL": "POSIX", "PYTHONIOENCODING": "utf-8"}, "fürst日".encode())], ids=str)
def test_names_that_an_encoding_lacks(variables: dict[str, str], name: bytes, tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text(NETWORK, encoding="utf-8")
    done = command("import net.yaml -o out.yaml", cwd=tmp_path, **variables)
    assert done.returncode == 0, done.stderr
    assert name in done.stdout
    assert "fürst日" in (tmp_path / "out.yaml").read_text(encoding="utf-8")


def test_names_of_files_do_not_steer_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                  capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    monkeypatch.chdir(tmp_path)
    name = "a\x1b[2J\nerror: b\udcff.yaml"
    (tmp_path / name).write_text("{unbalanced")
    (tmp_path / "folder\x1b[31m").mkdir()
    (tmp_path / "net.yaml").write_text(NETWORK, encoding="utf-8")
    for words, code in ((["check", name], 2), (["check", f"no{name}"], 2), (["import", name, "-o", "out.yaml"], 2),
                        (["import", "net.yaml", "-o", f"folder\x1b[31m/{name}"], 0),
                        (["import", "net.yaml", "-o", "folder\x1b[31m"], 2), (["shim", "folder\x1b[31m"], 0),
                        (["explain", name], 2), ([name], 2)):
        try:
            ended = main(words)
        except SystemExit as end:    # of the parser of arguments
            ended = int(end.code or 0)
        said = b"".join(capfdbinary.readouterr())
        assert ended == code, (words, said)
        assert all(line.decode().isprintable() for line in said.split(b"\n")), words
        assert rb"\x1b" in said


def test_a_progress_line_takes_names_as_they_are(tmp_path: Path) -> None:
    """On a terminal, of which rich draws spinner and bar with escapes of its own."""
    problem = tmp_path / "[red]a\x1b]0;x\x07.yaml"
    layer = bundled_files.find("layers/resnet18/fc_512_1000")
    for path in (problem, tmp_path / "b.yaml"):
        path.write_bytes(layer.read_bytes())
    ours, theirs = pty.openpty()
    done = subprocess.Popen(
        [sys.executable, "-m", "fadiff_mapper", "map", "bundled:arch/gemmini_small", problem, "b.yaml", "-o", "out",
         "--energy", "built-in", "--effort", "light"], cwd=tmp_path, stdout=theirs, stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "200"})
    os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 4096)
        except OSError:    # the other end was closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    assert done.wait(60) == 0, said
    assert b"\x1b]0;x" not in said and b"\x07" not in said
    assert rb"[red]a\x1b]0;x\x07" in said


@pytest.mark.slow
@pytest.mark.parametrize(("shell", "code"), [
    (">&-", 0), ("2>&-", 0), (">&- 2>&-", 0), ("<&- >&- 2>&-", 0), (">/dev/full", 2), ("2>/dev/full", 0),
    ("| true; exit ${PIPESTATUS[0]}", 0), ("| head -1; exit ${PIPESTATUS[0]}", 0)])
def test_streams_that_are_closed_full_or_not_read(shell: str, code: int, tmp_path: Path) -> None:
    done = command("bundled", cwd=tmp_path, shell=shell)
    assert done.returncode == code, done.stderr
    assert done.stderr == (b"error: standard output: No space left on device\n" if code else b"")
    assert command("check missing.yaml", cwd=tmp_path, shell=shell).returncode == 2


@pytest.mark.parametrize(("shell", "code"), [("<&- >&- 2>&-", 0), (">/dev/full", 2)])
def test_tables_into_streams_that_are_closed_or_full(shell: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text(NETWORK, encoding="utf-8")
    assert command("import net.yaml -o out.yaml", cwd=tmp_path, shell=shell).returncode == code
    assert (tmp_path / "out.yaml").read_text().startswith("# yaml-language-server: ")  # nothing else


def test_a_file_never_gets_the_number_of_a_standard_stream(tmp_path: Path) -> None:
    """What a library writes to number 2 would go into it."""
    code = ("import os, sys\nfrom fadiff_mapper.base.standard_streams import ended\n"
            "def work():\n    file = open('file', 'w')\n    os.write(2, b'warning')\n    return file.fileno()\n"
            "sys.exit(ended(work, 99))")
    done = subprocess.run(["bash", "-c", f'"{sys.executable}" -c "{code}" <&- >&- 2>&-'], cwd=tmp_path, check=False)
    assert 2 < done.returncode < 99
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.slow
def test_a_launcher_whose_lines_nobody_takes_leaves_its_files(tmp_path: Path) -> None:
    mesh = Path(__file__).parents[1] / "recorded" / "emit" / "mesh.yaml"
    program = (f'"{sys.executable}" -c "import sys; from fadiff_mapper.timeloop.launchers import main; '
               f'sys.exit(main(sys.argv[1:]))" timeloop-model {mesh}')
    for number, (shell, code) in enumerate((("| true", 0), (">/dev/full", 0), (">&-", 0))):
        (tmp_path / str(number)).mkdir()
        done = subprocess.run(["bash", "-c", f"set -o pipefail; {program} -o {number} {shell}"], cwd=tmp_path,
                              capture_output=True, timeout=120, check=False)
        assert done.returncode == code, done.stderr
        assert (tmp_path / str(number) / "timeloop-model.stats.txt").exists()
        assert b"Traceback" not in done.stderr
