"""Designs read many times over: what does not change from design to design is read once.

A design differs from the next in a few numbers, and its layers differ in their bounds. So one layer of a design is read
in full, which gives architecture and energies. The constraints of the others depend on the layer and the shape of the
architecture alone: not on attributes of components, and not on how wide a fan-out is, but where `maximize_dims` fills
it. So they are kept by both. Documents in which more depends on the layer are read in full for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from fadiff_mapper.design.evaluation.design_question import DesignQuestion
from fadiff_mapper.design.space import Point, design_document
from fadiff_mapper.inputs.load import read_spec
from fadiff_mapper.network.layers.one_design import with_problem
from fadiff_mapper.spec.arch import Architecture
from fadiff_mapper.spec.constraints import Constraints
from fadiff_mapper.spec.problem import Problem
from fadiff_mapper.spec.spec import Spec
from fadiff_mapper.workload import Operator
from fadiff_mapper.yaml.located import Map

MOST_SHAPES = 64
"""Shapes of the architecture whose constraints are kept, the latest ones: a limit on memory, not measured."""

MOST_DESIGNS = 64
"""Designs kept as read, the latest ones, so that a design that is judged and then mapped is read once: a limit on
memory, not measured."""

UNSEEN = ("attributes", "spatial")
"""Entries of a component that constraints do not look at: its attributes, and its meshes as long as there is a fan-out
or none. A list of constraints under the name `spatial` stands among `constraints`, which are looked at."""

FILLING = "maximize_dims"
"""The constraint whose factors depend on the width of a fan-out."""


@dataclass(frozen=True)
class LayerReading:
    """The parts of a layer's reading beside the architecture and its energies.

    Attributes:
        problem: The layer.
        literal: The layer as plain data.
        constraints: The constraints of its map space.
        notes: Notes that the first layer of the same design has not.
        less: Notes of the first layer that this one has not.
    """

    problem: Problem
    literal: dict[str, Any]
    constraints: Constraints
    notes: tuple[str, ...]
    less: frozenset[str]


class DesignReader:
    """Reads designs of one space with all layers of a question.

    Attributes:
        question: The question.
        readings: Layers as read before, by the shape of the architecture and the number of the layer.
        designs: The latest designs as read.
    """

    def __init__(self, question: DesignQuestion) -> None:
        self.question = question
        self.readings: dict[Hashable, dict[int, LayerReading]] = {}
        self.designs: dict[Point, tuple[Spec, ...]] = {}

    def specs(self, point: Point) -> tuple[Spec, ...]:
        """Reads a design with every layer of the question.

        Args:
            point: The design.

        Returns:
            Specs in the order of `DesignQuestion.layers`, equal to those that a full reading gives.

        Raises:
            SpecError: The point is no design, or one that a layer's constraints do not fit.
        """
        if point not in self.designs:
            specs = self._specs(point)
            if len(self.designs) >= MOST_DESIGNS:
                del self.designs[next(iter(self.designs))]
            self.designs[point] = specs
        return self.designs[point]

    def _specs(self, point: Point) -> tuple[Spec, ...]:
        """Reads a design with every layer of the question. Raises SpecError."""
        document, files = design_document(self.question.space, point), self.question.space.files
        layers = self.question.layers
        first = self._read(document, files, layers[0])
        if "sparse_optimizations" in document or _mentions_problem(document):
            return (first, *(self._read(document, files, layer) for layer in layers[1:]))
        known = self._readings_of(_shape(document, first.arch))
        return (first, *(self._with_layer(document, files, first, number, known)
                         for number in range(1, len(layers))))

    def _read(self, document: Map, files: tuple[str, ...], layer: Operator) -> Spec:
        """A full reading with one layer. Raises SpecError."""
        return read_spec(with_problem(document, layer.literal), files, self.question.energy, self.question.strict)

    def _readings_of(self, shape: Hashable) -> dict[int, LayerReading]:
        """The readings kept for a shape of the architecture; the oldest shape gives way to a new one."""
        if shape not in self.readings and len(self.readings) >= MOST_SHAPES:
            del self.readings[next(iter(self.readings))]
        return self.readings.setdefault(shape, {})

    def _with_layer(self, document: Map, files: tuple[str, ...], first: Spec, number: int,
                    known: dict[int, LayerReading]) -> Spec:
        """The design with another layer, read in full the first time. Raises SpecError."""
        if number not in known:
            spec = self._read(document, files, self.question.layers[number])
            known[number] = LayerReading(
                spec.problem, spec.literal["problem"], spec.constraints,
                tuple(note for note in spec.notes if note not in first.notes), frozenset(first.notes) - {*spec.notes})
        reading = known[number]
        notes = (*(note for note in first.notes if note not in reading.less), *reading.notes)
        return replace(first, problem=reading.problem, constraints=reading.constraints, notes=notes,
                       literal=first.literal | {"problem": reading.literal})


def _shape(document: Map, arch: Architecture) -> Hashable:
    """Equal for designs whose constraints are equal for every layer."""
    seen = repr({key: _without_unseen(value) if key == "architecture" else value for key, value in document.items()})
    meshes = [arch.fanout(level) for level in range(len(arch.levels))]
    return seen, arch.level_names(), tuple(meshes if FILLING in seen else [x * y > 1 for x, y in meshes])


def _without_unseen(node: Any) -> Any:
    """The values of a document without the attributes and meshes of its components."""
    if isinstance(node, dict):
        return {key: value if "constraints" in str(key) else _without_unseen(value)
                for key, value in node.items() if key not in UNSEEN}
    return [_without_unseen(value) for value in node] if isinstance(node, list) else node


def _mentions_problem(document: Map) -> bool:
    """Whether an expression of the design may look at the layer."""
    return any("problem" in text for key, value in document.items() if key not in ("problem", "mapping")
               for text in _texts(value))


def _texts(node: Any) -> Iterator[str]:
    """All strings in a tree but keys."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _texts(value)
