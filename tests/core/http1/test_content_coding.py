"""Content codings are undone within a bound, however the body comes."""

import gzip
import struct
import zlib

import pytest

from cacheproxy.core.http1.content_coding import (
    CodingError,
    TooLargeError,
    Unpacker,
    codings_of,
    decoded,
    unpack,
    zstd,
)
from tests import transcript
from tests.core.held import most_held

MIB = 1 << 20
TEXT = b'{"messages": []}' * 900


def raw(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


SKIPPED = struct.pack("<II", 0x184D2A50, 4) + b"note"
PACKED = {
    "gzip": (b"gzip", gzip.compress(TEXT)),
    "x-gzip": (b"x-gzip", gzip.compress(TEXT)),
    "gzip of several members": (b"gzip", gzip.compress(TEXT[:99]) + gzip.compress(TEXT[99:])),
    "deflate": (b"deflate", zlib.compress(TEXT)),
    "deflate without zlib's head": (b"deflate", raw(TEXT)),
    "deflate, stored": (b"deflate", zlib.compress(TEXT, 0)),
    "zstd": (b"zstd", zstd.compress(TEXT)),
    "zstd of several frames": (b"zstd", zstd.compress(TEXT[:99]) + zstd.compress(TEXT[99:])),
    "zstd with a frame to be skipped": (b"zstd", SKIPPED + zstd.compress(TEXT)),
    "two": (b"gzip, zstd", zstd.compress(gzip.compress(TEXT))),
    "twice": (b"gzip,gzip", gzip.compress(gzip.compress(TEXT))),
    "with identity": (b"identity, GZIP ,", gzip.compress(TEXT)),
    "identity": (b"identity", TEXT),
}


@pytest.mark.parametrize("name", PACKED)
@pytest.mark.parametrize("step", [1, 1000])
def test_each_coding_is_undone(name, step):
    """As a whole, and in pieces."""
    said, body = PACKED[name]
    codings = codings_of(((b"Content-Encoding", said),))
    unpacker = Unpacker(codings, len(TEXT))
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    assert b"".join(found for piece in pieces for found in unpacker.feed(piece)) == TEXT
    unpacker.close()
    assert unpack(body, codings, len(TEXT)) == TEXT
    assert decoded(body, ((b"content-encoding", said),)) == TEXT


@pytest.mark.parametrize("name", [name for name in PACKED if name != "identity"])
def test_what_is_broken_is_refused(name):
    """Cut short, something behind it, something else; nothing of it is quoted."""
    said, body = PACKED[name]
    codings = codings_of(((b"Content-Encoding", said),))
    for broken in (body[:-1], body[: len(body) // 2], body + b"rest", TEXT):
        with pytest.raises(CodingError, match=r"not valid (gzip|deflate|zstd) data"):
            unpack(broken, codings, MIB)


def test_many_members_are_refused():
    """Each costs some time, however little is in it."""
    empty = gzip.compress(b"")
    assert unpack(empty * 1024, [b"gzip"], MIB) == b""
    for coding, body in ((b"gzip", empty * 1025), (b"zstd", SKIPPED * 1025)):
        with pytest.raises(CodingError):
            unpack(body, [coding], MIB)


@pytest.mark.parametrize("pack", [gzip.compress, zlib.compress, zstd.compress])
@pytest.mark.parametrize("nested", [False, True])
def test_a_bomb_holds_no_more_than_the_limit(pack, nested):
    """Neither what comes out at last nor what comes out in between."""
    coding = {gzip.compress: b"gzip", zlib.compress: b"deflate"}.get(pack, b"zstd")
    body, codings = pack(bytes(6 * MIB)), [coding]
    if nested:
        body, codings = gzip.compress(body), [coding, b"gzip"]

    def bombed():
        with pytest.raises(TooLargeError, match="larger than 1 MiB"):
            unpack(body, codings, MIB)

    assert most_held(bombed, 1) < 3 * MIB


def test_all_that_is_said():
    transcript.holds("content_coding.txt", globals())
