"""Builds nodes from recurrent layers: LSTM, GRU and plain ones, in one or both directions; and from loops.

A layer of T steps is two products. The gates' part that comes from the layer's inputs is one product over all steps;
the part that comes from the state is a product of one step, repeated T times, each run behind the one before:

    x [T, N, in] -> gates [T, N, gates * hidden]  one product of T * N rows
    states [T, N, out] -> [T, N, gates * hidden]  T products of N rows, which read the state's weights T times

The graph of a network has no cycles, so the states that the second product reads stand there as a node of their own,
and so do the outputs, which join both products: no tile is followed through either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fadiff_mapper.workload.node import NOT_UNDERSTOOD
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, linear, product
from fadiff_mapper.yaml.place import Where


@dataclass(frozen=True)
class Recurrence:
    """The weights of one layer in one direction.

    Attributes:
        inputs: [gates * hidden, in].
        states: [gates * hidden, out].
        projection: [out, hidden], where the state is projected.
    """

    inputs: Tensor
    states: Tensor
    projection: Tensor | None = None


def recurrent_layer(to: Assembly, name: str, x: Tensor, weights: Recurrence, where: Where) -> Tensor:
    """Adds a layer in one direction.

    Args:
        to: the network.
        name: prefix of the nodes' names.
        x: the sequence, [T, N, in].
        weights: its weights.
        where: place in the source, for messages.

    Returns:
        The states of all steps, [T, N, out].
    """
    steps, batch, _ = x.shape
    wide, out = weights.states.shape
    gates: Shape = (steps, batch, wide)
    from_inputs = linear(to, f"{name}.inputs", x, weights.inputs, gates, where)
    before = to.plain_node(f"{name}.before", "recurrence", [from_inputs], (steps, batch, out), where)
    from_states = product(to, f"{name}.states", before, _every_step(to, f"{name}.states", weights.states, steps, where),
                          gates, where)
    joined = [from_inputs, from_states]
    if weights.projection is None:
        return to.plain_node(f"{name}.after", "recurrence", joined, (steps, batch, out), where)
    hidden = weights.projection.shape[1]
    inner = to.plain_node(f"{name}.hidden", "recurrence", joined, (steps, batch, hidden), where)
    return product(to, f"{name}.projection", inner,
                   _every_step(to, f"{name}.projection", weights.projection, steps, where), (steps, batch, out), where)


def repeated(to: Assembly, name: str, body: Assembly, times: int, operands: Sequence[Tensor],
             shapes: Sequence[Shape | None], where: Where, in_turn: bool = True) -> list[Tensor]:
    """Adds the operators of a loop's body, each repeated for all passes.

    Args:
        to: the network.
        name: prefix of the nodes' names, unless those of the body have it already.
        body: the nodes of one pass.
        times: passes.
        operands: the values that the loop reads.
        shapes: extents of the loop's results.
        where: place in the source, for messages.
        in_turn: False where no pass reads a result of another.

    Returns:
        The results, each computed from all operators. No tile is followed within a pass, nor from or into the loop.
    """
    between = "recurrence" if in_turn else "other"
    what = "" if in_turn else "loop"
    made: list[Tensor] = []
    for node in body.nodes:
        if node.op == NOT_UNDERSTOOD or (node.macs and not node.layer):
            made += to.unknown(node.name, f"{node.what or node.op} (x {times})", operands, [node.shape], node.where,
                               *(None if macs is None else macs * times for macs in (node.macs, node.possible)))
        elif node.layer:
            layer = replace(node.layer, repeat=node.layer.repeat * times)
            read = [to.plain_node(f"{node.name}.{space}", between, operands, layer.tensor_shape(space), node.where,
                                  what=what) for space in node.operands]
            made.append(to.put(replace(node, layer=layer, inputs=tuple(t.node for t in read if t.node), pad=None,
                                       shape=layer.tensor_shape(layer.problem.output.name))))
    to.folded += body.folded
    return [to.plain_node(f"{name}.result{index}", between, made or operands, shape, where, what=what)
            for index, shape in enumerate(shapes)]


def _every_step(to: Assembly, name: str, weight: Tensor, steps: int, where: Where) -> Tensor:
    """A weight [out, in] as the right factor of every step's product: [T, in, out]."""
    turned = to.transpose(f"{name}.weight", weight, (1, 0), where)
    return to.expand(f"{name}.weights", turned, (steps, *turned.shape), where)


def recurrent_stack(to: Assembly, name: str, x: Tensor, layers: list[list[Recurrence]], where: Where) -> Tensor:
    """Adds layers on top of each other.

    Args:
        to: the network.
        name: prefix of the nodes' names.
        x: the sequence, [T, N, in].
        layers: for each layer its directions, one or two.
        where: place in the source, for messages.

    Returns:
        The states of the last layer, [T, N, directions * out].
    """
    for number, directions in enumerate(layers):
        outs = [recurrent_layer(to, _tag(name, number, len(layers), back, len(directions)), x, weights, where)
                for back, weights in enumerate(directions)]
        steps, batch, width = outs[0].shape
        x = outs[0] if len(outs) == 1 else to.plain_node(
            f"{name}.both{number}" if len(layers) > 1 else f"{name}.both", "concat", outs,
            (steps, batch, width * len(outs)), where)
    return x


def _tag(name: str, number: int, layers: int, back: int, directions: int) -> str:
    """A name for one layer in one direction, with no more in it than is needed."""
    return (name + (f".{number}" if layers > 1 else "")
            + ((".forward", ".backward")[back] if directions > 1 else ""))
