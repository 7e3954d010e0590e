"""One HTTP server to ask: the model server, or the proxy.

The demo's client is for one kind of request and waits an hour; this one asks pages that may be
missing, tells why there was no answer, and gives up early.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

from cacheproxy.core.conversation.session import DOCTOR
from cacheproxy.core.http1.headers import PROBE

HEALTH = "/_cacheproxy/health"
"""The proxy's page that says how it is."""
CONNECT_SECONDS = 3.0
PAGE_SECONDS = 5.0
_MOST_BYTES = 8 << 20
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 (compared, not bound)
USER_AGENT = f"{DOCTOR}/1"
AS_PROBE = {PROBE.decode().title(): "doctor"}
"""What keeps a request of ours out of the proxy's records."""


class NoAnswerError(Exception):
    """There is no answer; the message is the reason in a few words."""


@dataclass(frozen=True, slots=True)
class Answer:
    """``seconds``: from the request to the end of the body. ``software``: its header Server."""

    status: int
    body: bytes
    seconds: float
    software: str = ""

    def json(self) -> Any:
        """Return the body's JSON value, or None."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None

    def said(self) -> str:
        """Return the error text of an answer in any dialect, on one line; empty if none."""
        error = self.json()
        for key in ("error", "message", "detail"):
            error = error.get(key, error) if isinstance(error, dict) else error
        return " ".join(error.split())[:160] if isinstance(error, str) else ""


@dataclass(frozen=True, slots=True)
class Site:
    """The server at ``url``, without a slash at its end. ``headers`` go with every request."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, path: str) -> Answer:
        """GET ``path``. Raises NoAnswerError."""
        return self._exchange("GET", path, None, PAGE_SECONDS)

    def post(self, path: str, body: bytes, seconds: float) -> Answer:
        """POST a JSON ``body``; ``seconds``: how long it may be silent. Raises NoAnswerError."""
        return self._exchange("POST", path, body, seconds)

    def page(self, path: str) -> Any:
        """Return the JSON value of a page, or None if there is none. Raises NoAnswerError."""
        answer = self.get(path)
        return answer.json() if answer.status == 200 else None

    def _exchange(self, method: str, path: str, body: bytes | None, seconds: float) -> Answer:
        parts = urlsplit(self.url)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        headers = {"User-Agent": USER_AGENT, "Connection": "close"} | self.headers
        if body is not None:
            headers["Content-Type"] = "application/json"
        start = time.perf_counter()
        connection = kind(parts.hostname or "", parts.port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            connection.sock.settimeout(seconds)
            connection.request(method, parts.path + path, body, headers)
            response = connection.getresponse()
            data = response.read(_MOST_BYTES)
        except HTTPException:
            raise NoAnswerError("it answers, but not in HTTP") from None
        except (OSError, ValueError) as error:
            raise NoAnswerError(_reason(error)) from None
        finally:
            connection.close()
        software = (response.getheader("Server") or "")[:80]
        return Answer(response.status, data, time.perf_counter() - start, software)


def shown(url: str) -> str:
    """Return ``url`` for people: without user name, password and query."""
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"


def is_loopback(url: str) -> bool:
    """Whether ``url`` leads to this machine by one of the loopback interface's names."""
    host = urlsplit(url).hostname or ""
    return host in _LOOPBACK or host.startswith("127.")


def is_same(one: str, other: str) -> bool:
    """Whether two URLs lead to the same port of the same host; loopback names are alike."""
    try:
        return _place(one) == _place(other)
    except ValueError:
        return False


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    host = "loopback" if is_loopback(url) else (parts.hostname or "")
    return host, parts.port or (443 if parts.scheme == "https" else 80)


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
