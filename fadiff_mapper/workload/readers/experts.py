"""Builds nodes from mixtures of experts: every expert's weights are read once, for all rows that go to it.

The data decide about the expert of a row. Here rows are spread evenly over the experts, or over as many as are said to
be busy; the node says so (`Node.what`), and the multiply-accumulates are the same however rows are spread.
"""

from __future__ import annotations

from dataclasses import replace

from fadiff_mapper.workload.busy_experts import balance
from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, product
from fadiff_mapper.yaml.place import Where


def experts(to: Assembly, name: str, rows: Tensor, weights: tuple[int, int, int], shape: Shape, where: Where) -> Tensor:
    """Adds the products of rows with the weights of the expert that each goes to.

    Args:
        to: the network; `Assembly.busy_experts` says over how many experts rows are spread.
        name: name of its node.
        rows: [..., in], in the order of experts.
        weights: experts, in, out.
        shape: extents of the output, [..., out].
        where: place in the source, for messages.

    Returns:
        The output of one product of as many rows as an expert has, repeated over the experts; where rows do not divide
        evenly, of two, one for the experts with a row more.
    """
    count, k, m = weights
    total = 1
    for size in rows.shape[:-1]:
        total *= size
    busy = min(count, total, to.busy_experts or count)
    least, more = divmod(total, busy)
    parts = [(experts, each) for experts, each in ((more, least + 1), (busy - more, least)) if experts and each]
    flat = to.reshape(f"{name}.rows", rows, (total, k), where)
    outs = []
    for index, (repeat, each) in enumerate(parts):
        taken = flat if len(parts) == 1 else to.plain_node(f"{name}.part{index}", "slice", [flat], (repeat * each, k),
                                                           where)
        batch = to.reshape(f"{name}.experts", taken, (repeat, each, k), where)
        out = product(to, name if len(parts) == 1 else f"{name}.{index}", batch, Tensor((repeat, k, m)),
                      (repeat, each, m), where)
        to.nodes[-1] = replace(to.nodes[-1], what=balance(total, busy, count), experts=count)
        outs.append(to.reshape(f"{name}.flat", out, (repeat * each, m), where))
    whole = outs[0] if len(outs) == 1 else to.plain_node(f"{name}.whole", "concat", outs, (total, m), where)
    return to.reshape(f"{name}.shape", whole, shape, where)
