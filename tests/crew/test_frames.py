"""Frames: whatever the pieces, the same messages come out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.crew.frames import FrameReader, frame

FRAMES = st.lists(st.tuples(st.binary(max_size=20), st.lists(st.binary(max_size=20), max_size=3)))


def read(reader, data):
    """What comes out when ``data`` is put into the reader's room, piece by piece."""
    found = []
    while data:
        room = reader.room()
        assert len(room)
        piece, data = data[: len(room)], data[len(room) :]
        room[: len(piece)] = piece
        found += [(message, bytes(load)) for message, load in reader.filled(len(piece))]
    return found


@given(FRAMES, st.data())
def test_what_is_sent_comes_out(said, data):
    """However the stream is cut, once, and in its order; also if the room is too small for it."""
    stream = b"".join(b"".join(frame(message, tuple(load))) for message, load in said)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=10).map(sorted))
    reader, found = FrameReader(data.draw(st.integers(8, 200))), []
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        found += read(reader, stream[begin:end])
    assert found == [(message, b"".join(load)) for message, load in said]


def test_a_load_is_not_copied():
    """Its pieces are those that were given, but for empty ones."""
    one, two = b"x" * 100, memoryview(b"y" * 100)
    head, *rest = frame(b"m", (one, b"", two))
    assert head.endswith(b"m")
    assert [piece is each for piece, each in zip(rest, (one, two), strict=True)] == [True, True]


def test_a_large_frame_has_room_while_it_comes():
    """Then the room is as large as it was."""
    reader, body = FrameReader(1000), b"z" * 100_000
    stream = b"".join(frame(b"m", (body,)))
    assert read(reader, stream[:2000]) == []
    assert len(reader.room()) == len(stream) - 2000
    assert read(reader, stream[2000:]) == [(b"m", body)]
    assert len(reader.room()) == 1000
