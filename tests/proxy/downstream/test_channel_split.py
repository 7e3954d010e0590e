"""The request channel: however the bytes are cut, the same requests and the same answers."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cacheproxy.proxy.downstream.limits import Limits
from tests.core.requestbytes import anything, cut, cuts, one_by_one, pipelines
from tests.logs import looking
from tests.proxy.inmemory import ANSWER, converse

ROOMY = Limits()
TIGHT = Limits(body=24, head=90, target=24, headers=3)
"""So narrow that generated requests often touch them."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS = re.compile(rb"(?:\A|(?<=\r\n\r\n)|(?<=\r\n\r\nok)|(?<=}))HTTP/1\.[01] ([0-9]{3}) ")


def statuses(written: bytes) -> list[int]:
    return [int(status) for status in STATUS.findall(written)]


@pytest.fixture(autouse=True, scope="module")
def _no_failures():
    """Nothing was logged as a failure: what Twisted catches for us counts as well."""
    failures = []

    def note(event):
        if "log_failure" in event:
            failures.append(event["log_failure"])

    with looking(note):
        yield
    assert not failures


@given(pipelines, cuts, st.booleans())
def test_what_is_sent_is_what_arrives(requests, places, late):
    """Of requests that are right, each arrives once, in order, with its own body and no more."""
    data = b"".join(framed for *_, framed in requests)
    expected = [(method, target, body) for method, target, body, _ in requests]
    for pieces in ([data], one_by_one(data), cut(data, places)):
        found = converse(pieces, ROOMY, late=late)
        assert [(one.method, one.target, one.body) for one in found.arrived] == expected
        assert found.written.replace(CONTINUE, b"") == ANSWER * len(requests)
        assert not found.closed


@given(anything, cuts, st.sampled_from([ROOMY, TIGHT]), st.booleans())
@example(b"x" * 150 + b" /v1/messages HTTP/1.1\r\n\r\n", [], TIGHT, False)
def test_the_result_does_not_depend_on_how_the_bytes_are_cut(data, places, limits, late):
    """Whole, byte by byte or at random, answered at once or late: the same requests and answers."""
    whole = converse([data], limits)
    for pieces in ([data], one_by_one(data), cut(data, places)):
        assert converse(pieces, limits, late=late) == whole


@given(anything, st.sampled_from([ROOMY, TIGHT]))
def test_each_request_has_one_answer_and_a_refusal_is_the_last(data, limits):
    """Answers are those to the requests; then there may be one refusal, and nothing after it."""
    found = converse([data], limits)
    final = [status for status in statuses(found.written) if status != 100]
    answered, after = final[: len(found.arrived)], final[len(found.arrived) :]
    assert answered == [200] * len(found.arrived)
    assert len(after) == found.refused
    assert all(400 <= status <= 501 for status in after)


@given(anything)
def test_nothing_over_the_limits_arrives(data):
    """However it is framed."""
    for one in converse([data], TIGHT).arrived:
        assert len(one.body) <= TIGHT.body
        assert len(one.target) <= TIGHT.target
        assert len(one.headers) <= TIGHT.headers
        assert sum(len(name) + len(value) for name, value in one.headers) <= TIGHT.head


SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
BEGIN = b"POST / HTTP/1.1\r\n"
HOST = b"\r\nHost: localhost\r\n\r\n"
FRAMINGS = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Content-Length: 5\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: identity\r\nContent-Length: 5",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: chunked, chunked",
    b"Transfer-Encoding: chunked;x=y",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunked\x0b",
    b"Transfer-Encoding: \x00chunked",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding:",
    b"Transfer-Encoding : chunked",
    b"Transfer\x00-Encoding: chunked",
    b" Transfer-Encoding: chunked",
    b"Content-Length: 5\r\nContent-Length: 5",
    b"Content-Length: 5\r\nContent-Length: 6",
    b"Content-Length: 5, 5",
    b"Content-Length: +5",
    b"Content-Length: -5",
    b"Content-Length: 0x5",
    b"Content-Length: 5_0",
    b"Content-Length: \xb2",
    b"Content-Length: 5\x00",
    b"Content-Length:",
    b"Content-Length : 5",
    b"Content-Length: " + b"9" * 5000,
    b"X: 1\rContent-Length: 5",
    b"X: 1\nContent-Length: 5",
    b"X: 1\r\rContent-Length: 5",
    b"X: 1\n\nGET / HTTP/1.1",
]
"""Lengths that could be read in two ways."""
CHUNKS = [
    b"5\nhello\n0\n\n",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhello\r0\r\n\r\n",
    b"5\r\nhelloX\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b"+5\r\nhello\r\n0\r\n\r\n",
    b" 5\r\nhello\r\n0\r\n\r\n",
    b"5_0\r\nhello\r\n0\r\n\r\n",
    b"\r\nhello\r\n0\r\n\r\n",
    b"5;\n\r\nhello\r\n0\r\n\r\n",
    b"5;\x00\r\nhello\r\n0\r\n\r\n",
    b"5;" + b"x" * 5000 + b"\r\nhello\r\n0\r\n\r\n",
    b"0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"0\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
]
"""Chunks that are broken, and extensions and trailers without end."""
LINES = [
    b"GET /",
    b"GET",
    b"\r\nGET",
    b"GET / HTTP/0.9",
    b"GET / HTTP/1.2",
    b"GET / HTTP/2.0",
    b"GET / http/1.1",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.1 ",
    b" GET / HTTP/1.1",
    b"GET /a b HTTP/1.1",
    b"GET\t/\tHTTP/1.1",
    b"GET /\x00 HTTP/1.1",
    b"GET /\x7fa\n HTTP/1.1",
    b"G(T / HTTP/1.1",
    b"G\xc9T / HTTP/1.1",
    b"/ HTTP/1.1",
]
"""HTTP/0.9, other versions, spaces and control characters."""
UNKNOWN = [
    BEGIN + b"Transfer-Encoding: gzip, chunked",
    BEGIN + b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
    b"x" * 33 + b" / HTTP/1.1\r\nX: y",
]
"""Codings and methods that nobody has: RFC 9112, sections 6.1 and 3, asks for 501."""


@pytest.mark.parametrize(
    ("wrong", "status"),
    [
        *((BEGIN + framing + HOST + b"0\r\n\r\n", 400) for framing in FRAMINGS),
        *((BEGIN + b"Transfer-Encoding: chunked" + HOST + body, 400) for body in CHUNKS),
        *((line + HOST, 400) for line in LINES),
        *((head + HOST, 501) for head in UNKNOWN),
    ],
)
def test_what_could_be_read_in_two_ways_or_is_no_request_is_refused(wrong, status):
    """And what follows is nobody's request."""
    data = wrong + SMUGGLED
    size = 1 if len(data) < 10_000 else 1000
    for pieces in ([data], [data[i : i + size] for i in range(0, len(data), size)]):
        found = converse(pieces, ROOMY)
        assert (found.arrived, statuses(found.written)) == ([], [status])
