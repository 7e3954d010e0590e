"""A request adapted to the server that it goes to, by what ``profiling`` learns of that.

Late system messages go where the upstream can take them; a refusal teaches at any time. Earlier
reasoning stays in the prompt, where its template can keep it: what the model reasoned is remembered
by the store, in the conversation that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.conversation.divergence import Kinship
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.thoughts import Thoughts
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.http1.response_reader import ResponseHead
from cacheproxy.core.placement.placement import BY_OPTION, Late, Placement, guessed
from cacheproxy.core.placement.placing import LateMessage, late_messages, place
from cacheproxy.core.placement.refusal import (
    LARGEST,
    STATUSES,
    refuses_late,
    wants_short_ids,
    wants_turns,
)
from cacheproxy.core.prompt.client import client_of
from cacheproxy.core.prompt.request import Request, messages_of
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.core.servers.belief import Key
from cacheproxy.core.servers.kinds import page_at
from cacheproxy.core.servers.profile import Profile
from cacheproxy.core.thinking.keeping import (
    NO,
    KeepingWay,
    KeptThinking,
    keep,
    may_keep,
    may_remember,
    says,
    way_of,
)
from cacheproxy.proxy.servers.profiling import Profiling
from cacheproxy.proxy.upstream.connection import UpstreamConnection, peek

_T = TypeVar("_T")
_log = Logger()
AUTO, QUIET, USER, OFF = "auto", "quiet", "user", "off"
"""What ``--placement`` may be."""
_THREAD_ABOVE, _MOST_MESSAGES = 128 << 10, 64
"""Bytes and messages beyond which a request is edited in a thread: to look at one message, and to
put a block into it, takes up to 0.05 ms."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A request with its late system messages placed, where that was needed."""

    request: Request  #: as it goes on
    report: RuleReport | None = None  #: what was edited; None: nothing
    late: Sequence[LateMessage] = ()  #: those that it has
    by: Placement | None = None  #: what was known of the upstream
    guess: tuple[Key, Placement] | None = None
    """Of what it was placed by, where that is yet to be proved."""


class Adapting:
    """Adapts requests to the upstream of ``profiling``.

    ``placing``: of late system messages, as ``--placement`` says it; ``keeping``: of reasoning, see
    ``keeping.SETTINGS``.
    """

    def __init__(
        self, reactor: Any, profiling: Profiling, store: Store, *, placing: str, keeping: str
    ) -> None:
        self._placing = placing
        self._keeping = keeping
        self._reactor = reactor
        self._profiling = profiling
        self._store = store
        self._told: set[str] = set()

    def placement(self) -> dict[str, Any]:
        """Return what was learned of late system messages last, as plain values for a page."""
        known = _ALWAYS if self._placing == USER else self._profiling.placement
        if self._placing == OFF or known is None:
            return {"setting": self._placing, "late": str(Late.UNKNOWN), "says": ""}
        return {"setting": self._placing} | known.as_dict()

    def thinking(self) -> dict[str, Any]:
        """Return what is done with earlier reasoning, as plain values for a page."""
        profile = self._profiling.profile
        is_on = may_keep(self._keeping, profile)
        return {"setting": self._keeping, "on": is_on, "says": says(self._keeping, profile)}

    # Earlier reasoning.

    async def keep(self, request: Request, turn: Turn | None, *, begins: bool) -> KeptThinking:
        """Return ``request`` with its reasoning kept. It never fails for this.

        ``begins``: whether it is a turn, so that its answer is to be remembered.
        """
        profile = self._profiling.profile
        if turn is None or self._keeping == NO or not self._holds_for(request, profile):
            return KeptThinking(request)
        if self._store.readers:  # the next request comes in an instant
            await self._in_thread(self._store.read_on, turn.session)
        known = self._store.conversation(turn.session)
        thoughts = Thoughts() if known is None else known.thoughts
        way = way_of(self._keeping, profile, request, thoughts)
        if way is None and not (begins and may_remember(self._keeping, profile)):
            return KeptThinking(request)
        if way is not None and begins:
            thoughts.asked_by = next(iter(way), None)
        is_short = request.is_quick(_THREAD_ABOVE) and thoughts.cost <= _THREAD_ABOVE
        if is_short and len(messages_of(request)[1]) <= _MOST_MESSAGES:
            kept = keep(request, way, thoughts, turn.kin)
        else:
            kept = await self._in_thread(_kept, request, way, thoughts, turn.kin)
        if kept.report is not None and kept.report.error is not None:
            _log.warn("earlier reasoning is not kept: {error}", error=kept.report.error)
        elif kept.report is not None:
            what = says(self._keeping, self._profiling.profile)
            if what:
                self._say_once(f"template {what}", f"first for {turn.session.client}")
        return kept

    def _holds_for(self, request: Request, profile: Profile) -> bool:
        """Whether what the profile says holds for the API in which the upstream is spoken to."""
        page = page_at(profile.page) if profile.page else None
        if page is None or not page.is_alone:
            return True
        dialect = self._profiling.key(request)[0]
        return dialect is not None and dialect.is_rendered

    # Late system messages.

    async def place(self, request: Request) -> Placed:
        """Return ``request`` as this upstream can take it. It never fails for this."""
        if self._placing == OFF:
            return Placed(request)
        late = late_messages(request)
        if late:
            placement = await self._of(request)
        elif self._profiling.beliefs.mends:
            placement = self._profiling.known(request, fresh=False)
        else:
            return Placed(request)
        if placement is None or not (placement.places or placement.mends):
            return Placed(request, late=late, by=placement)
        return await self._placed(request, placement, late)

    async def healed(
        self, placed: Placed, received: Request, response: UpstreamConnection, *, may_heal: bool
    ) -> Placed | None:
        """Return ``received`` placed in another way, if ``response`` refuses the way of ``placed``.

        Else ``response`` is the answer.
        """
        if self._placing == OFF or placed.request.dialect is None:
            return None
        status = response.head.status
        may = _may_refuse(response.head) and (placed.late or response.head.length is not None)
        error = await peek(response, LARGEST) if may else None  # others pass piece by piece
        if error is None or not may_heal:
            self._answered(placed, status, error or b"")
            return None
        return await self._heal(placed, received, error)

    async def _heal(self, placed: Placed, received: Request, error: bytes) -> Placed | None:
        """Return ``received`` placed in another way, after the answer ``error`` to ``placed``.

        None where the error is about something else, or nothing else can be done.
        """
        joins, short_ids = wants_turns(error), wants_short_ids(error)
        if not (joins or short_ids or (placed.late and refuses_late(error))):
            return None
        known = self._profiling.known(received)
        if known is not None and known == placed.by:
            # Another server, or model, may have taken the place of the one we knew.
            self._profiling.forget()
            known = await self._of(received, quietly=True)
        unknown = _ALWAYS if self._placing == USER else _UNKNOWN
        guess = (placed.guess[1] if placed.guess else known) or unknown
        if not guess.places and placed.late and not short_ids:
            guess = replace(_LATE, joins_user=guess.joins_user, short_ids=guess.short_ids)
        guess = _with(guess, error)
        again = await self._placed(received, guess, placed.late)
        if again.request.body == placed.request.body:
            return None
        return replace(
            again, guess=None if guess == known else (self._profiling.key(received), guess)
        )

    def _answered(self, placed: Placed, status: int, error: bytes = b"") -> None:
        """Take note of how a request fared that was placed by a guess: a success proves it."""
        if placed.guess is None:
            return
        key, guess = placed.guess
        if status < 400:
            self._profiling.keep(key, guess)
        elif (more := _with(guess, error)) != guess:
            self._profiling.keep(key, more)

    async def _of(self, request: Request, *, quietly: bool = False) -> Placement | None:
        known = self._profiling.known
        if self._placing == USER:
            return known(request) or _ALWAYS
        await self._profiling.learn_for(request, quietly=quietly or self._placing == QUIET)
        return known(request) or known(request, fresh=False)

    async def _placed(
        self, request: Request, placement: Placement, late: Sequence[LateMessage]
    ) -> Placed:
        # To join takes ten times as long as to give a message to the user in its place; to mend
        # looks at each message there is.
        is_short = len(request.body) <= _THREAD_ABOVE
        is_few = not placement.joins_tool or len(late) <= _MOST_MESSAGES
        if is_short or (is_few and not placement.mends and request.is_quick(_THREAD_ABOVE)):
            after, report = place(request, placement, late)
        else:
            after, report = await self._in_thread(place, request, placement, late)
        if report is not None and report.error is not None:
            _log.warn("late system messages stay as they are: {error}", error=report.error)
        elif report is not None:
            whose = f"{client_of(request)} sends such messages"
            self._say_once(f"upstream {placement.says}", whose)
        return Placed(after, report, late=late, by=placement)

    def _in_thread(self, work: Callable[..., _T], *arguments: Any) -> Deferred[_T]:
        pool = self._reactor.getThreadPool()
        return deferToThreadPool(self._reactor, pool, work, *arguments)

    def _say_once(self, what: str, whose: str) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.info("the {what} (logged once; {whose})", what=what, whose=whose)


def _kept(
    request: Request, way: KeepingWay | None, thoughts: Thoughts, kin: Kinship | None
) -> KeptThinking:
    kept = keep(request, way, thoughts, kin)
    _ = kept.request.document  # read it here: on the reactor it will be asked for
    return kept


def _may_refuse(head: ResponseHead) -> bool:
    """Whether a response with ``head`` may refuse late messages."""
    has_length = head.length is None or head.length <= LARGEST
    return head.status in STATUSES and has_length and not head.values(b"content-encoding")


def _with(guess: Placement, error: bytes) -> Placement:
    """Return ``guess`` with what the answer ``error`` says that the server refuses."""
    if wants_turns(error):
        guess = replace(guess, joins_user=True, joins_tool=True)
    return replace(guess, short_ids=True) if wants_short_ids(error) else guess


_ALWAYS = guessed(Late.REFUSED, BY_OPTION)
_BY_ANSWER = "its answer to a request"
_UNKNOWN = guessed(Late.UNKNOWN, _BY_ANSWER)
_LATE = guessed(Late.REFUSED, _BY_ANSWER)
