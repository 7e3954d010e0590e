"""Server-sent events: the standard's rules, whatever the chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.http1 import sse
from cacheproxy.core.http1.sse import Event, EventReader
from tests.core.held import most_held
from tests.core.requestbytes import cut, cuts, one_by_one

stream = st.lists(
    st.sampled_from(
        [b"\r", b"\n", b"\r\n", b"\n\n", b"data:", b"data", b"event:", b"event", b":", b" ", b"x",
         b"\xff", b"\xef\xbb\xbf", "\u2028\u2029\x85\x0b\x0c".encode(), b"id: 1", b"retry"]
    ),
    max_size=40,
).map(b"".join)  # fmt: skip


def events_of(*chunks: bytes) -> list[Event]:
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)]


def by_the_book(data: bytes) -> list[Event]:
    """WHATWG HTML, section 9.2.6, word for word."""
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    *ended, _ = lines.split(b"\n")
    events, kind, buffer = [], b"", b""
    for line in ended:
        if line == b"":
            if buffer:
                events.append(Event(kind, buffer[:-1]))
            kind, buffer = b"", b""
        elif not line.startswith(b":"):
            field, _, value = line.partition(b":")
            value = value[1:] if value.startswith(b" ") else value
            if field == b"event":
                kind = value
            elif field == b"data":
                buffer += value + b"\n"
    return events


@given(stream)
def test_events_are_those_of_the_standard(data):
    """Fields, comments, empty data, a byte order mark and all three line ends."""
    assert events_of(data) == by_the_book(data)


lines = st.lists(
    st.sampled_from([b"data:x\n", b"data\r\n", b"data: xyz\r", b"event:x\n", b"\n", b"\r", b"y"]),
    max_size=20,
).map(b"".join)


@given(
    lines | stream | st.binary(max_size=60),
    cuts,
    st.integers(4, 12) | st.just(sse._LONGEST_LINE),
)
def test_chunks_do_not_matter(data, places, longest):
    """Cut anywhere, also inside CRLF or byte by byte, nor for what is dropped for its length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sse, "_LONGEST_LINE", longest)
        whole = events_of(data)
        assert all(len(event.data) <= longest for event in whole)
        assert events_of(*cut(data, places)) == whole
        assert events_of(*one_by_one(data)) == whole


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_there_as_soon_as_its_blank_line_is(end):
    """Nothing waits for the next chunk, also where lines end with CR."""
    assert events_of(b"event: a" + end + b"data: 1" + end + b"data:2" + end + end) == [
        Event(b"a", b"1\n2")
    ]


def test_events_are_kept_also_if_nobody_looks_at_them_at_once():
    """feed() has read its bytes when it returns."""
    reader = EventReader()
    first = reader.feed(b"data: 1\n\ndata: 2")
    second = reader.feed(b"\n\n")
    assert [list(second), list(first)] == [[Event(b"", b"2")], [Event(b"", b"1")]]


def test_too_long_lines_and_events_are_dropped_whole(monkeypatch):
    """What is over the limit is left out, cut nowhere, and the next event is read again."""
    monkeypatch.setattr(sse, "_LONGEST_LINE", 20)
    long_line = b"data: " + b"x" * 30
    after = b"data: after\n\n"
    for data in (
        long_line + b"\n\n",
        b"data: 1\n" + long_line + b"\ndata: 2\n\n",
        b"data: 0123456789\n" * 3 + b"\n",
        b"data:\n" * 50 + b"\n",
        b"data: " + b"x" * 14 + b"data: not a field\n\n",
        b"event: " + b"x" * 30 + b"\ndata: 1\n\n",
    ):
        chunked = [(data + after)[i : i + 7] for i in range(0, len(data + after), 7)]
        assert events_of(data + after) == [Event(b"", b"after")]
        assert events_of(*chunked) == [Event(b"", b"after")]


def test_memory_is_bounded(monkeypatch):
    """Neither a line without end nor an event without end is kept for ever."""
    monkeypatch.setattr(sse, "_LONGEST_LINE", 1000)
    for endless in (b"x" * 100, b"data: x\n" * 10, b"data\n" * 20, b"event: x\n", b"\r"):
        reader = EventReader()
        feed = lambda reader=reader, piece=endless: list(reader.feed(piece))  # noqa: E731
        assert most_held(feed, 400) < 20_000


def test_a_long_stream_of_small_chunks_takes_linear_time():
    """2 MB without a newline in chunks of 100 bytes: quadratic, this would take minutes."""
    reader = EventReader()
    for _ in range(20_000):
        assert list(reader.feed(b"data: " + b"x" * 94)) == []
    (event,) = reader.feed(b"\n\n")
    assert len(event.data) == 2_000_000 - len("data: ")
