"""Merge keys: `<<` completes a mapping shallowly and `<<<` deeply, as in Timeloop's Python front end."""

from __future__ import annotations

from typing import Any

from fadiff_mapper.yaml.located import Map, Seq, kind_of
from fadiff_mapper.yaml.place import Where

MAX_MERGED = 100
"""Mappings in one merge key. A plain safety limit; nothing was measured."""
NO_MERGE_TAG = "!nomerge"
"""A mapping or list with this tag is not completed by a deep merge (the front end's tag)."""


def with_merges(node: Map) -> Map:
    """The mapping with its merge keys worked in; its own keys come first and win.

    As in Timeloop's front end, a list written after the merge key stands as it is; one written before is joined.
    """
    for key, deep in (("<<", False), ("<<<", True)):
        if key in node:
            base = _merge_base(node[key], node.at(key), deep)
            later = list(node)[list(node).index(key) + 1:]
            own = {name: value for name, value in node.items() if name != key}
            whole = merged(Map(own, where=node.where, tag=node.tag, places=node.places), base, deep)
            whole.update({name: own[name] for name in later if isinstance(own[name], Seq)})
            node = whole
    return node


def _merge_base(value: Any, where: Where, deep: bool) -> Map:
    """The mapping that a merge key adds: the one named, or those of a list in one, of which the earlier win."""
    sources = value if isinstance(value, Seq) else [value]
    if len(sources) > MAX_MERGED:
        raise where.error(f"{len(sources)} mappings in a merge key", f"at most {MAX_MERGED}")
    result = Map(where=where)
    for source in sources:
        if not isinstance(source, Map):
            raise where.error(f"found {kind_of(source)}", "a mapping or a list of mappings")
        result = merged(result, source, deep)
    return result


def merged(mine: Map, theirs: Map, deep: bool) -> Map:
    """One mapping completed by another.

    Args:
        mine: The mapping whose entries win.
        theirs: The mapping whose other entries are added.
        deep: Whether under a common key mappings merge and lists join (mine first), unless mine is tagged `!nomerge`.
    """
    items, places = dict(mine), dict(mine.places)
    for key, value in theirs.items():
        if key not in items:
            items[key], places[key] = value, theirs.at(key)
        elif deep:
            items[key] = _combined(items[key], value)
    return Map(items, where=mine.where, tag=mine.tag, places=places)


def _combined(mine: Any, theirs: Any) -> Any:
    """The value of a common key in a deep merge."""
    if isinstance(mine, Map) and isinstance(theirs, Map) and mine.tag != NO_MERGE_TAG:
        return merged(mine, theirs, deep=True)
    if isinstance(mine, Seq) and isinstance(theirs, Seq) and mine.tag != NO_MERGE_TAG:
        return joined(mine, theirs)
    return mine


def joined(first: Seq, second: Seq) -> Seq:
    """Both lists in one, with the places of all entries."""
    places = [part.at(index) for part in (first, second) for index in range(len(part))]
    return Seq([*first, *second], where=first.where, tag=first.tag, places=places)
