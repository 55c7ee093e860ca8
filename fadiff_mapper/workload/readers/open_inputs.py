"""A user's words about inputs that an ONNX model leaves open; names from models, made printable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from fadiff_mapper.workload.operator import Shape


@dataclass(frozen=True)
class Given:
    """Numbers for a model's inputs.

    Attributes:
        dims: numbers for named dimensions.
        shapes: whole shapes of inputs, by name.
        values: the whole numbers that inputs are, by name; these inputs become constants.
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Shape] = field(default_factory=dict)
    values: Mapping[str, int] = field(default_factory=dict)


def clean(name: str) -> str:
    """A name as one line of at most 200 printable characters.

    Args:
        name: any text from a model.
    """
    return "".join(_printable(name))[:200]


def _printable(name: str) -> Iterator[str]:
    """The characters, with a question mark for each that cannot be printed."""
    for letter in name:
        yield letter if letter.isprintable() else "?"
