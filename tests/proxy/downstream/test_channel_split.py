"""The request channel: however the bytes are cut, the same requests and the same answers.

What is no request is refused, as RFC 9110 and 9112 ask for; names in capitals are those of the list
of Http11Probe (github.com/MDA2AV/Http11Probe).
"""

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
    for one in converse([data], TIGHT).arrived:
        assert len(one.body) <= TIGHT.body
        assert len(one.target) <= TIGHT.target
        assert len(one.headers) <= TIGHT.headers
        assert sum(len(name) + len(value) for name, value in one.headers) <= TIGHT.head


SMUGGLED = b"POST /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"
HOST = b"Host: localhost\r\n"
LONG = b"A" * 100_000


def get(*lines, target=b"/x", method=b"GET", version=b"HTTP/1.1", host=HOST):
    start = b"%b %b %b\r\n" % (method, target, version)
    return start + host + b"".join([line + b"\r\n" for line in lines]) + b"\r\n"


def chunked(body, *lines):
    return get(b"Transfer-Encoding: chunked", *lines, method=b"POST") + body


REFUSED = {
    # RFC 9112, section 2.2: line ends
    "BARE-LF-REQUEST-LINE": b"GET /x HTTP/1.1\n" + HOST + b"\r\n",
    "BARE-LF-ALL": b"GET /x HTTP/1.1\nHost: 127.0.0.1\n\n",
    "CR-ONLY-LINE-ENDING": b"GET /x HTTP/1.1\rHost: 127.0.0.1\r\n\r\n",
    "WHITESPACE-BEFORE-HEADERS": get(host=b" \r\n" + HOST),
    "WHITESPACE-ONLY-LINE": b"   \r\n\r\n",
    "BINARY-GARBAGE": bytes(range(128, 256)) * 2,
    "TLS-HELLO": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    # sections 2.3 and 3: the request line
    "H2-PREFACE": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "VERSION-MISSING-MINOR": get(version=b"HTTP/1"),
    "VERSION-LEADING-ZEROS": get(version=b"HTTP/01.01"),
    "NUL-IN-URL": get(target=b"/\0test"),
    "DEL-IN-URL": get(target=b"/\x7f"),
    "NON-ASCII-URL": get(target="/café".encode()),
    # section 3.2: Host
    "MISSING-HOST": get(host=b""),
    "DUPLICATE-HOST": get(host=HOST + b"Host: other.example\r\n"),
    "DUPLICATE-HOST-SAME": get(host=HOST * 2),
    "HOST-WITH-USERINFO": get(host=b"Host: user@127.0.0.1\r\n"),
    "HOST-WITH-PATH": get(host=b"Host: 127.0.0.1/path\r\n"),
    "MULTIPLE-HOST-COMMA": get(host=b"Host: 127.0.0.1, a.example\r\n"),
    # section 5: fields
    "OBS-FOLD": get(b"X: value\r\n continued"),
    "SP-BEFORE-COLON": get(b"X : y"),
    "TAB-IN-NAME": get(b"X\tY: z"),
    "EMPTY-HEADER-NAME": get(b": y"),
    "INVALID-HEADER-NAME": get(b"X[Y: z"),
    "NON-ASCII-HEADER-NAME": get("Xë: z".encode()),
    "HEADER-NO-COLON": get(b"nonsense"),
    "NUL-IN-HEADER-VALUE": get(b"X: a\0b"),
    "CONTROL-CHARS-HEADER": get(b"X: a\x07\x08\x0bb"),
    # section 6: how long the body is
    "CL-NEGATIVE-ZERO": get(b"Content-Length: -0"),
    "CL-COMMA-DIFFERENT": get(b"Content-Length: 5, 10"),
    "CL-INTERNAL-SPACE": get(b"Content-Length: 1 0"),
    "TE-HTTP10": get(b"Transfer-Encoding: chunked", version=b"HTTP/1.0") + b"0\r\n\r\n",
    # section 7.1: chunks
    "CHUNK-BARE-SEMICOLON": chunked(b"5;\r\nhello\r\n0\r\n\r\n"),
    "CHUNK-EXT-INVALID-TOKEN": chunked(b"5;a[=b\r\nhello\r\n0\r\n\r\n"),
    "CHUNK-EXT-CR": chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"),
    "CHUNK-EXT-64K": chunked(b"5;a=" + b"b" * 65_536 + b"\r\nhello\r\n0\r\n\r\n"),
    "CHUNK-SIZE-OVERFLOW": chunked(b"FFFFFFFFFFFFFFFF0\r\nhello\r\n0\r\n\r\n"),
    "CHUNK-SIZE-TRAILING-OWS": chunked(b"5 \r\nhello\r\n0\r\n\r\n"),
    "CHUNK-LF-TERM": chunked(b"5\r\nhello\n0\r\n\r\n"),
    "CHUNK-LF-TRAILER": chunked(b"0\r\nX: y\n\r\n"),
    "CHUNK-LF-ALONE": chunked(b"5\r\nhello\n"),
}
"""With 400."""
REFUSED_WITH = {
    "LONG-METHOD": (501, get(method=LONG)),
    "METHOD-CONNECT": (501, get(method=b"CONNECT", target=b"a:1")),
    "TE-LEADING-COMMA": (501, get(b"Transfer-Encoding: , chunked")),
    "UNKNOWN-TE-501": (501, get(b"Transfer-Encoding: gzip, chunked")),
    "LONG-METHOD-33": (501, get(method=b"x" * 33)),
    "LONG-URL": (414, get(target=b"/" + LONG)),
    "LONG-HEADER-NAME": (431, get(LONG + b": y")),
    "LONG-HEADER-VALUE": (431, get(b"X: " + LONG)),
    "MANY-HEADERS": (431, get(*[b"X: y"] * 10_000)),
    "MANY-SHORT-HEADERS": (431, get(*[b"X: y"] * 1_001)),
    "CL-OVERFLOW": (413, get(b"Content-Length: 99999999999999999999")),
    "HOST-EMPTY-VALUE": (421, get(host=b"Host:\r\n")),
    "ABSOLUTE-FORM-ELSEWHERE": (421, get(target=b"http://a.example/")),
    "ABSOLUTE-FORM-HEALTH-ELSEWHERE": (421, get(target=b"http://127.0.0.1:1/_cacheproxy/health")),
}
FRAMINGS = [
    b"Content-Length: 5\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked\r\nContent-Length: 5",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    b"Transfer-Encoding: chunked, identity",
    b"Transfer-Encoding: xchunked",
    b"Transfer-Encoding: chunked\x0b",
    b"Transfer-Encoding: \x00chunked",
    b'Transfer-Encoding: "chunked"',
    b"Transfer-Encoding:",
    b"Transfer-Encoding : chunked",
    b" Transfer-Encoding: chunked",
    b"Content-Length: 5\r\nContent-Length: 5",
    b"Content-Length: 5, 5",
    b"Content-Length: +5",
    b"Content-Length: -5",
    b"Content-Length: 0x5",
    b"Content-Length: 5_0",
    b"Content-Length: \xb2",
    b"Content-Length:",
    b"Content-Length: " + b"9" * 5000,
    b"X: 1\rContent-Length: 5",
    b"X: 1\nContent-Length: 5",
    b"X: 1\n\nGET / HTTP/1.1",
]
"""Lengths that could be read in two ways."""
CHUNKS = [
    b"5\nhello\n0\n\n",
    b"5\r\nhello0\r\n\r\n",
    b"5\r\nhelloX\r\n0\r\n\r\n",
    b"0x5\r\nhello\r\n0\r\n\r\n",
    b"-5\r\nhello\r\n0\r\n\r\n",
    b" 5\r\nhello\r\n0\r\n\r\n",
    b"5_0\r\nhello\r\n0\r\n\r\n",
    b"\r\nhello\r\n0\r\n\r\n",
    b"5;\n\r\nhello\r\n0\r\n\r\n",
    b"5;\x00\r\nhello\r\n0\r\n\r\n",
    b"0\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
    b"0\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
]
"""Chunks that are broken, and extensions and trailers without end."""
LINES = [
    b"GET /",
    b"\r\nGET",
    b"GET / HTTP/0.9",
    b"GET / http/1.1",
    b"GET  / HTTP/1.1",
    b"GET / HTTP/1.1 ",
    b" GET / HTTP/1.1",
    b"GET\t/\tHTTP/1.1",
    b"GET /\x7fa\n HTTP/1.1",
    b"G(T / HTTP/1.1",
    b"/ HTTP/1.1",
]
"""HTTP/0.9, other versions, spaces and control characters."""


@pytest.mark.parametrize(
    ("status", "wrong"),
    [
        *(pytest.param(400, data, id=name) for name, data in REFUSED.items()),
        *(pytest.param(*wrong, id=name) for name, wrong in REFUSED_WITH.items()),
        *(pytest.param(400, get(each) + b"0\r\n\r\n", id=f"{each[:40]}") for each in FRAMINGS),
        *(pytest.param(400, chunked(each), id=f"{each[:40]}") for each in CHUNKS),
        *(pytest.param(400, each + b"\r\n" + HOST + b"\r\n", id=f"{each}") for each in LINES),
    ],
)
def test_what_could_be_read_in_two_ways_or_is_no_request_is_refused(status, wrong):
    """At once, as the last on its connection; what follows is nobody's request."""
    data = wrong + SMUGGLED
    size = 1 if len(data) < 10_000 else 1000
    for pieces in ([data], [data[i : i + size] for i in range(0, len(data), size)]):
        found = converse(pieces, ROOMY)
        assert (found.arrived, statuses(found.written)) == ([], [status])
        assert b"\r\nConnection: close\r\n" in found.written
        assert found.refused
    assert statuses(converse([wrong], ROOMY).written) == [status]  # though nothing follows
