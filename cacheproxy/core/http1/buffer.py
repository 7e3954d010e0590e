"""A buffer for bytes that arrive in pieces; it grows as they come."""

from __future__ import annotations

from io import BytesIO

_ENOUGH = 8
"""Ratio of bytes announced to bytes received, up to which room is made for all that is announced:
a sender that announces much and sends nothing gets none."""


class Pieces:
    """The pieces received so far, joined in their order; ``size``: bytes of all.

    ``announced``: bytes to expect, 0 if that is not known. Each byte is copied when it comes and
    not again at the end, where joining 20 MB stopped the reactor for 15 ms. A list of pieces cost
    3 ms for 2 MB in a bare loop, since no memory was used twice.
    """

    __slots__ = ("_announced", "_room", "_whole", "size")

    def __init__(self, announced: int = 0) -> None:
        self.size = 0
        self._announced = announced
        self._room = 0
        self._whole = BytesIO()

    def add(self, piece: bytes | memoryview) -> None:
        """Append ``piece``."""
        size = self.size + len(piece)
        if size > self._room:
            self._room = room = (
                self._announced
                if size <= self._announced <= size * _ENOUGH
                else max(size, 2 * self._room)
            )
            # The kernel assigns its pages when they are first written to.
            grown = BytesIO(bytes(room))
            grown.write(self._whole.getbuffer()[: self.size])
            self._whole = grown
        self._whole.write(piece)
        self.size = size

    def joined(self) -> bytes:
        """Return all pieces as one, without a copy. No more can be added then."""
        self._whole.truncate(self.size)
        return self._whole.getvalue()
