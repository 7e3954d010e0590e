"""Requests for an upstream that speaks another API than the client: Chat Completions alone."""

from __future__ import annotations

from twisted.internet.defer import DeferredLock
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.dialect import Dialect, Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.http1.response_reader import ResponseHead
from cacheproxy.core.kinds.looking import is_served, question
from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.probing.asker import PAGE_SECONDS, PROMPT_SECONDS, Asker
from cacheproxy.proxy.upstream.connection import UpstreamConnection
from cacheproxy.translate import counting
from cacheproxy.translate.reading import NoTranslationError, TranslationError
from cacheproxy.translate.translation import ListOfModels, MessagesToChat, asks_for_list

_log = Logger()
_THREAD_ABOVE = 256 << 10
"""Bytes of body beyond which a translation goes to a thread."""
_UNKNOWN = (404, 405, 501)
Translation = MessagesToChat | ListOfModels
_OTHER = {MESSAGES: CHAT, CHAT: MESSAGES}
_CHAT_ALONE, _MESSAGES_ALONE = {MESSAGES: False, CHAT: True}, {MESSAGES: True, CHAT: False}
_ALONE = (
    "no Chat Completions at {upstream}, only Anthropic's Messages API, and the proxy translates "
    f"only the other way: use a model server that has {CHAT.path}, or a client that speaks Messages"
)
_TOLD: dict[str, dict[Dialect, bool]] = {
    "auto": {},
    "anthropic": {MESSAGES: True},
    "openai": _CHAT_ALONE,
}
"""What each value of ``--dialect`` says that the upstream serves."""


class _CannotCountError(Exception):
    """The upstream has no page that counts."""


class Translating:
    """Translates for one upstream, as it needs it. ``setting``: of ``--dialect``.

    Requests go as they are until the upstream says that it does not know their path. Then it is
    asked, with two requests that evaluate nothing, which of the two it serves, as far as
    ``setting`` does not say; this is remembered until it was down, since another server may have
    taken its place.
    """

    def __init__(self, asker: Asker, spellings: Spellings, setting: str) -> None:
        self._asker = asker
        self._spellings = spellings
        self._has_estimated = False
        self._told = _TOLD[setting]
        self._served = dict(self._told)
        self._asking = DeferredLock()

    @property
    def is_needed(self) -> bool:
        """Whether the upstream is known to serve Chat Completions alone."""
        return self._served == _CHAT_ALONE

    def translates(self, request: Request) -> bool:
        """Whether ``request`` has to be said in Chat Completions."""
        return self.is_needed and request.dialect is MESSAGES and _is_prompt(request)

    def spoken(self, request: Request) -> Dialect | None:
        """Return the API in which the upstream is sent ``request``."""
        return CHAT if self.translates(request) else request.dialect

    async def translate(
        self, request: Request, spellings: Spellings | None = None
    ) -> Translation | None:
        """Return ``request`` translated, None if it can go as it is. Raises TranslationError.

        ``spellings``: how the model spelled the arguments of earlier tool calls.
        """
        if not self.is_needed:
            return None
        if asks_for_list(request):
            return ListOfModels(request)
        if self.translates(request):
            if len(request.body) <= _THREAD_ABOVE:
                return MessagesToChat(request, spellings)
            reactor = self._asker.reactor
            pool = reactor.getThreadPool()
            return await deferToThreadPool(reactor, pool, MessagesToChat, request, spellings)
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
            learned = await self._learn(request)
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
        if not is_count or not self.translates(request):
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
        """Know only what was told: the upstream was down, or does not know what it knew."""
        self._served = dict(self._told)

    async def _learn(self, request: Request) -> bool:
        """Ask, since ``request`` was not known there; return whether it has to be translated.

        Raises NoTranslationError for a chat request where Messages alone are served.
        """
        dialect = request.dialect
        if dialect not in _OTHER or not _is_prompt(request):
            return False
        async with self._asking:
            if await self._serves(request, dialect) is False:
                await self._serves(request, _OTHER[dialect])
        if request.dialect is CHAT and self._served == _MESSAGES_ALONE:
            raise NoTranslationError(_ALONE)
        return self.translates(request)

    async def _serves(self, request: Request, dialect: Dialect) -> bool | None:
        known = self._served.get(dialect)
        if known is not None:
            return known
        asked = question(request, dialect)
        answer = await self._asker.attempt(self._asker.ask(asked, PAGE_SECONDS))
        if answer is None:  # down since
            return None
        served = is_served(*answer)
        if served is not None:
            self._served[dialect] = served
            verb = "serves" if served else "does not serve"
            _log.info("the upstream {verb} {dialect}", verb=verb, dialect=dialect.name)
        return served


def is_stream(head: ResponseHead) -> bool:
    """Whether a response is a stream of events that can be translated as it comes."""
    return head.status == 200 and head.content_type.startswith(b"text/event-stream")


def _is_prompt(request: Request) -> bool:
    """Whether it is one that both APIs have: a prompt to be answered, or to be counted.

    Another proxy's ``question`` is none, so that two of them never ask each other.
    """
    is_asked = endpoint_of(request.path).purpose in (Purpose.CHAT, Purpose.COUNT)
    return request.method == "POST" and is_asked and "messages" in (request.json or {})
