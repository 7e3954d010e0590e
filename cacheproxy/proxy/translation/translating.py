"""Requests for an upstream that speaks another API than the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThreadPool

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.http1.response_head import ResponseHead
from cacheproxy.core.prompt.dialect import ANTHROPIC, CHAT
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.translation.counting import Counting
from cacheproxy.proxy.translation.dialects import Dialects
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.translate import models
from cacheproxy.translate.chat import ChatToMessages
from cacheproxy.translate.common.translation import Translation
from cacheproxy.translate.messages import MessagesToChat

_THREAD_ABOVE = 256 << 10
"""Bytes of body beyond which a translation goes to a thread."""

_UNKNOWN = (404, 405, 501)


@dataclass(frozen=True, slots=True)
class Translated:
    """A request as the upstream wants it, and what turns the answer back."""

    request: Request
    translation: Translation


class Translating:
    """Translates for one upstream, as ``dialects`` says. ``wall``: the time.

    ``spellings``: how the model spelled the arguments of its tool calls; shared by all.
    """

    def __init__(
        self,
        reactor: Any,
        dialects: Dialects,
        counting: Counting,
        wall: Callable[[], float],
    ) -> None:
        self._reactor = reactor
        self._dialects = dialects
        self._counting = counting
        self._wall = wall

    async def translate(
        self, request: Request, spellings: Spellings | None = None
    ) -> Translated | None:
        """Return ``request`` translated, None if it can go as it is. Raises TranslationError.

        ``spellings``: how the model spelled the arguments of earlier tool calls.
        """
        translation = self._translation(request, spellings)
        if translation is None:
            return None
        return Translated(await self._run(translation.request, request), translation)

    async def learns_from(self, response: UpstreamConnection, request: Request) -> bool:
        """Return whether ``response`` says that ``request`` has to be translated, after all.

        Where its path is not known there, the upstream is asked what it serves. The response is
        closed then.
        """
        if response.head.status not in _UNKNOWN:
            return False
        learned = True
        try:
            learned = await self._dialects.learn(request)
        finally:
            if learned:  # or the client has left
                response.abort()
        return learned

    async def count(self, request: Request) -> bytes | None:
        """Return the answer to a ``count_tokens`` that the upstream does not know, else None.

        Raises TranslationError.
        """
        if not is_count(request) or self._dialects.other_than(request) != CHAT:
            return None
        return await self._counting.count(request)

    def forget(self) -> None:
        """Know nothing of the upstream: it was down."""
        self._dialects.forget()

    def _translation(self, request: Request, spellings: Spellings | None) -> Translation | None:
        if request.method == "GET" and request.path.rstrip("/").endswith("/models"):
            return self._models(request)
        other = self._dialects.other_than(request)
        if other == CHAT:
            return MessagesToChat(spellings)
        if other == ANTHROPIC:
            return ChatToMessages(int(self._wall()))
        return None

    def _models(self, request: Request) -> Translation | None:
        client = ANTHROPIC if request.header("anthropic-version") else CHAT
        upstream = self._dialects.only
        if upstream is None or upstream == client:
            return None
        return models.for_messages_client() if client == ANTHROPIC else models.for_chat_client()

    def _run(self, function: Callable[[Request], Request], request: Request) -> Deferred[Request]:
        if len(request.body) <= _THREAD_ABOVE:
            return succeed(function(request))
        pool = self._reactor.getThreadPool()
        return deferToThreadPool(self._reactor, pool, function, request)


def is_count(request: Request) -> bool:
    """Whether ``request`` asks for a number of tokens alone."""
    return request.path.rstrip("/").endswith("/count_tokens")


def is_stream(head: ResponseHead) -> bool:
    """Whether a response is a stream of events that can be translated as it comes."""
    return head.status == 200 and head.content_type.startswith(b"text/event-stream")
