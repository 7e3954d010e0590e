"""Requests that are odd, but right, on real sockets: what RFC 9110 and 9112 ask for.

Names as in the list of Http11Probe (github.com/MDA2AV/Http11Probe). What is refused for how it is
framed, cut anywhere: downstream/test_channel_split.py.
"""

import pytest

from .downstream.test_channel_split import chunked, get

NEXT = get(target=b"/next")


def post(*lines, body=b"hello"):
    return get(*lines, method=b"POST") + body


RELAYED = {
    "LEADING-CRLF": b"\r\n" + get(),
    "METHOD-CASE": get(method=b"get"),
    "FRAGMENT-IN-TARGET": get(target=b"/x#y"),
    "URL-PERCENT-CRLF": get(target=b"/x%0d%0aX:%20y"),
    "OPTIONS-STAR": get(target=b"*", method=b"OPTIONS"),
    "ABSOLUTE-FORM": get(target=b"http://127.0.0.1:PORT/x"),
    "ABSOLUTE-URI-HOST-MISMATCH": get(
        target=b"http://127.0.0.1:PORT/x", host=b"Host: a.example\r\n"
    ),
    "HTTP10-NO-HOST": get(host=b"", version=b"HTTP/1.0"),
    # how long the body is
    "CL-TAB-BEFORE-VALUE": post(b"Content-Length:\t5"),
    "CL-TRAILING-SPACE": post(b"Content-Length: 5 "),
    "CL-LEADING-ZEROS": post(b"Content-Length: 005"),
    "GET-WITH-CL-BODY": get(b"Content-Length: 5") + b"hello",
    "POST-NO-CL-NO-TE": post(body=b""),
    "TE-CASE-MISMATCH": post(b"Transfer-Encoding: CHUNKED", body=b"0\r\n\r\n"),
    "TE-TAB-BEFORE-VALUE": post(b"Transfer-Encoding:\tchunked", body=b"0\r\n\r\n"),
    "UNDERSCORE-TE": post(b"Transfer_Encoding: chunked", body=b""),
    "CHUNKED-HEX-UPPERCASE": chunked(b"A\r\nhellohello\r\n0\r\n\r\n"),
    "CHUNKED-EXTENSION": chunked(b'5;a="b"\r\nhello\r\n0\r\n\r\n'),
    "CHUNKED-TRAILER-VALID": chunked(b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
    "TRAILER-TE": chunked(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    # what is asked for besides
    "UPGRADE-H2C": get(
        b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk"
    ),
    "UPGRADE-UNKNOWN": get(b"Connection: Upgrade", b"Upgrade: x/1"),
    "UPGRADE-MISSING-CONN": get(b"Upgrade: websocket"),
    "EXPECT-UNKNOWN": post(b"Expect: 200-ok", b"Content-Length: 5"),
    "EXPECT-100-CL": post(b"Expect: 100-continue", b"Content-Length: 5"),
}
HOP_BY_HOP = {b"upgrade", b"http2-settings", b"expect", b"transfer-encoding", b"te"}


@pytest.mark.parametrize("name", RELAYED)
def test_what_is_right_goes_on(connect, proxy, upstream, name):
    """Plainly framed, without what concerns the connection; the next request is one."""
    data = RELAYED[name].replace(b"PORT", b"%d" % proxy.address[1])
    client = connect()
    client.send(data + NEXT)
    answer = client.answer()
    assert (answer.status, answer.end) == (200, "whole"), answer
    received = upstream.received()
    assert not HOP_BY_HOP.intersection(name.lower() for name, _ in received.headers)
    assert received.body in (b"", b"hello", b"hellohello")
    assert received.values(b"content-length") in ([], [b"%d" % len(received.body)])
    if b"HTTP/1.0" in data:
        assert client.wait_closed()
    else:
        assert client.answer().status == 200
        assert upstream.received().line == b"GET /next HTTP/1.1"


@pytest.mark.parametrize(
    ("data", "statuses"),
    [
        (get(method=b"TRACE"), {405, 501}),
        (get(target=b"*"), {400}),
        (get(b"Connection: Upgrade", b"Upgrade: websocket"), {426, 501}),
    ],
    ids=["METHOD-TRACE", "ASTERISK-WITH-GET", "UPGRADE-WEBSOCKET"],
)
def test_what_is_refused_for_what_it_asks_keeps_the_connection(connect, upstream, data, statuses):
    client = connect()
    client.send(data + NEXT)
    answer = client.answer()
    assert (answer.status in statuses, answer.end) == (True, "whole")
    assert client.answer().status == 200
    assert upstream.received().line == b"GET /next HTTP/1.1"
