"""Counts the legal mappings that the product evaluates in its searches of layers and tiles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from fadiff_mapper.network import map_network, tile_mappings
from fadiff_mapper.search import map_layers, search_many


class EvaluationCount:
    """Mappings evaluated so far, the legal ones and all."""

    def __init__(self) -> None:
        self.legal = self.all = 0


@contextmanager
def counted_evaluations() -> Iterator[EvaluationCount]:
    """Counts while it is open, in this process; estimates of groups are no evaluations.

    Every search of the product goes through `search_many.search_all`, which each of these modules imports by name.
    Equal tasks share one search, whose outcome is counted once.
    """
    count = EvaluationCount()

    def counting(*arguments: Any, **options: Any) -> Any:
        outcomes = search_many.search_all(*arguments, **options)
        for outcome in {id(one): one for one in outcomes}.values():
            count.legal += outcome.legal_evaluations
            count.all += outcome.evaluations
        return outcomes

    with ExitStack() as stack:
        for module in (map_layers, map_network, tile_mappings):
            stack.enter_context(patch.object(module, "search_all", counting))
        yield count
