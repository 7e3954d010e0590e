"""Which of the two APIs the upstream speaks, Anthropic's Messages and OpenAI's Chat Completions."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, DeferredLock
from twisted.logger import Logger

from cacheproxy.core.prompt.dialect import ANTHROPIC, CHAT
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.dialects import is_prompt, is_served, question
from cacheproxy.proxy.servers.asker import PAGE_SECONDS, Asker
from cacheproxy.translate.translation_error import NoTranslationError

_log = Logger()
_OTHER = {ANTHROPIC: CHAT, CHAT: ANTHROPIC}
_TOLD = {
    "auto": {},
    "anthropic": {ANTHROPIC: True},
    "openai": {ANTHROPIC: False, CHAT: True},
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
        self._told: dict[str, bool] = _TOLD[setting]
        self._served = dict(self._told)
        self._asking = DeferredLock()

    @property
    def is_chat_alone(self) -> bool:
        """Whether the upstream is known to speak Chat Completions, and no Messages."""
        return self._serves_alone(CHAT)

    def translates(self, request: Request) -> bool:
        """Whether ``request`` has to be said in Chat Completions."""
        return self.is_chat_alone and request.dialect == ANTHROPIC and _is_prompt(request)

    async def learn(self, request: Request) -> bool:
        """Ask, since ``request`` was not known there; return whether it has to be translated.

        Raises NoTranslationError for a chat request where Messages alone are served.
        """
        if request.dialect not in _OTHER or not _is_prompt(request):
            return False
        await self._asking.acquire()
        try:
            if await self._serves(request, request.dialect) is False:
                await self._serves(request, _OTHER[request.dialect])
        finally:
            self._asking.release()
        if request.dialect == CHAT and self._serves_alone(ANTHROPIC):
            raise NoTranslationError("the server speaks Messages alone")
        return self.translates(request)

    def forget(self) -> None:
        """Know only what was told: the upstream was down, or does not know what it knew."""
        self._served = dict(self._told)

    def _serves_alone(self, dialect: str) -> bool:
        served = self._served
        return served.get(dialect) is True and served.get(_OTHER[dialect]) is False

    async def _serves(self, request: Request, dialect: str) -> bool | None:
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
            _log.info("the upstream {verb} {dialect}", verb=verb, dialect=dialect)
        return served


def _is_prompt(request: Request) -> bool:
    return request.method == "POST" and is_prompt(request)
