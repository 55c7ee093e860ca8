"""Questions and answers as one file: what the `recorded` backend replays, and what `record` writes.

One JSON object per line, gzip-compressed: a `tool`, then `task`s, then `case`s, each a mapping as directives with
either `result` (see `fadiff_mapper.timeloop.run_model`) or `error`.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.inputs.yaml.located import kind_of, with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.timeloop.run_model import ModelAnswer

from .asking import Answered
from .questions import Question
from .tasks import ModelTask
from .tools import Tool

BUNDLED = Path(__file__).parent / "recorded" / "timeloop.jsonl.gz"


@dataclass(frozen=True)
class Recording:
    """Answers of a tool, kept to be replayed.

    Attributes:
        tool: Who answered.
        answers: Questions with their answers.
        tables: Energies that Accelergy gave, as in `tables.Price`.
    """

    tool: Tool
    answers: tuple[Answered, ...]
    tables: tuple[dict[str, Any], ...] = ()


def written(recording: Recording) -> bytes:
    """The file's content: the same bytes for the same recording. Questions without an answer are left out."""
    lines = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in _lines(recording))
    return gzip.compress(lines.encode(), 9, mtime=0)


def _lines(recording: Recording) -> Iterator[dict[str, Any]]:
    """The lines of the file: tool, tables, tasks, cases."""
    yield {"line": "tool", **recording.tool.as_dict()}
    yield from ({"line": "table", **row} for row in recording.tables)
    tasks = {item.question.task.name: item.question.task for item in recording.answers}
    for name, task in tasks.items():
        yield {"line": "task", "name": name, "design": task.design, "operator": task.operator,
               "document": task.document, "constraints": task.constraints}
    for item in recording.answers:
        task, answer = item.question.task, item.answer
        if answer is not None:
            yield {"line": "case", "task": task.name, "kind": item.question.kind,
                   "mapping": literal_mapping(item.question.mapping, task.spec.arch, task.spec.problem),
                   "result": answer.result, "error": answer.error}


def read(path: Path, designs: Sequence[str] = (), operators: Sequence[str] = ()) -> Recording:
    """Reads a recording, or its part for some designs and operators.

    Args:
        path: The file.
        designs: Designs wanted; empty for all.
        operators: Operators wanted; empty for all.

    Raises:
        FadiffError: The file is missing, cut off or no recording.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        tool = next(Tool(line["backend"], line["version"], line["digest"]) for line in lines if line["line"] == "tool")
        tasks = {line["name"]: ModelTask(line["design"], line["operator"], line["document"], line["constraints"])
                 for line in lines if line["line"] == "task" and (not designs or line["design"] in designs)
                 and (not operators or line["operator"] in operators)}
        return Recording(tool, tuple(_answers(path, lines, tasks)), tuple(_without_label(lines, "table")))
    except OSError as error:
        raise FadiffError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (EOFError, ValueError, KeyError, TypeError, StopIteration):
        raise FadiffError(f"{path}: not a recording; accepted: a file that `fadiff-validate record` wrote") from None


def _without_label(lines: Iterable[dict[str, Any]], label: str) -> Iterator[dict[str, Any]]:
    """The lines with one label, which is taken away."""
    return ({key: value for key, value in line.items() if key != "line"} for line in lines if line["line"] == label)


def _answers(path: Path, lines: Sequence[dict[str, Any]], tasks: dict[str, ModelTask]) -> Iterator[Answered]:
    """The recorded answers to tasks. Raises SpecError."""
    for number, line in enumerate(lines, 1):
        if line["line"] == "case" and line["task"] in tasks:
            task, where = tasks[line["task"]], Where(str(path), number)
            mapping = read_mapping(with_places(line["mapping"], where.child("mapping")), where.child("mapping"),
                                   task.spec.arch, task.spec.problem)
            if line["result"] is not None:
                _check_numbers(line["result"], where.child("result"))
            yield Answered(Question(task, line["kind"], mapping), ModelAnswer(line["result"], line["error"]))


def _check_numbers(value: Any, where: Where) -> None:
    """Raises SpecError for an answer with anything but finite numbers and names in it."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            _check_numbers(item, where.child(key))
    elif isinstance(value, bool) or not isinstance(value, int | float | str) or (
            isinstance(value, float) and not math.isfinite(value)):
        raise where.error(f"found {kind_of(value)}", "a number or a name")
