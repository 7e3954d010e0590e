"""Earlier reasoning stays in the prompt, where the upstream's template can keep it.

What the template does is learned by ``profiling``; what the model reasoned is remembered by the
store, in the conversation that it belongs to.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.conversation.conversation import Thought, Thoughts
from cacheproxy.core.conversation.kinship import Kinship
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.http1.content_coding import codings_of, decoded
from cacheproxy.core.http1.headers import values
from cacheproxy.core.prompt.request import Headers, Request, messages_of
from cacheproxy.core.servers.kinds import page_at
from cacheproxy.core.servers.profile import Profile
from cacheproxy.core.thinking.answer import read
from cacheproxy.core.thinking.keeping import (
    NO,
    KeepingWay,
    KeptThinking,
    keep,
    may_keep,
    may_remember,
    place_of,
    says,
    way_of,
)
from cacheproxy.proxy.servers.profiling import Profiling

_log = Logger()
_THREAD_ABOVE, _MOST_MESSAGES = 128 << 10, 64
"""Bytes and messages beyond which a request is edited in a thread: to look at one message, and to
put a block into it, takes up to 0.05 ms."""
_READ_ABOVE = 64 << 10
"""Bytes of an answer beyond which it is read in a thread: a streamed one takes 0.03 ms a KiB. A
packed one always is: 34 KB of gzip came to 1.2 MB, and 40 ms."""


class Keeping:
    """Keeps reasoning for the upstream of ``profiling``. ``setting``: of keeping.SETTINGS."""

    def __init__(self, reactor: Any, profiling: Profiling, store: Store, setting: str) -> None:
        self.setting = setting
        self._reactor = reactor
        self._profiling = profiling
        self._store = store
        self._reading: WeakValueDictionary[Session, DeferredLock] = WeakValueDictionary()
        self._told: set[str] = set()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a page."""
        is_on = may_keep(self.setting, self._profiling.profile)
        return {"setting": self.setting, "on": is_on, "says": self.says}

    @property
    def says(self) -> str:
        """What is done with earlier reasoning here, for people; "" for nothing."""
        return says(self.setting, self._profiling.profile)

    async def keep(self, request: Request, turn: Turn | None, *, begins: bool) -> KeptThinking:
        """Return ``request`` with its reasoning kept. It never fails for this.

        ``begins``: whether it is a turn, so that its answer is to be remembered.
        """
        profile = self._profiling.profile
        if turn is None or self.setting == NO or not self._holds_for(request, profile):
            return KeptThinking(request)
        reading = self._reading.get(turn.session)
        if reading is not None:  # the next request comes in an instant
            await reading.run(_nothing)
        known = self._store.conversation(turn.session)
        thoughts = Thoughts() if known is None else known.thoughts
        way = way_of(self.setting, profile, request, thoughts)
        if way is None and not (begins and may_remember(self.setting, profile)):
            return KeptThinking(request)
        if way is not None and begins:
            thoughts.asked_by = next(iter(way), None)
        if _is_short(request, thoughts):
            kept = keep(request, way, thoughts, turn.kin)
        else:
            pool = self._reactor.getThreadPool()
            kept = await deferToThreadPool(
                self._reactor, pool, _kept, request, way, thoughts, turn.kin
            )
        if kept.report is not None and kept.report.error is not None:
            _log.warn("earlier reasoning is not kept: {error}", error=kept.report.error)
        elif kept.report is not None:
            self._say_once(turn.session.client)
        return kept

    def answered(
        self,
        session: Session,
        asked: int,
        dialect: Dialect | None,
        headers: Headers,
        body: bytes,
    ) -> None:
        """Remember the reasoning in the answer ``body``, which is in the client's API."""
        if len(body) <= _READ_ABOVE and not codings_of(headers):
            self._remember(session, asked, _read(dialect, headers, body))
            return

        def read_on() -> Deferred[None]:
            pool = self._reactor.getThreadPool()
            reading = deferToThreadPool(self._reactor, pool, _read, dialect, headers, body)
            return reading.addCallbacks(
                lambda found: self._remember(session, asked, found), _nothing
            )

        self._reading.setdefault(session, DeferredLock()).run(read_on)

    def _remember(self, session: Session, asked: int, found: tuple[int, Thought] | None) -> None:
        if found is not None:
            said, thought = found
            self._store.think(session, place_of(asked, said), thought)

    def _holds_for(self, request: Request, profile: Profile) -> bool:
        """Whether what the profile says holds for the API in which the upstream is spoken to."""
        page, dialect = page_at(profile.page), self._profiling.key(request)[0]
        is_alone = page is not None and page.is_alone
        return not is_alone or (dialect is not None and dialect.is_rendered)

    def _say_once(self, client: str) -> None:
        what = self.says
        if what and what not in self._told:
            self._told.add(what)
            _log.info(
                "the template {what} (logged once; first for {client})", what=what, client=client
            )


def _nothing(_: object = None) -> None:
    """What waits has had its turn; an odd answer has no reasoning."""


def _is_short(request: Request, thoughts: Thoughts) -> bool:
    """Whether to keep its reasoning takes a moment only."""
    is_short = request.is_quick(_THREAD_ABOVE) and thoughts.cost <= _THREAD_ABOVE
    return is_short and len(messages_of(request)[1]) <= _MOST_MESSAGES


def _kept(
    request: Request, way: KeepingWay | None, thoughts: Thoughts, kin: Kinship | None
) -> KeptThinking:
    kept = keep(request, way, thoughts, kin)
    _ = kept.request.document  # read it here: on the reactor it will be asked for
    return kept


def _read(dialect: Dialect | None, headers: Headers, body: bytes) -> tuple[int, Thought] | None:
    kind = next(iter(values(headers, b"content-type")), b"").decode("latin-1")
    return read(dialect, kind, decoded(body, headers))
