"""The translation of requests for an upstream that speaks only Chat Completions."""

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
"""Bytes of a body beyond which it is translated in a thread."""
_UNKNOWN = (404, 405, 501)
Translation = MessagesToChat | ListOfModels
_OTHER = {MESSAGES: CHAT, CHAT: MESSAGES}
_CHAT_ALONE, _MESSAGES_ALONE = {MESSAGES: False, CHAT: True}, {MESSAGES: True, CHAT: False}
_ALONE = (
    "no Chat Completions at {upstream}, only Anthropic's Messages API, and the proxy translates "
    f"only the other way: use a model server that has {CHAT.path}, or a client that speaks Messages"
)
_CONFIGURED: dict[str, dict[Dialect, bool]] = {
    "auto": {},
    "anthropic": {MESSAGES: True},
    "openai": _CHAT_ALONE,
}
"""Dialects that the upstream serves, or not, by the value of ``--dialect``."""


class _CannotCountError(Exception):
    """The upstream has no page that counts tokens."""


class Translating:
    """The translation for one upstream, if it is needed. ``setting``: the value of ``--dialect``.

    Requests are forwarded in their own API until the upstream answers that it does not know their
    path. Then two probes, which evaluate nothing, find out which of the two APIs it serves, unless
    ``setting`` determines it. The result is remembered until the upstream was down, since another
    server may have taken its place then.
    """

    def __init__(self, asker: Asker, spellings: Spellings, setting: str) -> None:
        self._asker = asker
        self._spellings = spellings
        self._has_estimated = False
        self._configured = _CONFIGURED[setting]
        self._served = dict(self._configured)
        self._asking = DeferredLock()

    @property
    def is_needed(self) -> bool:
        """Whether the upstream is known to serve only Chat Completions."""
        return self._served == _CHAT_ALONE

    def translates(self, request: Request) -> bool:
        """Whether ``request`` has to be translated into Chat Completions."""
        return self.is_needed and request.dialect is MESSAGES and _is_prompt(request)

    def spoken(self, request: Request) -> Dialect | None:
        """Return the API in which ``request`` is sent to the upstream."""
        return CHAT if self.translates(request) else request.dialect

    async def translate(
        self, request: Request, spellings: Spellings | None = None
    ) -> Translation | None:
        """Return ``request`` translated, None if it needs no translation.

        Raises TranslationError.

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
        """Return whether ``response`` shows that ``request`` has to be translated.

        If the upstream does not know the path, probes find out which API it serves. If the result
        is true, ``response`` is closed. Raises NoTranslationError if the upstream serves only an
        API into which the proxy does not translate.
        """
        if response.head.status not in _UNKNOWN:
            return False
        learned = True
        try:
            learned = await self._learn(request)
        finally:
            if learned:  # also if the client has left, or NoTranslationError was raised
                response.abort()
        return learned

    async def count(self, request: Request) -> bytes | None:
        """Return the answer to a ``count_tokens`` that the upstream does not know, else None.

        A llama-server renders the prompt and tokenizes it; for others the count is estimated.
        Raises TranslationError, which names the place in the request.
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
        """Forget all but the setting: the upstream was down, or its API has changed."""
        self._served = dict(self._configured)

    async def _learn(self, request: Request) -> bool:
        """Probe the upstream, which refused the path; return whether to translate ``request``.

        Raises NoTranslationError for a Chat Completions request if only Messages are served.
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
        if answer is None:  # the upstream has gone down
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
    """Whether both APIs have such a request: a prompt to be answered, or to be counted.

    Another proxy's ``question`` is none, so that two proxies never probe each other for ever.
    """
    is_asked = endpoint_of(request.path).purpose in (Purpose.CHAT, Purpose.COUNT)
    return request.method == "POST" and is_asked and "messages" in (request.json or {})
