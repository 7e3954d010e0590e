"""The learning of one upstream's profile: once, and again for another server or model.

Status pages report its software and its memory. The rendering page (llama-server, vLLM) shows its
chat template's behaviour. Neither evaluates a prompt. For other servers two short prompts show
where late system messages go; they are sent when the first such message arrives. Answers to
clients show the rest.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.logger import Logger

from cacheproxy.core.adapt.late import place, refuses_late
from cacheproxy.core.adapt.refusal import STATUSES
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.dialects import RENDERED
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.kinds.belief import PLACEMENT, TEMPLATE, Beliefs, Key
from cacheproxy.core.kinds.known import all_kinds, kind_of, page_at
from cacheproxy.core.kinds.looking import KnownPages, profile_from_look
from cacheproxy.core.kinds.placement import Late, Placement, alike, guessed
from cacheproxy.core.kinds.profile import UNKNOWN, Profile, ServerFacts
from cacheproxy.core.kinds.status import Look, UpstreamState
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.template.short_prompts import FEW, MANY, late_of, short_prompt
from cacheproxy.proxy.probing.asker import (
    ASK_AGAIN,
    ASK_SOON,
    LOOK_SECONDS,
    PROMPT_SECONDS,
    WAITED_SECONDS,
    Asker,
)
from cacheproxy.translate.translation import ListOfModels, MessagesToChat

_log = Logger()
_MOST = 64
"""Number of models at most that are remembered: a client may name any number."""


class NotNowError(Exception):
    """The upstream is down, loading or busy: a probe may succeed soon."""


class Profiling:
    """The learning of one upstream's profile.

    ``asks``: whether a server of unknown kind may be probed for a rendering page, and by short
    prompts. ``spoken`` returns the API in which a request is sent there; ``translate`` its
    translation, None for none. ``beliefs``: those about the upstream. ``last_look``: the last look
    at its status pages, None before the first. ``progress``: see ``ServerKind``.
    """

    def __init__(
        self,
        asker: Asker,
        *,
        spoken: Callable[[Request], Dialect | None],
        translate: Callable[[Request], Awaitable[MessagesToChat | ListOfModels | None]],
        asks: bool,
        beliefs: Beliefs | None = None,
    ) -> None:
        self.beliefs = beliefs or Beliefs()
        self.last_look: Look | None = None
        self.progress = kind_of(self.beliefs.profile).serving.progress
        self._asker = asker
        self._spoken = spoken
        self._translate = translate
        self._asks = asks
        self._not_before: dict[Key, float] = {}
        self._asking = DeferredLock()
        self._has_asked = False

    # Results.

    @property
    def profile(self) -> Profile:
        """The upstream's profile, see ``Beliefs``."""
        return self.beliefs.profile

    @property
    def placement(self) -> Placement | None:
        """The placement of late system messages that was learned last; None if none was."""
        found: Placement | None = self.beliefs.latest(PLACEMENT)
        return found

    async def server(self) -> ServerFacts | None:
        """Return the server's present facts, for a page; None while it is down."""
        return (await self._asker.look(WAITED_SECONDS, KnownPages())).server

    def key(self, request: Request) -> Key:
        """Return the key of facts learned by ``request``: its API at the upstream, its model."""
        return self._spoken(request), model_of(request)

    def known(self, request: Request, *, fresh: bool = True) -> Placement | None:
        """Return the placement for ``request``; ``fresh``: only one of the present server."""
        dialect, model = self.key(request)
        for each in ((dialect, model), (None, model), (dialect, ""), (None, "")):
            found: Placement | None = self.beliefs.find(PLACEMENT, each, gone=not fresh)
            if found is not None:
                return found
        return None

    def is_rendered(self, request: Request) -> bool:
        """Whether the template's profile applies to the API in which ``request`` is sent."""
        profile = self.profile
        page = page_at(profile.page) if profile.page else None
        if page is None or not page.is_alone:
            return True
        dialect = self._spoken(request)
        return dialect is not None and dialect.is_rendered

    def keep(self, key: Key, placement: Placement) -> None:
        """Remember ``placement`` for ``key``."""
        self.beliefs.saw(PLACEMENT, placement, key)

    def forget(self) -> None:
        """Forget all that was learned, so that it is learned again: the server may be another."""
        self.beliefs.forget()
        self._ask_again()

    def _ask_again(self) -> None:
        self._not_before.clear()
        self._has_asked, self.progress = False, ()

    # Learning.

    async def learn(self) -> None:
        """Learn the profile of a server that is up, before any request comes. It never raises."""
        await self._locked(None, quietly=True)

    async def learn_for(self, request: Request, *, quietly: bool) -> None:
        """Learn the placement for ``request``, which waits; ``quietly``: send no short prompts."""
        if self._is_untold(request):
            await self._locked(request, quietly=quietly)

    def looked(self, look: Look) -> None:
        """Take note of ``look``; if it shows another server or model, learn again."""
        self._take(look)
        if self.beliefs.who is not None and not self._has_asked:
            done = Deferred.fromCoroutine(self.learn())
            done.addErrback(lambda failure: _log.failure("the upstream was not asked", failure))

    def _take(self, look: Look) -> None:
        self.last_look = look
        if self.beliefs.looked(look):
            self._ask_again()
        if look.server is not None and look.state is UpstreamState.UP:
            known = self.beliefs.status
            self.beliefs.learn(profile_from_look(look, known), look.formats)
            if known != self.beliefs.status:
                self.progress = kind_of(self.beliefs.profile).serving.progress

    def _is_untold(self, request: Request | None) -> bool:
        """Whether there is something left to learn for ``request``, and a probe may be sent."""
        if request is None:
            return not self._has_asked or self.beliefs.status is None
        not_before = self._not_before.get(self.key(request), 0.0)
        return self.known(request) is None and self._asker.reactor.seconds() >= not_before

    async def _locked(self, request: Request | None, *, quietly: bool) -> None:
        """Learn for one request at a time; a result, or failure, serves those that waited, too.

        After a failure the request goes on as it came.
        """
        async with self._asking:
            if self._is_untold(request):
                learning = self._learn(request, quietly=quietly)
                trouble = "the upstream did not show how it treats prompts"
                await self._asker.attempt(learning, trouble=trouble)

    async def _learn(self, request: Request | None, *, quietly: bool) -> None:
        is_unseen = self.last_look is None or self.beliefs.status is None
        if request is None and is_unseen:  # a request does not wait for these pages
            looking = self._asker.look(LOOK_SECONDS, KnownPages())
            look = await self._asker.attempt(looking, LOOK_SECONDS)
            self.last_look = look
            if look is not None and look.state is not UpstreamState.UP:  # the poller reports that
                return
            if look is not None:
                self._take(look)
            if self._has_asked:
                return
        self._has_asked = True
        await self._have_rendered(request)
        if request is None or self.known(request) is not None:
            return
        key, wait = self.key(request), ASK_AGAIN
        try:
            placement = None if quietly else await self._tried(request)
            if placement is not None:
                self.keep(key, placement)
        except CancelledError:
            wait = 0.0
            raise
        except Exception:
            wait = ASK_SOON
            raise
        finally:
            if len(self._not_before) >= _MOST:
                self._not_before.clear()
            self._not_before[key] = self._asker.reactor.seconds() + wait

    async def _have_rendered(self, request: Request | None) -> None:
        """Probe the rendering pages that the server may have, until one shows its template."""
        kind = kind_of(self.beliefs.status or UNKNOWN)
        for owner in all_kinds():
            page = owner.serving.rendering
            is_others = kind.serving.rendering is not None and owner is not kind
            if page is None or is_others or not (self._asks or owner is kind):
                continue
            model = "" if request is None else model_of(request)
            found = await self._asker.rendered(page, request, model, self.beliefs.formats)
            if found is None:
                continue
            self.beliefs.saw(TEMPLATE, found.profile, (None, found.model))
            placement = found.profile.placement
            if self._asks and placement is not None:
                self.keep((RENDERED if page.is_alone else None, found.model), placement)
            return

    async def _tried(self, request: Request) -> Placement | None:
        """Return the placement by two short prompts in the API of ``request``; None if unclear.

        Raises NotNowError, and the failures of a connection.
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
        translated = await self._translate(request)
        sent = request if translated is None else translated.sent
        return await self._asker.ask(sent, PROMPT_SECONDS)


def model_of(request: Request) -> str:
    """Return the model that ``request`` names, "" for none."""
    model = (request.json or {}).get("model")
    return model if isinstance(model, str) else ""
