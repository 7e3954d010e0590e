"""Messages on a stream of bytes: each has a part that is read, and one that is only carried.

A frame is two lengths, of four bytes each (network order), then that many bytes of message and of
load. Bodies are loads: they are neither copied nor looked at on their way.
"""

from __future__ import annotations

import struct

_LENGTHS = struct.Struct("!II")
Piece = bytes | memoryview
Load = bytes | memoryview
"""A load that has come: a view of what was read."""


def frame(message: bytes, load: tuple[Piece, ...] = ()) -> list[Piece]:
    """Return the pieces of one frame, in their order; no piece is empty."""
    pieces = [piece for piece in load if len(piece)]
    return [_LENGTHS.pack(len(message), sum(map(len, pieces))) + message, *pieces]


class FrameReader:
    """Bytes in, (message, load) out. What a frame is made of is joined once, when it is whole."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._wanted = _LENGTHS.size

    def feed(self, data: bytes) -> list[tuple[bytes, memoryview]]:
        """Return the frames that ``data`` completes."""
        found: list[tuple[bytes, memoryview]] = []
        self._pieces.append(data)
        self._size += len(data)
        if self._size < self._wanted:
            return found
        whole = data if len(self._pieces) == 1 else b"".join(self._pieces)
        begin, view = 0, memoryview(whole)
        while True:
            left = len(whole) - begin
            self._wanted = _LENGTHS.size
            if left < self._wanted:
                break
            message, load = _LENGTHS.unpack_from(whole, begin)
            self._wanted += message + load
            if left < self._wanted:
                break
            start = begin + _LENGTHS.size
            begin += self._wanted
            found.append((whole[start : start + message], view[start + message : begin]))
        rest = whole[begin:]
        self._pieces = [rest] if rest else []
        self._size = len(rest)
        return found
