"""Certificates: results of `fadiff-mapper map` checked against a real tool, number by number.

A certificate names tool and files by their SHA-256, so that a reader can tell whether it still belongs to them.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import load, merged_input
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.timeloop.verify import compared, differences, numbers

from .tools import Backend, Tool

INPUT = "fadiff.input.yaml"
RESULT = "fadiff.result.json"


@dataclass(frozen=True)
class LayerCheck:
    """The check of one result.

    Attributes:
        folder: The result's folder, below the folder that was asked about.
        hashes: SHA-256 of its files and of the text that the tool was given.
        numbers: How many numbers the tool gave; 0 where it rejected the mapping.
        differences: A line for each number that is not as the mapper says.
    """

    folder: str
    hashes: dict[str, str]
    numbers: int
    differences: tuple[str, ...]


def certificate(folder: Path, backend: Backend) -> tuple[dict[str, Any], bool]:
    """Checks a result, or all results in a folder.

    Args:
        folder: A folder of `fadiff-mapper map`, or one with such folders inside it.
        backend: The real tool.

    Returns:
        The certificate as JSON values, and whether everything agrees.

    Raises:
        FadiffError: There is no result, or the tool fails on one.
    """
    checks = [check(result, folder, backend) for result in results(folder)]
    agrees = not any(layer.differences for layer in checks)
    return {"tool": _tool(backend.tool), "agrees": agrees, "layers": [
        {"folder": layer.folder, "sha256": layer.hashes, "numbers": layer.numbers,
         "differences": list(layer.differences)} for layer in checks]}, agrees


def results(folder: Path) -> list[Path]:
    """All folders with a result, at or below a folder. Raises FadiffError where there is none."""
    folders = sorted(path.parent for path in folder.rglob(INPUT)) if folder.is_dir() else []
    if not folders:
        raise FadiffError(f"{folder}: there is no {INPUT} in it; accepted: a folder that fadiff-mapper wrote")
    return folders


def check(result: Path, root: Path, backend: Backend) -> LayerCheck:
    """Runs one emitted input through the tool, and compares its answer with the emitted result and the exact model.

    The tool is given the input as it is written anew after reading, so that only literal YAML reaches it.

    Args:
        result: The result's folder.
        root: The folder that was asked about.
        backend: The real tool.

    Raises:
        FadiffError: The input cannot be read or has no mapping, or the tool fails.
    """
    spec = load(str(result / INPUT))
    if spec.mapping is None:
        raise FadiffError(f"{result / INPUT}: there is no mapping in it")
    text = dump(merged_input(spec, spec.mapping))
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
    """The statistics that a result stored."""
    try:
        stats = json.loads(path.read_text(encoding="utf-8"))["stats"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FadiffError(f"{path}: cannot be read: {error}") from None
    return dict(stats)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tool(tool: Tool) -> dict[str, Any]:
    return {"name": "timeloop-model", **tool.as_dict()}
