"""What workers have read is read again by their keeper, mostly with the turn before at hand."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.prompt.request import Request
from cacheproxy.crew.rereading import Rereading
from tests.observe.exchanges import exchange


def turn(number: int, size: int):
    """The exchange of a conversation's turn, as it came from a worker: read by nobody here."""
    messages = [
        {"role": "user", "content": f"{at} " + "word " * (size // 5)} for at in range(number)
    ]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    request = Request("POST", "/v1/messages", ((b"User-Agent", b"claude-cli/2"),), body)
    return exchange({}).changed(received=request, sent=request)


@pytest.mark.parametrize("size", [1_000, 100_000])
def test_a_turn_is_read_with_the_one_before_at_hand(size):
    """Also where the first was too much to be read here: it is read where it is judged."""
    rereading = Rereading()
    first = turn(2, size)
    rereading.prepare(first)
    assert first.received.is_read is (size == 1_000)
    assert first.received.json is not None
    second = turn(3, size)
    rereading.prepare(second)
    assert second.received.is_read
    assert second.received.document.scanned < 2 * size


def test_what_is_never_read_is_let_go_of():
    rereading = Rereading()
    exchanges = [turn(2, 100_000 + number) for number in range(20)]
    for each in exchanges:
        rereading.prepare(each)
    assert len(rereading._unread) == 8
    assert not any(each.received.is_read for each in exchanges)
