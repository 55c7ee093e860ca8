"""A call of an exported program with its arguments and shapes, as the tables of operators read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Tensor
from fadiff_mapper.yaml.place import Where


@dataclass(frozen=True)
class TorchCall:
    """A call of an exported program.

    Attributes:
        operator: its ATen operator, such as "conv2d"; the full name for operators of others.
        name: name for the node.
        arguments: arguments by name, tensors as values of the assembly.
        operands: the tensors among them, in order.
        shape: shape of the result, a list of shapes where it has several.
        where: place in the program, for messages.
        tag: PyTorch's tag of the operator: "pointwise", "reduction" or "".
        is_complex: whether its result has complex numbers.
    """

    operator: str
    name: str
    arguments: Mapping[str, Any]
    operands: Sequence[Tensor]
    shape: Any
    where: Where
    tag: str = ""
    is_complex: bool = False

    def get(self, name: str, default: Any = None) -> Any:
        """An argument, or the default where it is missing or None."""
        value = self.arguments.get(name)
        return default if value is None else value

    @property
    def first(self) -> Tensor:
        """The first tensor among the arguments."""
        return self.operands[0]

    @property
    def out(self) -> Shape:
        """The shape of the result, of the first where there are several."""
        shape: Shape = self.shape[0] if isinstance(self.shape, list) else self.shape
        return shape


def per_axis(value: Any, kernel: Shape) -> Shape:
    """A number per sliding axis; a single number holds for all.

    Args:
        value: a number, or a list of one or several.
        kernel: extents of the window, one per sliding axis.
    """
    values = tuple(value) if isinstance(value, list) else (value,)
    return values * len(kernel) if len(values) == 1 else values
