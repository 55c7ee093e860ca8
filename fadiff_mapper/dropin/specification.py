"""The input of Timeloop's Python functions: a `Specification` of its front end, or files, or a dict."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from fadiff_mapper.base.atomic_files import write_files
from fadiff_mapper.base.errors import SpecError
from fadiff_mapper.inputs.load import read_document
from fadiff_mapper.yaml.expressions import Expression, Literal
from fadiff_mapper.yaml.load import dump
from fadiff_mapper.yaml.located import Map, Seq

Specification: TypeAlias = Any
"""A front end's object (`pytimeloop.timeloopfe`, `timeloopfe`), one file, a list of files, or a dict."""

WRITTEN_INPUT = "parsed-processed-input.yaml"
"""The name under which the front end keeps what it hands over."""

VERSIONS = (".v4.", ".v3.")
"""Parts of a specification's module name that follow the front end's name."""


def input_files(specification: Specification, folder: Path, for_model: bool) -> tuple[str, ...]:
    """Brings a specification into the form of input files.

    An object or dict is written into the folder; the text is the one that the front end itself would hand to
    Timeloop's programs.

    Args:
        specification: An object of the front end, a file, a list of files, or a dict.
        folder: The folder for that text.
        for_model: Whether `timeloop-model` is to read it, not `timeloop-mapper`.

    Returns:
        Absolute paths.

    Raises:
        SpecError: The value is no specification.
    """
    if isinstance(specification, str | os.PathLike):
        return (os.path.abspath(specification),)
    if isinstance(specification, list | tuple) and all(isinstance(item, str | os.PathLike) for item in specification):
        return tuple(os.path.abspath(item) for item in specification)
    front_end = front_end_of(specification)
    if front_end:
        calls = import_module(f"{front_end}.common.backend_calls")
        text = str(calls._specification_to_yaml_string(specification, for_model))
    elif isinstance(specification, Mapping):
        text = dump(_unquoted(read_document(specification)))
    else:
        raise SpecError(f"specification: found {type(specification).__name__}; accepted: a Specification of "
                        "Timeloop's Python front end, a file, a list of files, or a dict")
    write_files(folder, {WRITTEN_INPUT: text})
    return (os.path.abspath(folder / WRITTEN_INPUT),)


def _unquoted(value: Any) -> Any:
    """The same tree with its strings as expressions, as they are in Python; those quoted in a file stay literal."""
    if isinstance(value, Map):
        return Map({key: _unquoted(item) for key, item in value.items()}, where=value.where, tag=value.tag)
    if isinstance(value, Seq):
        return Seq(map(_unquoted, value), where=value.where, tag=value.tag)
    return Expression(value) if isinstance(value, str) and not isinstance(value, Literal) else value


def front_end_of(specification: Specification) -> str:
    """The package of the front end that made the object, or an empty string."""
    module = type(specification).__module__
    if not hasattr(specification, "_parse_timeloop_output"):
        return ""
    return next((module.partition(version)[0] for version in VERSIONS if version in module), "")
