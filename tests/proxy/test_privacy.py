"""What passes through the proxy is in no file, and cannot speak to the terminal.

That it does not show in what is printed: tests/test_canaries.py.
"""

import pytest

from .harness import Client, Proxy, sound_upstream

pytestmark = pytest.mark.slow


def test_control_characters_do_not_reach_the_terminal(connect, proxy, upstream):
    """A path with an escape sequence is refused; spelled with percents, it is shown like that."""
    mark = proxy.mark()
    assert connect().ask(b"/a\x7f\x9b31m\x85b", method=b"GET").answer().status == 400
    assert connect().ask(b"/a%1b%5b31m%85b", method=b"GET").answer().status == 200
    assert "%1b" in proxy.wait_for("GET /a", mark)
    assert all(line.isprintable() for line in proxy.lines[mark:])


@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_an_upload_never_touches_the_disk(tmp_path, framing):
    """Forty megabytes: no file but those that were open before, not even one without a name."""
    piece, count = b"x" * (1 << 20), 40

    def files():
        """What is open besides sockets and the like; "… (deleted)" for one without a name."""
        return {name for name in proxy.open_files() if name[0] == "/" and "/dev/" not in name}

    with (
        sound_upstream() as upstream,
        Proxy(tmp_path, "--upstream", upstream.url, "--capture", "captures") as proxy,
        Client(proxy.address) as client,
    ):
        upstream.reset()  # the banner's questions
        before = files()
        if framing == "length":
            client.ask("/v1/messages", None, b"Content-Length: %d" % (count << 20))
        else:
            client.ask("/v1/messages", None, b"Transfer-Encoding: chunked")
        for _ in range(count):
            client.send(piece) if framing == "length" else client.chunk(piece)
            assert files() <= before
        client.send(b"" if framing == "length" else b"0\r\n\r\n")
        assert client.answer().status == 200
        assert files() <= before
        assert len(upstream.received().body) == count << 20
