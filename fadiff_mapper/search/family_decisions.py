"""What a mapping decides besides its factors: the order of loops, the layout of spatial loops, keep or bypass."""

from __future__ import annotations

from dataclasses import dataclass

from fadiff_mapper.relaxation.layer_batch import LayerFamily


@dataclass(frozen=True)
class FamilyDecisions:
    """Something other than a factor that can be decided anew: "order" or "layout" of a level, or "keep"."""

    kind: str
    level: int
    tensor: int = 0


def decisions_of(family: LayerFamily, orders: bool = True) -> list[FamilyDecisions]:
    """Everything that is open; `orders`: whether those of loops are."""
    ordered = [FamilyDecisions("order", level) for level,
               found in enumerate(family.orders) if found.shape[1] > 1 and orders]
    placed = [FamilyDecisions("layout", level) for level,
              found in enumerate(family.layouts) if found.order.shape[1] > 1]
    return ordered + placed + [FamilyDecisions("keep", *pair) for pair in family.keeps]
