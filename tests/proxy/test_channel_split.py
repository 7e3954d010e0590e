"""The request channel: however the bytes are cut, the same requests and the same answers."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from twisted.logger import globalLogPublisher

from cacheproxy.proxy.limits import Limits

from .inmemory import ANSWER, converse

ROOMY = Limits()
TIGHT = Limits(body=24, head=90, target=24, headers=3)
"""So narrow that generated requests often touch them."""
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
STATUS = re.compile(rb"(?:\A|(?<=\r\n\r\n)|(?<=\r\n\r\nok)|(?<=}))HTTP/1\.[01] ([0-9]{3}) ")

methods = st.sampled_from([b"POST", b"GET", b"PUT", b"OPTIONS", b"M-SEARCH"])
targets = st.sampled_from(
    [b"/", b"/v1/messages", b"/v1/messages?beta=true", b"//x/../%00?a=/b?c", b"*", b"/[{|}]^`~"]
)
bodies = st.lists(
    st.sampled_from([b"{}", b"\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n", b"\0\xff", b"x" * 9]),
    max_size=4,
).map(b"".join)
plain_headers = st.lists(
    st.sampled_from(
        [b"X: 1", b"x:", b"Accept: a, b", b"Cookie: a=b; c", b"Expect: 100-continue", b"X-\xe9: 1",
         b"Connection: keep-alive", b"Content-Type: multipart/form-data; boundary=x", b"Y: a\r\n b"]
    ),
    max_size=3,
)  # fmt: skip
# A header name is a token (RFC 9110, section 5.1), so the one with \xe9 is for the broken ones.
good_headers = plain_headers.map(lambda found: [line for line in found if b"\xe9" not in line])


def chunked(body: bytes, size: int, extension: bytes, trailers: bytes) -> bytes:
    pieces = [body[i : i + size] for i in range(0, len(body), size)]
    framed = b"".join(b"%x%s\r\n%s\r\n" % (len(p), extension, p) for p in pieces)
    return framed + b"0" + extension + b"\r\n" + trailers + b"\r\n"


def head(method: bytes, target: bytes, headers: list[bytes]) -> bytes:
    return b"\r\n".join((b"%s %s HTTP/1.1" % (method, target), *headers, b"", b""))


@st.composite
def good_requests(draw):
    """(method, target, body, bytes) of a request that is right, in one of its spellings."""
    method, target, body = draw(methods), draw(targets), draw(bodies)
    headers = [b"Host: localhost:8080", *draw(good_headers)]
    if draw(st.booleans()):
        coding = draw(
            st.sampled_from([b"Transfer-Encoding: chunked", b"transfer-encoding:\tCHUNKED "])
        )
        extension = draw(st.sampled_from([b"", b";x", b';a="b c"']))
        trailers = draw(st.sampled_from([b"", b"X: 1\r\n", b"Content-Length: 9\r\nHost: x\r\n"]))
        framed = chunked(body, draw(st.integers(1, 20)), extension, trailers)
        headers.append(coding)
    else:
        framed = body
        if body or draw(st.booleans()):
            headers.append(
                b"Content-Length: %s%d" % (draw(st.sampled_from([b"", b"00"])), len(body))
            )
    order = draw(st.permutations(headers))
    return method, target, body, head(method, target, order) + framed


pipelines = st.lists(good_requests(), min_size=1, max_size=4)

ODD = [
    b"", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\0", b" ", b"\t", b"\x1e", b"\x7f", b"\x80", b"\xff",
    b":", b";", b"0", b"5", b"-1", b"0x", b"\r\n ", b" HTTP/1.0\r\n", b"Content-Length: 3\r\n",
    b"Content-Length: 3, 3\r\n", b"Content-Length: +3\r\n", b"Content-Length : 3\r\n",
    b"Content-Length: " + b"9" * 5000 + b"\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: identity\r\n", b"Transfer-Encoding: gzip, chunked\r\n",
    b"Transfer-Encoding:\r\n chunked\r\n", b"Transfer-Encoding: chunked\0\r\n",
    b"Host: evil.example\r\n", b"Origin: null\r\n", b"Connection: close\r\n",
    b"Expect: 100-continue\r\n", b"ffffffffffffffff\r\n",
    b"x" * 30, b"x" * 200, b"X: 1\r\n" * 6, b"GET http://localhost/ HTTP/1.1\r\n", b"GET /\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00", b"1" + b";x" * 600 + b"\r\n",
]  # fmt: skip


@st.composite
def broken(draw):
    """Pipelined requests with up to three odd things put in place of some of their bytes."""
    data = b"".join(framed for *_, framed in draw(pipelines))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        until = draw(st.one_of(st.just(at), st.integers(at, min(at + 30, len(data)))))
        data = data[:at] + draw(st.sampled_from(ODD)) + data[until:]
    return data


anything = st.one_of(
    broken(),
    broken(),
    st.lists(
        st.sampled_from([*ODD, b"GET / HTTP/1.1\r\n", b"Host: localhost\r\n"]), max_size=12
    ).map(b"".join),
    st.binary(max_size=80),
)
cuts = st.lists(st.integers(0, 1000), max_size=6)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    inside = sorted(place for place in places if place < len(data))
    return [data[start:end] for start, end in pairwise([0, *inside, len(data)])]


def one_by_one(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


def statuses(written: bytes) -> list[int]:
    return [int(status) for status in STATUS.findall(written)]


@pytest.fixture(autouse=True, scope="module")
def _no_failures():
    """Nothing was logged as a failure: what Twisted catches for us counts as well."""
    failures = []

    def note(event):
        if "log_failure" in event:
            failures.append(event["log_failure"])

    globalLogPublisher.addObserver(note)
    yield
    globalLogPublisher.removeObserver(note)
    assert not failures


@given(pipelines, cuts, st.booleans())
@settings(max_examples=150)
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
@settings(max_examples=400)
def test_the_result_does_not_depend_on_how_the_bytes_are_cut(data, places, limits, late):
    """Whole, byte by byte or at random, answered at once or late: the same requests and answers."""
    whole = converse([data], limits)
    for pieces in ([data], one_by_one(data), cut(data, places)):
        assert converse(pieces, limits, late=late) == whole


@given(anything, st.sampled_from([ROOMY, TIGHT]))
@settings(max_examples=300)
def test_each_request_has_one_answer_and_a_refusal_is_the_last(data, limits):
    """Answers are those to the requests; then there may be one refusal, and nothing after it."""
    found = converse([data], limits)
    final = [status for status in statuses(found.written) if status != 100]
    answered, after = final[: len(found.arrived)], final[len(found.arrived) :]
    assert answered == [200] * len(found.arrived)
    assert len(after) == found.refused
    assert all(400 <= status < 500 for status in after)


@given(anything)
@settings(max_examples=200)
def test_nothing_over_the_limits_arrives(data):
    """However it is framed."""
    for one in converse([data], TIGHT).arrived:
        assert len(one.body) <= TIGHT.body
        assert len(one.target) <= TIGHT.target
        assert len(one.headers) <= TIGHT.headers
        assert sum(len(name) + len(value) for name, value in one.headers) <= TIGHT.head


SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize(
    "framing",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5",
        b"Content-Length: 5\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: identity\r\nContent-Length: 5",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: chunked, chunked",
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
    ],
)
def test_a_length_that_could_be_read_in_two_ways_is_refused(framing):
    """400, and what follows is nobody's request."""
    start = b"POST / HTTP/1.1\r\n" + framing + b"\r\nHost: localhost\r\n\r\n"
    data = start + b"0\r\n\r\n" + SMUGGLED
    for pieces in ([data], one_by_one(data)):
        found = converse(pieces, ROOMY)
        assert (found.arrived, statuses(found.written)) == ([], [400])


@pytest.mark.parametrize(
    "body",
    [
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
    ],
)
def test_broken_chunks_are_refused(body):
    """So are chunk extensions and trailers without end."""
    start = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    data = start + body + SMUGGLED
    size = 1 if len(data) < 10_000 else 1000
    for pieces in ([data], [data[i : i + size] for i in range(0, len(data), size)]):
        found = converse(pieces, ROOMY)
        assert (found.arrived, statuses(found.written)) == ([], [400])


@pytest.mark.parametrize(
    "line",
    [
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
    ],
)
def test_a_line_that_begins_no_request_is_refused(line):
    """400 for HTTP/0.9, other versions, spaces and control characters."""
    data = line + b"\r\nHost: localhost\r\n\r\n" + SMUGGLED
    for pieces in ([data], one_by_one(data)):
        found = converse(pieces, ROOMY)
        assert (found.arrived, statuses(found.written)) == ([], [400])
