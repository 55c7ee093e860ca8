"""A node of an ONNX graph with its operands, attributes and shapes, as the tables of operators read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Tensor
from fadiff_mapper.yaml.place import Where


@dataclass(frozen=True)
class OnnxCall:
    """A node of an ONNX graph.

    Attributes:
        operator: its operator, behind the domain where this is not ONNX's own.
        name: name for the node.
        attributes: attributes by name, without subgraphs.
        operands: its operands; None where an optional one is left out.
        numbers: per operand, its values where it is a small constant of whole numbers, else None or empty.
        outs: shapes of its outputs; None where they are not known.
        version: version of the operator set.
        where: place in the model, for messages.
        lost: the operator at which shapes end, where an operand's is not known.
    """

    operator: str
    name: str
    attributes: Mapping[str, Any]
    operands: Sequence[Tensor | None]
    numbers: Sequence[tuple[int, ...] | None]
    outs: Sequence[Shape | None]
    version: int
    where: Where
    lost: str = ""

    @property
    def tensors(self) -> list[Tensor]:
        """The operands that are there."""
        return [tensor for tensor in self.operands if tensor]

    @property
    def first(self) -> Tensor:
        """The first operand. Raises SpecError where it is missing or its shape is not known."""
        return self.operand(0)

    @property
    def out(self) -> Shape:
        """The shape of the first output. Raises SpecError where it is not known."""
        if self.outs[0] is None:
            raise self.where.error(f"the shape of its output is not known{self.ended}",
                                   "an operator whose shape can be inferred")
        return self.outs[0]

    def operand(self, index: int) -> Tensor:
        """An operand with a known shape. Raises SpecError where it is missing or its shape is not known."""
        tensor = self.operands[index] if index < len(self.operands) else None
        if tensor is None or not tensor.known:
            raise self.where.error(f"the shape of operand {index} is not known{self.ended}" if tensor else
                                   f"operand {index} is missing")
        return tensor

    @property
    def ended(self) -> str:
        """The end of a message on a shape that is not known."""
        return f": shapes end at {self.lost}" if self.lost else ""

    def whole(self, name: str, default: int) -> int:
        """An attribute that is a whole number, else the default."""
        value = self.attributes.get(name, default)
        return value if isinstance(value, int) else default

    def integers(self, name: str, default: Shape, least: int = 1) -> Shape:
        """An attribute that is a list of whole numbers.

        Args:
            name: its name.
            default: the values where it is missing or empty.
            least: the smallest number accepted.

        Raises:
            SpecError: its length is not that of the default, or a number is too small.
        """
        stated = self.attributes.get(name)
        values = tuple(stated) if isinstance(stated, list | tuple) and stated else default
        if len(values) != len(default) or not all(isinstance(value, int) and value >= least for value in values):
            raise self.where.error(f"{name} is {list(values)}", f"{len(default)} whole numbers >= {least}")
        return values

    def axes_from(self, default: int) -> tuple[int, int]:
        """The attribute `axis`, counted from 0, and the number of axes of the first operand.

        Args:
            default: the axis where the attribute is missing.

        Raises:
            SpecError: the operand has no such axis.
        """
        rank, axis = len(self.first.shape), self.whole("axis", default)
        if not -rank <= axis < rank:
            raise self.where.error(f"axis is {axis}, its operand has {rank} axes")
        return axis % rank, rank
