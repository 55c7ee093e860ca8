"""Accelergy's energy tables beside those that come with the designs, and beside Timeloop's built-in estimate."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from fadiff_mapper import bundled
from fadiff_mapper.errors import FadiffError
from fadiff_mapper.inputs import load
from fadiff_mapper.spec.tables import built_in_storage_energy, component_name
from fadiff_mapper.timeloop import process
from fadiff_mapper.timeloop.run import INPUT, environment

TIMEOUT = 300.0
"""Seconds that Accelergy may take for one design."""

LEAST = "leak"
"""An action that Timeloop's built-in estimate does not price."""


@dataclass(frozen=True)
class Price:
    """pJ of one action: as bundled, as Accelergy says now, and Timeloop's own estimate (None: it has none)."""

    design: str
    component: str
    action: str
    bundled: float
    accelergy: float
    built_in: float | None

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def can_price() -> bool:
    """Whether Accelergy is on the PATH."""
    return shutil.which("accelergy") is not None


def prices(designs: Sequence[str] = ()) -> list[Price]:
    """Asks Accelergy about bundled designs; empty: all. Raises FadiffError where it cannot price one."""
    return [price for design in designs or tuple(bundled.designs()) for price in _prices(design)]


def _prices(design: str) -> list[Price]:
    spec = load(str(bundled.find(f"arch/{design}")), str(bundled.find("problems/conv")))
    document = json.loads(json.dumps({key: spec.literal[key] for key in ("architecture", "compound_components")
                                      if key in spec.literal}))
    with tempfile.TemporaryDirectory(prefix="fadiff-validate-", ignore_cleanup_errors=True) as folder:
        found = _energies(ask_accelergy(document, Path(folder)))
    recorded = _energies(yaml.safe_load(bundled.find(f"tables/{design}.ERT").read_text(encoding="utf-8")))
    if found.keys() != recorded.keys():
        raise FadiffError(f"{design}: Accelergy prices other actions: {sorted(found.keys() ^ recorded.keys())}")
    estimates = {level.name: built_in_storage_energy(level) for level in spec.arch.levels}
    return [Price(design, component, action, recorded[component, action], energy,
                  None if action == LEAST else estimates.get(component))
            for (component, action), energy in sorted(found.items())]


def ask_accelergy(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """The energy reference table of a native document, made in an empty folder."""
    # Accelergy evaluates every text as an expression unless it stands in double quotes, as all do in JSON.
    rest = {key: value for key, value in document.items() if key != "architecture"}
    text = f"architecture: {json.dumps(document['architecture'])}\n" + (yaml.safe_dump(rest) if rest else "")
    (folder / INPUT).write_text(text, encoding="utf-8")
    done = process.run(("accelergy", INPUT, "-o", "."), folder, environment(), TIMEOUT)
    table = folder / "ERT.yaml"
    if done.returncode or not table.is_file():
        raise FadiffError(f"accelergy left no ERT.yaml (exit code {done.returncode}): {done.output[-300:].strip()}")
    found = yaml.safe_load(table.read_text(encoding="utf-8"))
    if not isinstance(found, dict) or "ERT" not in found:
        raise FadiffError("accelergy left an ERT.yaml without an ERT")
    return found


def _energies(document: dict[str, Any]) -> dict[tuple[str, str], float]:
    """(component, action) -> pJ, the largest where an action is listed for several arguments."""
    found: dict[tuple[str, str], float] = {}
    for table in document["ERT"]["tables"]:
        for action in table["actions"]:
            key = component_name(table["name"]), action["name"]
            found[key] = max(found.get(key, 0.0), float(action["energy"]))
    return found
