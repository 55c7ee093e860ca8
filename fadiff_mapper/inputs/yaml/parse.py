"""YAML text -> `Map`, `Seq` and scalars that know their file, line and path.

Values are built straight from the events of PyYAML's parser: no tag can construct a Python object, nesting and size
are bounded while reading, and an alias costs as much as its value written out, so that a few lines cannot grow into
millions of nodes (the "billion laughs" attack). Scalars are read by YAML 1.2's core schema, as architects expect:
`1e-9` is a number, `no` and `0777` are strings, keys are always text. `<<` merges shallowly and `<<<` deeply, as in
Timeloop's Python front end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import yaml
from yaml import events
from yaml.reader import ReaderError

from fadiff_mapper.inputs.yaml.expressions import Literal
from fadiff_mapper.inputs.yaml.located import Map, Seq, kind_of, placed_list
from fadiff_mapper.inputs.yaml.located import text as checked_text
from fadiff_mapper.inputs.yaml.place import Where

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,999})|0x[0-9a-fA-F]{1,999}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = {".inf": float("inf"), "+.inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan")}
REMEMBERED = 4096  # texts whose values are kept: files repeat their numbers and words


@lru_cache(maxsize=REMEMBERED)
def plain_scalar(text: str) -> Any:
    """The value of unquoted text by YAML 1.2's core schema: null, boolean, number, or the text itself.

    Numbers with leading zeros (`0777`) and octal ones (`0o17`) stay text, lest a reader takes them for another number.
    """
    lower = text.lower()
    if lower in ("", "~", "null"):
        return None
    if lower in ("true", "false"):
        return lower == "true"
    if _INTEGER.fullmatch(text):
        return int(text, 16) if text.startswith("0x") else int(text)
    if _FLOAT.fullmatch(text) and not text.lstrip("+-").isdecimal():
        return float(text)
    return _SPECIAL.get(lower, text)


MAX_MERGED = 100  # mappings in one merge key, a plain safety limit
NO_MERGE_TAG = "!nomerge"  # a mapping or list with this tag is not completed by a deep merge (the front end's tag)


def merged(mine: Map, theirs: Map, both: Callable[[Any, Any, Where, Where], Any]) -> Map:
    """One mapping completed by another; `both` gives the value under a common key, from the two values and places."""
    items, places = dict(mine), dict(mine.places)
    for key, value in theirs.items():
        if key in items:
            items[key] = both(items[key], value, mine.at(key), theirs.at(key))
        else:
            items[key], places[key] = value, theirs.at(key)
    return Map(items, where=mine.where, tag=mine.tag, places=places)


def shallow(mine: Any, *_: Any) -> Any:
    """The value under a common key in a shallow merge: always mine."""
    return mine


def deep(mine: Any, theirs: Any, *_: Any) -> Any:
    """The value under a common key in a deep merge: mappings merge, lists join (mine first); `!nomerge` keeps mine."""
    if getattr(mine, "tag", None) != NO_MERGE_TAG:
        if isinstance(mine, Map) and isinstance(theirs, Map):
            return merged(mine, theirs, deep)
        if isinstance(mine, Seq) and isinstance(theirs, Seq):
            return joined(mine, theirs)
    return mine


MERGE_KEYS = {"<<": shallow, "<<<": deep}


def with_merges(node: Map) -> Map:
    """The mapping with its merge keys worked in; its own keys come first and win, of several bases the earlier ones.

    As in Timeloop's front end, a list written after the merge key is kept; a list written before is joined.
    """
    for key, both in MERGE_KEYS.items():
        if key in node:
            value, where, base = node[key], node.at(key), Map(where=node.at(key))
            sources = value if isinstance(value, Seq) else [value]
            if len(sources) > MAX_MERGED:
                raise where.error(f"{len(sources)} mappings in a merge key", f"at most {MAX_MERGED}")
            for source in sources:
                if not isinstance(source, Map):
                    raise where.error(f"found {kind_of(source)}", "a mapping or a list of mappings")
                base = merged(base, source, both)
            later = list(node)[list(node).index(key) + 1:]
            own = {name: value for name, value in node.items() if name != key}
            node = merged(Map(own, where=node.where, tag=node.tag, places=node.places), base, both)
            node.update({name: own[name] for name in later if isinstance(own[name], Seq)})
    return node


def joined(first: Seq, second: Seq) -> Seq:
    """Both lists in one."""
    return placed_list([*first.placed(), *second.placed()], first.where, first.tag)


MAX_NODES = 250_000  # values in one document, aliases written out, a plain safety limit
MAX_DEPTH = 100  # levels of nesting, aliases written out: a safety limit far below Python's on recursion
INCLUDED_TAG = "!include_loaded"  # `!include_loaded 3` is replaced by the fourth of the `included` values
_CORE = "tag:yaml.org,2002:"
_LOCAL_TAG = re.compile(r"![A-Za-z_][\w-]*")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNFINISHED = object()
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str, file: str, lines: Sequence[tuple[str, int]] | None = None, included: Sequence[Any] = ()) -> Any:
    """Reads the one YAML document in a text.

    Args:
        file: Name of the text for messages.
        lines: File and line (from 1) of each line of the text, where the lines are not in `file` itself but
            were produced by a template.
        included: The values that `!include_loaded N` may refer to.

    Raises:
        SpecError: Not one YAML document, or one beyond the limits; with file and line.
    """
    if _SURROGATE.search(text):
        raise Where(file).error("the text is not valid Unicode", "UTF-8")
    nodes = 0  # values built so far
    anchors: dict[str, Any] = {}  # values; `_UNFINISHED` while the value itself is built
    unmerged: list[Map | Seq] = []  # tagged `!nomerge`; the tag is taken off in the end: it has then done its work
    stream: Iterator[Any] = yaml.parse(text, Loader=_Loader)

    def at(line: int, path: str = "") -> Where:
        """Place of a line of the text, counted from 0 as the parser does."""
        return Where(file, line + 1, path) if lines is None else Where(*lines[min(line, len(lines) - 1)], path)

    def count(number: int, where: Where) -> None:
        nonlocal nodes
        nodes += number
        if nodes > MAX_NODES:
            raise where.error("too many values, aliases written out", f"at most {MAX_NODES}")

    def inserted(value: Any, where: Where, depth: int) -> Any:
        """A value built before, used once more; its parts count once more, a mapping or list as two values."""
        parts = (*value, *value.values()) if isinstance(value, Map) else value if isinstance(value, Seq) else None
        count(1 if parts is None else 2, where)
        if depth >= MAX_DEPTH:
            raise Where(where.file, where.line).error("nested too deeply, aliases written out",
                                                      f"at most {MAX_DEPTH} levels")
        for part in parts or ():
            inserted(part, where, depth + 1)
        return value

    def build(event: Any, where: Where, depth: int) -> Any:
        """The value that begins with this event; `depth` levels of nesting include it."""
        if depth > MAX_DEPTH:
            raise Where(where.file, where.line).error("nested too deeply", f"at most {MAX_DEPTH} levels")
        count(1, where)
        anchor = event.anchor
        if isinstance(event, events.AliasEvent):
            if anchor not in anchors:
                raise where.error(f"the alias *{anchor} has no anchor &{anchor} before it")
            if anchors[anchor] is _UNFINISHED:
                raise where.error(f"the alias *{anchor} stands inside its own anchor &{anchor}")
            return inserted(anchors[anchor], where, depth)
        if anchor is not None:
            anchors[anchor] = _UNFINISHED
        value: Any
        if isinstance(event, events.ScalarEvent):
            checked_text(event.value, where)
            if event.tag == INCLUDED_TAG and event.value.isdecimal() and int(event.value[:9]) < len(included):
                value = inserted(included[int(event.value[:9])], where, depth)
            else:
                value = _scalar(event, where)
        elif isinstance(event, events.SequenceStartEvent):
            items: list[tuple[Any, Where]] = []
            while type(entry := next(stream)) is not events.SequenceEndEvent:
                place = at(entry.start_mark.line, where.child(len(items)).path)
                items.append((build(entry, place, depth + 1), place))
            value = placed_list(items, where, _tag(event.tag, "seq", where))
        else:
            entries: dict[str, Any] = {}
            places: dict[str, Where] = {}
            while type(entry := next(stream)) is not events.MappingEndEvent:
                line = entry.start_mark.line
                place = at(line, where.path)
                if not isinstance(entry, events.ScalarEvent):
                    raise place.error("a key that is not a simple text", "text")
                if entry.tag not in (None, "!", f"{_CORE}str"):
                    raise place.error(f'the tag "{_shown(entry.tag)}" on a key', "no tag")
                count(1, place)
                key = checked_text(str(entry.value), place)  # never converted: `3`, `no` and `N` stay as written
                if "\n" in key:
                    raise place.error("a key of several lines", "one line")
                if entry.anchor is not None:
                    anchors[entry.anchor] = key
                place = at(line, where.child(key).path)
                if key in entries:
                    raise place.error(f'the key "{key}" is given twice (first in line {places[key].line})',
                                      "each key once")
                places[key] = place
                entries[key] = build(next(stream), place, depth + 1)
            value = Map(entries, where=where, tag=_tag(event.tag, "map", where), places=places)
            value = value if entries.keys().isdisjoint(MERGE_KEYS) else with_merges(value)
        if not isinstance(event, events.ScalarEvent) and value.tag == NO_MERGE_TAG:
            unmerged.append(value)
        if anchor is not None:
            anchors[anchor] = value
        return value

    try:
        next(stream)
        if isinstance(next(stream), events.StreamEndEvent):
            raise Where(file).error("the file is empty", "a YAML document")
        first = next(stream)
        value = build(first, at(first.start_mark.line), 1)
        next(stream)
        following = next(stream)
    except ReaderError as error:
        counts_letters = error.encoding == "unicode"  # libyaml counts bytes
        before = text[:error.position] if counts_letters else text.encode()[:error.position].decode(errors="ignore")
        raise at(before.count("\n")).error("a character that YAML does not allow", "printable text") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = min(mark.line if mark else 0, text.rstrip("\n").count("\n"))
        broken = text.split("\n")[line]
        if "\t" in broken[:len(broken) - len(broken.lstrip())]:
            raise at(line).error("a tab in the indentation", "spaces") from None
        parts = (getattr(error, "problem", None) or "not YAML", getattr(error, "context", None))
        raise at(line).error(f"YAML syntax: {' '.join(filter(None, parts))}") from None
    if not isinstance(following, events.StreamEndEvent):
        raise at(following.start_mark.line).error("a second YAML document", "one document in a file")
    for collection in unmerged:
        collection.tag = None
    return value


def _tag(tag: str | None, kind: str, where: Where) -> str | None:
    """The local tag of a mapping or list, such as "!Component"; None for the type's own. Other tags are refused."""
    if tag in (None, "!", f"{_CORE}{kind}"):
        return None
    if not _LOCAL_TAG.fullmatch(tag or ""):
        raise where.error(f'the tag "{_shown(tag)}"', "tags such as !Component")
    return tag


def _shown(tag: str | None) -> str:
    return (tag or "").replace(_CORE, "!!")[:60]


def _scalar(event: Any, where: Where) -> Any:
    """The value of a scalar, by its tag, such as `!!float`, or its text. Quoted text is never an expression."""
    tag, text = event.tag, event.value
    if tag is None or tag == "!":
        if event.style in ("'", '"'):
            return Literal(text)
        return text if event.style in ("|", ">") or tag == "!" else plain_scalar(text)
    if tag.startswith(_CORE):
        name, value = tag.removeprefix(_CORE), plain_scalar(text)
        if name == "str":
            return Literal(text)
        if name == "float" and type(value) is int:
            return float(value)
        accepted = {"int": int, "float": float, "bool": bool, "null": type(None)}
        if name not in accepted:
            raise where.error(f'the tag "{_shown(tag)}"',
                              "!!str, !!int, !!float, !!bool, !!null, tags such as !Component")
        if type(value) is not accepted[name]:
            raise where.error(f'found "{text[:40]}"', f"!!{name}")
        return value
    if tag in ("!include", "!includedir"):
        raise where.error(f'the tag "{tag}" is not supported', "{{include('file.yaml')}}, {{include_all('folder/*')}}")
    if _LOCAL_TAG.fullmatch(tag) and text == "":
        return Map(where=where, tag=tag)
    raise where.error(f'the tag "{_shown(tag)}" on "{text[:40]}"', "such tags on mappings and lists only")
