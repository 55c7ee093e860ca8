"""The attributes of a component that change a result, and their misspellings, which Timeloop drops in silence."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from fadiff_mapper.base.errors import nearest
from fadiff_mapper.yaml.leniency import STRICT, Leniency, Oddity
from fadiff_mapper.yaml.located import Check, Map, Reader, integer
from fadiff_mapper.yaml.place import Where

LEVEL_ATTRIBUTES = (
    "instances", "meshX", "meshY", "word_bits", "word_width", "datawidth", "block_size", "n_words", "cluster_size",
    "width", "memory_width", "data_storage_width", "entries", "depth", "memory_depth", "data_storage_depth", "sizeKB",
    "multiple_buffering", "min_utilization", "bandwidth", "read_bandwidth", "write_bandwidth", "shared_bandwidth",
    "per_dataspace_bandwidth_consumption_scale", "vector_access_energy", "addr_gen_energy", "network_fill_latency",
    "network_drain_latency", "network_word_bits", "energy_per_hop", "wire_energy", "tile_width", "router_energy",
    "energy-per-ingress", "network_read", "network_fill", "network_update", "network_drain", "network_operand",
    "network_result", "reduction_supported", "network_type", "technology", "allow_overbooking")
"""The attributes of a component that change a result. Others go to Accelergy and are kept as they are."""

OTHER_BASES = re.compile(r"\+?0(?:[xX](?P<hexadecimal>[0-9a-fA-F]+)|(?P<octal>[0-7]+))")
"""Whole numbers that are not decimal, as C writes them."""


def read_attributes(name: str, attributes: Map, leniency: Leniency = STRICT) -> Reader:
    """Prepares the attributes of a component for reading.

    Args:
        name: Name of the component, for messages.
        attributes: As written, hyphenated words rewritten; unknown attributes may stay, as they are for Accelergy.
        leniency: Decides about attributes that look like misspelt ones of `LEVEL_ATTRIBUTES`, which Timeloop drops.

    Returns:
        A reader of the attributes.

    Raises:
        SpecError: There is such an attribute, and the reading is strict.
    """
    for key in attributes:
        dropped = (isinstance(key, str) and key not in LEVEL_ATTRIBUTES
                   and (_squash(key) in _SQUASHED or _one_edit(key)))
        if dropped:
            meant = _SQUASHED.get(_squash(key)) or _one_edit(key)
            leniency.meet([Oddity(
                attributes.at(key), f"attribute {key}",
                f'Timeloop ignores the attribute "{key}" of "{name}" (did you mean "{meant}"?)', f'"{meant}"', "")])
    return Reader(attributes, leniency)


def whole_number(minimum: int, leniency: Leniency) -> Check[int]:
    """A check for a whole number as Timeloop converts its text: 0x10 and 010 are C's, and 16.0 is none.

    Args:
        minimum: The least accepted value.
        leniency: Decides about numbers that Timeloop refuses although they are whole.
    """
    def check(value: Any, where: Where) -> int:
        other = OTHER_BASES.fullmatch(value) if isinstance(value, str) else None
        if other:
            value = int(other["hexadecimal"], 16) if other["hexadecimal"] else int(other["octal"], 8)
        found = integer(minimum)(value, where)
        if isinstance(value, float) or (isinstance(value, str) and not value.lstrip("+").rstrip().isdigit()):
            leniency.meet([Oddity(where, where.path, f"timeloop-model refuses {value} as a whole number", str(found),
                                  f"it is {found}")])
        return found
    return check


def word_width(leniency: Leniency) -> Check[int]:
    """A check for bits of a word; one width per data space, which users ask for, is refused in words of its own."""
    def check(value: Any, where: Where) -> int:
        if isinstance(value, dict):
            raise where.error("found a mapping: Timeloop gives all data spaces of a level the same word width",
                              "a whole number >= 1; a level of its own for a data space of another width")
        return whole_number(1, leniency)(value, where)
    return check


def _squash(key: str) -> str:
    """A spelling without case, hyphens and underscores, by which "read-bandwidth" is "read_bandwidth"."""
    return key.replace("-", "").replace("_", "").lower()


# Short names (width, depth, meshX, ...) are left out: other spellings of them may be attributes for Accelergy.
_SQUASHED = {_squash(name): name for name in LEVEL_ATTRIBUTES if len(name) > 5}


@cache
def _one_edit(key: str) -> str:
    """The attribute that differs from `key` by one letter added, dropped or changed, or two swapped; else "".

    Short keys are left alone: a single letter makes another word of them too easily. Nothing was measured.
    """
    if len(key) < 8:
        return ""
    guess = nearest(key, LEVEL_ATTRIBUTES)
    meant = guess.split('"')[1] if guess else ""  # from ` (did you mean "x"?)`
    changed = sorted(set(enumerate(key)) ^ set(enumerate(meant)))
    near = abs(len(key) - len(meant)) <= 1 and (
        len(changed) <= 4 if len(key) == len(meant) else _is_one_insertion(key, meant))
    return meant if near else ""


def _is_one_insertion(a: str, b: str) -> bool:
    """Whether the longer word is the shorter one with one letter more."""
    short, long = sorted((a, b), key=len)
    return any(long[:i] + long[i + 1:] == short for i in range(len(long)))
