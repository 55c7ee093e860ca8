"""The architecture, read off the imports: data flows one way, and small commands never load torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import fadiff_mapper

PACKAGE = Path(fadiff_mapper.__file__).parent

ORDER = (
    "errors", "process", "rundir", "tree", "expressions", "templates", "yamlparse", "yamldump", "yamlio",
    "spec.problem", "spec.arch", "spec.mapping", "spec.tables", "spec.constraints", "spec.mapper",
    "spec.native", "spec.v04", "bundled", "energy", "inputs", "layers", "workload", "frontends", "mapspace",
    "nest", "reuse", "counts", "cost", "compiled", "windows", "grid", "spread", "network", "legality", "exact",
    "bound", "stats", "fusion",
    "choices", "family", "first", "straight_through", "relax", "sample", "slides", "sharing", "smooth", "paper_model",
    "sensitivity", "penalty", "objective", "adam", "search",
    "emit", "interrupt", "timeloop",
    "evaluation", "result", "mapper", "joint", "explain", "dropin", "doctor", "report", "cli", "__main__",
)
"""Every module, or package, imports from those before it and from itself only."""


def room(module: str) -> str:
    """The entry of ORDER that a module belongs to."""
    return max((name for name in ORDER if module == name or module.startswith(name + ".")), key=len, default=module)


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports when it runs (not those for type checking only)."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]
    typing_only = {id(node) for outer in guarded for node in ast.walk(outer)}
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and id(node) not in typing_only:
            if node.module == "fadiff_mapper":
                found |= {alias.name for alias in node.names if (PACKAGE / alias.name).exists()
                          or (PACKAGE / f"{alias.name}.py").exists()}
            elif node.module.startswith("fadiff_mapper."):
                found.add(node.module.removeprefix("fadiff_mapper."))
    return found


def modules() -> dict[str, Path]:
    files = (path.relative_to(PACKAGE).with_suffix("") for path in PACKAGE.rglob("*.py"))
    names = {".".join(parts.parts).removesuffix(".__init__"): PACKAGE / parts.with_suffix(".py") for parts in files}
    return {name: path for name, path in names.items()
            if name != "__init__" and not name.startswith(("spec.__init__", "timeloop_specs")) and name != "spec"}


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_imports_only_from_rooms_before_its_own(name: str) -> None:
    assert room(name) in ORDER, f"{name} has no place in the order"
    later = {used for used in imports(modules()[name])
             if room(used) != room(name) and ORDER.index(room(used)) > ORDER.index(room(name))}
    assert not later


def test_checking_and_evaluating_load_no_torch() -> None:
    code = ("import sys, fadiff_mapper.cli, fadiff_mapper.report.search, fadiff_mapper.report.spec, "
            "fadiff_mapper.exact, fadiff_mapper.emit, fadiff_mapper.mapper, fadiff_mapper.frontends.load; "
            "fadiff_mapper.load, fadiff_mapper.evaluate, fadiff_mapper.Workload; "
            "sys.exit('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
