"""What a part of the comparison is: runs, each with a key and a record, and tables and pictures made from records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Record = dict[str, Any]


@dataclass(frozen=True)
class Job:
    key: tuple[str, ...]
    run: Callable[..., Record]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Table:
    name: str
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    note: str = ""
    formats: tuple[str, ...] = ()


@dataclass(frozen=True)
class Picture:
    name: str
    caption: str
    svg: str


@dataclass(frozen=True)
class Shown:
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    pictures: tuple[Picture, ...] = ()


@dataclass(frozen=True)
class Part:
    name: str
    title: str
    jobs: Callable[[bool], Sequence[Job]]
    shown: Callable[[Mapping[tuple[str, ...], Record]], Shown]
    after: tuple[str, ...] = ()
