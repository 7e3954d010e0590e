"""A body is split into its messages, whatever its type and its pieces."""

import pytest
from hypothesis import given

from cacheproxy.core.http1.splitting import Splitter
from tests.core.requestbytes import cut, cuts

STREAM, LINES, ONE = "text/event-stream; charset=utf-8", "Application/x-ndjson", "application/json"
LONG = b"x" * 30


def split(kind, *pieces, only=None):
    """The messages of a body, what is left at its end, and whether some was left out."""
    splitter = Splitter(kind, 20)
    found = [(one.type, one.data) for piece in pieces for one in splitter.feed(piece, only)]
    return found, [one.data for one in splitter.rest()], splitter.has_dropped


@pytest.mark.parametrize(
    ("kind", "body", "found", "rest", "has_dropped"),
    [
        (ONE, b"{}\n\n", [], [b"{}\n\n"], False),
        (ONE, b"", [], [b""], False),
        (ONE, LONG, [], [], True),
        (LINES, b"1\n2\r\n3", [(b"", b"1"), (b"", b"2\r")], [b"3"], False),
        (LINES, b"1\n" + LONG + b"\n3", [(b"", b"1")], [b"3"], True),
        (LINES, b"1\n" + LONG, [(b"", b"1")], [], True),
        ("application/jsonl", b"1\n", [(b"", b"1")], [b""], False),
        (STREAM, b"data: 1\n\nevent: a\ndata: 2", [(b"", b"1")], [b"2"], False),
        (STREAM, b"event: a\r\ndata: 1\r\n\r\n" * 2, [(b"a", b"1")] * 2, [], False),
        (STREAM, b"data: 1\n\n: hm\n\ndata: 2\ndata\n\n", [(b"", b"1"), (b"", b"2\n")], [], False),
    ],
)
def test_messages_are_given_as_they_end(kind, body, found, rest, has_dropped):
    assert split(kind, body) == (found, rest, has_dropped)
    pieces = [body[at : at + 1] for at in range(len(body))]
    assert split(kind, *pieces) == (found, rest, has_dropped)


@given(cuts)
def test_of_events_that_come_whole_those_alone_are_read_that_are_asked_for(places):
    """Those that come in pieces may be given besides."""
    body = b"".join(b"event: a\ndata: %d\n\n" % number for number in range(30))
    asked = {(b"a", b"%d" % number) for number in range(30) if number % 10 == 7}
    whole, *_ = split(STREAM, body, only=lambda text: b"7" in text)
    assert {*whole} - {(b"a", b"0")} == asked
    found, *_ = split(STREAM, *cut(body, places), only=lambda text: b"7" in text)
    assert asked <= {*found}
    assert found == sorted(found, key=lambda one: int(one[1]))
