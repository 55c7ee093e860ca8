"""What survives when a run is killed: the mappings of layers and of groups' tiles, in one file that is there whole or
not at all.

Groups are kept in the batches in which they were searched, so a run that goes on finds what it would have found.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

from fadiff_mapper.base import atomic_files
from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.base.version import __version__
from fadiff_mapper.fusion import FusedGroup, FusedLayer, Stay
from fadiff_mapper.model.exact.evaluate_spec import evaluate_mapping
from fadiff_mapper.network.layers.options import NetworkOptions
from fadiff_mapper.network.plan.map_tiles import resized
from fadiff_mapper.results.mapped_layer import MappedLayer
from fadiff_mapper.search.options import SearchOptions
from fadiff_mapper.spec.mapping import Mapping
from fadiff_mapper.spec.native.mapping import literal_mapping, read_mapping
from fadiff_mapper.spec.native.merged_input import merged_input
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Workload
from fadiff_mapper.yaml.located import Where, with_places

UNFINISHED = ("searching", "interrupted", "out of time")
"""How the status of a search begins that could go on: its mapping is no answer for a run that does."""

INTERVAL = 1.0
"""Seconds after which further layers are written; so many are lost at most."""

LARGEST = 2 ** 28
"""Bytes of a checkpoint that are read."""


@dataclass
class Checkpoint:
    """The checkpoint of a run; without a file it keeps nothing."""

    file: Path | None
    head: dict[str, str]
    specs: tuple[Spec, ...]
    layers: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    written_at: float = -inf

    def results(self, specs: tuple[Spec, ...]) -> list[MappedLayer | None]:
        """The layers whose search had ended, in order; None for the others. Raises SpecError for a broken entry."""
        return [self._result(spec, self.layers[str(index)]) if str(index) in self.layers else None
                for index, spec in enumerate(specs)]

    def keep(self, index: int, result: MappedLayer) -> None:
        """Notes the mapping of a layer whose search has ended, and writes once in a while."""
        if self.file is None or result.status.startswith(UNFINISHED):
            return
        self.layers[str(index)] = {
            "mapping": literal_mapping(result.mapping, result.spec.arch, result.spec.problem), "status": result.status,
            "evaluations": result.evaluations, "time_s": result.time_s}
        if time.monotonic() - self.written_at > INTERVAL:
            self.write()

    def mapped(self, batch: str, groups: Sequence[FusedGroup]) -> list[FusedGroup | None] | None:
        """The groups of a batch with the mappings found for their tiles, None for one without; None where the batch
        is not known. Raises FadiffError or SpecError for a broken entry."""
        entries = self.groups.get(batch)
        if entries is None:
            return None
        try:
            return [None if entry is None else replace(group, layers=tuple(
                replace(layer, mappings={tuple(shape): self._mapping(layer, shape, literal) for shape, literal in part})
                for layer, part in zip(group.layers, entry, strict=True)))
                    for group, entry in zip(groups, entries, strict=True)]
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken(error) from None

    def keep_mapped(self, batch: str, groups: Sequence[FusedGroup | None]) -> None:
        """Writes the mappings of a batch whose search has ended."""
        if self.file is None:
            return
        arch = self.specs[0].arch
        self.groups[batch] = [group and [
            [[list(shape), literal_mapping(mapping, arch, resized(layer.problem, shape))]
             for shape, mapping in layer.mappings.items()] for layer in group.layers] for group in groups]
        self.write()

    def write(self) -> None:
        """Writes what is known, if there is a file and anything is known."""
        if self.file is None or not (self.layers or self.groups):
            return
        text = json.dumps({**self.head, "layers": self.layers, "groups": self.groups}) + "\n"
        atomic_files.write_files(self.file.parent, {self.file.name: text})
        self.written_at = time.monotonic()

    def _mapping(self, layer: FusedLayer, shape: Sequence[int], literal: Any) -> Mapping:
        where = Where(str(self.file))
        return read_mapping(with_places(literal, where), where, self.specs[0].arch,
                            resized(layer.problem, tuple(shape)))

    def _broken(self, error: Exception) -> FadiffError:
        return FadiffError(f"{self.file}: not a whole checkpoint ({error!r}); remove it to start anew")

    def _result(self, spec: Spec, entry: dict[str, Any]) -> MappedLayer:
        where = Where(str(self.file))
        try:
            mapping = read_mapping(with_places(entry["mapping"], where), where, spec.arch, spec.problem)
            return MappedLayer(spec, mapping, evaluate_mapping(spec, mapping), str(entry["status"]), (), {},
                               int(entry["evaluations"]), float(entry["time_s"]))
        except (KeyError, TypeError, ValueError) as error:
            raise self._broken(error) from None


def batch_key(groups: Sequence[FusedGroup], weights: Sequence[tuple[float, float]], options: SearchOptions) -> str:
    """What a batch of groups is found by again: the groups without mappings, and how they are searched."""
    content = [[_plain(group) for group in groups], list(weights), options.as_dict()]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _plain(group: FusedGroup) -> dict[str, Any]:
    def stay(one: Stay) -> list[Any]:
        return [one.level, sorted(one.across), one.lines]

    return {"layers": [[layer.problem.bounds, repr(layer.problem.dataspaces),
                        {name: stay(one) for name, one in layer.operands.items()}] for layer in group.layers],
            "links": [[link.tensor, dict(link.dims), stay(link.stay), dict(link.padding),
                       {dim: list(astuple(slide)) for dim, slide in link.pooled.items()}, link.written]
                      for link in group.links],
            "loops": [[loop.dim, loop.tile] for loop in group.loops], "repeat": group.repeat, "spilled": group.spilled}


def opened(file: str | os.PathLike[str] | None, workload: Workload, specs: tuple[Spec, ...],
           options: NetworkOptions) -> Checkpoint:
    """The checkpoint of this run, from its file where there is one.

    Raises FadiffError where the file belongs to another network, design, options or version.
    """
    head = {"version": __version__, "network": workload.name, "layers_of": fingerprint(specs),
            "links_of": links_fingerprint(workload), "metric": options.metric, "seed": str(options.seed)}
    path = None if file is None else Path(file)
    if path is None or not path.exists():
        return Checkpoint(path, head, specs)
    content = _content(path)
    for key, value in head.items():
        if content.get(key) != value:
            raise FadiffError(f"{path}: the checkpoint has {key} {content.get(key)!r}, this run {value!r}; remove it "
                              "to start anew")
    return Checkpoint(path, head, specs, content["layers"], content["groups"])


def _content(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > LARGEST:
            raise FadiffError(f"{path}: too large for a checkpoint")
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise FadiffError(f"{path}: not a checkpoint that can be read: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(content.get(key), dict) for key in ("layers", "groups")):
        raise FadiffError(f"{path}: not a checkpoint; remove it to start anew")
    return content


def fingerprint(specs: tuple[Spec, ...]) -> str:
    """A hash of all problems, the architecture, its constraints and energies."""
    texts = [merged_input(spec) + json.dumps(spec.constraints.native, sort_keys=True, default=str) for spec in specs]
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def links_fingerprint(workload: Workload) -> str:
    """A hash of all nodes, how often each runs and what it reads."""
    nodes = [[node.name, node.kind, list(node.inputs), node.layer.repeat if node.layer else 0]
             for node in workload.nodes]
    return hashlib.sha256(json.dumps(nodes).encode()).hexdigest()
