"""Several trees as one: top-level keys of several files, and lists of included parts.

Source: Timeloop's Python front end, which combines files key by key.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from fadiff_mapper.yaml.located import Map, Seq, kind_of
from fadiff_mapper.yaml.merge_keys import joined
from fadiff_mapper.yaml.parse import Built
from fadiff_mapper.yaml.place import Where


def combined(trees: Sequence[Map]) -> Map:
    """The mappings of several files as one, see `load_files`. Raises SpecError where they contradict each other."""
    return reduce(_combined_maps, trees)


def gathered(parts: Sequence[Built]) -> Built:
    """One list of several parts, lists among them joined."""
    result = Seq(where=Where("include_all"))
    for part in parts:
        value = part.value
        result = joined(result, value if isinstance(value, Seq) else Seq([value], where=result.where))
    return Built(result, 1 + sum(part.size for part in parts), 1 + max(part.height for part in parts))


def _combined_maps(mine: Map, theirs: Map) -> Map:
    """Both mappings in one, keys of `mine` first."""
    items, places = dict(mine), dict(mine.places)
    for key, value in theirs.items():
        if key in items:
            items[key] = _combined(items[key], value, mine.at(key), theirs.at(key))
        else:
            items[key], places[key] = value, theirs.at(key)
    return Map(items, where=mine.where, tag=mine.tag, places=places)


def _combined(mine: Any, theirs: Any, place: Where, other: Where) -> Any:
    """The value of a key that two files give. Raises SpecError where they contradict each other."""
    if _is_empty(mine) or _is_empty(theirs) or mine == theirs or str(mine) == str(theirs):
        return theirs if _is_empty(mine) else mine
    if isinstance(mine, Map) and isinstance(theirs, Map):
        return _combined_maps(mine, theirs)
    if isinstance(mine, Seq) and isinstance(theirs, Seq):
        return joined(mine, theirs)
    raise other.error(f"found {kind_of(theirs)}, but {place} gives {kind_of(mine)}", "the same value in both files")


def _is_empty(value: Any) -> bool:
    """True for a null, and for a text, mapping or list without content."""
    return value is None or (isinstance(value, str | Map | Seq) and len(value) == 0)
