"""Decoding of content codings (RFC 9110, section 8.4.1), piece by piece and within a bound."""

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
"""Bytes of a decoded body at most: a few kilobytes may unpack to gigabytes."""
_PIECE = 64 << 10
"""Bytes taken in, and given out, by a decoder at a time."""
_MOST_CODINGS = 4
_MOST_MEMBERS = 1024
"""Members of a body at most (RFC 1952, section 2.2; RFC 8878, section 3): each costs a decoder."""
_WINDOW: dict[int, int] = {zstd.DecompressionParameter.window_log_max: 23}
"""Largest window of the zstd coding: 8 MiB (RFC 9659, section 3)."""
_NONE = (b"", b"identity")
_CODINGS = {b"gzip": "gzip", b"x-gzip": "gzip", b"deflate": "deflate", b"zstd": "zstd"}


class CodingError(ValueError):
    """A body is not what its Content-Encoding says."""


class TooLargeError(CodingError):
    """A body exceeds its limit once it is decoded."""


def codings_of(headers: Headers) -> list[bytes]:
    """Return the codings of a body, in the order in which they were applied."""
    found = values(headers, b"content-encoding")
    return [coding for coding in tokens(found) if coding not in _NONE] if found else found


def are_known(codings: Sequence[bytes]) -> bool:
    """Whether all of ``codings`` can be decoded, and are not too many."""
    return len(codings) <= _MOST_CODINGS and _CODINGS.keys() >= set(codings)


def unpack(body: bytes, codings: Sequence[bytes], limit: int) -> bytes:
    """Return ``body`` decoded; raises CodingError, TooLargeError for more than ``limit`` bytes."""
    unpacker = Unpacker(codings, limit)
    with BytesIO() as found:  # freed at once, though an exception's frames may refer to it
        for piece in unpacker.feed(body):
            found.write(piece)
        unpacker.close()
        return found.getvalue()  # without a copy


def decoded(body: bytes, headers: Headers) -> bytes:
    """Return ``body`` decoded up to a fault; as it is if a coding is unknown or it is too large."""
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
    """A decoder of known ``codings`` piece by piece; ``limit``: bytes of each step at most."""

    def __init__(self, codings: Sequence[bytes], limit: int) -> None:
        self._layers = [_Layer(_CODINGS[coding], limit) for coding in reversed(codings)]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the decoded next bytes of the body; raises CodingError."""
        view = memoryview(data)
        for start in range(0, len(data), _PIECE):
            yield from self._through(view[start : start + _PIECE])

    def close(self) -> None:
        """Raise CodingError if the body has ended too early."""
        for layer in self._layers:
            layer.close()

    def _through(self, data: bytes | memoryview, done: int = 0) -> Iterator[bytes]:
        """Yield ``data`` decoded by the layers from the index ``done`` on."""
        if done == len(self._layers):
            yield bytes(data)
            return
        for piece in self._layers[done].feed(data):
            yield from self._through(piece, done + 1)


class _Layer:
    """A decoder of one coding, of one or more members. ``limit``: bytes it may give at most."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = self._left = limit
        self._members = 0
        self._member: Any = None

    def feed(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Yield the next decoded bytes, at most 64 KiB at a time; raises CodingError."""
        piece = b""
        while data or len(piece) == _PIECE:  # a full piece may not have been all
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
                data = getattr(member, "unconsumed_tail", b"")  # zstd has its rest inside
            if piece:
                yield piece

    def close(self) -> None:
        """Raise CodingError if the last member is not whole, or none has come."""
        if self._member is not None or not self._members:
            raise self._error()

    def _begin(self, first: int) -> Any:
        """Return a decoder for a member that begins with the byte ``first``."""
        self._members += 1
        if self._members > (1 if self._name == "deflate" else _MOST_MEMBERS):
            raise self._error()
        if self._name == "zstd":
            return zstd.ZstdDecompressor(options=_WINDOW)
        if self._name == "gzip":
            return zlib.decompressobj(31)
        # zlib's format, or bare deflate data, as some send (RFC 9110, section 8.4.1.2)
        return zlib.decompressobj(15 if first & 15 == zlib.DEFLATED else -15)

    def _error(self) -> CodingError:
        return CodingError(
            f"the request body is not valid {self._name} data, as its Content-Encoding says "
            "(broken or cut off). Send it again, or send it unpacked and without that header"
        )
