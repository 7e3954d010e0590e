"""The upstream's answer ends after each of its bytes in turn: no part passes for the whole."""

import contextlib
import json

import pytest

from .harness import Client, Says, head

LETTERS = bytes(range(97, 123))
LENGTH = head(b"Content-Type: text/plain", b"Content-Length: 26") + LETTERS
CHUNKS = (
    head(b"Content-Type: text/plain", b"Transfer-Encoding: chunked")
    + b"a;x=y\r\nabcdefghij\r\n"
    + b"010\r\nklmnopqrstuvwxyz\r\n"
    + b"0\r\nX-SUM: 1\r\n\r\n"
)
AT_A_TIME = 40


def answers(proxy, count, version):
    """Ask for each cut, and at last for the whole; yield its size with the answer."""
    for start in range(0, count + 1, AT_A_TIME):
        with contextlib.ExitStack() as stack:
            asked = {}
            for size in range(start, min(start + AT_A_TIME, count + 1)):
                asked[size] = stack.enter_context(Client(proxy.address))
                asked[size].ask(f"/v1/messages?{size}", b"{}", version=version)
            for size, client in asked.items():
                yield size, client.answer()


@pytest.mark.parametrize(
    ("response", "how", "version"),
    [
        (LENGTH, "fin", b"HTTP/1.1"),
        (LENGTH, "rst", b"HTTP/1.0"),
        (CHUNKS, "fin", b"HTTP/1.0"),
        (CHUNKS, "fin", b"HTTP/1.1"),
        (CHUNKS, "rst", b"HTTP/1.1"),
    ],
)
def test_every_cut_shows(proxy, upstream, response, how, version):
    """502 within the head, a broken answer within the body; and each was asked for once."""

    def script(peer, received):
        size = int(received.line.split()[1].partition(b"?")[2])
        Says(response[:size], then=how)(peer, received)

    upstream.reset(script)
    places = [response.rindex(letter) for letter in LETTERS]
    is_framed = version == b"HTTP/1.1" or response is LENGTH
    for size, answer in answers(proxy, len(response), version):
        if size < response.index(b"\r\n\r\n") + 4:
            assert (answer.status, answer.end) == (502, "whole"), size
            assert json.loads(answer.body)["type"] == "error"
        elif size == len(response):
            assert answer.end == ("whole" if is_framed else "fin")
            assert answer.body == LETTERS
        else:
            assert answer.status in (200, 0), size
            assert answer.end in (("fin", "rst") if is_framed else ("rst",)), size
            assert answer.framed or not is_framed, size
            if how == "fin" and is_framed:
                assert answer.body == LETTERS[: sum(place < size for place in places)], size
    assert upstream.requests.qsize() == len(response) + 1
