"""The designs, problems, networks and tables that come with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fadiff_mapper.base.errors import FadiffError, nearest
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.native.tables import read_tables
from fadiff_mapper.spec.tables import Tables, component_name
from fadiff_mapper.spec.v04 import to_native
from fadiff_mapper.yaml.load import load_text
from fadiff_mapper.yaml.located import Map, plain


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


def tables_for(arch: Architecture) -> Tables | None:
    """The recorded energy and area tables of the bundled design that this architecture is, or None.

    It is the same design where all components agree in name, class and every attribute.
    """
    for name, path in designs().items():
        ert = _document(root() / "tables" / f"{name}.ERT.yaml")
        names = {component_name(table["name"]) for table in ert["ERT"]["tables"]}
        if arch.arithmetic.name not in names or not names <= {arch.arithmetic.name, *arch.level_names()}:
            continue
        template = _document(root() / "problems" / "conv.yaml")
        design = to_native(Map(_document(path) | template, where=template.where))
        if components(design["architecture"]) == components(next(iter(arch.native.values()))):
            art = _document(root() / "tables" / f"{name}.ART.yaml")
            return read_tables(ert["ERT"], ert.at("ERT"), art["ART"], art.at("ART"), f"bundled with {name}")
    return None


def components(native: dict[str, Any]) -> list[dict[str, Any]]:
    """The components of a native tree from the outside in, as plain data."""
    found: list[dict[str, Any]] = []
    while "subtree" in native:
        native = native["subtree"][0]
        found += [plain(component) for component in native.get("local", [])]
    return found


def _document(path: Path) -> Map:
    return load_text(path.read_text(encoding="utf-8"), f"bundled {path.name}")
