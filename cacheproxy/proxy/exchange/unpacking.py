"""Request bodies made plain before anything reads them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.http1.content_coding import CodingError, are_known, codings_of, unpack
from cacheproxy.core.prompt.request import Request

_T = TypeVar("_T")
_log = Logger()
_BOM = b"\xef\xbb\xbf"


class Unpacking:
    """Undoes the content codings of requests. ``limit``: bytes that a body may come to.

    ``edits``: whether any upstream is edited. If none is, what cannot be undone is its business.
    """

    def __init__(self, reactor: Any, limit: int, *, edits: bool) -> None:
        self._reactor = reactor
        self._limit = limit
        self._edits = edits
        self._told = False
        self._turns = DeferredLock()

    async def in_turn(self, work: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
        """Do ``work`` on a packed request behind the others: it may become large.

        Eight of 57 KB came to 60 MB each, and to 1.9 GB while they were all read at once.
        """
        done: _T = await self._turns.run(lambda: Deferred.fromCoroutine(work()))
        return done

    async def plain(self, request: Request) -> Request:
        """Return ``request`` without content codings and byte-order mark (RFC 8259, section 8.1).

        Itself if it has none, or one that is not known. Raises CodingError.
        """
        if not request.body or request.dialect is None:
            return request
        body, headers = request.body, request.headers
        if request.header("content-encoding") is not None:
            codings = codings_of(headers)
            if not are_known(codings):
                return request
            if codings:
                # In a thread, always: nobody knows how large it becomes.
                pool = self._reactor.getThreadPool()
                try:
                    body = await deferToThreadPool(
                        self._reactor, pool, unpack, body, codings, self._limit
                    )
                except CodingError:
                    if self._edits:
                        raise
                    return request
                self._tell()
            headers = tuple([pair for pair in headers if pair[0].lower() != b"content-encoding"])
        elif not body.startswith(_BOM):
            return request
        return replace(request, headers=headers, body=body.removeprefix(_BOM))

    def _tell(self) -> None:
        if not self._edits and not self._told:
            self._told = True
            _log.info(
                "a compressed request body (Content-Encoding) was forwarded unchanged, because "
                "the upstream is not local (logged once)"
            )
