"""What the client sends reaches the upstream as it was sent."""

import gzip

import pytest

from .harness import Proxy, eventually, whole

pytestmark = pytest.mark.slow

JSON = b'{"model":"m","messages":[{"role":"user","content":"hi"}]}'


def sent(connect, upstream, *arguments, **keywords):
    """Ask through the proxy; return what the upstream received."""
    answer = connect().ask(*arguments, **keywords).answer(method=keywords.get("method", b"POST"))
    assert answer.status == 200, answer
    return upstream.received()


METHODS = b"GET HEAD OPTIONS DELETE PUT PATCH POST PROPFIND get X!".split()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("body", [None, b"", b'{"a": 1}'])
def test_every_method_is_relayed_with_and_without_a_body(connect, upstream, serve, method, body):
    """The method keeps its case; a Content-Length goes on if the client sent one, else not."""
    serve(lambda peer, _: peer.send(whole(b"" if method == b"HEAD" else b"seen")))
    received = sent(connect, upstream, "/x", body, method=method)
    assert received.line == method + b" /x HTTP/1.1"
    assert received.body == (body or b"")
    assert received.values(b"content-length") == ([] if body is None else [b"%d" % len(body)])


def test_end_to_end_headers_are_kept(connect, upstream):
    """Values byte for byte, in their order within a name, duplicates and Latin-1 included.

    Those of RFC 9110, section 7.6.1, and those that Connection names, are not.
    """
    kept = (
        b"X-Twice: one",
        b"Authorization: Bearer sk-secret",
        b"X-Latin: caf\xe9 \xff\x80",
        b"X-TWICE: two, three",
        b"X-Empty:",
        b'X-Odd: a  b\t"c"; d="\\"" ,',
        b"x-twice: one",
        b"Cookie: a=b; c=d",
        b"Accept: */*",
        b"Range: bytes=0-1",
        b'If-None-Match: "x"',
        b"Referer: http://proxy/",
        b"Accept-Encoding: br;q=1, gzip",
        b"Via: 1.1 other",
    )
    hop_by_hop = (
        b"Connection: keep-alive, X-Private",
        b"connection: x-other",
        b"X-Private: 1",
        b"X-Other: 2",
        b"Keep-Alive: timeout=5",
        b"TE: trailers",
        b"Trailer: X-Sum",
        b"Upgrade: websocket",
        b"Proxy-Authorization: Basic c2VjcmV0",
        b"Proxy-Connection: keep-alive",
        b"Expect: 100-continue",
    )
    received = sent(connect, upstream, "/x", JSON, *kept, *hop_by_hop)
    ours = {
        b"host": [b"127.0.0.1:%d" % upstream.port],
        b"connection": [b"close"],
        b"content-length": [b"%d" % len(JSON)],
    }
    expected = {}
    for line in kept:
        name, _, value = line.partition(b":")
        expected.setdefault(name.lower(), []).append(value.strip())
    found = {name.lower(): received.values(name) for name, _ in received.headers}
    theirs, via = found[b"via"]  # ours comes after an earlier proxy's
    assert via.startswith(b"1.1 cacheproxy-")
    assert found | {b"via": [theirs]} == expected | ours


NESTED = b'{"system":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
BODIES = {
    "odd spacing": b' {\n\t"system" : "s" ,\r\n "messages":[ ] , "n" : 1.0e+02 }\n\n',
    "escapes": rb'{"system":"\u00e9\ud83d\/\u0041\n","system2":"\ud83d\ude00"}',
    "duplicate keys": b'{"system":"a","system":"b","x":1,"x":2}',
    "raw UTF-8": '{"system":"é😀\u2028"}'.encode(),
    "truncated": JSON[:-9],
    "two objects": JSON + JSON,
    "an array": b"[1, 2, 3]",
    "a number": b"17",
    "NaN": b'{"a": NaN, "b": -Infinity, "c": 1e999}',
    "a number of 10,000 digits": b'{"a": ' + b"7" * 10_000 + b"}",
    "not JSON": b"hello, world",
    "UTF-16": JSON.decode().encode("utf-16"),
    "Latin-1": b'{"system":"caf\xe9"}',
    "a lone surrogate in UTF-8": b'{"system":"\xed\xa0\xbd"}',
    "binary": bytes(range(256)) * 40,
    "gzip": gzip.compress(JSON),
    "empty": b"",
    "spaces": b"   \r\n",
    "line ends": b"\r\n0\r\n\r\n",
    "200,000 levels deep": NESTED,
    "200,000 levels deep, cut": NESTED[:250_000],
    "200,000 objects deep": b'{"a":' * 200_000 + b"1" + b"}" * 200_000,
    "a form": b"a=1&b=%zz&c",
    "large and binary": bytes(range(256)) * 4096,
}


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/chat/completions", "/elsewhere"])
def test_a_body_no_rule_names_passes_byte_for_byte(connect, upstream, name, path):
    """Whatever it is, whether a length is announced or not."""
    body = BODIES[name]
    assert sent(connect, upstream, path, body).body == body
    client = connect().ask(path, None, b"Transfer-Encoding: chunked")
    for start in range(0, len(body), max(1, len(body) // 3)):
        client.chunk(body[start : start + max(1, len(body) // 3)])
    client.send(b"0\r\nX-Trailer: 1\r\n\r\n")
    assert client.answer().status == 200
    received = upstream.received()
    assert received.body == body
    assert received.values(b"content-length") in ([b"%d" % len(body)], [] if not body else None)
    assert not received.values(b"x-trailer")


def test_an_upstream_with_a_path_of_its_own(upstream, tmp_path):
    """The base goes before every target, without a slash too many; ``*`` has no path."""
    with Proxy(tmp_path, "--upstream", f"{upstream.url}/gateway/v2/") as proxy:
        upstream.reset()
        for method, target, status, goes_to in (
            (b"POST", b"/v1/messages?x=1", 200, b"/gateway/v2/v1/messages?x=1"),
            (b"POST", b"/", 200, b"/gateway/v2/"),
            (b"OPTIONS", b"*", 200, b"*"),
            (b"GET", b"*", 400, None),  # RFC 9112, section 3.2.4
            (b"POST", b"*", 400, None),
        ):
            assert proxy.ask(target, None, method=method).status == status
            if goes_to is not None:
                assert upstream.received().line == b"%b %b HTTP/1.1" % (method, goes_to)
        assert upstream.requests.empty()
        eventually(lambda: "OPTIONS *  200" in proxy.output)
