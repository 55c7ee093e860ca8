"""The fusion-aware boundary between two linked layers: FADiff eqs. (13) to (15), for every model that counts it.

Problem. An intermediate that stays on the chip is neither written to the outermost level by its producer nor fetched
from there by its consumer; instead the producer's finished words are copied from the level where they were summed up
to the home level. A fusion variable sigma in [0, 1] weighs one against the other.

Two callers share these equations. The relaxed network (`network.descent.relaxed_cost`) has a sigma in every link, as
a torch tensor. The exact counts of a group (`fused_counts`) stand at sigma = 1: there, eqs. (13) and (15) follow from
the mapping, which keeps the intermediate in no level outside its home, and only the copies of eq. (14) are added.

Values are words, as numbers, NumPy arrays or torch tensors; the order of the operations is the same for all.
"""

from __future__ import annotations

from fadiff_mapper.model.loop_nest import Array


def written_back(sigma: Array | float, words: Array, also_read: Array | float = 0.0) -> Array:
    """Words that the producer still writes to the outermost level: FADiff eq. (13).

    Args:
        sigma: Fusion variable of the link that leads out of the producer.
        words: Words that the producer writes there without fusion.
        also_read: The part of them that goes there in any case, for readers outside the group.

    Returns:
        (1 - sigma) of the words, and of what others read all of it.
    """
    return words * (1 - sigma * (1 - also_read))


def copied(sigma: Array | float, words: Array, instances: Array) -> Array:
    """Words copied from where sums are finished to the home level: FADiff eq. (14).

    Args:
        sigma: Fusion variable of the link, 0 where the home already receives the sums themselves.
        words: Words that one instance would write outwards without fusion.
        instances: Used instances that write them.

    Returns:
        Words of all instances together, read at the one level and written at the other.
    """
    return sigma * words * instances


def filled(sigma: Array | float, words: Array) -> Array:
    """Words of the intermediate that the consumer still gets from the outermost level: FADiff eq. (15).

    Args:
        sigma: Fusion variable of the link that leads into the consumer; 0 for every other operand.
        words: Words filled, or read at the outermost level, without fusion.
    """
    return words * (1 - sigma)
