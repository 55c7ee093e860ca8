"""Reads an ONNX file without its weights.

ONNX files are protocol buffers: a message is a sequence of fields, each of which states its number, its kind and its
length. The file is read field by field, by ONNX's own descriptors. Values of constants with more than `SMALL` elements,
documentation and metadata are skipped; all other fields are handed to ONNX's own parser. So a file with gigabytes of
weights takes only the memory of its graph.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import onnx
from google.protobuf.message import DecodeError

from fadiff_mapper.inputs.yaml.input_file import open_input
from fadiff_mapper.inputs.yaml.place import Where
from fadiff_mapper.workload.readers.onnx_shapes import SMALL

MAX_BYTES = 2 << 30  # size of a file: the limit of protobuf, in which ONNX models are written

MEMORY = 600 << 20
"""Bytes of memory that a model without its weights may take, as `MemoryLeft` estimates them. Shape inference takes as
much again, so that an import stays below 1 GiB."""

PER_MESSAGE, PER_TEXT, PER_NUMBER = 900, 300, 70
"""Bytes of memory that an import takes for a message, for a number or text, and for a byte in a list of numbers."""

FIELDS = 1 << 20  # fields of a model that are read: enough for `MOST_NODES` operators with two attributes each

STEPS = 1 << 23
"""Bytes of field numbers, kinds and lengths in a file, also of skipped fields. They are read one by one, so this limits
the time."""

DEEPEST = 100  # messages within one another: the limit of protobuf's own parsers
LARGEST_SMALL = 16 * SMALL  # bytes of a constant of `SMALL` numbers of the widest type

VALUES = ("float_data", "int32_data", "string_data", "int64_data", "raw_data", "double_data", "uint64_data")
"""The fields of a constant that may hold its values."""

SKIPPED = ("doc_string", "metadata_props")  # fields of any message that say nothing about the network
VARINT, LENGTH, FIXED = 0, 2, {1: 8, 5: 4}  # kinds of fields: a number, a stated length, and fields of so many bytes


def read_thin(path: Path, where: Where) -> Any:
    """Reads a model without its weights.

    In the `onnx.ModelProto` constants of more than `SMALL` elements have shapes and types, but no values. Raises
    SpecError where the file is no whole ONNX model, or too large.
    """
    file, size = open_input(path, "an ONNX model", MAX_BYTES)
    try:
        with file:
            return onnx.ModelProto.FromString(_thin(file, size, onnx.ModelProto.DESCRIPTOR, MemoryLeft(where), DEEPEST))
    except (OSError, ValueError) as error:
        raise where.error(f"cannot be read: {getattr(error, 'strerror', None) or error}") from None
    except DecodeError:
        raise where.error("is no ONNX model, or is cut off", "a whole ONNX file") from None


@dataclass
class MemoryLeft:
    """The memory and the fields that a model may still take."""

    where: Where  # the file, for messages
    bytes: int = MEMORY  # bytes left
    fields: int = FIELDS  # kept fields left: each takes time, however small it is
    steps: int = STEPS  # bytes left that are read one by one

    def step(self, read: int) -> None:
        """Charges bytes that were read one by one. Raises SpecError once `STEPS` are spent."""
        self.steps -= read
        if self.steps < 0:
            raise self.where.error(f"has more than {STEPS >> 20} MiB of numbers, lengths and names of fields",
                                   "a model with fewer fields, in its weights and documentation, too")

    def pay(self, field: Any, size: int) -> None:
        """Charges a kept field of `size` bytes in the file. Raises SpecError once fields or memory are spent."""
        plain = field.type in (field.TYPE_STRING, field.TYPE_BYTES)
        self.fields -= 1
        self.bytes -= PER_TEXT + size * (1 if plain else PER_NUMBER) if field.message_type is None else PER_MESSAGE
        if self.fields < 0:
            raise self.where.error(f"has more than {FIELDS:,} fields without its weights", "a smaller graph")
        if self.bytes < 0:
            raise self.where.error(f"takes more than {MEMORY >> 20} MiB of memory without its weights",
                                   "a smaller graph")


@functools.cache
def _kept(message: Any) -> Mapping[int, Any]:
    """The fields of a message that are kept, by number."""
    return {field.number: field for field in message.fields
            if field.name not in SKIPPED and not (message.name == "TensorProto" and field.name in VALUES)}


def _thin(file: BinaryIO, length: int, message: Any, budget: MemoryLeft, depth: int) -> bytes:
    """Reads the next message of a file, without the skipped fields.

    `file` is at the first field, afterwards behind the last; `length` is in bytes; `budget` is charged for the kept
    fields; messages nest at most `depth` deep.

    Raises:
        DecodeError: The fields do not end where the message ends, or lie too deep.
        SpecError: The budget is spent.
    """
    if not depth:
        raise DecodeError
    if message.name == "TensorProto" and length <= LARGEST_SMALL:
        tensor = onnx.TensorProto.FromString(file.read(length))
        for name in VALUES if math.prod(tensor.dims) > SMALL else ():
            tensor.ClearField(name)
        return bytes(tensor.SerializeToString())
    kept, chunks, left = _kept(message), [], length
    while left > 0:
        tag, used = _varint(file)
        number, kind = divmod(tag, 8)
        if not number:  # no message has a field 0: these are zeros of a hole in the file
            raise DecodeError
        content = None
        if kind == VARINT:
            value, size = _varint(file)
            content = _as_varint(value)
        elif kind == LENGTH:
            size, more = _varint(file)
            used += more
        elif kind in FIXED:
            size = FIXED[kind]
        else:
            raise DecodeError
        left -= used + size
        if left < 0:
            raise DecodeError
        budget.step(used + size if kind == VARINT else used)
        field = kept.get(number)
        if field is None or (field.message_type is not None and kind != LENGTH):
            if content is None:
                file.seek(size, os.SEEK_CUR)
            continue
        budget.pay(field, size)
        if content is None:
            inner = field.message_type
            content = file.read(size) if inner is None else _thin(file, size, inner, budget, depth - 1)
        chunks += [_as_varint(tag), _as_varint(len(content)) if kind == LENGTH else b"", content]
    return b"".join(chunks)


def _varint(file: BinaryIO) -> tuple[int, int]:
    """The next number and the count of its bytes: seven bits a byte, the lowest first; the last byte is below 128."""
    value = 0
    for place in range(10):
        byte = file.read(1)
        if not byte:
            break
        value |= (byte[0] & 127) << 7 * place
        if byte[0] < 128:
            return value, place + 1
    raise DecodeError


def _as_varint(value: int) -> bytes:
    """A number as `_varint` reads it."""
    digits = bytearray()
    while value >= 128:
        digits.append(value & 127 | 128)
        value >>= 7
    return bytes([*digits, value])
