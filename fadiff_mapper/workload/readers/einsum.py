"""Einsum of any number of tensors as matrix products: letters are moved so that shared, own and summed ones stand
together.

Tensors are multiplied from left to right, as ONNX Runtime does, and PyTorch without opt_einsum.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, product
from fadiff_mapper.yaml.place import Where

Term: TypeAlias = tuple[str, ...]
"""The letters of a tensor's axes; axes under dots are "1", "2", ... from the last one on."""


def einsum(to: Assembly, name: str, equation: str, tensors: Sequence[Tensor], shape: Shape, where: Where) -> Tensor:
    """Adds the products of an einsum.

    Args:
        to: the network.
        name: name of the node of its last product.
        equation: such as "bid,bjd->bij", with an output or without; dots stand for any leading axes.
        tensors: one for each term.
        shape: extents of the output.
        where: place in the source, for messages.

    Returns:
        The output of a product for each tensor behind the first: repeated over the letters that both factors and what
        follows have, or of a join where no letter is summed. Letters of one tensor alone that nothing else has are
        summed before.

    Raises:
        SpecError: the equation does not fit the tensors.
    """
    terms, out = _terms(equation, tensors, where)
    extents = _extents(terms, tensors, where)
    result, letters = tensors[0], terms[0]
    for index, (tensor, term) in enumerate(zip(tensors[1:], terms[1:], strict=True), 2):
        called, later = name if index == len(tensors) else f"{name}.{index - 1}", set(out).union(*terms[index:])
        first = _own(to, f"{called}.left", result, letters, extents, later.union(term), where)
        second = _own(to, f"{called}.right", tensor, term, extents, later.union(first[1]), where)
        result, letters = _contraction(to, called, first, second, extents, later, where)
    result, letters = _own(to, name, result, letters, extents, set(out), where)
    back = to.transpose(f"{name}.back", result, tuple(letters.index(letter) for letter in out), where)
    return to.reshape(f"{name}.shape", back, shape, where)


def _own(to: Assembly, name: str, x: Tensor, term: Term, extents: dict[str, int], needed: set[str],
         where: Where) -> tuple[Tensor, Term]:
    """A tensor without axes that are repeated (a single point), stand there twice, or that nothing else needs."""
    once = tuple(dict.fromkeys(term))
    if len(once) < len(term):
        shape = tuple(x.shape[term.index(letter)] for letter in once)
        x, term = Tensor(shape) if x.constant else to.plain_node(
            f"{name}.diagonal", "other", [x], shape, where, what="diagonal of an einsum"), once
    long = tuple(letter for letter, size in zip(term, x.shape, strict=True) if size == extents[letter])
    x = to.reshape(f"{name}.flat", x, tuple(extents[letter] for letter in long), where)
    kept = tuple(letter for letter in long if letter in needed)
    if len(kept) < len(long):
        shape = tuple(extents[letter] for letter in kept)
        x = Tensor(shape) if x.constant else to.plain_node(
            f"{name}.sum", "sum", [x], shape, where, tuple(index for index, letter in enumerate(long)
                                                           if letter not in needed))
    return x, kept


def _contraction(to: Assembly, name: str, left: tuple[Tensor, Term], right: tuple[Tensor, Term],
                 extents: dict[str, int], needed: set[str], where: Where) -> tuple[Tensor, Term]:
    """The product of two tensors, summed over the letters that both have and nothing else needs."""
    (first, a), (second, b) = left, right
    shared = [letter for letter in a if letter in b and letter in needed]
    summed = [letter for letter in a if letter in b and letter not in needed]
    rows, columns = ([letter for letter in own if letter not in other] for own, other in ((a, b), (b, a)))
    made = (*shared, *rows, *columns)
    apart = tuple(extents[letter] for letter in made)
    if first.constant and second.constant:
        to.note_folded(name, "einsum", math.prod(apart) * math.prod(extents[letter] for letter in summed))
        return Tensor(apart), made
    if not summed:
        return to.plain_node(name, "other", [first, second], apart, where, what="einsum without a sum"), made

    def size(letters: list[str]) -> int:
        return math.prod(extents[letter] for letter in letters)

    def put(tag: str, x: Tensor, term: Term, order: list[str], wanted: Shape) -> Tensor:
        moved = to.transpose(f"{name}.{tag}_moved", x, tuple(term.index(letter) for letter in order), where)
        return to.reshape(f"{name}.{tag}", moved, wanted, where)
    batch = (size(shared),) if shared else ()
    moved = (put("left", first, a, shared + rows + summed, (*batch, size(rows), size(summed))),
             put("right", second, b, shared + summed + columns, (*batch, size(summed), size(columns))))
    result = product(to, name, *moved, (*batch, size(rows), size(columns)), where)
    return to.reshape(f"{name}.apart", result, apart, where), made


def _terms(equation: str, tensors: Sequence[Tensor], where: Where) -> tuple[list[Term], Term]:
    """The letters of all tensors and of the output."""
    stated, arrow, out = equation.replace(" ", "").partition("->")
    terms, dots = [], 0
    for term, tensor in zip(stated.split(","), tensors, strict=False):
        own, rank = len(term.replace("...", "")), len(tensor.shape)
        if len(stated.split(",")) != len(tensors) or (own > rank if "..." in term else own != rank):
            break
        dots = max(dots, rank - own)
        terms.append(_term(term, rank - own))
    every = [letter for term in terms for letter in term]
    once = sorted(letter for letter in every if every.count(letter) == 1 and not letter.isdecimal())
    output = _term(out, dots) if arrow else (*_term("...", dots), *once)
    if len(terms) < len(tensors) or not set(output) <= set(every):
        ranks = " and ".join(str(len(tensor.shape)) for tensor in tensors)
        raise where.error(f'the equation "{equation}" on tensors of {ranks} axes', "a letter for each axis")
    return terms, output


def _extents(terms: Sequence[Term], tensors: Sequence[Tensor], where: Where) -> dict[str, int]:
    """The extent of every letter; tensors that have a single point there repeat it."""
    extents: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        for letter, size in zip(term, tensor.shape, strict=True):
            if 1 < extents.setdefault(letter, size) != size > 1:
                raise where.error(f"an einsum of which {letter} has {extents[letter]} and {size} points",
                                  "one extent for each letter")
            extents[letter] = max(extents[letter], size)
    return extents


def _term(text: str, dots: int) -> Term:
    """The letters of a term, dots replaced by so many numbers."""
    before, found, behind = text.partition("...")
    return (*before, *(str(number) for number in range(dots, 0, -1) if found), *behind)
