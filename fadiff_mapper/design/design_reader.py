"""Reads many designs of a space: content common to designs is read once.

Designs differ in a few numbers, and their layers in bounds. So of most designs only the architecture and its energies
are read. Constraints depend on the layer and the shape of the architecture: neither on attributes of components nor on
the width of a fan-out, except with `maximize_dims`. So layers are read in full only on the first design of every shape.
Sparse documents, and documents with other dependences on the layer, are read in full for each design.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any

from fadiff_mapper.design.question import DesignQuestion
from fadiff_mapper.design.space import Point, design_document
from fadiff_mapper.inputs.load import find_energies, read_spec
from fadiff_mapper.inputs.native.arch import read_architecture
from fadiff_mapper.inputs.spec.spec import Spec
from fadiff_mapper.inputs.v04 import translated_architecture
from fadiff_mapper.inputs.yaml.leniency import Leniency
from fadiff_mapper.network.one_design import with_problem

MOST_SHAPES = 64
"""Shapes of the architecture whose constraints are kept, the latest ones: a limit on memory."""

MOST_DESIGNS = 64
"""Parsed designs that are kept, the latest ones, so that a design that is judged and then mapped is read once."""

UNSEEN = ("attributes", "spatial")
"""Entries of a component on which constraints do not depend: its attributes, and its meshes as long as a fan-out stays
one. A list of constraints named `spatial` is under `constraints`, which count."""

FILLING = "maximize_dims"
"""The constraint whose factors depend on the width of a fan-out."""

SPARSE = "sparse_optimizations"
"""The key of sparse optimizations, whose densities depend on the layer."""


class DesignReader:
    """Reads designs of one space with all layers of a question.

    Attributes:
        readings: All layers as read with the first design of each shape, each spec with its notes except on energies.
        designs: The latest parsed designs.
    """

    def __init__(self, question: DesignQuestion) -> None:
        self.question = question
        self.readings: dict[Hashable, tuple[Spec, ...]] = {}
        self.designs: dict[Point, tuple[Spec, ...]] = {}

    def specs(self, point: Point) -> tuple[Spec, ...]:
        """A design with every layer of the question, in the order of `DesignQuestion.layers`, as a full reading gives.

        Raises:
            SpecError: The point is no valid design, or a layer's constraints do not fit it.
        """
        if point not in self.designs:
            specs = self._specs(point)
            if len(self.designs) >= MOST_DESIGNS:
                del self.designs[next(iter(self.designs))]
            self.designs[point] = specs
        return self.designs[point]

    def _specs(self, point: Point) -> tuple[Spec, ...]:
        question, document = self.question, design_document(self.question.space, point)
        leniency = Leniency(question.strict)
        native = translated_architecture(with_problem(document, question.layers[0].literal), leniency)
        arch = read_architecture(native, native.where, leniency=leniency)
        seen = repr([(key, _without_unseen(value) if key == "architecture" else value)
                     for key, value in document.items()])

        def in_full() -> tuple[Spec, ...]:
            return tuple(read_spec(with_problem(document, layer.literal), question.space.files, question.energy,
                                   question.strict) for layer in question.layers)

        if SPARSE in seen or any("problem" in text for key, value in document.items()
                                 if key not in ("problem", "mapping") for text in _texts(value)):
            return in_full()
        meshes = [arch.fanout(level) for level in range(len(arch.levels))]
        shape = (seen, arch.level_names(), tuple(meshes if FILLING in seen else [x * y > 1 for x, y in meshes]),
                 tuple(leniency.warnings))
        known = self.readings.get(shape)
        if known is None:
            specs = in_full()
            _, notes = find_energies(document, specs[0].arch, specs[0].literal, question.energy)
            if len(self.readings) >= MOST_SHAPES:
                del self.readings[next(iter(self.readings))]
            self.readings[shape] = tuple(replace(spec, notes=spec.notes[:len(spec.notes) - len(notes)])
                                         for spec in specs)
            return specs
        literals = [spec.literal | arch.native for spec in known]
        tables, notes = find_energies(document, arch, literals[0], question.energy)
        return tuple(replace(spec, arch=arch, tables=tables, literal=literal, notes=(*spec.notes, *notes))
                     for spec, literal in zip(known, literals, strict=True))


def _without_unseen(node: Any) -> Any:
    """The values of a document without the attributes and meshes of its components."""
    if isinstance(node, dict):
        return {key: value if "constraints" in str(key) else _without_unseen(value)
                for key, value in node.items() if key not in UNSEEN}
    return [_without_unseen(value) for value in node] if isinstance(node, list) else node


def _texts(node: Any) -> Iterator[str]:
    """All strings in a tree except keys: expressions among them may refer to the layer's problem."""
    if isinstance(node, str):
        yield node
    elif isinstance(node, dict | list):
        for value in node.values() if isinstance(node, dict) else node:
            yield from _texts(value)
