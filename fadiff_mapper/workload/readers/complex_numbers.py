"""Complex numbers as pairs of real ones: views of one as the other, and products.

A tensor of complex numbers counts each as one element. Seen as pairs it has an axis of two more, behind all others;
between the two views, tiles pass along all other axes, by whole pairs.

A complex product is an einsum of real numbers, with four multiply-accumulates for each complex one. The right factor
becomes a matrix of 2 x 2 for each number, (re, im; -im, re), so that

    sum_k x[n, k] w[k, m]    is    sum_(k, y) x[n, k, y] w[k, y, m, z]    with y and z over real and imaginary parts
"""

from __future__ import annotations

from collections.abc import Sequence

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor
from fadiff_mapper.workload.readers.einsum import einsum
from fadiff_mapper.yaml.place import Where


def as_pairs(to: Assembly, name: str, x: Tensor, where: Where, axes: int = 1) -> Tensor:
    """Complex numbers [...] as real ones [..., 2].

    Args:
        to: the network.
        name: name of the node.
        x: the complex numbers.
        where: place in the source, for messages.
        axes: axes of two behind the others: 2 for a matrix of each number.
    """
    apart = to.reshape(f"{name}.apart", x, (*x.shape, *(1,) * axes), where)
    return to.expand(name, apart, (*x.shape, *(2,) * axes), where)


def as_complex(to: Assembly, name: str, x: Tensor, where: Where) -> Tensor:
    """Pairs of real numbers [..., 2] as complex ones [...].

    Args:
        to: the network.
        name: name of the node.
        x: the pairs.
        where: place in the source, for messages.
    """
    shape = x.shape[:-1]
    return Tensor(shape) if x.constant else to.plain_node(name, "reduction", [x], shape, where, (-1,),
                                                          "complex numbers of pairs")


def complex_einsum(to: Assembly, name: str, equation: str, tensors: Sequence[Tensor], shape: Shape,
                   where: Where) -> Tensor:
    """Adds the products of an einsum of complex tensors.

    Args:
        to: the network.
        name: name of the node of its last product.
        equation: as for `einsum`, with an output.
        tensors: one for each term.
        shape: extents of the output.
        where: place in the source, for messages.

    Raises:
        SpecError: the equation does not fit the tensors.
    """
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" if letter not in equation]
    stated, _, out = equation.partition("->")
    first, *others = stated.split(",")
    terms = [first + free[0], *(term + free[index] + free[index + 1] for index, term in enumerate(others))]
    pairs = [as_pairs(to, f"{name}.pairs{index}", tensor, where, axes=2 if index else 1)
             for index, tensor in enumerate(tensors)]
    result = einsum(to, name, f"{','.join(terms)}->{out}{free[len(others)]}", pairs, (*shape, 2), where)
    return as_complex(to, f"{name}.complex", result, where)
