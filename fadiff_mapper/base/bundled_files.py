"""The folder of the specs that come with the package, and the files in it by name."""

from __future__ import annotations

from pathlib import Path

from fadiff_mapper.base.errors import FadiffError, nearest


def root() -> Path:
    """The folder of the bundled specs: inside the installed package, or beside it in a checkout."""
    here = Path(__file__).resolve().parents[1]
    installed = here / "timeloop_specs"
    return installed if installed.is_dir() else here.parent / "timeloop_specs"


def designs() -> dict[str, Path]:
    """Name -> architecture file of every bundled design."""
    return {path.stem: path for path in sorted((root() / "arch").glob("*.yaml"))}


def find(name: str) -> Path:
    """The path of a bundled file, such as "arch/gemmini_large.yaml"; the ending may be left out.

    Raises FadiffError with the nearest name.
    """
    for candidate in (name, f"{name}.yaml"):
        path = root().joinpath(*candidate.split("/"))
        if path.is_file() and path.resolve().is_relative_to(root().resolve()):
            return path
    raise FadiffError(f'there is no bundled file "{name}"{nearest(name, listing())}; '
                      "accepted: what `fadiff-mapper bundled` lists")


def listing() -> list[str]:
    """All bundled YAML files, relative to the specs folder, without the ending."""
    base = root()
    return sorted(path.relative_to(base).with_suffix("").as_posix() for path in base.rglob("*.yaml"))
