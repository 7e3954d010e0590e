"""A server that forgets everything, and conversations that lose their cache at it."""

from __future__ import annotations

import itertools
import json

from tests.proxy.harness import Client, whole

TOKENS = 25_000
_numbers = itertools.count(1)


def forgetful(peer, received):
    """Evaluate all of the prompt, whatever came before."""
    usage = {"input_tokens": TOKENS, "cache_read_input_tokens": 0, "output_tokens": 1}
    body = json.dumps({"type": "message", "usage": usage}).encode()
    peer.send(whole(body, b"Content-Type: application/json"))


def ask(proxy, session, *said):
    """Send a turn; return the status."""
    messages = [
        {"role": ("user", "assistant")[index % 2], "content": text}
        for index, text in enumerate(said)
    ]
    fields = (b"User-Agent: coder/1", b"X-Session-Id: %s" % session.encode())
    with Client(proxy.address) as client:
        client.ask("/v1/messages", json.dumps({"messages": messages}).encode(), *fields)
        return client.answer().status


def lose(proxy):
    """Have a new conversation lose its cache; return its name in the log."""
    session = f"{next(_numbers):04}"
    assert ask(proxy, session, "Canary, go.") == 200
    assert ask(proxy, session, "Canary, go.", "Yes.", "Further.") == 200
    return f"coder/{session}"
