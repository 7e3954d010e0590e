"""Requests as bytes, right and wrong, and ways to cut them: for hypothesis."""

from itertools import pairwise

from hypothesis import strategies as st

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
         b"Connection: keep-alive", b"Content-Type: multipart/form-data; boundary=x", b"Y: a\t b"]
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
    b"Y: a\r\n b\r\n", b"Transfer-Encoding:\r\n chunked\r\n", b"Transfer-Encoding: chunked\0\r\n",
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
    inside = sorted(place % (len(data) + 1) for place in places)
    return [data[start:end] for start, end in pairwise([0, *inside, len(data)])]


def one_by_one(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]
