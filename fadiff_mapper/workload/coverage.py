"""The part of a network that a plan accounts for, and the parts that it leaves out.

A plan charges operators. It also charges the tensors that joins read besides the tensor that flows on, such as residual
operands (`other_inputs`). It leaves out nodes that are not understood, operators that read only constants (a compiler
computes them once), and, where the design has no compute units, all other nodes between operators.

A node that is not understood may have any number of multiply-accumulates. Where the number is not known, an estimate
counts (`Node.possible`), and the share that is understood is an upper bound if no node has fewer than its estimate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fadiff_mapper.base.errors import FadiffError
from fadiff_mapper.workload.graph import Folded, NotUnderstood, Workload
from fadiff_mapper.workload.operations import in_words, total
from fadiff_mapper.workload.producer_consumer import other_inputs

COMPLETE = 0.999  # share of the multiply-accumulates from which on reports do not warn
LARGE_HEAD = 0.1  # share of the multiply-accumulates from which on a head over all positions is pointed out
LEAST = 0.9  # share below which a network is mapped only if a part of it is asked for


@dataclass(frozen=True)
class Coverage:
    """Multiply-accumulates that a plan accounts for, and multiply-accumulates that it leaves out."""

    understood: int  # multiply-accumulates of all operators
    missing: int  # known multiply-accumulates of nodes that are not understood, and of `sums`
    possible: int | None  # estimate for the other nodes that are not understood; None where shapes are not known
    not_understood: tuple[NotUnderstood, ...]  # all nodes that are not understood
    sums: tuple[Folded, ...]  # sums of element-wise products, which are no operators
    folded: tuple[Folded, ...]  # operators that read only constants; they are neither understood nor missing
    free: dict[str, int]  # operation -> number of nodes without multiply-accumulates, which cost nothing in a plan
    operations: dict[str, int]  # operations of these nodes, by kind
    rearrangements: dict[str, int]  # operation -> number of nodes that are folded into their neighbours
    free_words: str  # a sentence on nodes without multiply-accumulates, whether free or on compute units
    joined_words: int  # words that joins read besides the tensor that flows on
    joins: int  # number of joins that read such words
    assumed: dict[str, int]  # an assumption -> the number of operators under it
    head: str = ""  # a sentence on a product over the vocabulary at every position; "" without such a product

    @property
    def share(self) -> float:
        """The understood share of known and possible multiply-accumulates; 0 where a node has no estimate."""
        return 0.0 if self.possible is None else self.understood / (self.understood + self.missing + self.possible)

    @property
    def uncounted(self) -> tuple[NotUnderstood, ...]:
        """The nodes that are not understood and may have any number of multiply-accumulates."""
        return tuple(node for node in self.not_understood if node.macs is None and node.possible != 0)

    @property
    def complete(self) -> bool:
        """Whether the share is at least `COMPLETE` and no node is left uncounted."""
        return self.share >= COMPLETE and not self.uncounted

    def sentences(self) -> list[str]:
        """The coverage in sentences, the most important first; of long lists only the largest entries."""
        whole = self.understood + self.missing + (self.possible or 0)
        unsure = _shown([name if times == 1 else f"{name} (x {times})" for name, times in
                         Counter(node.what for node in self.uncounted).most_common()])
        known = f"{self.understood:,} of {whole:,} multiply-accumulates"
        if self.possible is None:
            lines = [f"understood: an unknown part ({self.understood:,} multiply-accumulates); how many {unsure} has "
                     "is not known, nor the shapes of its tensors"]
        elif self.uncounted:
            lines = [f"understood: at most {_percent(self.share)} ({known}); how many {unsure} has is not known, and "
                     f"counts as {self.possible:,}: one product of its tensors, or one pass of its loop"]
        else:
            lines = [f"understood: {_percent(self.share)} ({known})"]
        if self.missing:
            left = [(entry.macs, f"{entry.what} ({entry.node})") for entries in (self.not_understood, self.sums)
                    for entry in entries if entry.macs]
            lines.append("left out: " + _shown([f"{name}, {_percent(macs / whole)}" for macs, name in
                                                sorted(left, key=lambda entry: -entry[0])]))
        if self.folded:
            lines.append("computed from constants alone, not counted: "
                         + _shown([f"{f.what} ({f.node}), {f.macs:,} multiply-accumulates" for f in
                                   sorted(self.folded, key=lambda entry: -entry.macs)]))
        if self.joins:
            lines.append(f"charged apart: {self.joined_words:,} words that {self.joins} sums, products and the like "
                         "read besides the tensor that flows on, such as residual operands")
        lines += [self.free_words] if self.free_words else []
        return [*lines, *([self.head] if self.head else []),
                *(f"assumed of {number} operators: {what}" for what, number in self.assumed.items())]

    def as_dict(self) -> dict[str, Any]:
        """The coverage as plain values for YAML and JSON, with the share in [0, 1]."""
        return {"share": self.share, "multiply_accumulates": self.understood, "left_out": self.missing,
                "possible": self.possible,
                "not_understood": [{"node": node.node, "what": node.what, "macs": node.macs, "possible": node.possible}
                                   for node in self.not_understood],
                "sums_of_products": [{"node": entry.node, "macs": entry.macs} for entry in self.sums],
                "from_constants": [asdict(entry) for entry in self.folded],
                "free_operators": dict(sorted(self.free.items())), "free_operations": self.operations,
                "folded_into_neighbours": self.rearrangements,
                "joined_operands": {"nodes": self.joins, "words": self.joined_words}, "assumed": self.assumed,
                **({"head": self.head} if self.head else {})}


def coverage(network: Workload, units: bool = False) -> Coverage:
    """Counts the multiply-accumulates that a plan of a network accounts for.

    `units`: whether the design has compute units, which run the nodes without multiply-accumulates.
    """
    unknown = network.not_understood()
    possible = [node.possible for node in unknown if node.macs is None]
    sums = tuple(Folded(node.name, f"{node.op} of products point by point", node.macs) for node in network.nodes
                 if node.kind in ("reduce", "pool") and node.macs)
    joined = () if units else other_inputs(network.nodes)  # with units, joins are charged with all their operands
    vectors = network.vector_operators()
    done = {operator.node for operator in vectors} if units else set()
    free = Counter(node.what or node.op for node in network.nodes
                   if node.kind not in ("layer", "input", "not_understood") and node.name not in done)
    folded = network.rearrangements()
    words = f"{'on compute units' if units else 'not counted'}: {in_words(vectors)}" if vectors else ""
    if folded:
        words += f"{'; ' if words else 'not counted: '}{folded_in_words(folded)}"
    vectors = () if units else vectors
    return Coverage(network.macs, sum(node.macs or 0 for node in unknown) + sum(entry.macs for entry in sums),
                    None if None in possible else sum(number or 0 for number in possible), unknown, sums,
                    network.folded, dict(free), dict(total(operator.operations for operator in vectors)), folded, words,
                    sum(operand.words for operand in joined),
                    len({operand.node for operand in joined}),
                    dict(Counter(node.what for node in network.layers if node.what)), _head(network))


def folded_in_words(rearrangements: Mapping[str, int]) -> str:
    """A sentence on the rearrangements that are folded into their neighbours; at least one is given."""
    return (f"{sum(rearrangements.values())} rearrangements are folded into their neighbours ("
            + ", ".join(f"{number} {op}" for op, number in rearrangements.items()) + ")")


def _head(network: Workload) -> str:
    """A sentence on the head of a language model that makes logits at every position; "" without such a head.

    The head is an output of the network: a product of a tensor with weights over as many rows as other products have,
    in a network that multiplies tensors with each other (attention).
    """
    last = network.layers[-1] if network.layers else None
    if last is None or last.layer is None or last.layer.op != "gemm" or not any(
            len(node.inputs) > 1 for node in network.layers) or any(
            link.producer == last.name for link in network.links()):
        return ""
    rows, share = last.layer.problem.bounds["N"], last.layer.macs / network.macs
    alike = any(node.layer and node is not last and node.layer.op == "gemm" and len(node.inputs) == 1
                and node.layer.problem.bounds["N"] == rows for node in network.layers)
    if rows == 1 or not alike or share < LARGE_HEAD or len(last.inputs) > 1:
        return ""
    return (f"{last.name} makes {last.layer.problem.bounds['M']:,} outputs at each of {rows:,} positions, "
            f"{_percent(share)} of the multiply-accumulates; to generate the next token the last position is enough")


def require_coverage(network: Workload, allow_partial: bool, remedy: str) -> None:
    """Refuses a network of which too little is understood, unless `allow_partial`.

    `remedy` says in the message how to allow a partial network. Raises FadiffError where the understood share of its
    known and possible multiply-accumulates is below `LEAST`.
    """
    found = coverage(network)
    if found.share < LEAST and not allow_partial:
        raise FadiffError(f"{network.name}: {'; '.join(found.sentences()[:2])}; accepted: at least {LEAST:.0%}, or "
                          f"{remedy} to map that part alone")


def _percent(share: float) -> str:
    """A share as text; below 1 it never rounds up to 100 %."""
    text = f"{100 * share:.4g}"
    return f"{'99.99' if text == '100' and share < 1 else text} %"


def _shown(items: list[str], most: int = 5) -> str:
    return ", ".join(items[:most]) + (f", and {len(items) - most} more" if len(items) > most else "")
