"""Roles of a layer's dimensions in the hardware that runs the layer: channels, windows, positions, batches."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.spec.problem import DataSpace, Problem


@dataclass(frozen=True)
class TensorRoles:
    """The dimensions of a problem with two operands and one output, as indices in the order of the problem.

    Attributes:
        reduced: Dimensions of both operands and not of the output that no window holds: input channels.
        windows: The other dimensions of both operands that the output lacks: the filter's rows and columns.
        produced: Dimensions of weights and output alone: output channels.
        positions: Dimensions of inputs and output alone, rows of a product or pixels and batch of a convolution.
        sliding: Positions that share a rank with a window, in the order of the problem.
        groups: Dimensions of all three tensors, such as the batch of a batched product.
        strides: For every sliding position the window that shares its rank, the position's coefficient (the stride)
            and the window's (the dilation).
    """

    reduced: tuple[int, ...]
    windows: tuple[int, ...]
    produced: tuple[int, ...]
    positions: tuple[int, ...]
    sliding: tuple[int, ...]
    groups: tuple[int, ...]
    strides: tuple[tuple[int, int, int], ...]

    @property
    def stream(self) -> int | None:
        """The dimension that runs through the array one word after another: the first position that slides, else the
        first one; None where there is no position."""
        return next(iter((*self.sliding, *self.positions)), None)


def tensor_roles(problem: Problem) -> TensorRoles:
    """Reads the roles off the projections; names count only where no operand slides.

    Args:
        problem: A layer with two operands and one output.

    Raises:
        FadiffError: The problem has another number of operands.
    """
    inputs, weights = _operands(problem)
    output = problem.output
    number = {name: index for index, name in enumerate(problem.dimensions)}
    windowed = {term.dimension: rank for rank in inputs.ranks if len(rank) > 1 for term in rank}

    def those(of_inputs: bool, of_weights: bool, of_output: bool) -> tuple[str, ...]:
        return tuple(name for name in problem.dimensions if (
            name in inputs.dimensions, name in weights.dimensions, name in output.dimensions)
            == (of_inputs, of_weights, of_output))

    shared, positions = those(True, True, False), those(True, False, True)
    sliding = [name for name in positions if name in windowed]
    strides = []
    for name in sliding:
        terms = {term.dimension: term.coefficient for term in windowed[name]}
        window = next((other for other in terms if other != name), name)
        strides.append((number[window], terms[name], terms[window] if window != name else 0))

    def indices(names: tuple[str, ...] | list[str]) -> tuple[int, ...]:
        return tuple(number[name] for name in names)

    return TensorRoles(indices([name for name in shared if name not in windowed]),
                       indices([name for name in shared if name in windowed]), indices(those(False, True, True)),
                       indices(positions), indices(sliding), indices(those(True, True, True)), tuple(strides))


def _operands(problem: Problem) -> tuple[DataSpace, DataSpace]:
    """Inputs and weights: inputs slide; where no operand does, they are called Inputs, or stand second."""
    operands = [space for space in problem.dataspaces if not space.read_write]
    if len(operands) != 2:
        raise FadiffError(f"{problem.name}: found {len(operands)} operands; accepted by a calibration: problems with "
                          "two operands and one output")
    slide = [any(len(rank) > 1 for rank in space.ranks) for space in operands]
    first = (slide[0] and not slide[1]) or (slide[0] == slide[1] and operands[0].name == "Inputs")
    return (operands[0], operands[1]) if first else (operands[1], operands[0])
