"""Exchanges and looks for tests, built by function."""

import json

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.kinds.status import Look, MetricsPage, Sample, ServerFigures, UpstreamState
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange, Outcome

URL = "http://localhost:8080"
SYSTEM = "You are an agent. " * 200


def body(*texts, system=SYSTEM, tools=("read", "write", "list"), model="m"):
    """A conversation in which user and assistant said ``texts`` in turn."""
    return {
        "model": model,
        "messages": [
            {"role": ("user", "assistant")[index % 2], "content": text}
            for index, text in enumerate(texts)
        ],
        "system": system,
        "tools": [{"name": name, "input_schema": {"type": "object"}} for name in tools],
    }


def request(said):
    """One that nobody has read: a translation has just been made of it, say."""
    return Request("POST", "/v1/messages", (), json.dumps(said).encode())


def read(exchange):
    """Return ``exchange`` as the proxy hands it on: it has read its requests."""
    assert exchange.received.document is not None
    assert exchange.sent.document is not None
    return exchange


def exchange(sent, received=None, *, session="s", usage=None, **changes):
    """A turn that went well: bodies as dicts, usage as Usage."""
    given = request(sent)
    fields = {
        "received": given if received is None else request(received),
        "sent": given,
        "reports": (),
        "session": Session("agent", session),
        "turn": 1,
        "upstream": URL,
        "status": 200,
        "outcome": Outcome.COMPLETE,
        "usage": usage or Usage(),
        "wall": 1_700_000_000.0,
        "first_byte": 0.5,
        "seconds": 1.0,
        "bytes_down": 100,
    }
    return Exchange(**fields | changes)


def look(*, url=URL, **figures):
    """A look at a server with these counters; without any, at one that has none."""
    if not figures:
        return Look(url, 0.0, 0.0, UpstreamState.UP, MetricsPage.OFF)
    sample = Sample(ServerFigures(**figures), running=1, waiting=0)
    return Look(url, 0.0, 0.0, UpstreamState.UP, MetricsPage.ON, sample, start="1")
