"""A node of an ONNX graph with its operands, attributes and shapes, as the tables of operators read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Tensor
from fadiff_mapper.workload.readers.convolutions import Pads
from fadiff_mapper.workload.window_slide import WindowSlide


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


def padding(call: OnnxCall, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Pads:
    """Padding as stated, or as `auto_pad` asks: so much that the output is input / stride, rounded up.

    Of an odd total SAME_UPPER puts the larger half behind, SAME_LOWER before.

    Args:
        call: a convolution or pool.
        x: the tensor that its windows slide over.
        kernel: points under a window along each sliding axis.
        stride: points from one window to the next.
        dilation: points from one point under a window to the next.
    """
    count = len(kernel)
    mode = call.attributes.get("auto_pad", b"NOTSET")
    if mode in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = []
        for extent, out, k, s, d in zip(x.shape[-count:], call.out[-count:], kernel, stride, dilation, strict=True):
            total = max(WindowSlide(k, s, d).reach(out) - extent, 0)
            small = total // 2
            pads.append((small, total - small) if mode == b"SAME_UPPER" else (total - small, small))
        return tuple(pads)
    if mode == b"VALID":
        return ((0, 0),) * count
    values = call.integers("pads", (0,) * (2 * count), 0)
    return tuple(zip(values[:count], values[count:], strict=True))


def transposed_padding(call: OnnxCall, x: Tensor, kernel: Shape, stride: Shape, dilation: Shape) -> Pads:
    """Outputs that a transposed convolution cuts off: as stated, or as the output's shape and `auto_pad` ask.

    Of an odd total SAME_UPPER cuts the smaller half before, all others the larger one.

    Args:
        call: a transposed convolution.
        x: the tensor that it reads.
        kernel: outputs of one input point along each sliding axis.
        stride: outputs from one input point to the next.
        dilation: outputs from one of an input point to the next.
    """
    count = len(kernel)
    mode = call.attributes.get("auto_pad", b"NOTSET")
    if call.attributes.get("output_shape") or mode in (b"SAME_UPPER", b"SAME_LOWER"):
        pads = []
        extra = call.integers("output_padding", (0,) * count, 0)
        for extent, out, k, s, d, more in zip(x.shape[-count:], call.out[-count:], kernel, stride, dilation, extra,
                                              strict=True):
            total = max(s * (extent - 1) + more + WindowSlide(k, 1, d).reach(1) - out, 0)
            before = total // 2 if mode == b"SAME_UPPER" else total - total // 2
            pads.append((before, total - before))
        return tuple(pads)
    values = call.integers("pads", (0,) * (2 * count), 0)
    return tuple(zip(values[:count], values[count:], strict=True))
