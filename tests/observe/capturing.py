"""Exchanges to capture, and the observer that does, for tests."""

import json
import stat
import time

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.request import Request
from cacheproxy.observe.capture import Capture, CaptureFolder
from cacheproxy.record.exchange import Exchange, Outcome

NOON = time.mktime((2026, 11, 21, 12, 0, 0, 0, 0, -1))
DAY = 86_400


class Reactor:
    """The one method of a reactor that is needed; its thread is whichever calls."""

    def callFromThread(self, function, *arguments, **named):  # noqa: N802 - Twisted's
        function(*arguments, **named)


def exchange(**changes):
    """A turn that went well, but for ``changes``."""
    received = Request(
        "POST",
        "/v1/messages?beta=true",
        ((b"User-Agent", b"claude-cli/2.1"), (b"Content-Type", b"application/json")),
        b'{"model": "m", "messages": []}',
        speaker="claude",
    )
    fields = {
        "received": received,
        "sent": received,
        "reports": (),
        "session": Session("claude", "3f9a-1111"),
        "turn": 1,
        "upstream": "http://localhost:8080",
        "status": 200,
        "outcome": Outcome.COMPLETE,
        "usage": Usage(18_211, 17_928, 412, 0.5, 12.5),
        "wall": NOON,
        "first_byte": 0.94,
        "seconds": 13.4,
        "bytes_down": 4,
        "response_headers": ((b"Content-Type", b"application/json"),),
        "response_body": b"{}",
    }
    return Exchange(**fields | changes)


def large(size, **changes):
    body = json.dumps({"x": "y" * size}).encode()
    return exchange(received=Request("POST", "/v1/messages", (), body), sent=None, **changes)


def capture(folder, *exchanges, caps=(), **waiting):
    """Capture the exchanges into ``folder``, and close."""
    observer = Capture(Reactor(), CaptureFolder(folder, **dict(caps)), **waiting)
    for one in exchanges:
        observer.cacheproxy_exchange_finished([one])
    observer.close(30)
    return observer


def names(folder):
    return sorted(file.name for file in folder.iterdir())


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)
