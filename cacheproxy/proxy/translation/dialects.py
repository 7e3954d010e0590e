"""Which API the upstream speaks, if it is not the client's own."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, DeferredLock
from twisted.logger import Logger

from cacheproxy.core.prompt.dialect import ANTHROPIC, CHAT
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.server.dialects import is_prompt, is_served, question
from cacheproxy.proxy.upstream.probe import ask
from cacheproxy.proxy.upstream.upstream import Upstream

_log = Logger()
_SECONDS = 5.0
_OTHER = {ANTHROPIC: CHAT, CHAT: ANTHROPIC}
SETTINGS = {"anthropic": ANTHROPIC, "openai": CHAT}
"""What ``--dialect`` may be, besides ``auto``."""


class Dialects:
    """What is known of one upstream. ``setting``: a key of SETTINGS, or ``auto``.

    With ``auto`` requests go as they are until the upstream says that it does not know their
    path. Then it is asked, with two requests that evaluate nothing, which of the two it serves;
    this is remembered until it was down, since another server may have taken its place.
    ``via``: our mark, against loops.
    """

    def __init__(self, upstream: Upstream, clock: Any, setting: str, via: bytes) -> None:
        self._upstream = upstream
        self._clock = clock
        self._via = via
        self._only = SETTINGS.get(setting)
        self._served: dict[str, bool] = {}
        self._asking = DeferredLock()

    @property
    def only(self) -> str | None:
        """The one dialect that the upstream is known to speak, None if not known or both."""
        if self._only is not None or len(self._served) < 2:
            return self._only
        spoken = [dialect for dialect, served in self._served.items() if served]
        return spoken[0] if len(spoken) == 1 else None

    def other_than(self, request: Request) -> str | None:
        """Return the dialect that ``request`` has to be translated into; None if it can stay."""
        only = self.only
        if only is None or not self._is_translatable(request):
            return None
        return None if only == request.dialect else only

    async def learn(self, request: Request) -> bool:
        """Ask, since ``request`` was not known there; return whether it has to be translated."""
        if self._only is not None or not self._is_translatable(request):
            return False
        assert request.dialect is not None
        await self._asking.acquire()
        try:
            if await self._serves(request, request.dialect) is False:
                await self._serves(request, _OTHER[request.dialect])
        finally:
            self._asking.release()
        return self.other_than(request) is not None

    def forget(self) -> None:
        """Know nothing: the upstream was down, or does not know what it knew."""
        self._served.clear()

    @staticmethod
    def _is_translatable(request: Request) -> bool:
        return request.dialect in _OTHER and request.method == "POST" and is_prompt(request)

    async def _serves(self, request: Request, dialect: str) -> bool | None:
        known = self._served.get(dialect)
        if known is not None:
            return known
        asked = question(request, dialect)
        try:
            status, body = await ask(self._upstream, asked, self._clock, _SECONDS, via=self._via)
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
