"""The webhook: one POST of JSON for each alarm."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import asdict
from typing import Any, NoReturn

from treq.client import HTTPClient
from twisted.internet.defer import CancelledError
from twisted.internet.error import DNSLookupError
from twisted.internet.protocol import Protocol
from twisted.internet.task import deferLater
from twisted.web.client import Agent
from twisted.web.http_headers import Headers

from cacheproxy.alarm.way import NotToldError
from cacheproxy.proxy.upstream import tls
from cacheproxy.record.alarms import Alarm

SIGNATURE = "X-Cacheproxy-Signature"
_DEADLINE = 10.0
"""Seconds for one try, the connection included."""
_PAUSES = (1.0, 5.0)
"""Seconds before the second try, and before the third."""
_LATER = (429, *range(500, 600))
"""Statuses that may be others the next time."""


class Webhook:
    """Sends alarms to ``url``, signed if there is a ``secret``; both may be set at any time.

    Redirects are not followed, and certificates are verified, as by Twisted's Agent.
    """

    def __init__(self, reactor: Any) -> None:
        self.url = ""
        self.secret = ""
        self._reactor = reactor
        self._client = HTTPClient(Agent(reactor, connectTimeout=_DEADLINE))

    async def tell(self, alarm: Alarm) -> None:
        """Send ``alarm``, in three tries at most; raises NotToldError."""
        url, body = self.url, payload(alarm)
        headers = Headers({"Content-Type": ["application/json"], "User-Agent": ["cacheproxy"]})
        if self.secret:
            headers.setRawHeaders(SIGNATURE, [signature(self.secret, body)])
        why = await self._try(url, body, headers)
        for pause in _PAUSES:
            if not why:
                return
            await deferLater(self._reactor, pause)
            why = await self._try(url, body, headers)
        if why:
            raise NotToldError(f"{why}, three times")

    async def _try(self, url: str, body: bytes, headers: Headers) -> str:
        """Return "" if the alarm was taken, or why to try again; raises NotToldError."""
        sent = self._client.post(
            url, data=body, headers=headers, allow_redirects=False, unbuffered=True
        )
        sent.addTimeout(_DEADLINE, self._reactor, _too_late)
        try:
            response = await sent
        except TimeoutError:
            return f"no answer in {_DEADLINE:.0f} s"
        except Exception as error:  # the network has many
            return _said(error)
        response.deliverBody(_Unread())
        if response.code in _LATER:
            return f"it answered {response.code}"
        if response.code >= 300:
            moved = ", and redirects are not followed" if response.code < 400 else ""
            raise NotToldError(f"it answered {response.code}{moved}")
        return ""


def _too_late(*_: object) -> NoReturn:
    raise TimeoutError


class _Unread(Protocol):
    """Takes nothing of a body: it may have no end."""

    def connectionMade(self) -> None:
        """Close the connection."""
        assert self.transport is not None
        self.transport.loseConnection()


def payload(alarm: Alarm) -> bytes:
    """Return what is sent: the members are documented in docs/alarm.md."""
    text = f"{alarm.title}: {alarm.text} {alarm.command}"
    return json.dumps({"event": "break", **asdict(alarm), "text": text}).encode()


def signature(secret: str, body: bytes) -> str:
    """Return the header's value by which a receiver knows that ``body`` comes from here."""
    return "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()


def _said(error: BaseException) -> str:
    """Return what is wrong with the network, without any URL; raises CancelledError."""
    while reasons := getattr(error, "reasons", None):  # Twisted wraps the failures of a request
        error = reasons[0].value
    if isinstance(error, CancelledError):  # nobody waits any more
        raise error
    if isinstance(error, DNSLookupError):
        return "its host is not known"
    return tls.problem(error, "its host") or f"the connection failed ({type(error).__name__})"
