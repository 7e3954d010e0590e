"""What passes through the proxy does not show in what it prints."""

from __future__ import annotations

import json
import time

import pytest

from .harness import CHUNKED, Client, Proxy, Upstream, eventually, whole

pytestmark = pytest.mark.slow

SECRET = "kanarienvogel"


def test_no_secret_is_printed(tmp_path):
    """No header's value, no query, no text of a body, however the exchange ends."""
    upstream = Upstream()
    (tmp_path / "config.toml").write_text(
        "verbose = true\n"
        '[[rule]]\nname = "stamp"\nwhere = "system"\npattern = "stamp-\\\\w+"\nreplacement = ""\n'
        'why = "a stamp"\n'
        '[[rule]]\nname = "pinned"\nwhere = "system"\npattern = "id-\\\\w+"\npin = true\n'
    )
    body = json.dumps(
        {
            "model": f"{SECRET}-model",
            "system": f"stamp-{SECRET} id-{SECRET} {SECRET}",
            "metadata": {"user_id": f"{SECRET}_session_{SECRET}"},
            "messages": [{"role": "user", "content": SECRET}],
        }
    ).encode()
    fields = (
        f"Authorization: Bearer {SECRET}".encode(),
        f"X-Api-Key: {SECRET}".encode(),
        f"Cookie: sid={SECRET}".encode(),
        f"Proxy-Authorization: Basic {SECRET}".encode(),
        f"Referer: http://x/{SECRET}".encode(),
    )

    def fail(peer, _):
        peer.send(CHUNKED)
        peer.chunk(b'data: {"error": "%s"}\n\n' % SECRET.encode())

    def succeed(peer, _):
        peer.send(whole(body, b"Set-Cookie: s=%s" % SECRET.encode(), b"Content-Type: text/json"))

    def bad_head(peer, _):
        peer.send(f"HTTP/1.1 {SECRET}\r\n\r\n".encode())

    def bad_header(peer, _):
        peer.send(f"HTTP/1.1 200 OK\r\n{SECRET}\r\n\r\n".encode())

    def bad_length(peer, _):
        peer.send(f"HTTP/1.1 200 OK\r\nContent-Length: {SECRET}\r\n\r\n".encode())

    def hang(peer, _):
        peer.send(CHUNKED)
        peer.wait_closed()

    with Proxy(tmp_path, "--config", "config.toml", "--upstream", upstream.url) as proxy:
        for script in (succeed, fail, bad_head, bad_header, bad_length):
            upstream.reset(script)
            for path in ("/v1/messages", "/v1/chat/completions", "/other"):
                for each in (body, body[:-5], b"\xff" + body, SECRET.encode()):
                    with Client(proxy.address) as client:
                        client.ask(f"{path}?key={SECRET}", each, *fields).answer()
        upstream.reset(hang)
        with Client(proxy.address) as client:
            client.ask(f"/v1/messages?key={SECRET}", body, *fields).begin()
        for request in (
            f"GET /v1/models?key={SECRET} HTTP/1.1\r\nBad Header: {SECRET}\r\n\r\n",
            f"GET http://u:{SECRET}@x/{SECRET} HTTP/1.1\r\nHost: x\r\n\r\n",
            f"GET /v1/models?key={SECRET} HTTP/9.9\r\n\r\n",
            f"POST /x?key={SECRET} HTTP/1.1\r\nContent-Length: {SECRET}\r\n\r\n",
            f"GET /_cacheproxy/nothing?key={SECRET} HTTP/1.1\r\nX: {SECRET}\r\n\r\n",
            f"GET /{'x' * 40000}?key={SECRET} HTTP/1.1\r\n\r\n",
        ):
            with Client(proxy.address) as client:
                client.send(request.encode())
                answer = client.answer()
                assert SECRET.encode() not in answer.body
        eventually(lambda: "CLIENT LEFT" in proxy.output)
        time.sleep(0.1)
        output = proxy.output
    upstream.close()
    assert output.count("UPSTREAM FAILED") > 20
    assert "stamp: /system: a stamp" in output
    assert "forwarded unchanged" in output
    assert SECRET not in output


def test_control_characters_do_not_reach_the_terminal(connect, proxy, upstream):
    """A path with an escape sequence is refused; spelled with percents, it is shown like that."""
    mark = proxy.mark()
    assert connect().ask(b"/a\x7f\x9b31m\x85b", method=b"GET").answer().status == 400
    assert connect().ask(b"/a%1b%5b31m%85b", method=b"GET").answer().status == 200
    assert "%1b" in proxy.wait_for("GET /a", mark)
    assert all(line.isprintable() for line in proxy.lines[mark:])


def test_error_bodies_do_not_echo_the_request(orphan):
    """The client's own secrets are not sent back, nor shown."""
    with Client(orphan.address) as client:
        fields = (f"Authorization: Bearer {SECRET}".encode(),)
        answer = client.ask(f"/v1/messages?key={SECRET}", SECRET.encode(), *fields).answer()
    assert answer.status == 502
    assert SECRET.encode() not in answer.body
    assert SECRET not in orphan.output


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upload_never_touches_the_disk(tmp_path, framing):
    """Sixty megabytes: no file but those that were open before, not even one without a name."""
    upstream = Upstream()
    piece = b"x" * (1 << 20)
    arguments = ("--upstream", upstream.url, "--capture", "captures")
    with Proxy(tmp_path, *arguments) as proxy, Client(proxy.address) as client:
        upstream.reset()  # the banner's questions
        before = files(proxy)
        long = framing == "length"
        fields = b"Content-Length: 62914560" if long else b"Transfer-Encoding: chunked"
        client.send(b"POST /v1/messages HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n\r\n" % fields)
        for _ in range(60):
            client.send(piece) if long else client.chunk(piece)
            assert files(proxy) <= before
        if not long:
            client.send(b"0\r\n\r\n")
        assert client.answer().status == 200
        assert files(proxy) <= before
        assert len(upstream.received().body) == 60 << 20
    upstream.close()


def files(proxy):
    """What is open besides sockets and the like; "… (deleted)" for a file without a name."""
    return {name for name in proxy.open_files() if name.startswith("/") and "/dev/" not in name}
