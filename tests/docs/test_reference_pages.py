"""The reference names every flag of every command, and every public name of the package."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

import fadiff_mapper
from fadiff_mapper.cli import program_parser

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
SHARED = "Shared by commands that read Timeloop files"
SHARED_FLAGS = {"-D", "--energy", "--lenient", "--built-in-energies"}


def commands() -> dict[str, argparse.ArgumentParser]:
    """Name -> parser."""
    action = next(action for action in program_parser()._actions if isinstance(action, argparse._SubParsersAction))
    return dict(action.choices)


def flags_of(parser: argparse.ArgumentParser) -> set[str]:
    return {flag for action in parser._actions for flag in action.option_strings} - {"-h", "--help"}


def sections() -> dict[str, str]:
    """Heading -> text below it."""
    _, *parts = re.split(r"^## (.*)$", (REFERENCE / "cli.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


def flags_in(text: str) -> set[str]:
    """The flags in the first column of a section's table."""
    cells = re.findall(r"^\| (`-.*?) \|", text, flags=re.MULTILINE)
    return {flag for cell in cells for flag in re.findall(r"`(--?[\w-]+)", cell)}


@pytest.mark.parametrize("command", commands())
def test_a_command_has_a_section_with_its_flags(command: str) -> None:
    flags = flags_of(commands()[command])
    assert flags_in(sections()[command]) == flags - SHARED_FLAGS
    if flags & SHARED_FLAGS:
        assert flags >= SHARED_FLAGS == flags_in(sections()[SHARED])
        assert f"`{command}`" in sections()[SHARED]


def test_there_is_no_section_of_anything_else() -> None:
    assert set(sections()) == {SHARED, *commands()}


def test_every_public_name_is_on_the_page_of_the_python_interface() -> None:
    page = (REFERENCE / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: fadiff_mapper\.api\.(\w+)$", page, flags=re.MULTILINE)) == {
        name for name in fadiff_mapper.__all__ if not name.startswith("__")}
