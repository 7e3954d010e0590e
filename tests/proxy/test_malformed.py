"""Requests that are none, or almost none, on real sockets: what RFC 9110 and 9112 ask for.

Names as in the list of Http11Probe (github.com/MDA2AV/Http11Probe). More framings, cut anywhere, in
downstream/test_channel_split.py.
"""

from __future__ import annotations

import pytest

HOST = b"Host: 127.0.0.1\r\n"
NEXT = b"GET /next HTTP/1.1\r\n" + HOST + b"\r\n"
REFUSED, RELAYED = True, False


def get(*lines, target=b"/x", method=b"GET", version=b"HTTP/1.1", host=HOST):
    start = b"%b %b %b\r\n" % (method, target, version)
    return start + host + b"".join([line + b"\r\n" for line in lines]) + b"\r\n"


def post(*lines, body=b"hello", **more):
    return get(*lines, method=b"POST", **more) + body


def chunked(body, *lines):
    return post(b"Transfer-Encoding: chunked", *lines, body=body)


LONG = b"A" * 100_000
CASES = {
    # RFC 9112, section 2.2: line ends
    "BARE-LF-REQUEST-LINE": (b"GET /x HTTP/1.1\n" + HOST + b"\r\n", {400}, REFUSED),
    "BARE-LF-HEADER": (b"GET /x HTTP/1.1\r\nHost: 127.0.0.1\nX: y\r\n\r\n", {400}, REFUSED),
    "BARE-LF-ALL": (b"GET /x HTTP/1.1\nHost: 127.0.0.1\n\n", {400}, REFUSED),
    "CR-ONLY-LINE-ENDING": (b"GET /x HTTP/1.1\rHost: 127.0.0.1\r\n\r\n", {400}, REFUSED),
    "BARE-CR-HEADER-VALUE": (get(b"X: val\rue"), {400}, REFUSED),
    "LEADING-CRLF": (b"\r\n" + get(), {200}, RELAYED),
    "WHITESPACE-BEFORE-HEADERS": (get(host=b" \r\n" + HOST), {400}, REFUSED),
    "WHITESPACE-ONLY-LINE": (b"   \r\n\r\n", {400}, REFUSED),
    "BINARY-GARBAGE": (bytes(range(128, 256)) * 2, {400}, REFUSED),
    "TLS-HELLO": (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03", {400}, REFUSED),
    # section 2.3 and 3: the request line
    "H2-PREFACE": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}, REFUSED),
    "INVALID-VERSION": (get(version=b"HTTP/9.9"), {400, 505}, REFUSED),
    "VERSION-MISSING-MINOR": (get(version=b"HTTP/1"), {400}, REFUSED),
    "VERSION-LEADING-ZEROS": (get(version=b"HTTP/01.01"), {400}, REFUSED),
    "LONG-METHOD": (get(method=LONG), {400, 501}, REFUSED),
    "LONG-METHOD-33": (get(method=b"A" * 33), {501}, REFUSED),
    "LONG-URL": (get(target=b"/" + LONG), {414}, REFUSED),
    "METHOD-CASE": (get(method=b"get"), {200}, RELAYED),
    "METHOD-CONNECT": (get(method=b"CONNECT", target=b"a:1"), {400, 405, 501}, REFUSED),
    "METHOD-TRACE": (get(method=b"TRACE"), {405, 501}, REFUSED),
    "NUL-IN-URL": (get(target=b"/\0test"), {400}, REFUSED),
    "DEL-IN-URL": (get(target=b"/\x7f"), {400}, REFUSED),
    "NON-ASCII-URL": (get(target="/café".encode()), {400}, REFUSED),
    "FRAGMENT-IN-TARGET": (get(target=b"/x#y"), {200, 400}, RELAYED),
    "URL-PERCENT-CRLF": (get(target=b"/x%0d%0aX:%20y"), {200}, RELAYED),
    "ASTERISK-WITH-GET": (get(target=b"*"), {400}, REFUSED),
    "OPTIONS-STAR": (get(target=b"*", method=b"OPTIONS"), {200}, RELAYED),
    "ABSOLUTE-FORM": (get(target=b"http://127.0.0.1:PORT/x"), {200}, RELAYED),
    "ABSOLUTE-URI-HOST-MISMATCH": (
        get(target=b"http://127.0.0.1:PORT/x", host=b"Host: a.example\r\n"),
        {200},
        RELAYED,
    ),
    "ABSOLUTE-FORM-ELSEWHERE": (get(target=b"http://a.example/"), {421}, REFUSED),
    "ABSOLUTE-FORM-HEALTH-ELSEWHERE": (
        get(target=b"http://127.0.0.1:1/_cacheproxy/health"),
        {421},
        REFUSED,
    ),
    # section 3.2: Host
    "MISSING-HOST": (get(host=b""), {400}, REFUSED),
    "HTTP10-NO-HOST": (get(host=b"", version=b"HTTP/1.0"), {200}, RELAYED),
    "DUPLICATE-HOST": (get(host=HOST + b"Host: other.example\r\n"), {400}, REFUSED),
    "DUPLICATE-HOST-SAME": (get(host=HOST * 2), {400}, REFUSED),
    "HOST-WITH-USERINFO": (get(host=b"Host: user@127.0.0.1\r\n"), {400}, REFUSED),
    "HOST-WITH-PATH": (get(host=b"Host: 127.0.0.1/path\r\n"), {400}, REFUSED),
    "MULTIPLE-HOST-COMMA": (get(host=b"Host: 127.0.0.1, a.example\r\n"), {400}, REFUSED),
    "HOST-EMPTY-VALUE": (get(host=b"Host:\r\n"), {400, 421}, REFUSED),
    # section 5: fields
    "OBS-FOLD": (get(b"X: value\r\n continued"), {400}, REFUSED),
    "SP-BEFORE-COLON": (get(b"X : y"), {400}, REFUSED),
    "TAB-IN-NAME": (get(b"X\tY: z"), {400}, REFUSED),
    "EMPTY-HEADER-NAME": (get(b": y"), {400}, REFUSED),
    "INVALID-HEADER-NAME": (get(b"X[Y: z"), {400}, REFUSED),
    "NON-ASCII-HEADER-NAME": (get("Xë: z".encode()), {400}, REFUSED),
    "HEADER-NO-COLON": (get(b"nonsense"), {400}, REFUSED),
    "NUL-IN-HEADER-VALUE": (get(b"X: a\0b"), {400}, REFUSED),
    "CONTROL-CHARS-HEADER": (get(b"X: a\x07\x08\x0bb"), {400}, REFUSED),
    "LONG-HEADER-NAME": (get(LONG + b": y"), {400, 431}, REFUSED),
    "LONG-HEADER-VALUE": (get(b"X: " + LONG), {400, 431}, REFUSED),
    "MANY-HEADERS": (get(*[b"X: y"] * 10_000), {400, 431}, REFUSED),
    "MANY-SHORT-HEADERS": (get(*[b"X: y"] * 1_001), {431}, REFUSED),
    # section 6: how long the body is
    "CL-OVERFLOW": (post(b"Content-Length: 99999999999999999999"), {400, 413}, REFUSED),
    "CL-TAB-BEFORE-VALUE": (post(b"Content-Length:\t5"), {200}, RELAYED),
    "CL-TRAILING-SPACE": (post(b"Content-Length: 5 "), {200}, RELAYED),
    "CL-LEADING-ZEROS": (post(b"Content-Length: 005"), {200, 400}, RELAYED),
    "CL-NEGATIVE-ZERO": (post(b"Content-Length: -0"), {400}, REFUSED),
    "CL-COMMA-SAME": (post(b"Content-Length: 5, 5"), {400}, REFUSED),
    "CL-COMMA-DIFFERENT": (post(b"Content-Length: 5, 10"), {400}, REFUSED),
    "CL-INTERNAL-SPACE": (post(b"Content-Length: 1 0"), {400}, REFUSED),
    "GET-WITH-CL-BODY": (get(b"Content-Length: 5") + b"hello", {200, 400}, RELAYED),
    "POST-NO-CL-NO-TE": (post(body=b""), {200}, RELAYED),
    "CL-TE-BOTH": (chunked(b"0\r\n\r\n", b"Content-Length: 4"), {400}, REFUSED),
    "TE-HTTP10": (
        get(b"Transfer-Encoding: chunked", version=b"HTTP/1.0") + b"0\r\n\r\n",
        {400},
        REFUSED,
    ),
    "UNKNOWN-TE-501": (post(b"Transfer-Encoding: gzip, chunked"), {501}, REFUSED),
    "TE-NOT-FINAL-CHUNKED": (post(b"Transfer-Encoding: chunked, gzip"), {400}, REFUSED),
    "TE-LEADING-COMMA": (post(b"Transfer-Encoding: , chunked"), {400, 501}, REFUSED),
    "TE-CASE-MISMATCH": (post(b"Transfer-Encoding: CHUNKED", body=b"0\r\n\r\n"), {200}, RELAYED),
    "TE-TAB-BEFORE-VALUE": (
        post(b"Transfer-Encoding:\tchunked", body=b"0\r\n\r\n"),
        {200},
        RELAYED,
    ),
    "UNDERSCORE-TE": (post(b"Transfer_Encoding: chunked", body=b""), {200}, RELAYED),
    # section 7.1: chunks
    "CHUNKED-HEX-UPPERCASE": (chunked(b"A\r\nhellohello\r\n0\r\n\r\n"), {200}, RELAYED),
    "CHUNKED-EXTENSION": (chunked(b'5;a="b"\r\nhello\r\n0\r\n\r\n'), {200}, RELAYED),
    "CHUNKED-TRAILER-VALID": (chunked(b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"), {200}, RELAYED),
    "CHUNK-BARE-SEMICOLON": (chunked(b"5;\r\nhello\r\n0\r\n\r\n"), {400}, REFUSED),
    "CHUNK-EXT-INVALID-TOKEN": (chunked(b"5;a[=b\r\nhello\r\n0\r\n\r\n"), {400}, REFUSED),
    "CHUNK-EXT-CR": (chunked(b"5;a\rb\r\nhello\r\n0\r\n\r\n"), {400}, REFUSED),
    "CHUNK-EXT-64K": (chunked(b"5;a=" + b"b" * 65_536 + b"\r\nhello\r\n0\r\n\r\n"), {400}, REFUSED),
    "CHUNK-SIZE-OVERFLOW": (
        chunked(b"FFFFFFFFFFFFFFFF0\r\nhello\r\n0\r\n\r\n"),
        {400, 413},
        REFUSED,
    ),
    "CHUNK-SIZE-TRAILING-OWS": (chunked(b"5 \r\nhello\r\n0\r\n\r\n"), {400}, REFUSED),
    "CHUNK-SPILL": (chunked(b"5\r\nhello!!\r\n0\r\n\r\n"), {400}, REFUSED),
    "CHUNK-LF-TERM": (chunked(b"5\r\nhello\n0\r\n\r\n"), {400}, REFUSED),
    "CHUNK-LF-TRAILER": (chunked(b"0\r\nX: y\n\r\n"), {400}, REFUSED),
    "CHUNK-LF-ALONE": (chunked(b"5\r\nhello\n"), {400}, REFUSED),
    "TRAILER-TE": (chunked(b"0\r\nTransfer-Encoding: chunked\r\n\r\n"), {200}, RELAYED),
    # RFC 9110, sections 7.8 and 10.1.1: what is asked for besides
    "UPGRADE-H2C": (
        get(b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk"),
        {200},
        RELAYED,
    ),
    "UPGRADE-UNKNOWN": (get(b"Connection: Upgrade", b"Upgrade: x/1"), {200}, RELAYED),
    "UPGRADE-WEBSOCKET": (get(b"Connection: Upgrade", b"Upgrade: websocket"), {426, 501}, REFUSED),
    "UPGRADE-MISSING-CONN": (get(b"Upgrade: websocket"), {200}, RELAYED),
    "EXPECT-UNKNOWN": (post(b"Expect: 200-ok", b"Content-Length: 5"), {200, 417}, RELAYED),
    "EXPECT-100-CL": (post(b"Expect: 100-continue", b"Content-Length: 5"), {200}, RELAYED),
}
STAYS_OPEN = {"METHOD-TRACE", "ASTERISK-WITH-GET", "UPGRADE-WEBSOCKET"}
"""Refused for what they ask, not for how they are framed: there the next request is one."""
HOP_BY_HOP = {b"upgrade", b"http2-settings", b"expect", b"transfer-encoding", b"te"}


@pytest.mark.parametrize("name", CASES)
def test_each_gets_the_answer_that_the_standard_asks_for(connect, proxy, upstream, name):
    """A broken one at once, and as the last on its connection; the server hears nothing of it."""
    data, statuses, is_refused = CASES[name]
    data = data.replace(b"PORT", b"%d" % proxy.address[1])
    is_broken = is_refused and name not in STAYS_OPEN
    for behind in (b"", NEXT) if is_broken else (NEXT,):
        client = connect()
        client.send(data + behind)
        answer = client.answer(method=data.split(b" ")[0])
        assert (answer.status in statuses, answer.end) == (True, "whole"), answer
        if is_broken:
            assert answer.values(b"connection") == [b"close"]
            assert client.wait_closed()
            assert upstream.requests.empty()
    if is_broken:
        return
    if not is_refused:
        received = upstream.received()
        assert not HOP_BY_HOP.intersection(name.lower() for name, _ in received.headers)
        assert received.body in (b"", b"hello", b"hellohello")
        assert received.values(b"content-length") in ([], [b"%d" % len(received.body)])
    if b"HTTP/1.0" in data:
        assert client.wait_closed()
        return
    assert client.answer().status == 200
    assert upstream.received().line == b"GET /next HTTP/1.1"
