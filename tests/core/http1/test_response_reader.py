"""ResponseReader: one response out of bytes, however they are cut, or a refusal."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.http1.response_reader import (
    LONGEST_HEAD,
    ResponseError,
    ResponseReader,
)
from tests import transcript
from tests.core import requestbytes
from tests.core.requestbytes import cut, cuts, one_by_one


def head(*fields, status=b"HTTP/1.1 200 OK"):
    return b"\r\n".join((status, *fields, b"", b""))


def in_pieces(data, size):
    return [data[at : at + size] for at in range(0, len(data), size)]


def read(pieces, method=b"POST", *, close=True):
    """What a reader makes of ``pieces``: head, body, done, and its error or None."""
    reader = ResponseReader(method)
    body = b""
    try:
        for piece in pieces:
            body += reader.feed(piece)
        if close:
            reader.close()
    except ResponseError as error:
        return reader.head, body, reader.done, str(error)
    return reader.head, body, reader.done, None


TE = b"Transfer-Encoding: chunked"
CHUNKED = head(TE)
CONTINUE = head(status=b"HTTP/1.1 100 Continue")
EARLY = head(b"Link: </x>", status=b"HTTP/1.1 103 Early Hints")
# Name: (response, body). All of them say themselves where they end.
GOOD = {
    "length": (head(b"Content-Length: 5") + b"hello", b"hello"),
    "length of nothing": (head(b"Content-Length: 0"), b""),
    "length twice": (head(b"Content-Length: 5", b"content-length: 5") + b"hello", b"hello"),
    "length as a list": (head(b"Content-Length: 5, 5") + b"hello", b"hello"),
    "length with leading zeros": (head(b"Content-Length: 005") + b"hello", b"hello"),
    "chunks": (CHUNKED + b"5\r\nhello\r\n1\r\n!\r\n0\r\n\r\n", b"hello!"),
    "coding in capitals": (head(b"TRANSFER-ENCODING:  Chunked ") + b"1\r\nx\r\n0\r\n\r\n", b"x"),
    "a size in capitals": (CHUNKED + b"A\r\n0123456789\r\n0\r\n\r\n", b"0123456789"),
    "chunk sizes with zeros before": (CHUNKED + b"0005\r\nhello\r\n000\r\n\r\n", b"hello"),
    "chunk extensions": (CHUNKED + b'5 ;a=b;c="d e"\r\nhello\r\n0;last\r\n\r\n', b"hello"),
    "trailers": (CHUNKED + b"5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-More: 2\r\n\r\n", b"hello"),
    "no chunk but the last": (CHUNKED + b"0\r\n\r\n", b""),
    "chunked beside a length": (head(b"Content-Length: 3", TE) + b"1\r\nx\r\n0\r\n\r\n", b"x"),
    "data like framing": (CHUNKED + b"7\r\n\r\n0\r\n\r\n\r\n0\r\n\r\n", b"\r\n0\r\n\r\n"),
    "HEAD": (head(b"Content-Length: 5"), b""),
    "HEAD, chunked": (CHUNKED, b""),
    "204": (head(status=b"HTTP/1.1 204 No Content"), b""),
    "304 with a length": (head(b"Content-Length: 5", status=b"HTTP/1.1 304 Same"), b""),
    "interim responses before": (CONTINUE + EARLY + head(b"Content-Length: 2") + b"ok", b"ok"),
    "HTTP/1.0": (head(b"Content-Length: 2", status=b"HTTP/1.0 200 OK") + b"ok", b"ok"),
    "no reason, no space": (head(b"Content-Length: 2", status=b"HTTP/1.1 200") + b"ok", b"ok"),
    "a tab": (head(b"X: a\tb", b"Content-Length: 2", status=b"HTTP/1.1 200 O\tK") + b"ok", b"ok"),
    "a folded header": (head(b"X: a\r\n \t b", b"Content-Length: 2") + b"ok", b"ok"),
    "an unknown status": (head(b"Content-Length: 2", status=b"HTTP/1.1 599 Odd") + b"ok", b"ok"),
}


BAD_STATUS_LINES = (
    *(b"SSH-2.0-OpenSSH_9", b"PRI * HTTP/2.0", b"HTTP/1.1 abc OK", b"HTTP/1.1 2000 OK"),
    *(b"HTTP/1.1 099 OK", b"HTTP/1.1  200 OK", b"HTTP/1.1 200 O\rK", b"HTTP/1.1 200 \x1b[2J"),
    *(b"HTTP/1.1 101 Upgrade", b"HTTP/1.1 200 OK\nX: y", b"HTTP/1.1 103 Early\r\nX: a\nY: b"),
)
BAD_FIELDS = (
    *(b"nonsense", b": value", b"X Y: 1", b"Content-Length : 2", b" X: 1"),
    *(b"X: a\0b", b"X: a\x1b[2Jb", b"X: a\x7fb", b"X: a\nY: b", b"X: a\rY: b", b"X: y\n"),
    *(b"Content-Length: " + value for value in (b"-5", b"+5", b"five", b"", b"5,", b"9" * 5000)),
    *(b"Content-Length: 5\r\nContent-Length: 6" + more for more in (b"", b"\r\n" + TE)),
    *(b"Content-Length: 5, 6", TE + b"\r\n" + TE),
    *(b"Transfer-Encoding: " + value for value in (b"gzip", b"gzip, chunked", b"")),
)
BAD_CHUNKS = (
    *(b"xyz\r\n", b"0x5\r\nhello\r\n", b"-5\r\nhello\r\n", b" 5\r\nhello\r\n", b"\r\nhello\r\n"),
    *(b"1" * 17 + b"\r\n", b"3\r\nhello\r\n", b"3;a\rb\r\nabc\r\n", b"1;\r\n!\r\n"),
    # bare line feeds: behind a size, an extension, a chunk, the last one
    *(b"5\nhello\r\n", b"5;a\nhello\r\n", b"5\r\nhello\n0\r\n\r\n", b"5\r\nhell\r\n0\r\n\r\n"),
    *(b"0\n\r\n", b"0;a\n\r\n", b"0;a\rb\r\n\r\n"),
)
BAD = {
    **{f"status line {line!r}": head(status=line) for line in BAD_STATUS_LINES},
    **{f"field {field[:40]!r}": head(field) for field in BAD_FIELDS},
    **{f"chunks {chunks!r}": CHUNKED + chunks for chunks in BAD_CHUNKS},
    "bare line feeds": b"HTTP/1.1 200 OK\nContent-Length: 2\n\nok",
    "a bare line feed before the body": b"HTTP/1.1 200 OK\r\nX: y\n\r\n",
    "a chunk size line without end": CHUNKED + b"1;" + b"x" * LONGEST_HEAD,
    "a chunk extension too long": CHUNKED + b"1;" + b"x" * (LONGEST_HEAD + 99) + b"\r\n!\r\n",
    "a trailer too long": CHUNKED + b"0\r\nX: " + b"x" * LONGEST_HEAD + b"\r\n\r\n",
    "too many trailers": CHUNKED + b"0\r\n" + b"X: yyyyyyyy\r\n" * (LONGEST_HEAD // 10) + b"\r\n",
    "extensions without end": CHUNKED + b"1;xxxxxxx=" + b"x" * 990 + b"\r\n!\r\n" * 300,
    "a head too large": head(b"X: " + b"y" * LONGEST_HEAD),
    "a head without end": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * (LONGEST_HEAD // 5),
    "a trickle of interim responses": CONTINUE * 40,
}


@pytest.mark.parametrize("name", GOOD)
def test_a_good_response_is_read_whole_and_byte_by_byte_and_cut_it_is_none(name):
    """The body comes out without framing, and the reader knows that it is done.

    No cut answer passes for a whole one, and what follows is neither body nor kept.
    """
    response, expected = GOOD[name]
    method = b"HEAD" if name.startswith("HEAD") else b"POST"
    for pieces in ([response], one_by_one(response), [response + CHUNKED, b"x" * 1000]):
        found, body, done, error = read(pieces, method, close=False)
        assert (body, done, error) == (expected, True, None)
        assert found.status in (200, 204, 304, 599)
    for length in range(len(response)):
        *_, done, error = read([response[:length]], method)
        assert not done, length
        assert "closed the connection" in error


@pytest.mark.parametrize("name", BAD)
def test_a_bad_response_is_refused_whole_and_byte_by_byte(name):
    """The error is the same one, and names none of the response's text."""
    *_, whole = read([BAD[name]], close=False)
    assert whole is not None
    assert whole.startswith("the upstream")
    assert "nonsense" not in whole
    size = 1 if len(BAD[name]) < 10_000 else 1000
    assert read(in_pieces(BAD[name], size), close=False)[3] == whole


TRAILERS = (
    *(b"Content-Length: " + value for value in (b"5", b"6", b"five", b"5\r\nContent-Length: 6")),
    *(
        b"Transfer-Encoding: gzip",
        b"Transfer-Encoding: \r\ngzip",
        b"Connection: upgrade\r\nUpgrade: x",
        b"X: 1\r\nContent-Length: 0",
    ),
    *(b"nonsense", b": value", b" X: 1", b"X Y: 1", b"X: a\0b", b"X: a\rY: b"),
    b"X:\r Y: b",
    *(b"X: y\n", b"\n", b"X: y\r\nnonsense"),
)


@pytest.mark.parametrize("trailers", TRAILERS)
@pytest.mark.parametrize("body", [b"hello", b""])
def test_what_a_trailer_says_changes_nothing(trailers, body):
    """Nor is it refused: the body has ended before (RFC 9112, section 7.1.2)."""
    chunk = b"5\r\nhello\r\n" if body else b""
    response = CHUNKED + chunk + b"0;last\r\n" + trailers + b"\r\n\r\n"
    for pieces in ([response], one_by_one(response), [response + CHUNKED, b"x" * 1000]):
        found, *rest = read(pieces)
        assert (found.length, *rest) == (None, body, True, None)
    for length in range(len(CHUNKED + chunk) + len(b"0;last\r\n") + 1):
        assert "closed the connection" in read([response[:length]])[3]


def test_without_length_the_body_ends_with_the_connection():
    """Then, and only then, the connection's end is the body's."""
    response = head(b"Content-Type: text/plain")
    for tail in (b"", b"some", b"some more\r\n0\r\n\r\n"):
        for pieces in ([response + tail], one_by_one(response + tail)):
            found, body, done, error = read(pieces)
            assert (body, done, error) == (tail, True, None)
            assert found.length is None
    for length in range(len(response)):
        assert read([response[:length]])[3] is not None


@pytest.mark.parametrize("size", [LONGEST_HEAD - 1, LONGEST_HEAD, LONGEST_HEAD + 1])
def test_the_limit_of_a_head_is_exact(size):
    """Where it lies does not depend on how the bytes are cut."""
    start = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: "
    response = start + b"y" * (size - len(start)) + b"\r\n\r\n"
    for pieces in ([response], [response[:size], *one_by_one(response[size:])]):
        *_, done, error = read(pieces)
        assert done == (error is None) == (size <= LONGEST_HEAD)


chunked = st.builds(
    lambda *framed: CHUNKED + requestbytes.chunked(*framed),
    requestbytes.bodies,
    st.integers(1, 20),
    st.sampled_from([b"", b";x", b" ;a=b"]),
    st.sampled_from([b"", b"X: 1\r\n", b"X: 1\r\nY: 2\r\n"]),
)
broken = st.builds(
    lambda data, at, new: data[:at] + new + data[at + 1 :],
    st.sampled_from([response for response, *_ in GOOD.values() if len(response) < 200]),
    st.integers(0, 100),
    st.sampled_from([b"", b"\r", b"\n", b"\0", b" ", b"5", b":", b"x"]),
)
response = st.one_of(
    chunked,
    broken,
    st.builds(bytes.__add__, st.sampled_from([b"", b"HTTP/1.1 200 OK\r\n", CHUNKED]), st.binary()),
    st.sampled_from([*(response for response, *_ in GOOD.values()), CHUNKED, head()]),
)


def seen(head):
    return head and (head.status, head.reason, head.headers, head.length)


@given(response, cuts, st.sampled_from([b"POST", b"HEAD"]), st.booleans())
def test_the_result_does_not_depend_on_how_the_bytes_are_cut(data, places, method, close):
    """Whole, byte by byte or at random."""
    found, body, done, error = read([data], method, close=close)
    for pieces in (cut(data, places), one_by_one(data)):
        cut_found, cut_body, cut_done, cut_error = read(pieces, method, close=close)
        assert (seen(cut_found), cut_done, cut_error) == (seen(found), done, error)
        # What came before bad bytes may have been passed on.
        assert cut_body == body or (error is not None and cut_body.startswith(body))


def tiny_chunks(count):
    return CHUNKED + b"1\r\nx\r\n" * count + b"0\r\n\r\n"


ALMOST = LONGEST_HEAD - 1000


def blanks(blank, end=b"b"):
    return lambda: [head(b"X: a" + blank * (ALMOST // len(blank)) + end, b"Content-Length: 0")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "pieces",
    [
        lambda: one_by_one(head(b"X: " + b"y" * ALMOST, b"Content-Length: 0")),
        lambda: [tiny_chunks(100_000)],
        lambda: in_pieces(tiny_chunks(30_000), 3),
        *(blanks(blank, end) for blank in (b" ", b"\t ", b"\r\n ") for end in (b"b", b"\0b")),
    ],
)
def test_tiny_pieces_tiny_chunks_and_long_runs_of_spaces_come_to_an_end(pieces):
    """A head byte by byte, many chunks at once: were it quadratic, it would take many minutes."""
    read(pieces())


def test_the_body_is_not_kept():
    """Ten megabytes pass through with less than one in memory."""
    piece = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    for start in (CHUNKED, head(b"Content-Length: 99999999999"), head()):
        reader = ResponseReader(b"POST")
        reader.feed(start)
        tracemalloc.start()
        for _ in range(160):
            assert len(reader.feed(piece)) >= 0x10000
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1 << 20


def test_all_that_is_said():
    transcript.holds("response_reader.txt", globals())
