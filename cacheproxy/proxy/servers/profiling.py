"""The profile of one upstream: learned once, and again for another server or model.

Status pages say what it is and how its memory works. The rendering page (llama-server, vLLM) shows
what its chat template does. Neither evaluates anything. For other servers two short prompts show
where late system messages go; they are sent when the first such message arrives. Answers show the
rest.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from twisted.internet.defer import CancelledError, Deferred, DeferredLock
from twisted.logger import Logger

from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.dialects import RENDERED
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.placement.placement import Late, Placement, alike, guessed
from cacheproxy.core.placement.placing import place
from cacheproxy.core.placement.refusal import STATUSES, refuses_late
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.inferred import Inferred
from cacheproxy.core.servers.kinds import all_kinds, kind_of
from cacheproxy.core.servers.looking import KnownPages, profile_from_look
from cacheproxy.core.servers.profile import UNKNOWN, Profile, ServerFacts
from cacheproxy.core.servers.status import Identity, Look, UpstreamState, identity_of
from cacheproxy.core.template.short_prompts import FEW, MANY, late_of, short_prompt
from cacheproxy.core.template.traits import TemplateAnswer, with_template
from cacheproxy.proxy.servers.asker import (
    ASK_AGAIN,
    ASK_SOON,
    LOOK_SECONDS,
    PROMPT_SECONDS,
    WAITED_SECONDS,
    Asker,
)
from cacheproxy.translate.translation import ListOfModels, MessagesToChat

_log = Logger()
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_MOST = 64
"""Models that are remembered: a client may name as many as it likes."""
Key = tuple[Dialect | None, str]
"""A dialect and a model, None or "" for any."""


class NotNowError(Exception):
    """The upstream is down, loading or busy: it may tell soon."""


class Profiling:
    """Learns the profile of one upstream.

    ``asks``: whether a server that does not say what it is may be asked to render, or to evaluate
    short prompts. ``spoken`` and ``translate``: in which API the upstream is sent a request, and
    what the request is translated into, None for nothing.

    ``inferred``: what its answers have shown, for whoever judges them. ``last_look``: at its status
    pages, None before the first. ``mends``: of what is known of any model, see ``Placement``.
    ``progress``: see ``ServerKind``.
    """

    def __init__(
        self,
        asker: Asker,
        *,
        spoken: Callable[[Request], Dialect | None],
        translate: Callable[[Request], Awaitable[MessagesToChat | ListOfModels | None]],
        asks: bool,
    ) -> None:
        self.inferred = Inferred()
        self.last_look: Look | None = None
        self.mends = False
        self.progress: tuple[Dialect, ...] = ()
        self._asker = asker
        self._spoken = spoken
        self._translate = translate
        self._asks = asks
        self._status: Profile | None = None
        self._formats: tuple[str, ...] = ()
        self._rendered: OrderedDict[str, TemplateAnswer] = OrderedDict()
        self._learned: OrderedDict[Key, Placement] = OrderedDict()
        self._stale: set[Key] = set()
        self._not_before: OrderedDict[Key, float] = OrderedDict()
        self._asking = DeferredLock()
        self._has_asked = False
        self._server: Identity | None = None
        self._base = UNKNOWN
        self._composed = UNKNOWN, 0, UNKNOWN

    # What is known.

    @property
    def profile(self) -> Profile:
        """All that is known of the upstream; the same object until something else is known.

        It may be read on any thread.
        """
        base, changes = self._base, self.inferred.changes
        before, seen, profile = self._composed
        if before is not base or seen != changes:
            profile = self.inferred.completed(base)
            self._composed = base, changes, profile
        return profile

    @property
    def placement(self) -> Placement | None:
        """Where late system messages stand, as learned last; None for not learned."""
        return next(reversed(self._learned.values()), None)

    async def server(self) -> ServerFacts | None:
        """Return what the server says of itself now, for a page; None while it is down."""
        return (await self._asker.look(WAITED_SECONDS, KnownPages())).server

    def key(self, request: Request) -> Key:
        """Return what short prompts tell of: the API that the upstream is spoken to in, a model."""
        return self._spoken(request), model_of(request)

    def known(self, request: Request, *, fresh: bool = True) -> Placement | None:
        """Return what is known for ``request``; ``fresh``: of the server that is there now."""
        dialect, model = self.key(request)
        for each in ((dialect, model), (None, model), (dialect, ""), (None, "")):
            if each in self._learned and not (fresh and each in self._stale):
                return self._learned[each]
        return None

    def keep(self, key: Key, placement: Placement) -> None:
        """Know this from now on."""
        _remember(self._learned, key, placement)
        self._stale = {each for each in self._stale if each in self._learned} - {key}
        self.mends = any(each.mends for each in self._learned.values())
        self._compose()

    def forget(self) -> None:
        """Ask again, before the next late message: what is known may be of another server.

        Placement counts until something else is known: a prompt that was placed once stays placed.
        """
        self._stale = set(self._learned)
        self._not_before.clear()
        self._has_asked = False
        self._status, self._formats = None, ()
        self._rendered.clear()
        self.inferred.forget()
        self._compose()

    # Learning.

    async def learn(self) -> None:
        """Ask a server that is there, before any request comes. It never fails."""
        await self._locked(None, quietly=True)

    async def learn_for(self, request: Request, *, quietly: bool) -> None:
        """Learn the placement for ``request``, which waits; ``quietly``: without short prompts."""
        if self._is_untold(request):
            await self._locked(request, quietly=quietly)

    def looked(self, look: Look) -> None:
        """Take note of a look at the upstream: what is learned counts for one server and model."""
        self.last_look = look
        if look.state is not UpstreamState.UP:
            has_gone, self._server = self._server is not None, None
            if has_gone:
                self.forget()
            return
        self._server, is_other = identity_of(look, self._server)
        if is_other:
            self.forget()
        self._take(look)
        if self._server is not None and not self._has_asked:
            done = Deferred.fromCoroutine(self.learn())
            done.addErrback(lambda failure: _log.failure("the upstream was not asked", failure))

    def _take(self, look: Look | None) -> None:
        if look is None or look.server is None:
            return
        known = profile_from_look(look, self._status)
        self._formats = look.formats or self._formats
        if known != self._status:
            self._status = known
            self._compose()

    def _compose(self) -> None:
        """Put together what pages and prompts told: of templates, what holds for all models."""
        profile, found = self._status or UNKNOWN, list(self._rendered.values())
        fresh = [each for key, each in self._learned.items() if key not in self._stale]
        if fresh and all(each == fresh[-1] for each in fresh):
            profile = replace(profile, placement=fresh[-1])
        if found:
            profile = with_template(profile, found)
        if profile != self._base:
            self._base = profile
            self.progress = kind_of(profile).progress

    def _is_untold(self, request: Request | None) -> bool:
        """Whether it is not known what is to be learned, and may be asked now."""
        if request is None:
            return not self._has_asked or self._status is None
        not_before = self._not_before.get(self.key(request), 0.0)
        return self.known(request) is None and self._asker.reactor.seconds() >= not_before

    async def _locked(self, request: Request | None, *, quietly: bool) -> None:
        """Learn; one at a time, and not once more what the one before has learned, or has not.

        Where that fails, the request goes on as it came.
        """
        async with self._asking:
            if self._is_untold(request):
                learning = self._learn(request, quietly=quietly)
                trouble = "the upstream did not show how it treats prompts"
                await self._asker.attempt(learning, trouble=trouble)

    async def _learn(self, request: Request | None, *, quietly: bool) -> None:
        if request is None and self._status is None:  # a request does not wait for these pages
            looking = self._asker.look(LOOK_SECONDS, KnownPages())
            look = self.last_look = await self._asker.attempt(looking, LOOK_SECONDS)
            self._take(look)
            if self._has_asked or (look is not None and look.state is not UpstreamState.UP):
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
            _remember(self._not_before, key, self._asker.reactor.seconds() + wait)

    async def _have_rendered(self, request: Request | None) -> None:
        """Ask the pages that the server may have, until one tells."""
        kind = kind_of(self._status or UNKNOWN)
        for owner in all_kinds():
            page = owner.rendering
            is_others = kind.rendering is not None and owner is not kind
            if page is None or is_others or not (self._asks or owner is kind):
                continue
            model = "" if request is None else model_of(request)
            found = await self._asker.rendered(page, request, model, self._formats)
            if found is None:
                continue
            _remember(self._rendered, found.model, found)
            placement = found.profile.placement
            if self._asks and placement is not None:
                self.keep((RENDERED if page.is_alone else None, found.model), placement)
            self._compose()
            return

    async def _tried(self, request: Request) -> Placement | None:
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
        translated = await self._translate(request)
        sent = request if translated is None else translated.sent
        return await self._asker.ask(sent, PROMPT_SECONDS)


def _remember(kept: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keep ``value`` as the latest, and not too many of them."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > _MOST:
        kept.popitem(last=False)


def model_of(request: Request) -> str:
    """Return the model that ``request`` names, "" for none."""
    model = (request.json or {}).get("model")
    return model if isinstance(model, str) else ""
