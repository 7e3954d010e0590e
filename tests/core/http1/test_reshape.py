"""Transforms of an answer: in any pieces, within a bound, and never a part for the whole."""

import gzip
import itertools
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.http1.content_coding import zstd
from cacheproxy.core.http1.ending import ending_of
from cacheproxy.core.http1.reshape import (
    AsStream,
    AsWhole,
    Chain,
    EachEvent,
    Ended,
    Gathered,
    Recognised,
    Unpacked,
)
from cacheproxy.core.http1.response_reader import ResponseError
from tests import transcript
from tests.core.dialects.forms import DONE, STREAMS, chunk, through

STREAM = b"".join(STREAMS["calls"][1])
PACKED = {
    "gzip": ((b"gzip",), gzip.compress(STREAM)),
    "zstd": ((b"zstd",), zstd.compress(STREAM)),
    "both": ((b"deflate", b"gzip"), gzip.compress(zlib.compress(STREAM))),
}
MIB = 1 << 20
each = pytest.mark.parametrize("name", PACKED)


@given(st.lists(st.integers(0, len(STREAM))))
def test_the_pieces_that_a_stream_comes_in_do_not_matter(cuts):
    """Whole, or cut within a line: the same body."""
    cuts = sorted({0, len(STREAM), *cuts})
    pieces = [STREAM[start:end] for start, end in itertools.pairwise(cuts)]
    assert through(AsWhole(CHAT), *pieces) == through(AsWhole(CHAT), STREAM)


@pytest.mark.parametrize("made", [AsWhole, AsStream])
def test_what_is_too_large_is_refused(made):
    """Beyond 64 MiB, as soon as that has come."""
    transform, piece = made(CHAT), b":" * MIB
    for _ in range(64):
        assert transform.feed(piece) == b""
    with pytest.raises(ValueError, match="larger than 64 MiB"):
        transform.feed(b":")


def test_nothing_is_made_of_a_stream_that_made_no_sense():
    """However it goes on."""
    transform = AsWhole(CHAT)
    for _ in range(2):
        with pytest.raises(ValueError, match="makes no sense"):
            transform.feed(b'data: {"choices": [5]}\n\n')
    with pytest.raises(ValueError, match="before it was complete"):
        transform.close()


def test_nothing_is_made_of_a_body_that_makes_no_sense():
    """No JSON, no object, or cut off."""
    body = through(AsWhole(CHAT), STREAM)
    for wrong in (b"", b"[]", b"<html>", b'{"choices": [[]]}', body[:-1]):
        with pytest.raises(ResponseError, match="did not answer with a stream"):
            through(AsStream(CHAT), wrong)


@each
def test_what_is_packed_is_unpacked_as_it_comes(name):
    """Byte by byte; what was fed last is not kept for later."""
    codings, packed = PACKED[name]
    transform = Unpacked(codings)
    found = b"".join(transform.feed(packed[at : at + 1]) for at in range(len(packed)))
    assert found == STREAM
    assert transform.close() == b""


def test_what_a_server_flushed_goes_on():
    """An event that was packed by itself does not wait for the next."""
    packer, transform = zlib.compressobj(wbits=31), Unpacked((b"gzip",))
    for event in STREAMS["calls"][1]:
        packed = packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)
        assert transform.feed(packed) == event


@each
def test_what_is_not_packed_so_is_told_as_the_server_s_fault(name):
    """Cut off, broken, or larger than an answer may be."""
    codings, packed = PACKED[name]
    with pytest.raises(ResponseError, match="the server's answer is broken"):
        through(Unpacked(codings), packed[:-9])
    with pytest.raises(ResponseError, match="the server's answer is broken"):
        through(Unpacked(codings), b"data: " + packed)
    with pytest.raises(ResponseError, match="the server's answer is larger than 64 MiB"):
        through(Unpacked((b"gzip",)), gzip.compress(bytes(65 * MIB), 1))


PAGE, NOTHING = "did not answer with a stream", "before it was complete"


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"data: {}", "events"), (b": wait", "events"), (b"\r\n\nevent: a", "events"),
        (b"id: 1", "events"), (b"retry: 1", "events"), (b"\xef\xbb\xbf{}", "whole"),
        (b' \n{"a": 1}', "whole"), (b"[1]", "whole"), (b"<html>", PAGE), (b"dat", NOTHING),
        (b"dot", PAGE), (b"", NOTHING), (b"\n\n", NOTHING),
    ],
)  # fmt: skip
def test_an_answer_is_known_by_how_it_begins(body, kind):
    """However it is cut."""
    for size in (1, len(body) or 1):
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        kinds = [Gathered(lambda found, name=name: name + found) for name in (b"e", b"w")]
        transform = Recognised(*kinds)
        if kind in (PAGE, NOTHING):
            with pytest.raises(ResponseError, match=kind):
                through(transform, *pieces)
        else:
            assert through(transform, *pieces) == kind[:1].encode() + body


@pytest.mark.parametrize(
    ("body", "is_whole"),
    [
        (STREAM, True),
        (STREAM.replace(DONE, b""), True),
        (b'data: {"error": {"message": "no"}}', True),
        (b'data: {"error": {}}\n\n', False),
        (chunk({"content": "a"}), False),
        (b"", False),
    ],
)
def test_a_stream_has_to_come_to_its_end(body, is_whole):
    """Its last event needs no empty line."""
    ending = ending_of("/v1/chat/completions")
    if is_whole:
        assert through(Ended(ending), body) == body
    else:
        with pytest.raises(ResponseError, match="before it was complete"):
            through(Ended(ending), body)


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_each_event_goes_through_by_itself(end):
    body = b"a" + end + b"b" + end + b"c"
    for size in (1, 3, len(body)):
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        found = through(EachEvent(lambda event: b"" if event.startswith(b"b") else event), *pieces)
        assert found == b"a" + end + b"c"


@each
def test_one_transform_after_another(name):
    """A packed stream as a whole body, and that as a stream again."""
    codings, packed = PACKED[name]
    chain = Chain(Unpacked(codings), Chain(AsWhole(CHAT), AsStream(CHAT)))
    found = through(chain, packed[:40], packed[40:])
    assert through(AsWhole(CHAT), found) == through(AsWhole(CHAT), STREAM)


def test_all_that_is_said():
    transcript.holds("reshape.txt", globals())
