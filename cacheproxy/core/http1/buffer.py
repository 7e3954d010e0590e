"""Bytes that arrive in pieces and are joined at the end."""

from __future__ import annotations

_SMALL = 4096
"""Bytes of a piece below which pieces are gathered: each object of its own costs 40 bytes more,
which made 290 MB of 10 MB that came in pieces of two bytes."""


class Pieces:
    """Keeps pieces as they are, without a copy, and joins them once. ``size``: bytes in all."""

    __slots__ = ("_kept", "size")

    def __init__(self) -> None:
        self.size = 0
        self._kept: list[bytes | bytearray] = []

    def add(self, piece: bytes) -> None:
        """Keep ``piece``."""
        if not piece:
            return
        self.size += len(piece)
        kept = self._kept
        if len(piece) >= _SMALL:
            kept.append(piece)
        elif kept and isinstance(kept[-1], bytearray):
            kept[-1] += piece
        else:
            kept.append(bytearray(piece))

    def joined(self) -> bytes:
        """Return all of them: the very bytes if there is one piece."""
        return b"".join(self._kept)
