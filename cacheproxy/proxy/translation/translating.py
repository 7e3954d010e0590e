"""Requests for an upstream that speaks another API than the client."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.http1.response_head import ResponseHead
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.servers.asker import PROMPT_SECONDS, Asker
from cacheproxy.proxy.translation.dialects import Dialects
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.translate import counting
from cacheproxy.translate.translation import ListOfModels, MessagesToChat, asks_for_list
from cacheproxy.translate.translation_error import TranslationError

_log = Logger()
_THREAD_ABOVE = 256 << 10
"""Bytes of body beyond which a translation goes to a thread."""
_UNKNOWN = (404, 405, 501)
Translation = MessagesToChat | ListOfModels


class _CannotCountError(Exception):
    """The upstream has no page that counts."""


class Translating:
    """Translates for one upstream, as ``dialects`` says."""

    def __init__(
        self, reactor: Any, dialects: Dialects, asker: Asker, spellings: Spellings
    ) -> None:
        self._reactor = reactor
        self._dialects = dialects
        self._asker = asker
        self._spellings = spellings
        self._has_estimated = False

    async def translate(
        self, request: Request, spellings: Spellings | None = None
    ) -> Translation | None:
        """Return ``request`` translated, None if it can go as it is. Raises TranslationError.

        ``spellings``: how the model spelled the arguments of earlier tool calls.
        """
        if not self._dialects.is_chat_alone:
            return None
        if asks_for_list(request):
            return ListOfModels(request)
        if self._dialects.translates(request):
            return await self._to_chat(request, spellings)
        return None

    async def learns_from(self, response: UpstreamConnection, request: Request) -> bool:
        """Return whether ``response`` says that ``request`` has to be translated, after all.

        Where its path is not known there, the upstream is asked what it serves. The response is
        closed then. Raises NoTranslationError where the upstream serves the other API alone, and
        nothing here translates into that.
        """
        if response.head.status not in _UNKNOWN:
            return False
        learned = True
        try:
            learned = await self._dialects.learn(request)
        finally:
            if learned:  # or the client has left, or nobody can serve it there
                response.abort()
        return learned

    async def count(self, request: Request) -> bytes | None:
        """Return the answer to a ``count_tokens`` that the upstream does not know, else None.

        A llama-server is asked for the prompt it would make, and its tokens; else they are
        estimated. Raises TranslationError naming its place.
        """
        is_count = endpoint_of(request.path).purpose is Purpose.COUNT
        if not is_count or not self._dialects.translates(request):
            return None
        body = counting.template_body(request, self._spellings)
        try:
            prompt = await self._ask(request, counting.APPLY_TEMPLATE, body)
            tokens = await self._ask(request, counting.TOKENIZE, counting.tokenize_body(prompt))
            return counting.count(tokens)
        except (_CannotCountError, TranslationError):
            if not self._has_estimated:
                self._has_estimated = True
                _log.info(
                    "the upstream cannot count tokens, so the proxy estimates count_tokens "
                    "(logged once)"
                )
            return counting.estimate(request)

    async def _ask(self, request: Request, path: str, body: bytes) -> bytes:
        status, answer = await self._asker.post(path, body, PROMPT_SECONDS, request)
        if status != 200:
            raise _CannotCountError
        return answer

    def forget(self) -> None:
        """Know nothing of the upstream: it was down."""
        self._dialects.forget()

    def _to_chat(self, request: Request, spellings: Spellings | None) -> Deferred[MessagesToChat]:
        if len(request.body) <= _THREAD_ABOVE:
            return succeed(MessagesToChat(request, spellings))
        pool = self._reactor.getThreadPool()
        return deferToThreadPool(self._reactor, pool, MessagesToChat, request, spellings)


def is_stream(head: ResponseHead) -> bool:
    """Whether a response is a stream of events that can be translated as it comes."""
    return head.status == 200 and head.content_type.startswith(b"text/event-stream")
