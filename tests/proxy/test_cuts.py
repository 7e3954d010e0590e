"""The upstream's answer ends after each of its bytes in turn: no part passes for the whole."""

from __future__ import annotations

import contextlib
import json

import pytest

from .harness import Client, Says, head

LENGTH = head(b"Content-Type: text/plain", b"Content-Length: 26") + bytes(range(97, 123))
CHUNKS = (
    head(b"Content-Type: text/plain", b"Transfer-Encoding: chunked")
    + b"a;x=y\r\nabcdefghij\r\n"
    + b"010\r\nklmnopqrstuvwxyz\r\n"
    + b"0\r\nX-Sum: 1\r\n\r\n"
)
AT_A_TIME = 40


def sent_of(response, size):
    """The body bytes among the first ``size`` of ``response``, by its framing."""
    start = response.index(b"\r\n\r\n") + 4
    if response is LENGTH:
        return response[start:size]
    body, place = b"", start
    for line, piece in ((b"a;x=y\r\n", b"abcdefghij"), (b"010\r\n", b"klmnopqrstuvwxyz")):
        place += len(line)
        body += piece[: max(0, size - place)]
        place += len(piece) + 2
    return body


def answers(proxy, count, **keywords):
    """Ask for each cut; yield its size with the answer."""
    for start in range(0, count, AT_A_TIME):
        with contextlib.ExitStack() as stack:
            sizes = range(start, min(start + AT_A_TIME, count))
            clients = [stack.enter_context(Client(proxy.address)) for _ in sizes]
            for size, client in zip(sizes, clients, strict=True):
                client.ask(f"/v1/messages?{size}", b"{}", **keywords)
            for size, client in zip(sizes, clients, strict=True):
                yield size, client.answer()


@pytest.mark.parametrize("version", [b"HTTP/1.1", b"HTTP/1.0"])
@pytest.mark.parametrize("how", ["fin", "rst"])
@pytest.mark.parametrize("response", [LENGTH, CHUNKS], ids=["length", "chunks"])
def test_every_cut_shows(proxy, upstream, response, how, version):
    """502 within the head, a broken answer within the body; and each was asked for once."""

    def script(peer, received):
        size = int(received.line.split()[1].partition(b"?")[2])
        Says(response[:size], then=how)(peer, received)

    upstream.reset(script)
    first = response.index(b"\r\n\r\n") + 4
    for size, answer in answers(proxy, len(response), version=version):
        if size < first:
            assert (answer.status, answer.end) == (502, "whole"), size
            assert json.loads(answer.body)["type"] == "error"
            continue
        framed = version == b"HTTP/1.1" or response is LENGTH
        assert answer.status in (200, 0), size
        assert answer.end in (("fin", "rst") if framed else ("rst",)), size
        assert answer.framed or not framed, size
        if how == "fin" and framed:
            assert answer.body == sent_of(response, size), size
    assert upstream.requests.qsize() == len(response)
    (whole,) = [answer for _, answer in answers(proxy, len(response) + 1) if answer.end == "whole"][
        first:
    ]
    assert whole.body == bytes(range(97, 123))
