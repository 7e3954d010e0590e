"""A GGUF file, version 3: typed key-value pairs, a table of tensors, aligned 32-bit floats.

Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
FLOAT32 = 0

_INT32, _UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 5, 4, 6, 7, 8, 9

Value = NewType("Value", bytes)
"""A typed value in the file's encoding."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A named block of floats; a vector has one row."""

    name: str  #: name by which llama.cpp finds it
    rows: int  #: number of rows
    columns: int  #: number of columns
    data: array[float]  #: values, row after row
    planes: int = 1  #: number of such blocks in a row (one for each expert of a layer)

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The sizes of the dimensions, the fastest-running first, as the format requires."""
        if self.planes > 1:
            return (self.columns, self.rows, self.planes)
        return (self.columns,) if self.rows == 1 else (self.columns, self.rows)


def write_gguf(path: Path, values: Mapping[str, Value], tensors: Sequence[Tensor]) -> None:
    """Write a whole file. Raises OSError if the path cannot be written."""
    head = bytearray(struct.pack("<4sIQQ", MAGIC, VERSION, len(tensors), len(values)))
    for key, value in values.items():
        head += _text(key) + value
    offset = 0
    for tensor in tensors:
        sizes = tensor.dimensions
        head += _text(tensor.name) + struct.pack(f"<I{len(sizes)}Q", len(sizes), *sizes)
        head += struct.pack("<IQ", FLOAT32, offset)
        offset += _aligned(4 * len(tensor.data))
    with path.open("wb") as file:
        file.write(head.ljust(_aligned(len(head)), b"\0"))
        for tensor in tensors:
            file.write(_little_endian(tensor.data).ljust(_aligned(4 * len(tensor.data)), b"\0"))


def string(value: str) -> Value:
    """Return a UTF-8 text as a value."""
    return Value(struct.pack("<I", _STRING) + _text(value))


def uint32(value: int) -> Value:
    """Return an unsigned 32-bit integer as a value."""
    return Value(struct.pack("<II", _UINT32, value))


def float32(value: float) -> Value:
    """Return a number of single precision as a value."""
    return Value(struct.pack("<If", _FLOAT32, value))


def boolean(value: bool) -> Value:
    """Return a boolean as a value of one byte."""
    return Value(struct.pack("<I?", _BOOL, value))


def strings(values: Sequence[str]) -> Value:
    """Return an array of texts as a value."""
    head = struct.pack("<IIQ", _ARRAY, _STRING, len(values))
    return Value(head + b"".join(map(_text, values)))


def int32s(values: Iterable[int]) -> Value:
    """Return an array of signed 32-bit integers as a value."""
    numbers = list(values)
    head = struct.pack("<IIQ", _ARRAY, _INT32, len(numbers))
    return Value(head + struct.pack(f"<{len(numbers)}i", *numbers))


def _text(value: str) -> bytes:
    """Return a text as the format has it: length in bytes (64 bits), then UTF-8."""
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def _aligned(size: int) -> int:
    """Return ``size`` rounded up to a multiple of ALIGNMENT."""
    return -(-size // ALIGNMENT) * ALIGNMENT


def _little_endian(data: array[float]) -> bytes:
    """Return the numbers' bytes in little-endian order, on any machine."""
    if sys.byteorder == "big":
        data = data[:]
        data.byteswap()
    return data.tobytes()
