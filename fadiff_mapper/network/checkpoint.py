"""The checkpoint of a network's run: mappings of layers and of groups' tiles in one file, so that a killed run goes on.

The file is written whole or not at all. Groups are kept in the batches in which they were searched, under a hash of
the batch, so that a resumed run finds the same plan as an uninterrupted one. A checkpoint of another network, design,
metric, seed or version is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.version import __version__
from fadiff_mapper.fusion import FusedGroup, FusedLayer
from fadiff_mapper.inputs.load import merged_input
from fadiff_mapper.inputs.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.input_file import read_text
from fadiff_mapper.inputs.yaml.located import with_places
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.model.evaluate_spec import evaluate_mapping
from fadiff_mapper.network.options import NetworkOptions
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.search.result import Result
from fadiff_mapper.workload import Workload

UNFINISHED = ("searching", "interrupted", "out of time")
"""First words of a status after which a search could go on: a resumed run must not take its mapping as final."""

INTERVAL = 1.0
"""Seconds between writes while layers are searched, the most that a killed run loses. Set by hand."""

LARGEST = 2 ** 28
"""Largest checkpoint in bytes that is read: a safety limit against other files."""


@dataclass
class Checkpoint:
    """The checkpoint of a run; nothing is kept without a file."""

    file: Path | None  # None: nothing is kept
    head: dict[str, str]  # entries that must be the same in a resumed run, see `opened`
    specs: tuple[Spec, ...]  # specs of the distinct layers
    layers: dict[str, Any] = field(default_factory=dict)  # finished layers by their index, as in the file
    # mappings of the tiles of groups by the key of their batch (`batch_key`), as in the file
    groups: dict[str, Any] = field(default_factory=dict)
    written_at: float = -inf  # time of the last write, by the monotonic clock

    def results(self) -> list[Result | None]:
        """The distinct layers whose search had ended, evaluated again; None for layers that are missing.

        Raises:
            FadiffError: An entry is broken.
        """
        found: list[Result | None] = []
        for index, spec in enumerate(self.specs):
            if str(index) not in self.layers:
                found.append(None)
                continue
            entry, where = self.layers[str(index)], self._where("layers", str(index), "mapping")
            try:
                mapping = read_mapping(with_places(entry["mapping"], where), where, spec.arch, spec.problem)
                found.append(Result(spec, mapping, evaluate_mapping(spec, mapping), str(entry["status"]), (), {},
                                    int(entry["evaluations"]), float(entry["time_s"])))
            except (KeyError, TypeError, ValueError, OverflowError):
                raise self._broken("layers", str(index)) from None
        return found

    def keep(self, index: int, result: Result) -> None:
        """Records a distinct layer if its search is complete; writes the file every `INTERVAL` seconds."""
        if self.file is None or result.status.startswith(UNFINISHED):
            return
        self.layers[str(index)] = {
            "mapping": literal_mapping(result.mapping, result.spec.arch, result.spec.problem), "status": result.status,
            "evaluations": result.evaluations, "time_s": result.time_s}
        if time.monotonic() - self.written_at > INTERVAL:
            self.write()

    def mapped(self, batch: str,
               groups: Sequence[FusedGroup]) -> tuple[list[FusedGroup | None], dict[str, str]] | None:
        """The groups of a batch (`batch_key`) with mappings for all tiles, and the best strategies known after its
        search. A group without a legal mapping is None; the answer is None where the batch is not in the checkpoint.

        Raises:
            FadiffError: An entry is broken.
        """
        if batch not in self.groups:
            return None
        where, arch = self._where("groups", batch), self.specs[0].arch

        def mapped_layer(layer: FusedLayer, part: Any) -> FusedLayer:
            return replace(layer, mappings={tuple(shape): read_mapping(
                with_places(literal, where), where, arch, layer.problem.resized(shape)) for shape, literal in part})
        try:
            mapped = [None if entry is None else replace(group, layers=tuple(
                mapped_layer(layer, part) for layer, part in zip(group.layers, entry, strict=True)))
                for group, entry in zip(groups, self.groups[batch]["groups"], strict=True)]
            return mapped, {str(layer): str(name) for layer, name in self.groups[batch]["strategies"].items()}
        except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
            raise self._broken("groups", batch) from None

    def keep_mapped(self, batch: str, groups: Sequence[FusedGroup | None], strategies: dict[str, str]) -> None:
        """Writes the mappings of a batch whose search has ended, and the best strategies known then, from which a
        resumed run goes on. `groups`: None for a group without a legal mapping."""
        if self.file is None:
            return
        arch = self.specs[0].arch
        self.groups[batch] = {"strategies": dict(strategies), "groups": [group and [
            [[list(shape), literal_mapping(mapping, arch, layer.problem.resized(shape))]
             for shape, mapping in layer.mappings.items()] for layer in group.layers] for group in groups]}
        self.write()

    def write(self) -> None:
        """Writes all mappings to the file, if there are a file and mappings."""
        if self.file is None or not (self.layers or self.groups):
            return
        text = json.dumps({**self.head, "layers": self.layers, "groups": self.groups}) + "\n"
        atomic_files.write_files(self.file.parent, {self.file.name: text})
        self.written_at = time.monotonic()

    def _broken(self, *keys: str) -> FadiffError:
        """The error for an entry, at the path `keys`, that no run can have written."""
        return self._where(*keys).error("the entry is not whole", "what a run wrote; remove the file to start anew")

    def _where(self, *keys: str) -> Where:
        """The position of an entry in the file, for messages."""
        return Where(str(self.file), None, ".".join(keys))


def batch_key(groups: Sequence[FusedGroup], sums: tuple[float, float], options: SearchOptions, compared: bool) -> str:
    """The hash of all that decides the mappings of a batch: groups without mappings, energy and cycles of the network
    (`sums`), the options of the search, and whether strategies are compared."""
    return _digest([groups, sums, options.as_dict(), compared])


def _digest(content: Any) -> str:
    """The SHA-256 of a value as JSON, with every field; mappings by tile shape are left out."""
    def plain(value: Any) -> Any:
        if is_dataclass(value):
            return {part.name: getattr(value, part.name) for part in fields(value)}
        return sorted(value) if isinstance(value, frozenset) else str(value)    # sets differ in order

    return hashlib.sha256(json.dumps(content, sort_keys=True, default=plain, skipkeys=True).encode()).hexdigest()


def opened(file: str | os.PathLike[str] | None, workload: Workload, specs: tuple[Spec, ...],
           options: NetworkOptions) -> Checkpoint:
    """Opens the checkpoint of a run in a file, which is read where it exists; None keeps nothing.

    Raises:
        FadiffError: The file is no checkpoint, or one of another network, design, metric, seed or version.
    """
    if file is None:
        return Checkpoint(None, {}, specs)
    layers = [[merged_input(spec), spec.constraints.native] for spec in specs]
    nodes = [[node.name, node.kind, list(node.inputs), node.layer.repeat if node.layer else 0]
             for node in workload.nodes]
    head = {"version": __version__, "network": workload.name, "layers_of": _digest(layers),
            "links_of": _digest(nodes), "metric": options.metric, "seed": str(options.seed)}
    path = Path(file)
    if not path.exists():
        return Checkpoint(path, head, specs)
    try:
        content = json.loads(read_text(path, "a checkpoint", LARGEST))
    except (ValueError, RecursionError) as error:
        raise FadiffError(f"{path}: not a checkpoint that can be read: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(content.get(key), dict) for key in ("layers", "groups")):
        raise FadiffError(f"{path}: not a checkpoint; remove it to start anew")
    for key, value in head.items():
        if content.get(key) != value:
            raise FadiffError(f"{path}: the checkpoint has {key} {content.get(key)!r}, this run {value!r}; remove it "
                              "to start anew")
    return Checkpoint(path, head, specs, content["layers"], content["groups"])
