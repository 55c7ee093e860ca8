"""README and guides name what is there: files, commands, options and public names; no page outgrows its purpose."""

from __future__ import annotations

import ast
import contextlib
import re
import shlex
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from executed_pages import PROGRAM, blocks, commands

import fadiff_mapper
from fadiff_mapper import DesignOptions, DesignWorkers, NetworkOptions, SearchOptions
from fadiff_mapper.cli import program_parser

ROOT = Path(__file__).parents[2]
FOLDERS = ("guides", "results", "tutorials")
OURS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md",
        *(page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md")))]
FIRST = ("python3 -m venv .venv && .venv/bin/pip install -c constraints.txt . && .venv/bin/fadiff-mapper map "
         "bundled:arch/gemmini_large bundled:layers/resnet18/conv3x3_64_64_56_s1 -o out")
SECOND = "bash tests/run"


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def command_lines(page: Path) -> list[str]:
    """Every call of the program in the shell blocks of a page."""
    lines = []
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "sh":
            lines += [line.partition("  #")[0] for line in block.text.splitlines()]
        elif block.language == "console":
            lines += [command for command, _ in commands(block.text)]
    parts = [part.strip() for line in lines for part in line.split("&&")]
    return [part.partition(PROGRAM + " ")[2] for part in parts
            if part.startswith((PROGRAM, f".venv/bin/{PROGRAM}"))]


def test_the_readme_is_short_and_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    assert f"```sh\n{FIRST}\n{SECOND}\n```" in text


@pytest.mark.parametrize("page", OURS, ids=named)
def test_links_lead_to_files(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("http"):
            continue
        file, _, anchor = target.partition("#")
        linked = page.parent / file
        assert linked.exists() or linked == ROOT / "docs" / "index.md", f"{page.name}: {target}"
        if anchor:
            titles = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in [re.sub(r"[^\w-]", "", title.lower().replace(" ", "-")) for title in titles], target


@pytest.mark.parametrize("page", OURS, ids=named)
def test_commands_are_accepted(page: Path) -> None:
    for words in command_lines(page):
        with contextlib.suppress(SystemExit):
            program_parser().parse_args(shlex.split(words))
            continue
        pytest.fail(f"{page.name}: fadiff-mapper {words}")


@pytest.mark.parametrize("page", OURS, ids=named)
def test_python_blocks_use_public_names(page: Path) -> None:
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.text)):
            if isinstance(node, ast.ImportFrom) and node.module == "fadiff_mapper":
                assert {alias.name for alias in node.names} <= set(fadiff_mapper.__all__), f"{page.name}:{block.line}"


@pytest.mark.parametrize("options", [SearchOptions, NetworkOptions, DesignOptions, DesignWorkers])
def test_the_guide_lists_every_option_with_its_default(options: type) -> None:
    text = (ROOT / "docs" / "guides" / "search.md").read_text(encoding="utf-8")
    section = text.partition(f"## `{options.__name__}`")[2].partition("\n## ")[0]
    listed = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", section, flags=re.MULTILINE))
    assert listed == {field.name: repr(field.default) for field in fields(options)}


def test_the_newest_release_of_the_changelog_is_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.findall(r"^## (\d+\.\d+\.\d+) - \d{4}-\d{2}-\d{2}$", text, flags=re.MULTILINE)
    assert releases[0] == fadiff_mapper.__version__


def test_the_citation_names_the_program_and_its_sources() -> None:
    content = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert (content["cff-version"], content["title"], content["license"]) == ("1.2.0", "fadiff_mapper", "MIT")
    assert content["version"] == fadiff_mapper.__version__
    assert [reference["title"].partition(":")[0] for reference in content["references"]] == [
        "FADiff", "Timeloop", "Accelergy", "LoopTree", "DOSA"]
