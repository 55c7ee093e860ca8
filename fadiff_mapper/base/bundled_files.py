"""The folder of the specs that come with the package, and the files in it by name.

Users write such a name with `PREFIX` in front, as in `bundled:arch/gemmini_large`, wherever a file is expected.
"""

from __future__ import annotations

import os
from pathlib import Path

from fadiff_mapper.base.errors import FadiffError, listed, nearest

PREFIX = "bundled:"  # distinguishes the name of a bundled file from a path
WITHIN = "FADIFF_MAPPER_WITHIN"  # environment variable with a folder: files are read only from there and from ROOT

_INSIDE, _BESIDE = (folder / "timeloop_specs" for folder in Path(__file__).resolve().parents[1:3])
ROOT = _INSIDE if _INSIDE.is_dir() else _BESIDE  # folder of the bundled specs: installed, or in a checkout


def designs() -> dict[str, Path]:
    """Name -> architecture file of every bundled design."""
    return {path.stem: path for path in sorted((ROOT / "arch").glob("*.yaml"))}


def find(name: str) -> Path:
    """One bundled file by its path below `ROOT`, such as "arch/gemmini_large.yaml"; the ending may be left out.

    Raises FadiffError with the nearest name where there is none, or the name leads out of the folder.
    """
    for candidate in (name, f"{name}.yaml"):
        path = ROOT.joinpath(*candidate.split("/"))
        if path.is_file() and path.resolve().is_relative_to(ROOT.resolve()):
            return path
    raise FadiffError(f'there is no bundled file "{name}"{nearest(name, listing())}; '
                      "accepted: what `fadiff-mapper bundled` lists")


def listing() -> list[str]:
    """All bundled YAML files, relative to `ROOT`, without the ending, sorted."""
    return sorted(path.relative_to(ROOT).with_suffix("").as_posix() for path in ROOT.rglob("*.yaml"))


def bundled_names(prefix: str = "") -> list[str]:
    """Names of the bundled designs, layers, networks and other files, with `bundled:` in front, as `load` takes them.

    `prefix`: the beginning of their paths, such as "layers/resnet18"; "" for all. Raises FadiffError if there is none.
    """
    names = listing()
    found = [PREFIX + name for name in names if name.startswith(prefix)]
    if not found:
        folders = sorted({f"{name.partition('/')[0]}/" for name in names})
        raise FadiffError(f'no bundled file begins with "{prefix}"{nearest(prefix, [*folders, *names])}; accepted: '
                          f"names in {listed(folders)}")
    return found


def one_path(source: str | os.PathLike[str]) -> Path:
    """The file that a user names: the bundled one (FadiffError where there is none), or the path as given."""
    text = os.fspath(source)
    return find(text.removeprefix(PREFIX)) if text.startswith(PREFIX) else Path(text)


def all_paths(source: str | os.PathLike[str]) -> list[Path]:
    """The files that a user names: as `one_path`, but `bundled:` may name a folder, whose YAML files come sorted."""
    text = os.fspath(source)
    if not text.startswith(PREFIX):
        return [Path(text)]
    name = text.removeprefix(PREFIX)
    if not ROOT.joinpath(name).is_dir():  # a single file, found without a listing
        return [find(name)]
    folder = name.strip("/") + "/"
    inside = [entry for entry in listing() if entry.startswith(folder) and folder != "/"]
    return list(map(find, inside or [name]))
