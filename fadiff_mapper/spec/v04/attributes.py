"""Attributes and variables: expressions are worked out, unset values fall away, containers hand theirs inwards.

The defaults and the rules are those of Timeloop's Python front end.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping
from typing import Any

from fadiff_mapper.base.errors import FadiffError, SpecError
from fadiff_mapper.yaml.expressions import resolve
from fadiff_mapper.yaml.located import Check, Map, mapping
from fadiff_mapper.yaml.place import Where

Names = Mapping[str, object]
"""What an expression may use: variables, attributes of the containers around it, attributes before it."""

VERSION = "0.4"
"""Version of the dialect, which its sections may state."""
MOST_ENTRIES = 1000
"""Variables, or attributes of one node; a plain safety limit, as each may be an expression. Nothing was measured."""
COMMON_DEFAULTS: dict[str, Any] = {"has_power_gating": False}
"""Attributes that the front end writes where a node says nothing."""
STORAGE_DEFAULTS: dict[str, Any] = {
    **COMMON_DEFAULTS, "n_banks": 2, "cluster_size": 1, "reduction_supported": True, "multiple_buffering": 1,
    "min_utilization": 0, "allow_overbooking": False}
"""Attributes that the front end writes where a memory says nothing."""
DECLARED = (*STORAGE_DEFAULTS, "datawidth", "technology", "block_size", "width", "depth", "entries", "sizeKB",
            "shared_bandwidth", "read_bandwidth", "write_bandwidth", "network_fill_latency", "network_drain_latency",
            "per_dataspace_bandwidth_consumption_scale")
"""Attributes of a memory that the front end knows, and thus refuses in a hyphenated spelling."""
DUMMY_ATTRIBUTES: dict[str, Any] = {"width": 1, "depth": 1, "datawidth": 1, "technology": -1, **STORAGE_DEFAULTS}
"""Attributes of a level that stands only for a fan-out: a memory of one word of one bit."""

def worked_out(value: Any, where: Where, names: Names) -> Any:
    """The value of an expression such as "2 * depth"; other values stay. Raises SpecError with the place."""
    try:
        return resolve(value, names)
    except SpecError:
        raise
    except FadiffError as error:
        raise where.error(str(error)) from None


def expression_of(check: Check[Any], names: Names) -> Check[Any]:
    """A check that works out a value written as an expression, and then checks it as the given one does."""
    return lambda value, where: check(worked_out(value, where, names), where)


def resolve_map(node: Map, names: Names) -> Map:
    """A map with all values worked out in order: each may use those before it, besides `names`."""
    if len(node) > MOST_ENTRIES:
        raise node.where.error(f"found {len(node)} entries", f"at most {MOST_ENTRIES}")
    resolved = Map(where=node.where, tag=node.tag, places=node.places)
    known = ChainMap(resolved, names)  # type: ignore[arg-type]  # is read alone
    for key, value in node.items():
        resolved[key] = worked_out(value, node.at(key), known)
    return resolved


def read_attributes(value: Any, where: Where, names: Names, defaults: Mapping[str, Any]) -> Map:
    """Reads the attributes of one node.

    Args:
        value: The mapping under `attributes:`.
        where: Its place.
        names: Values that its expressions can use.
        defaults: Attributes that hold where it does not give them.

    Returns:
        Defaults and attributes, without null and empty ones.

    Raises:
        SpecError: An expression cannot be computed.
    """
    resolved = resolve_map(mapping(value, where), names)
    return inherit(Map(defaults, where=where), without_empty(resolved))


def inherit(outer: Map, inner: Map) -> Map:
    """The entries of both maps. Where both have a key, that of `inner` counts."""
    items = {**{key: value for key, value in outer.items() if key not in inner}, **inner}
    return Map(items, where=inner.where, places={**outer.places, **inner.places})


def without_empty(node: Map) -> Map:
    """The map without empty entries: null, "", [] and {}."""
    return Map({key: value for key, value in node.items() if value not in (None, "", [], {})},
               where=node.where, tag=node.tag, places=node.places)


def without_ignored(node: Map) -> Map:
    """The map without keys that contain "ignore": the front end leaves them to the user, for anchors."""
    return Map({key: value for key, value in node.items() if "ignore" not in str(key)},
               where=node.where, tag=node.tag, places=node.places)


def version(value: Any, where: Where) -> str:
    """Checks for the only version of this dialect."""
    if str(value) != VERSION:
        raise where.error(f"found version {value}", VERSION)
    return VERSION
