"""Bytes that arrive in pieces, in one buffer that grows with what comes."""

from __future__ import annotations

from io import BytesIO

_ENOUGH = 8
"""The part of what was announced that has come before room is made for all of it: who announces
much and sends nothing gets none."""


class Pieces:
    """Keeps pieces in their order; ``size``: bytes in all.

    ``announced``: what they will come to, 0 if that is not known. Each byte is copied when it comes
    and not again at the end, which held the reactor for 15 ms where 20 MB were joined. Pieces that
    were kept until then cost 3 ms of 2 MB in a bare loop, since no memory served twice.
    """

    __slots__ = ("_announced", "_room", "_whole", "size")

    def __init__(self, announced: int = 0) -> None:
        self.size = 0
        self._announced = announced
        self._room = 0
        self._whole = BytesIO()

    def add(self, piece: bytes | memoryview) -> None:
        """Keep ``piece``."""
        size = self.size + len(piece)
        if size > self._room:
            self._room = room = (
                self._announced
                if size <= self._announced <= size * _ENOUGH
                else max(size, 2 * self._room)
            )
            # Its pages are the kernel's until they are written to.
            grown = BytesIO(bytes(room))
            grown.write(self._whole.getbuffer()[: self.size])
            self._whole = grown
        self._whole.write(piece)
        self.size = size

    def joined(self) -> bytes:
        """Return all of them, without a copy. Nothing can be added any more."""
        self._whole.truncate(self.size)
        return self._whole.getvalue()
