"""Frames: whatever the pieces, the same messages come out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.crew.frames import FrameReader, frame

FRAMES = st.lists(st.tuples(st.binary(max_size=20), st.lists(st.binary(max_size=20), max_size=3)))


@given(FRAMES, st.data())
def test_what_is_sent_comes_out(said, data):
    """However the stream is cut, once, and in its order."""
    stream = b"".join(b"".join(frame(message, tuple(load))) for message, load in said)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10).map(sorted))
    reader, found = FrameReader(), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += reader.feed(stream[begin:end])
    assert found == [(message, b"".join(load)) for message, load in said]


def test_a_load_is_not_copied():
    """Its pieces are those that were given, but for empty ones."""
    one, two = b"x" * 100, memoryview(b"y" * 100)
    head, *rest = frame(b"m", (one, b"", two))
    assert head.endswith(b"m")
    assert [piece is each for piece, each in zip(rest, (one, two), strict=True)] == [True, True]


def test_a_large_frame_is_joined_once():
    """Bytes that are not yet a frame are not copied with each piece that comes."""
    reader, body = FrameReader(), b"z" * 100_000
    stream = b"".join(frame(b"", (body,)))
    for begin in range(0, len(stream) - 10, 10):
        assert not reader.feed(stream[begin : begin + 10])
    assert len(reader._pieces) > 5000
    assert reader.feed(stream[(len(stream) - 1) // 10 * 10 :]) == [(b"", body)]
