"""RequestReader: what is read does not depend on how it was cut; what is ambiguous is refused."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.http1.request_head import RequestError
from cacheproxy.core.http1.request_reader import RequestReader
from cacheproxy.proxy.downstream.limits import Limits
from tests import transcript
from tests.core.requestbytes import anything, cut, cuts, one_by_one, pipelines

ROOMY = Limits()
TIGHT = Limits(body=24, head=90, target=24, headers=3)


def read(pieces, limits=ROOMY):
    """Feed ``pieces``; return the heads, the bodies, the error if there was one, and the rest."""
    reader = RequestReader(limits)
    heads, bodies = [], []
    try:
        for piece in pieces:
            reader.feed(piece)
            while True:
                if len(heads) == len(bodies):
                    head = reader.read_head()
                    if head is None:
                        break
                    heads.append(head)
                body = reader.read_body()
                if body is None:
                    break
                bodies.append(body)
    except RequestError as error:
        return told(heads), bodies, (error.status, str(error), reader.path), None
    return told(heads), bodies, None, reader.waiting


def told(heads):
    return [(h.method, h.target, h.version, h.headers, h.length) for h in heads]


def one(data, limits=ROOMY):
    """The head and the body of the only request in ``data``."""
    reader = RequestReader(limits)
    reader.feed(data)
    head = reader.read_head()
    assert head is not None
    body = reader.read_body()
    assert not reader.waiting
    return head, body


def status(data, limits=ROOMY):
    """The status of the error that ``data`` is, whole and byte by byte."""
    (error,) = {read(pieces, limits)[2] for pieces in ([data], one_by_one(data))}
    return error and error[0]


def get(*lines):
    return b"\r\n".join((b"GET /x HTTP/1.1", *lines, b"", b""))


def chunked(*pieces):
    return get(b"Transfer-Encoding: chunked") + b"".join(pieces)


def extended(extension):
    return chunked(b"1", extension, b"\r\nx\r\n0\r\n\r\n")


@given(pipelines, cuts)
def test_requests_that_are_right_are_read_as_they_are(requests, places):
    """Each with its own body, however many come at once, and however they are cut."""
    data = b"".join(framed for *_, framed in requests)
    for pieces in ([data], one_by_one(data), cut(data, places)):
        heads, bodies, error, waiting = read(pieces)
        assert [(h[0], h[1]) for h in heads] == [(one[0], one[1]) for one in requests]
        assert bodies == [one[2] for one in requests]
        assert (error, waiting) == (None, False)


@given(anything, cuts, st.sampled_from([ROOMY, TIGHT]))
def test_it_does_not_depend_on_the_cuts(data, places, limits):
    """The same heads, bodies and error: whole, byte by byte, at random."""
    whole = read([data], limits)
    assert read(one_by_one(data), limits) == whole
    assert read(cut(data, places), limits) == whole


def size(fields):
    """A head of a GET for /x whose fields and request line take ``fields`` bytes in all."""
    start = b"GET /x HTTP/1.1\r\nX: "
    return start + b"y" * (fields - len(start) + len(b"/x")) + b"\r\n\r\n"


def test_tiny_chunks_do_not_cost_an_object_each():
    """A body in pieces of two bytes takes little more than itself."""
    data = b"2\r\nxx\r\n" * 4000
    reader = RequestReader(ROOMY)
    reader.feed(chunked())
    assert reader.read_head() is not None
    tracemalloc.start()
    for start in range(0, len(data), 700):
        reader.feed(data[start : start + 700])
        assert reader.read_body() is None
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert held < 30_000
    reader.feed(b"0\r\n\r\n")
    assert reader.read_body() == b"xx" * 4000


def test_a_body_that_comes_alone_is_not_copied():
    """The very bytes that were read; one that comes in parts is joined."""
    body = b"x" * 100_000
    reader = RequestReader(ROOMY)
    reader.feed(get(b"Content-Length: 100000"))
    assert reader.read_head() is not None
    assert reader.read_body() is None
    reader.feed(body)
    assert reader.read_body() is body
    reader.feed(get(b"Content-Length: 100000") + body[:9])
    assert reader.read_head() is not None
    for piece in (b"", body[9:50_000], body[50_000:]):
        assert reader.read_body() is None
        reader.feed(piece)
    assert reader.read_body() == body


@pytest.mark.parametrize("size", [999, 1 << 20, 300_001])
def test_a_large_body_is_gathered_as_it_comes(size):
    """To the byte, with what comes behind it; and at its end nothing is copied."""
    body = bytes(range(251)) * 20_000
    data = get(b"Content-Length: %d" % len(body)) + body + get()
    reader = RequestReader(ROOMY)
    for start in range(0, len(data), size):
        reader.feed(data[start : start + size])
        if reader.head is None:
            assert reader.read_head() is not None
        if start + size >= len(data):
            tracemalloc.start()
        found = reader.read_body()
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == body
    assert held < 2 * size + 10_000
    assert reader.read_head() is not None


@pytest.mark.parametrize("byte", [*range(9), *range(0x0A, 0x20), 0x7F])
def test_no_header_holds_control_characters(byte):
    """RFC 9110, section 5.5: but a tab."""
    assert status(get(b"X: a%cb" % byte)) == 400
    assert status(chunked(b"0\r\nX: a%cb\r\n\r\n" % byte)) == 400


@pytest.mark.parametrize(
    ("begun", "wanted"),
    [
        # a line that ends in a line feed alone, the rest of a line behind a CR alone
        *((begun, 400) for begun in (b"\n", b"\r\n\n", b"GET /x HTTP/1.1\n", b"GET /x\n")),
        *((get()[:-2] + rest, 400) for rest in (b"\n", b"X: y\n", b"X: y\r\n\n", b"X: y\rZ")),
        # a line that goes on in the next one: others may read that as a header of its own
        *((get(b"X: y", rest), 400) for rest in (b" 1", b"\tContent-Length: 5")),
        *((get(name, b" chunked"), 400) for name in (b"Transfer-Encoding:", b"Content-Length: 5")),
        # bytes that begin no method: TLS, a space, a blank
        *((begun, 400) for begun in (b"\x16\x03\x01", b" ", b"\r\n\r", b"\rG", b"G\0", b"\xff")),
        *((begun, None) for begun in (b"", b"\r", b"\r\n", b"G", b"x" * 32, b"x" * 32 + b" ")),
        (b"x" * 33, 501),
        (get(b"X: a\tb"), None),
        (get(b"Transfer-Encoding: gzip, chunked"), 501),
        (get(b"Transfer-Encoding: chunked").replace(b"/1.1", b"/1.0"), 400),
        (b"GET /\x7f HTTP/1.1\r\n", 400),
        (b"GET /\xc3\xa9 HTTP/1.1\r\n", 400),
        # in a chunk's line or a trailer, too; as is a trailer that is none
        *((chunked(rest), 400) for rest in (b"1\r\nx\n", b"0\r\n\n", b"0\n\n", b"1\nx")),
        *((chunked(b"0\r\n", rest), 400) for rest in (b"X: y\n\n", b"X: y\n\r\n", b"odd\r\n\r\n")),
        # an extension has a name (section 7.1.1); a bare semicolon is where readers differ
        *(
            (extended(b";" + one), None)
            for one in (b"a", b"a=b", b' a = "b;\\" c"', b"a;b=c", b'a=""')
        ),
        *(
            (extended(b";" + one), 400)
            for one in (b"", b";", b"a;", b"=b", b"a=", b'a="b', b"a b", b" ")
        ),
        *((extended(one), wanted) for one, wanted in ((b" ;a", None), (b";a\x7f", 400))),
    ],
)
def test_nobody_waits_behind_what_is_no_request(begun, wanted):
    """It is refused as soon as it has come; what may become one is waited for."""
    assert status(begun) == wanted


def test_all_that_is_said():
    transcript.holds("request_reader.txt", globals())
