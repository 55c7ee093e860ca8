"""What survives when a run is killed: the layers' mappings, in one file that is there whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import fadiff_mapper
from fadiff_mapper import rundir
from fadiff_mapper.emit import merged_input
from fadiff_mapper.errors import FadiffError
from fadiff_mapper.evaluation import evaluate_mapping
from fadiff_mapper.inputs import Spec
from fadiff_mapper.joint.options import NetworkOptions
from fadiff_mapper.result import Result
from fadiff_mapper.spec.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.tree import Where, with_places
from fadiff_mapper.workload import Workload

LARGEST = 2 ** 28
"""Bytes of a checkpoint that are read."""


@dataclass
class Saved:
    """The checkpoint of a run; without a file it keeps nothing."""

    file: Path | None
    head: dict[str, str]
    specs: tuple[Spec, ...]
    layers: dict[str, Any] = field(default_factory=dict)

    def results(self, specs: tuple[Spec, ...]) -> list[Result | None]:
        """The layers whose search had ended, in order; None for the others. Raises SpecError for a broken entry."""
        return [self._result(spec, self.layers[str(index)]) if str(index) in self.layers else None
                for index, spec in enumerate(specs)]

    def keep(self, index: int, result: Result) -> None:
        """Writes the mapping of a layer whose search has ended."""
        if self.file is None or result.status.startswith("searching"):
            return
        self.layers[str(index)] = {
            "mapping": literal_mapping(result.mapping, result.spec.arch, result.spec.problem), "status": result.status,
            "evaluations": result.evaluations, "time_s": result.time_s}
        text = json.dumps({**self.head, "layers": self.layers}, indent=1) + "\n"
        rundir.write_files(self.file.parent, {self.file.name: text})

    def _result(self, spec: Spec, entry: dict[str, Any]) -> Result:
        where = Where(str(self.file))
        try:
            mapping = read_mapping(with_places(entry["mapping"], where), where, spec.arch, spec.problem)
            return Result(spec, mapping, evaluate_mapping(spec, mapping), str(entry["status"]), (), {},
                          int(entry["evaluations"]), float(entry["time_s"]))
        except (KeyError, TypeError, ValueError) as error:
            raise FadiffError(f"{self.file}: not a whole checkpoint ({error!r}); remove it to start anew") from None


def opened(file: str | os.PathLike[str] | None, workload: Workload, specs: tuple[Spec, ...],
           options: NetworkOptions) -> Saved:
    """The checkpoint of this run, from its file where there is one.

    Raises FadiffError where the file belongs to another network, design, options or version.
    """
    head = {"version": fadiff_mapper.__version__, "network": workload.name, "layers_of": fingerprint(specs),
            "metric": options.metric, "seed": str(options.seed)}
    path = None if file is None else Path(file)
    if path is None or not path.exists():
        return Saved(path, head, specs)
    content = _content(path)
    for key, value in head.items():
        if content.get(key) != value:
            raise FadiffError(f"{path}: the checkpoint has {key} {content.get(key)!r}, this run {value!r}; remove it "
                              "to start anew")
    return Saved(path, head, specs, content["layers"])


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise FadiffError(f"{path}: too large for a checkpoint")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FadiffError(f"{path}: not a checkpoint that can be read: {error}") from None
    if not isinstance(content, dict) or not isinstance(content.get("layers"), dict):
        raise FadiffError(f"{path}: not a checkpoint; remove it to start anew")
    return content


def fingerprint(specs: tuple[Spec, ...]) -> str:
    """A hash of all problems, the architecture, its constraints and energies."""
    texts = [merged_input(spec) + json.dumps(spec.constraints.native, sort_keys=True, default=str) for spec in specs]
    return hashlib.sha256("".join(texts).encode()).hexdigest()
