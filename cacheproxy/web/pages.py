"""The pages under /_cacheproxy/: who answers what, and 404 for the rest."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET, Request

_log = Logger()
Page = Callable[[], Awaitable[Mapping[str, Any]]]
"""A page returns a JSON object."""
NamedPage = Callable[[str], Awaitable[Mapping[str, Any] | None]]
_UNKNOWN = {"error": "this proxy remembers no such exchange; see /_cacheproxy/exchanges"}


class OwnPages:
    """Answers GET and HEAD: ``pages`` by their path, ``named`` by what follows their prefix.

    A named page returns None for a name it does not know.
    """

    def __init__(
        self, pages: Mapping[bytes, Page], named: Mapping[bytes, NamedPage] | None = None
    ) -> None:
        self._pages = dict(pages)
        self._named = dict(named or {})

    def __call__(self, request: Request) -> bytes | int:
        """Answer ``request``, which the channel has let in, at once or later."""
        page = self._find(request.path)
        if page is None:
            return _json(request, 404, {"error": "there is no such page; see /_cacheproxy/health"})
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"Allow", b"GET, HEAD")
            return _json(request, 405, {"error": "this page is only read"})
        left: list[Failure] = []

        async def answer() -> None:
            try:
                said = await page()
                body = _json(request, 404, _UNKNOWN) if said is None else _json(request, 200, said)
            except Exception:
                if not left:
                    _log.failure("a page failed")
                body = _json(request, 500, {"error": "an internal error; the log says more"})
            if not left:
                request.write(body)
                request.finish()

        def leave(failure: Failure) -> None:
            left.append(failure)
            done.cancel()

        finished = request.notifyFinish()
        done = Deferred.fromCoroutine(answer())
        finished.addErrback(leave)
        return NOT_DONE_YET

    def _find(self, path: bytes) -> Callable[[], Awaitable[Mapping[str, Any] | None]] | None:
        page = self._pages.get(path)
        if page is not None:
            return page
        for prefix, named in self._named.items():
            if path.startswith(prefix):
                return partial(named, path[len(prefix) :].decode("latin-1"))
        return None


def _json(request: Request, status: int, value: Mapping[str, Any]) -> bytes:
    body = json.dumps(value, indent=2).encode() + b"\n"
    request.setResponseCode(status)
    request.setHeader(b"Content-Type", b"application/json")
    request.setHeader(b"Content-Length", b"%d" % len(body))
    request.setHeader(b"Cache-Control", b"no-store")
    request.setHeader(b"X-Content-Type-Options", b"nosniff")
    request.setHeader(b"Content-Security-Policy", b"default-src 'none'; frame-ancestors 'none'")
    return body
