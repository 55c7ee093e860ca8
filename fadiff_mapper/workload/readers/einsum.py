"""Einsum of two tensors as one matrix product: letters are moved so that shared, own and summed ones stand together."""

from __future__ import annotations

import math

from fadiff_mapper.workload.operator import Shape
from fadiff_mapper.workload.readers.assembly import Assembly, Tensor, product
from fadiff_mapper.yaml.place import Where


def is_plain(equation: str) -> bool:
    """Whether an einsum is one product of two tensors, or a join of them.

    Args:
        equation: as for `contraction`.

    Returns:
        False for more tensors than two, a letter twice in one tensor, or one that a single tensor is summed over.
    """
    terms, arrow, out = equation.replace(" ", "").replace("...", "").partition("->")
    both = terms.split(",")
    if len(both) != 2 or any(len(set(term)) < len(term) for term in (*both, out)):
        return False
    return not arrow or set(both[0]) ^ set(both[1]) <= set(out)


def contraction(to: Assembly, name: str, equation: str, left: Tensor, right: Tensor, shape: Shape,
                where: Where) -> Tensor:
    """Adds the product of an einsum.

    Args:
        to: the network.
        name: name of its node.
        equation: such as "bid,bjd->bij", with an output or without; dots stand for any leading axes.
        left: the first tensor.
        right: the second tensor.
        shape: extents of the output.
        where: place in the source, for messages.

    Returns:
        The output of a product repeated over the letters that both tensors and the output have, or of a join where no
        letter is summed. An equation with a letter twice in one tensor, or one that is summed over one tensor alone, is
        not understood.

    Raises:
        SpecError: the equation does not fit the tensors.
    """
    a, b, out = _letters(equation, len(left.shape), len(right.shape), where)
    extents = dict(zip(a, left.shape, strict=True)) | {
        letter: size for letter, size in zip(b, right.shape, strict=True) if size > 1 or letter not in a}
    summed = [letter for letter in a if letter in b and letter not in out]
    alone = {letter for letter in a + b if letter not in out and letter not in summed}
    if alone or any(len(set(term)) < len(term) for term in (a, b, out)):
        return to.unknown(name, f"einsum {equation}", [left, right], shape, where)
    if not summed:
        return to.plain_node(name, "other", [left, right], shape, where, what=f"einsum {equation}")
    shared = [letter for letter in out if letter in a and letter in b]
    rows = [letter for letter in out if letter in a and letter not in b]
    columns = [letter for letter in out if letter in b and letter not in a]

    def size(letters: list[str]) -> int:
        return math.prod(extents[letter] for letter in letters)

    def put(tag: str, x: Tensor, term: str, order: list[str], wanted: Shape) -> Tensor:
        moved = to.transpose(f"{name}.{tag}_moved", x, tuple(term.index(letter) for letter in order), where)
        return to.reshape(f"{name}.{tag}", moved, wanted, where)
    batch = (size(shared),) if shared else ()
    first = put("left", left, a, shared + rows + summed, (*batch, size(rows), size(summed)))
    second = put("right", right, b, shared + summed + columns, (*batch, size(summed), size(columns)))
    result = product(to, name, first, second, (*batch, size(rows), size(columns)), where)
    made = shared + rows + columns
    apart = to.reshape(f"{name}.apart", result, tuple(extents[letter] for letter in made), where)
    back = to.transpose(f"{name}.back", apart, tuple(made.index(letter) for letter in out), where)
    return to.reshape(f"{name}.shape", back, shape, where)


def _letters(equation: str, rank_left: int, rank_right: int, where: Where) -> tuple[str, str, str]:
    """The letters of both tensors and of the output, dots replaced by capital letters that were not there."""
    terms, arrow, out = equation.replace(" ", "").partition("->")
    a, _, b = terms.partition(",")
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in equation]
    dots = max([rank - len(term) + 3 for term, rank in ((a, rank_left), (b, rank_right)) if "..." in term], default=0)
    lead = "".join(free[:dots])

    def filled(term: str, rank: int) -> str:
        own = rank - len(term) + 3
        return term.replace("...", lead[max(dots - own, 0):])
    a, b = filled(a, rank_left), filled(b, rank_right)
    if not arrow:
        once = sorted(letter for letter in set(a + b) - set(lead) if (a + b).count(letter) == 1)
        out = lead + "".join(once)
    out = out.replace("...", lead)
    if len(a) != rank_left or len(b) != rank_right or not set(out) <= set(a + b):
        raise where.error(f'the equation "{equation}" on tensors of {rank_left} and {rank_right} axes',
                          "a letter for each axis")
    return a, b, out
