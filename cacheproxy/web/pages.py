"""The pages under /_cacheproxy/: who answers what, and 404 for the rest."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET, Request

_log = Logger()
Page = Callable[[], Awaitable[Mapping[str, Any]]]
"""A page returns a JSON object."""


class OwnPages:
    """Answers GET and HEAD for the pages it was given (path to page)."""

    def __init__(self, pages: Mapping[bytes, Page]) -> None:
        self._pages = dict(pages)

    def __call__(self, request: Request) -> bytes | int:
        """Answer ``request``, at once or later."""
        page = self._pages.get(request.path)
        if page is None:
            return _json(request, 404, {"error": "there is no such page; see /_cacheproxy/health"})
        if request.method not in (b"GET", b"HEAD"):
            request.setHeader(b"Allow", b"GET, HEAD")
            return _json(request, 405, {"error": "this page is only read"})
        left: list[Failure] = []

        async def answer() -> None:
            try:
                body = _json(request, 200, await page())
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


def _json(request: Request, status: int, value: Mapping[str, Any]) -> bytes:
    body = json.dumps(value, indent=2).encode() + b"\n"
    request.setResponseCode(status)
    request.setHeader(b"Content-Type", b"application/json")
    request.setHeader(b"Content-Length", b"%d" % len(body))
    request.setHeader(b"Cache-Control", b"no-store")
    return body
