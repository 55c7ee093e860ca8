"""Tasks: one operator on one design each, about which Timeloop and the models are asked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import yaml

from fadiff_mapper.base import bundled_files
from fadiff_mapper.inputs.load import load, merged_input
from fadiff_mapper.inputs.spec.mapping import Mapping
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.yaml.dump import dump
from fadiff_mapper.model.prepared_layer import PreparedLayer, prepare_layer

from .operators import operators


@dataclass(frozen=True)
class ModelTask:
    """One operator on one design.

    Attributes:
        design: The bundled design.
        operator: Key of `operators.operators`.
        document: The native input without mapping and constraints; `timeloop-model` would check mappings against the
            constraints, and random mappings break them on purpose.
        constraints: The sections with the design's constraints.
    """

    design: str
    operator: str
    document: dict[str, Any]
    constraints: dict[str, Any]

    @property
    def name(self) -> str:
        """Design and operator, which name the task in reports and recordings."""
        return f"{self.design} / {self.operator}"

    @cached_property
    def spec(self) -> Spec:
        """The input with its constraints, as this package reads it."""
        return load(self.document | self.constraints)

    @cached_property
    def layer(self) -> PreparedLayer:
        """The layer, prepared for evaluation."""
        return prepare_layer(self.spec.arch, self.spec.problem, self.spec.tables)

    @property
    def dataspaces(self) -> tuple[str, ...]:
        """Names of the data spaces."""
        return self.spec.problem.dataspace_names()

    def text(self, mapping: Mapping) -> str:
        """The literal YAML that Timeloop is given for a mapping."""
        return dump(merged_input(self.spec, mapping))


def bundled_tasks(designs: Sequence[str] = (), names: Sequence[str] = ()) -> list[ModelTask]:
    """The operators on the bundled designs with their recorded energies.

    Args:
        designs: Designs wanted; empty for all.
        names: Operators wanted; empty for all.
    """
    tasks = []
    for design in designs or tuple(bundled_files.designs()):
        spec = load(str(bundled_files.find(f"arch/{design}")), str(bundled_files.find("problems/conv")),
                    energy="built-in")
        arch, constraints = json.loads(json.dumps([spec.literal["architecture"], spec.constraints.native]))
        tables = [yaml.safe_load(bundled_files.find(f"tables/{design}.{name}").read_text()) for name in ("ERT", "ART")]
        for operator in names or tuple(operators()):
            document = {"architecture": arch, "problem": operators()[operator], **tables[0], **tables[1]}
            tasks.append(ModelTask(design, operator, document, constraints))
    return tasks
