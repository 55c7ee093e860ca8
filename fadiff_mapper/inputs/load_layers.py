"""Several problems on one design: which of the files are problems, and one spec for each."""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fadiff_mapper.base import bundled_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.inputs.load import read_spec
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.load import combined, load_file
from fadiff_mapper.inputs.yaml.located import Map

YAML = (".yaml", ".yml")
"""Endings of the files that are read from a folder on the command line."""


def files_of(names: Sequence[str]) -> list[Path]:
    """The files behind the names on a command line, each once, in order.

    A name is a file, a folder (its YAML files), a pattern such as `layers/*.yaml`, or `bundled:` with the name of a
    bundled file or of a folder of such files. FadiffError where one holds no file; a file that does not exist is left
    to its reader, which names the nearest one.
    """
    found: list[Path] = []
    for name, path in zip(names, map(Path, names), strict=True):
        if name.startswith(bundled_files.PREFIX):
            found += bundled_files.all_paths(name)
        elif path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if entry.suffix in YAML and entry.is_file())
            if not inside:
                raise FadiffError(f"{name}: there is no YAML file in this folder; accepted: files that end in "
                                  f"{' or '.join(YAML)}")
            found += inside
        elif glob.has_magic(name) and not path.exists():
            matching = sorted(Path(entry) for entry in glob.glob(name) if Path(entry).is_file())
            if not matching:
                raise FadiffError(f"{name}: no file matches this pattern")
            found += matching
        else:
            found.append(path)
    return list(dict.fromkeys(found))


def load_layers(*names: str | os.PathLike[str], jinja_data: Mapping[str, Any] | None = None, energy: str = "bundled",
                strict: bool = True, bits: Mapping[str, Any] | None = None) -> dict[str, Spec]:
    """Reads one spec for every problem among some files, each together with all files that are no problem.

    A file is a problem where its problem section has an instance. Where at most one file is, all files make one spec.

    Args:
        *names: Files in any order, folders or patterns of them, or names with `bundled:` in front.
        jinja_data: Variables of the files' Jinja2 templates.
        energy: As in `load`.
        strict: As in `load`.
        bits: As in `load`, in all problems.

    Returns:
        The specs by unique names: that of the problem's file, with the folder's in front where several files have the
        same name; "" where no file is a problem by itself.

    Raises:
        FadiffError: As in `load`.
    """
    files = files_of(list(map(str, names)))
    trees = {file: load_file(file, jinja_data=jinja_data) for file in files}
    problems = [file for file, tree in trees.items()
                if isinstance(tree.get("problem"), Map) and "instance" in tree["problem"]]
    first = problems[0].stem if problems else ""
    unique = [first] if len(problems) < 2 else _names(problems)
    used = {name: [file for file in files if file not in problems or file == own]
            for name, own in zip(unique, problems or [Path()], strict=True)}
    return {name: read_spec(combined([trees[file] for file in own]), tuple(map(str, own)), energy, strict, bits=bits)
            for name, own in used.items()}


def _names(files: Sequence[Path]) -> list[str]:
    """A unique name for each file: its stem, else with its folder's name, else with a number.

    Run folders get these names: `...yaml` becomes `_..`, not the folder around.
    """
    names = [file.stem if file.stem.strip(".") else f"_{file.stem}" for file in files]
    count = Counter(names)
    longer = [name if count[name] == 1 else f"{file.resolve().parent.name}.{name}"
              for name, file in zip(names, files, strict=True)]
    count = Counter(longer)
    numbered = [name if count[name] == 1 else f"{name}.{index}" for index, name in enumerate(longer, 1)]
    # where another file has such a name with a number, all are numbered
    return numbered if len(set(numbered)) == len(files) else [f"{name}.{i}" for i, name in enumerate(longer, 1)]
