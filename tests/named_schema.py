"""The schema that a written file names for editors."""

from __future__ import annotations

import json
from pathlib import Path

from jsonschema import Draft202012Validator

from fadiff_mapper.inputs.yaml.load import load_file
from fadiff_mapper.inputs.yaml.located import plain


def errors_by_its_schema(file: Path) -> list[str]:
    """What the schema that a file names, relative to its folder, finds wrong with it."""
    line, = (line for line in file.read_text(encoding="utf-8").splitlines()
             if line.startswith("# yaml-language-server: $schema="))
    schema = json.loads((file.parent / line.partition("=")[2]).read_text(encoding="utf-8"))
    return [error.message for error in Draft202012Validator(schema).iter_errors(plain(load_file(file)))]
