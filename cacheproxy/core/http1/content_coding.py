"""Content codings undone (RFC 9110, section 8.4.1), piece by piece and within a bound."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import Any

from cacheproxy.core.http1.headers import tokens, values
from cacheproxy.core.prompt.request import Headers

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LARGEST = 64 << 20
"""Bytes of a decoded body: a few kilobytes may claim to be gigabytes."""
_PIECE = 64 << 10
"""Bytes that are undone at a time."""
_MOST_CODINGS = 4
_MOST_MEMBERS = 1024
"""Members of a body (RFC 1952, section 2.2; RFC 8878, section 3): each begins anew, which costs."""
_WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
"""8 MiB, the most that a coding may use (RFC 9659, section 3)."""
_NONE = (b"", b"identity")
_CODINGS = {b"gzip": "gzip", b"x-gzip": "gzip", b"deflate": "deflate", b"zstd": "zstd"}


class CodingError(ValueError):
    """A body is not what its Content-Encoding says."""


class TooLargeError(CodingError):
    """A body is larger than it may be once its codings are undone."""


def codings_of(headers: Headers) -> list[bytes]:
    """Return the codings that a body has, in the order in which they were applied."""
    found = values(headers, b"content-encoding")
    return [coding for coding in tokens(found) if coding not in _NONE] if found else found


def are_known(codings: Sequence[bytes]) -> bool:
    """Whether all of ``codings`` can be undone."""
    return len(codings) <= _MOST_CODINGS and _CODINGS.keys() >= set(codings)


def unpack(body: bytes, codings: Sequence[bytes], limit: int) -> bytes:
    """Return ``body`` with ``codings``, which are known, undone.

    Raises CodingError; TooLargeError where that has more than ``limit`` bytes at any step.
    """
    unpacker = Unpacker(codings, limit)
    with BytesIO() as found:  # it is freed at once, whatever an exception's frames keep
        for piece in unpacker.feed(body):
            found.write(piece)
        unpacker.close()
        return found.getvalue()  # without a copy


def decoded(body: bytes, headers: Headers) -> bytes:
    """Return ``body`` without its content codings, as far as it goes.

    Itself if it has none, or if they cannot be undone.
    """
    codings = codings_of(headers)
    if not are_known(codings):
        return body
    found, unpacker = BytesIO(), Unpacker(codings, _LARGEST)
    try:
        for piece in unpacker.feed(body):
            found.write(piece)
    except TooLargeError:
        return body
    except CodingError:
        return found.getvalue() or body
    return found.getvalue()


class Unpacker:
    """Undoes ``codings``, which are known, of a body that comes in pieces.

    At no step more than ``limit`` bytes come out.
    """

    def __init__(self, codings: Sequence[bytes], limit: int) -> None:
        self._layers = [_Layer(_CODINGS[coding], limit) for coding in reversed(codings)]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what the next bytes of the body come to; raises CodingError."""
        view = memoryview(data)
        for start in range(0, len(data), _PIECE):
            yield from self._through(view[start : start + _PIECE])

    def close(self) -> None:
        """Raise CodingError if the body has ended too early."""
        for layer in self._layers:
            layer.close()

    def _through(self, data: bytes | memoryview, done: int = 0) -> Iterator[bytes]:
        if done == len(self._layers):
            yield bytes(data)
            return
        for piece in self._layers[done].feed(data):
            yield from self._through(piece, done + 1)


class _Layer:
    """Undoes one coding. ``limit``: bytes that may come out."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = self._left = limit
        self._members = 0
        self._member: Any = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        piece = b""
        while data or len(piece) == _PIECE:  # that may not have been all
            if self._member is None:
                if not data:
                    return
                self._member = self._begin(data[0])
            member = self._member
            try:
                piece = member.decompress(data, _PIECE)
            except (zlib.error, zstd.ZstdError):
                raise self._error() from None
            self._left -= len(piece)
            if self._left < 0:
                raise TooLargeError(
                    f"the request body is larger than {self._limit >> 20} MiB once it is unpacked"
                )
            if member.eof:
                data, self._member = member.unused_data, None
            else:
                data = getattr(member, "unconsumed_tail", b"")  # zstd's keep it themselves
            if piece:
                yield piece

    def close(self) -> None:
        if self._member is not None or not self._members:
            raise self._error()

    def _begin(self, first: int) -> Any:
        """Return what undoes a member that begins with the byte ``first``."""
        self._members += 1
        if self._members > (1 if self._name == "deflate" else _MOST_MEMBERS):
            raise self._error()
        if self._name == "zstd":
            return zstd.ZstdDecompressor(options=_WINDOW)
        if self._name == "gzip":
            return zlib.decompressobj(31)
        # zlib's format; or without it, as some send it (RFC 9110, section 8.4.1.2)
        return zlib.decompressobj(15 if first & 15 == zlib.DEFLATED else -15)

    def _error(self) -> CodingError:
        return CodingError(
            f"the request body is not valid {self._name} data, as its Content-Encoding says "
            "(broken or cut off). Send it again, or send it unpacked and without that header"
        )
