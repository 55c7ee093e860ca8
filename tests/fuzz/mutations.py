"""Mutations of text, trees and bytes."""

from __future__ import annotations

import copy
import random
from typing import Any

NUMBERS: tuple[Any, ...] = (
    0, -1, 1, 2, 3, 2 ** 31, 2 ** 53, 2 ** 53 + 1, 2 ** 63, 2 ** 64, 10 ** 30, 10 ** 400, -10 ** 400, 0.5, -0.0, 1e-320,
    1e300, 1e308, -1e308, float("inf"), float("-inf"), float("nan"), 1.5, 997, 65521)
WORDS: tuple[Any, ...] = (
    "", " ", "yes", "no", "null", "~", "1e-9", "0x10", "1_000", "C=2", "C2 M3 R1", "C=0", "C-1", "DRAM", "..", "../x",
                          "/",
    "\0", "\x1b[31m", "<script>", "&amp;", "é", "\u202e", "日本", "a" * 300, "9" * 5000, "1." + "0" * 5000, "1e99999",
    "{{ 7 * 7 }}", "{% for i in range(10**9) %}x{% endfor %}", "{{ ''.__class__ }}", "__import__('os')", "2 ** 2 ** 99",
    "(" * 500, "[" * 500, "lambda: 1", "*anchor", "!!python/object/apply:os.system [true]", "bundled:", "bundled:../..",
    "technology", "sizeof(int)", "max(1, 2)", "1 if x else 2")
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"b": {"c": 1}}}, [1, 2, 3], [{}])


def nasty(rng: random.Random) -> Any:
    """A value that few readers expect."""
    return copy.deepcopy(rng.choice(rng.choice((NUMBERS, WORDS, OTHERS))))


def places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a tree."""
    found: list[tuple[Any, Any]] = []
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        items = list(node.items()) if isinstance(node, dict) else list(enumerate(node)) if isinstance(node,
                                                                                                      list) else []
        for key, value in items:
            found.append((node, key))
            waiting.append(value)
    return found


def mutated_tree(tree: Any, rng: random.Random) -> Any:
    """A copy with a few values replaced, removed, moved or repeated, and keys misspelt."""
    tree = copy.deepcopy(tree)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        known = places(tree)
        if not known:
            return nasty(rng)
        node, key = rng.choice(known)
        match rng.randrange(11):
            case 0 | 1 | 2:
                node[key] = nasty(rng)
            case 7 | 8 if isinstance(node[key], int | float):  # near what was there: most readers take it
                node[key] = rng.choice((2, 3, 0, 1, 7, 0.5)) * node[key] + rng.choice((0, 0, 0, 1, -1))
            case 9 | 10:  # another of its kind
                node[key] = copy.deepcopy(rng.choice([other[name] for other, name in known
                                                      if type(other[name]) is type(node[key])]))
            case 3:
                del node[key]
            case 4:
                other, name = rng.choice(known)
                if name in other if isinstance(other, dict) else name < len(other):
                    node[key] = copy.deepcopy(other[name])
            case 5 if isinstance(node, dict):
                node[str(key)[:-1] + rng.choice("sxe_")] = node.pop(key)
            case _ if isinstance(node, list):
                node.append(copy.deepcopy(node[key]))
            case _ if isinstance(node.get(key), int) and not isinstance(node[key], bool):
                node[key] = rng.choice(NUMBERS)
            case _:
                node[rng.choice(("extra", "name", "version", "attributes"))] = nasty(rng)
    return tree


def mutated_text(text: str, rng: random.Random) -> str:
    """Lines removed, repeated, indented or exchanged, pieces cut out or replaced."""
    for _ in range(rng.choice((1, 1, 2, 5))):
        lines = text.split("\n")
        at = rng.randrange(len(lines))
        match rng.randrange(8):
            case 0:
                del lines[at]
            case 1:
                lines[at:at] = lines[at:at + rng.randint(1, 5)]
            case 2:
                lines[at] = " " * rng.randint(1, 9) + lines[at]
            case 3:
                lines[at] = lines[at].partition(":")[0] + ": " + str(nasty(rng))
            case 4:
                other = rng.randrange(len(lines))
                lines[at], lines[other] = lines[other], lines[at]
            case 5:
                cut = rng.randrange(len(text) + 1)
                lines = (text[:cut] + text[cut + rng.randint(1, 40):]).split("\n")
            case 6:
                cut = rng.randrange(len(text) + 1)
                lines = (text[:cut] + rng.choice([*map(str, WORDS), ":", "- ", "\t", "&a ", "*a", "<<: ", "!x ", "{",
                                                  "}"])
                         + text[cut:]).split("\n")
            case _:
                lines = text[:rng.randrange(len(text) + 1)].split("\n")
        text = "\n".join(lines)
    return text


def mutated_bytes(data: bytes, rng: random.Random) -> bytes:
    """Bytes flipped, removed, repeated or inserted."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed) + 1)
        match rng.randrange(4):
            case 0 if changed:
                changed[at % len(changed)] ^= 1 << rng.randrange(8)
            case 1:
                del changed[at:at + rng.randint(1, 20)]
            case 2:
                changed[at:at] = changed[at:at + rng.randint(1, 50)]
            case _:
                changed[at:at] = bytes(rng.choice((0, 255, 127, 128,
                                                   rng.randrange(256))) for _ in range(rng.randint(1, 9)))
    return bytes(changed)
