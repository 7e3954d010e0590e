"""Questions to an upstream: what it is, and what it does with a prompt."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.document.parsed import parsed
from cacheproxy.core.http1.headers import credentials_in
from cacheproxy.core.placement.placement import Late, Placement, alike, guessed
from cacheproxy.core.placement.placing import place
from cacheproxy.core.placement.role_error import STATUSES, refuses_late
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.servers.kind import RenderingPage
from cacheproxy.core.servers.status import Look
from cacheproxy.core.template.short_prompts import FEW, MANY, late_of, short_prompt
from cacheproxy.core.template.traits import TemplateAnswer, learning
from cacheproxy.proxy.learning.poller import Poller
from cacheproxy.proxy.translation.translating import Translating
from cacheproxy.proxy.upstream.probe import ask
from cacheproxy.proxy.upstream.upstream import Upstream

_LOOK_SECONDS = 4.0
"""For all status pages."""
_RENDER_SECONDS = 2.0
"""For all questions to one page; a server takes milliseconds for them."""
_PROMPT_SECONDS = 30.0
"""For a short prompt, which waits for a slot as the request does that it is asked for."""


class NotNowError(Exception):
    """The upstream is down, loading or busy: it may tell soon."""


class Inquiry:
    """Asks one upstream. ``translating``: how to speak its API.

    ``wall``: returns seconds since the epoch. ``via``: our mark, against loops.
    """

    def __init__(
        self,
        reactor: Any,
        upstream: Upstream,
        translating: Translating,
        wall: Callable[[], float],
        via: bytes,
    ) -> None:
        self._reactor = reactor
        self._upstream = upstream
        self._translating = translating
        self._wall = wall
        self._via = via

    async def look(self) -> Look | None:
        """Return what the status pages tell, None where they do not in time."""
        looking = Deferred.fromCoroutine(self.look_at_all())
        try:
            return await looking.addTimeout(_LOOK_SECONDS, self._reactor)
        except CancelledError:
            raise
        except Exception:  # slow, or an answer that is none
            return None

    async def look_at_all(self, seconds: float = _LOOK_SECONDS) -> Look:
        """Return what the status pages tell that do so within ``seconds`` each."""
        poller = Poller(
            self._upstream, 1.0, lambda _: None, self._reactor, wall=self._wall, seconds=seconds
        )
        return await poller.look()

    async def rendered(
        self, page: RenderingPage, request: Request | None, formats: Sequence[str] = ()
    ) -> TemplateAnswer | None:
        """Return what ``page`` tells, None where there is none.

        ``request``: one whose credentials are used, and whose model is named where one has to be.
        ``formats``: in which the template prints the time, as far as is known.
        """
        found: list[TemplateAnswer] = []
        asking = Deferred.fromCoroutine(self._render(page, request, formats, found))
        try:
            await asking.addTimeout(_RENDER_SECONDS, self._reactor)
        except CancelledError:
            raise
        except Exception:  # down, slow, or an answer that is none: what was told before counts
            return found[-1] if found else None
        return found[-1] if found else None

    async def _render(
        self,
        page: RenderingPage,
        request: Request | None,
        formats: Sequence[str],
        found: list[TemplateAnswer],
    ) -> None:
        """Append what is told to ``found``."""
        headers: Headers = ((b"Content-Type", b"application/json"),)
        if request is not None:
            headers += credentials_in(request.headers)
        named = "" if request is None else model_of(request)
        now = datetime.fromtimestamp(self._wall())  # noqa: DTZ006 (the server's is likely ours)
        questions = learning(found, page, named, now, formats)
        body = next(questions)
        while True:
            asked = Request("POST", page.path, headers, body)
            answer = await ask(self._upstream, asked, self._reactor, _RENDER_SECONDS, via=self._via)
            try:
                body = questions.send(answer)
            except StopIteration:
                return

    async def tried(self, request: Request) -> Placement | None:
        """Send two short prompts in the API of ``request``; None where they do not tell.

        Raises NotNowError, and whatever a connection fails with.
        """
        nonce = os.urandom(6).hex()
        few = short_prompt(request, FEW, nonce)
        status, body = await self._sent(few)
        told_by = "two short prompts"
        if status in STATUSES and refuses_late(body):
            again, _ = place(few, alike(Late.REFUSED, told_by))
            status, body = await self._sent(again)
            if status != 200 and not (status in STATUSES and refuses_late(body)):
                return None
            return guessed(Late.REFUSED, told_by, joins=status != 200)
        if status in (429, 502, 503, 504):
            raise NotNowError
        if status != 200:
            return None
        first = usage_of(parsed(body))
        status, body = await self._sent(short_prompt(request, MANY, nonce))
        late = late_of(first, usage_of(parsed(body))) if status == 200 else Late.UNKNOWN
        return None if late is Late.UNKNOWN else guessed(late, told_by)

    async def _sent(self, request: Request) -> tuple[int, bytes]:
        translated = await self._translating.translate(request)
        sent = request if translated is None else translated.sent
        return await ask(self._upstream, sent, self._reactor, _PROMPT_SECONDS, via=self._via)


def model_of(request: Request) -> str:
    """Return the model that ``request`` names, "" for none."""
    model = (request.json or {}).get("model")
    return model if isinstance(model, str) else ""
