"""Bytes that arrive in pieces and are joined at the end."""

from __future__ import annotations

from io import BytesIO

_LARGE = 1 << 20
"""Bytes of a whole from which it is worth gathering before its end."""
_ENOUGH = 8
"""The part of it that has come before that much memory is set aside: who announces much and sends
nothing gets none."""
_SMALL = 4096
"""Bytes of a piece below which pieces are gathered: each object of its own costs 40 bytes more,
which made 290 MB of 10 MB that came in pieces of two bytes."""


class Pieces:
    """Keeps pieces as they are, without a copy, and joins them once. ``size``: bytes in all.

    ``announced``: what they will come to, if that is known. Much is copied as it comes then: to
    join 20 MB at the end held the reactor for 15 ms.
    """

    __slots__ = ("_announced", "_kept", "_whole", "size")

    def __init__(self, announced: int = 0) -> None:
        self.size = 0
        self._kept: list[bytes | bytearray] = []
        self._announced = announced if announced >= _LARGE else 0
        self._whole: BytesIO | None = None

    def add(self, piece: bytes) -> None:
        """Keep ``piece``."""
        if not piece:
            return
        self.size += len(piece)
        kept = self._kept
        if self._whole is not None:
            self._whole.write(piece)
            return
        if len(piece) >= _SMALL:
            kept.append(piece)
        elif kept and isinstance(kept[-1], bytearray):
            kept[-1] += piece
        else:
            kept.append(bytearray(piece))
        if self.size < self._announced <= self.size * _ENOUGH:
            # Its pages are the kernel's until they are written to, and the value is this very one.
            self._whole = BytesIO(bytes(self._announced))
            self._whole.writelines(kept)
            kept.clear()

    def joined(self) -> bytes:
        """Return all of them: the very bytes if there is one piece."""
        return b"".join(self._kept) if self._whole is None else self._whole.getvalue()
