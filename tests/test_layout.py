"""The architecture, read off the imports: data flows one way, and small commands never load torch."""

from __future__ import annotations

import ast
import functools
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import fadiff_mapper
from fadiff_mapper import api

PACKAGE = Path(fadiff_mapper.__file__).parent

ORDER = (
    "base", "kernel", "inputs.yaml", "inputs.spec", "inputs.native", "inputs.v04", "inputs.energy", "inputs",
    "workload", "workload.readers", "model", "calibration",
    "search.mapspace", "search.lower_bound", "search.explanation", "search",
    "fusion", "network", "inference", "design", "gradient",
    "output", "timeloop", "output.terminal", "", "cli",
)
"""The rooms: every folder imports from itself and from those before it, imports for type checking included."""

RESULTS = ("search.result", "network.result", "design.result", "inference.infer")
"""Results write, draw and check themselves: their methods import `output` and `timeloop` when they are called."""


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted name within the package -> file."""
    files = {path: path.relative_to(PACKAGE).with_suffix("").parts
             for path in (*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi"))}  # a stub stands for a compiled module
    return {".".join(parts): path for path, parts in files.items() if "timeloop_specs" not in parts}


def room(module: str) -> str:
    """The folder of a module."""
    return module.rpartition(".")[0]


def imports(path: Path) -> set[str]:
    """Modules of the package that a file imports: when it runs, in functions, and for type checking."""
    known, used = modules(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not (isinstance(node, ast.ImportFrom) and node.module):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            used |= {f"{name}.__init__" for name in names if name.split(".")[0] == "fadiff_mapper"}
        elif node.module.split(".")[0] == "fadiff_mapper":
            for alias in node.names:
                inner = f"{node.module}.{alias.name}".removeprefix("fadiff_mapper.")
                outer = node.module.removeprefix("fadiff_mapper").removeprefix(".")
                used.add(next(name for name in (inner, f"{inner}.__init__", outer, f"{outer}.__init__".lstrip("."))
                              if name in known))
    return {name.removeprefix("fadiff_mapper.") for name in used}


@pytest.mark.parametrize("name", sorted(modules()))
def test_a_module_imports_only_from_rooms_before_its_own(name: str) -> None:
    assert room(name) in ORDER, f"{name} has no place in the order"
    later = {used for used in imports(modules()[name]) if ORDER.index(room(used)) > ORDER.index(room(name))}
    assert {used for used in later if name not in RESULTS or used.split(".")[0] not in ("output", "timeloop")} == set()


def test_the_root_holds_the_public_entry_points_only() -> None:
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "api.py"}


def test_the_command_line_calls_the_public_interface() -> None:
    used = {name for module, path in modules().items() if room(module) == "cli" for name in imports(path)}
    assert {name for name in used if room(name) not in ("base", "cli", "output.terminal")} == {"api"}


@pytest.mark.parametrize("name", api.__all__)
def test_every_public_name_is_where_the_interface_looks_for_it(name: str) -> None:
    assert getattr(api, name) is not None


def test_every_room_has_a_sentence() -> None:
    for name in ORDER:
        folder = PACKAGE.joinpath(*name.split(".")) if name else PACKAGE
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), name


def test_no_class_name_stands_twice() -> None:
    names = Counter(node.name.lstrip("_") for path in modules().values()
                    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.ClassDef))
    assert [name for name, count in names.items() if count > 1] == []


EXTRAS = {"torch": ("gradient", "workload.readers"), "matplotlib": ("output",)}
"""Packages that need not be installed -> the rooms that may import them."""


@pytest.mark.parametrize("package", EXTRAS)
def test_few_rooms_need_an_extra(package: str) -> None:
    def names(node: ast.AST) -> list[str]:
        return [node.module or ""] if isinstance(node, ast.ImportFrom) else [
            alias.name for alias in node.names] if isinstance(node, ast.Import) else []

    users = {module for module, path in modules().items() for node in ast.walk(ast.parse(path.read_text("utf-8")))
             if package in {name.partition(".")[0] for name in names(node)}}
    assert {room(module) for module in users - {*RESULTS}} == set(EXTRAS[package])  # these name a type of matplotlib


def test_checking_and_evaluating_load_no_torch() -> None:
    loaded = ("cli", "output.terminal.layers", "output.terminal.designs", "model.evaluate",
              "output.run_files", "search.map_layers", "workload.readers.load_network",
              "search.explanation.explain_run", "search.explanation.sensitivities")
    code = (f"import sys, {', '.join(f'fadiff_mapper.{name}' for name in loaded)}; "
            "fadiff_mapper.load, fadiff_mapper.evaluate, fadiff_mapper.Workload; "
            "sys.exit('torch' in sys.modules)")
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_checking_a_design_loads_no_search() -> None:
    """Nor results of searches, nor the line that follows one, nor a wrapper of NumPy for estimated energies."""
    code = ("import sys; from fadiff_mapper.cli import main\n"
            "main(['check', 'bundled:arch/gemmini_large', 'bundled:layers/resnet18/conv1x1_64_128_28_s2',\n"
            "      '--energy', 'estimate'])\n"
            "late = ('design.result', 'network.result', 'search.result', 'search.lower_bound', 'fusion', 'workload')\n"
            "print(*({*(f'fadiff_mapper.{name}' for name in late), 'rich.progress', 'array_api_compat.numpy'}\n"
            "        & sys.modules.keys()))")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[-1] == ""


FIRST_MAPPING = """
import sys
from fadiff_mapper import load
from fadiff_mapper.base.bundled_files import find
from fadiff_mapper.output.run_files import run_files
from fadiff_mapper.search.map_layers import map_layers

LATE = ("concurrent.futures", "fadiff_mapper.search.lower_bound", "fadiff_mapper.search.exhaustive",
        "fadiff_mapper.model.sparse_design", "fadiff_mapper.model.sparse_accesses",
        "fadiff_mapper.model.sparse_tiles", "fadiff_mapper.inputs.energy.estimated_tables",
        "fadiff_mapper.search.residual_search", "fadiff_mapper.calibration.correction")

def first(index, result):
    run_files(result)
    print(*(name for name in LATE if name in sys.modules))
    raise SystemExit

map_layers([load(find("arch/gemmini_large"), find("layers/resnet18/conv1x1_64_128_28_s2"))], on_better=first)
"""


def test_a_first_mapping_of_a_dense_design_waits_for_nothing_else() -> None:
    """No rules for zeros or residuals, estimates, bounds, enumeration, corrections or threads are loaded before it."""
    done = subprocess.run([sys.executable, "-c", FIRST_MAPPING], check=True, capture_output=True, text=True)
    assert done.stdout == "\n"
