"""Checks what `fadiff-mapper map` wrote against a real tool, number by number."""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load
from fadiff_mapper.model.exact.evaluate_spec import evaluate_mapping
from fadiff_mapper.spec.native.merged_input import merged_input
from fadiff_mapper.timeloop.compare_answers import compared, differences, numbers

from .tools import Backend, Tool

INPUT = "fadiff.input.yaml"
RESULT = "fadiff.result.json"


@dataclass(frozen=True)
class LayerCheck:
    """One result: the hashes of its files and of what the tool was given (SHA-256), how many numbers the tool gave,
    and every one that is not as the mapper says."""

    folder: str
    hashes: dict[str, str]
    numbers: int
    differences: tuple[str, ...]


def certificate(folder: Path, backend: Backend) -> tuple[dict[str, Any], bool]:
    """(the certificate as JSON values, whether everything agrees), for a result or a folder of results.

    Raises FadiffError where there is no result, or the tool fails on one.
    """
    checks = [check(result, folder, backend) for result in results(folder)]
    agrees = not any(found.differences for found in checks)
    return {"tool": _tool(backend.tool), "agrees": agrees, "layers": [
        {"folder": found.folder, "sha256": found.hashes, "numbers": found.numbers,
         "differences": list(found.differences)} for found in checks]}, agrees


def results(folder: Path) -> list[Path]:
    """The folder itself where it holds a result, else all folders with results inside it."""
    found = sorted(path.parent for path in folder.rglob(INPUT)) if folder.is_dir() else []
    if not found:
        raise FadiffError(f"{folder}: there is no {INPUT} in it; accepted: a folder that fadiff-mapper wrote")
    return found


def check(result: Path, root: Path, backend: Backend) -> LayerCheck:
    """Runs one emitted input through the tool, and compares its answer with the emitted result and the exact model.

    The tool is given the input written anew from what was read: only literal YAML reaches it.
    """
    spec = load(str(result / INPUT))
    if spec.mapping is None:
        raise FadiffError(f"{result / INPUT}: there is no mapping in it")
    text = merged_input(spec, spec.mapping)
    with tempfile.TemporaryDirectory(prefix="fadiff-validate-", ignore_cleanup_errors=True) as folder:
        answer = backend.ask(text, spec.problem.dataspace_names(), Path(folder))
    hashes = {path.name: _sha256(path.read_bytes()) for path in sorted(result.iterdir())
              if path.is_file() and path.name.startswith(("fadiff.", "timeloop-mapper."))}
    hashes["given to the tool"] = _sha256(text.encode())
    name = str(result.relative_to(root))
    if answer.result is None:
        return LayerCheck(name, hashes, 0, (f"rejected: {answer.error}",))
    wrong = list(differences(answer.result, compared(evaluate_mapping(spec, spec.mapping))))
    if (result / RESULT).is_file():
        wrong += [f"{RESULT}: {text}" for text in differences(answer.result, _stats(result / RESULT))]
    return LayerCheck(name, hashes, numbers(answer.result), tuple(wrong))


def _stats(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["stats"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FadiffError(f"{path}: cannot be read: {error}") from None
    return dict(found)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": "timeloop-model", **tool.as_dict()}
