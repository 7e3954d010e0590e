"""Requests that are odd, but right, on real sockets: malformed.txt, as RFC 9110 and 9112 ask for.

Names as in the list of Http11Probe (github.com/MDA2AV/Http11Probe). What is refused for how it is
framed, cut anywhere: downstream/test_channel_split.py.
"""

from tests import transcript

from .downstream.test_channel_split import chunked, get

NEXT = get(target=b"/next")


def post(*lines, body=b"hello"):
    return get(*lines, method=b"POST") + body


HOP_BY_HOP = {b"upgrade", b"http2-settings", b"expect", b"transfer-encoding", b"te"}


def test_what_is_odd_but_right(connect, proxy, upstream):
    """The next request on the connection is one."""

    def answered(data):
        client = connect()
        client.send(data.replace(b"PORT", b"%d" % proxy.address[1]) + NEXT)
        answer = client.answer()
        assert answer.end == "whole"
        return client, answer.status

    def next_is_relayed(client):
        assert client.answer().status == 200
        assert upstream.received().line == b"GET /next HTTP/1.1"

    def relayed(data):
        client, status = answered(data)
        assert status == 200
        received = upstream.received()
        assert not HOP_BY_HOP.intersection(name.lower() for name, _ in received.headers)
        if b"HTTP/1.0" in data:
            assert client.wait_closed()
        else:
            next_is_relayed(client)
        length = b" ".join(received.values(b"content-length"))
        return " ".join(each.decode() for each in (received.line, length, received.body)).rstrip()

    def refused(data):
        client, status = answered(data)
        next_is_relayed(client)
        return status

    transcript.holds("malformed.txt", globals() | locals() | {"chunked": chunked})
