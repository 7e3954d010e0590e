"""Which of the two APIs the upstream speaks, Anthropic's Messages and OpenAI's Chat Completions."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, DeferredLock
from twisted.logger import Logger

from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.dialect import Dialect, Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.dialects import is_served, question
from cacheproxy.proxy.servers.asker import PAGE_SECONDS, Asker
from cacheproxy.translate.translation_error import NoTranslationError

_log = Logger()
_OTHER = {MESSAGES: CHAT, CHAT: MESSAGES}
_ALONE = (
    "no Chat Completions at {upstream}, only Anthropic's Messages API, and the proxy translates "
    f"only the other way: use a model server that has {CHAT.path}, or a client that speaks Messages"
)
_TOLD: dict[str, dict[Dialect, bool]] = {
    "auto": {},
    "anthropic": {MESSAGES: True},
    "openai": {MESSAGES: False, CHAT: True},
}
"""What each value of ``--dialect`` says that the upstream serves."""


class Dialects:
    """What is known of one upstream. ``setting``: of ``--dialect``.

    Requests go as they are until the upstream says that it does not know their path. Then it is
    asked, with two requests that evaluate nothing, which of the two it serves, as far as
    ``setting`` does not say; this is remembered until it was down, since another server may have
    taken its place.
    """

    def __init__(self, asker: Asker, setting: str) -> None:
        self._asker = asker
        self._told = _TOLD[setting]
        self._served = dict(self._told)
        self._asking = DeferredLock()

    @property
    def is_chat_alone(self) -> bool:
        """Whether the upstream is known to speak Chat Completions, and no Messages."""
        return self._serves_alone(CHAT)

    def translates(self, request: Request) -> bool:
        """Whether ``request`` has to be said in Chat Completions."""
        return self.is_chat_alone and request.dialect is MESSAGES and _is_prompt(request)

    def spoken(self, request: Request) -> Dialect | None:
        """Return the API in which the upstream is sent ``request``."""
        return CHAT if self.translates(request) else request.dialect

    async def learn(self, request: Request) -> bool:
        """Ask, since ``request`` was not known there; return whether it has to be translated.

        Raises NoTranslationError for a chat request where Messages alone are served.
        """
        dialect = request.dialect
        if dialect not in _OTHER or not _is_prompt(request):
            return False
        await self._asking.acquire()
        try:
            if await self._serves(request, dialect) is False:
                await self._serves(request, _OTHER[dialect])
        finally:
            self._asking.release()
        if request.dialect is CHAT and self._serves_alone(MESSAGES):
            raise NoTranslationError(_ALONE)
        return self.translates(request)

    def forget(self) -> None:
        """Know only what was told: the upstream was down, or does not know what it knew."""
        self._served = dict(self._told)

    def _serves_alone(self, dialect: Dialect) -> bool:
        served = self._served
        return served.get(dialect) is True and served.get(_OTHER[dialect]) is False

    async def _serves(self, request: Request, dialect: Dialect) -> bool | None:
        known = self._served.get(dialect)
        if known is not None:
            return known
        asked = question(request, dialect)
        try:
            status, body = await self._asker.ask(asked, PAGE_SECONDS)
        except CancelledError:  # the client has left
            raise
        except Exception:  # down since
            return None
        served = is_served(status, body)
        if served is not None:
            self._served[dialect] = served
            verb = "serves" if served else "does not serve"
            _log.info("the upstream {verb} {dialect}", verb=verb, dialect=dialect.name)
        return served


def _is_prompt(request: Request) -> bool:
    """Whether it is one that both APIs have: a prompt to be answered, or to be counted.

    Another proxy's ``question`` is none, so that two of them never ask each other.
    """
    is_asked = endpoint_of(request.path).purpose in (Purpose.CHAT, Purpose.COUNT)
    return request.method == "POST" and is_asked and "messages" in (request.json or {})
