"""The picture of the rooms is drawn from the order that the layout test holds the package to."""

from __future__ import annotations

import ast
import html
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
import test_layout

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_order_is_that_of_the_layout_test(hooks: ModuleType) -> None:
    assert hooks.room_order() == test_layout.ORDER


@pytest.mark.parametrize("room", test_layout.ORDER)
def test_every_room_stands_in_the_picture_with_its_sentence(hooks: ModuleType, room: str) -> None:
    page = (ROOT / "docs" / "develop" / "architecture.md").read_text(encoding="utf-8")
    boxes = re.findall(r'<div class="room.*?</div>', hooks.on_page_markdown(page))
    assert len(boxes) == len(test_layout.ORDER)
    box = re.sub(r"</?code>", "", boxes[test_layout.ORDER.index(room)])
    source = (ROOT / "fadiff_mapper" / room.replace(".", "/") / "__init__.py").read_text(encoding="utf-8")
    sentence = " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split()).replace("`", "")
    assert sentence, f"{room} has no sentence"
    assert f"<strong>{room.replace('.', '/') or 'fadiff_mapper'}/</strong>" in box
    assert html.escape(sentence, quote=False) in box
