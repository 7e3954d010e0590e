"""A client leaves while its answer is collected to be translated: a retry gets it all the same."""

import json

import pytest

from tests.proxy.exchange.test_holding import TYPE, WHOLE, Prefill, answered, left
from tests.proxy.harness import whole
from tests.proxy.translation.test_translating import MESSAGES

MADE = whole(json.dumps(WHOLE).encode(), TYPE)
TEXT = [{"type": "text", "text": "Hello"}]


def wish(*, stream):
    messages = [{"role": "user", "content": "Hi"}]
    return json.dumps({"model": "m", "max_tokens": 9, "messages": messages, "stream": stream})


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_its_retry_gets_the_answer_translated_from_its_beginning(start, stream):
    server = Prefill(first=MADE[:-90], then=MADE[-90:])
    proxy = start(server, "--dialect", "openai")
    left(proxy, server, wish(stream=False).encode(), path=MESSAGES)
    got = answered(proxy, server, wish(stream=stream).encode(), path=MESSAGES)
    assert (got.status, got.end, server.prompts) == (200, "whole", 1)
    if stream:
        assert b'"text": "Hello"' in got.body.replace(b'":"', b'": "')
        assert b"message_stop" in got.body
    else:
        made = json.loads(got.body)
        assert (made["type"], made["content"]) == ("message", TEXT)
