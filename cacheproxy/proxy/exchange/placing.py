"""Late system messages go where the upstream can take them.

What it does with them is learned by ``profiling``; a refusal teaches at any time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from twisted.internet.threads import deferToThreadPool
from twisted.logger import Logger

from cacheproxy.core.http1.response_reader import ResponseHead
from cacheproxy.core.placement.placement import BY_OPTION, Late, Placement, guessed
from cacheproxy.core.placement.placing import late_messages, place
from cacheproxy.core.placement.refusal import (
    LARGEST,
    STATUSES,
    refuses_late,
    wants_short_ids,
    wants_turns,
)
from cacheproxy.core.prompt.client import client_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.proxy.servers.profiling import Key, Profiling
from cacheproxy.proxy.upstream.connection import UpstreamConnection, peek

_log = Logger()
AUTO, QUIET, USER, OFF = "auto", "quiet", "user", "off"
SETTINGS = (AUTO, QUIET, USER, OFF)
"""What ``--placement`` may be."""
_THREAD_ABOVE = 128 << 10


@dataclass(frozen=True, slots=True)
class Placed:
    """A request with its late system messages placed, where that was needed."""

    request: Request  #: as it goes on
    report: RuleReport | None = None  #: what was edited; None: nothing
    late: bool = False  #: whether it has any
    by: Placement | None = None  #: what was known of the upstream
    guess: tuple[Key, Placement] | None = None
    """Of what it was placed by, where that is yet to be proved."""


class Placing:
    """Places late system messages for the upstream of ``profiling``. ``setting``: of SETTINGS."""

    def __init__(self, reactor: Any, profiling: Profiling, setting: str) -> None:
        self.setting = setting
        self._reactor = reactor
        self._profiling = profiling
        self._told: set[str] = set()

    @property
    def placement(self) -> Placement | None:
        """What was learned of the upstream last, None for nothing."""
        return _ALWAYS if self.setting == USER else self._profiling.placement

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for a page."""
        known = self.placement
        if self.setting == OFF or known is None:
            return {"setting": self.setting, "late": str(Late.UNKNOWN), "says": ""}
        return {"setting": self.setting} | known.as_dict()

    async def place(self, request: Request) -> Placed:
        """Return ``request`` as this upstream can take it. It never fails for this."""
        if self.setting == OFF:
            return Placed(request)
        late = bool(late_messages(request))
        if late:
            placement = await self._of(request)
        elif self._profiling.mends:
            placement = self._profiling.known(request, fresh=False)
        else:
            return Placed(request)
        if placement is None or not (placement.places or placement.mends):
            return Placed(request, late=late, by=placement)
        return await self._placed(request, placement, late=late)

    async def healed(
        self, placed: Placed, received: Request, response: UpstreamConnection, *, may_heal: bool
    ) -> Placed | None:
        """Return ``received`` placed in another way, if ``response`` refuses the way of ``placed``.

        Else ``response`` is the answer.
        """
        if self.setting == OFF or placed.request.dialect is None:
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
        unknown = _ALWAYS if self.setting == USER else _UNKNOWN
        guess = (placed.guess[1] if placed.guess else known) or unknown
        if not guess.places and placed.late and not short_ids:
            guess = replace(_LATE, joins_user=guess.joins_user, short_ids=guess.short_ids)
        guess = _with(guess, error)
        again = await self._placed(received, guess, late=placed.late)
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

    def forget(self) -> None:
        """The upstream is down: another server may take its place."""
        self._profiling.forget()

    async def _of(self, request: Request, *, quietly: bool = False) -> Placement | None:
        known = self._profiling.known
        if self.setting == USER:
            return known(request) or _ALWAYS
        await self._profiling.learn_for(request, quietly=quietly or self.setting == QUIET)
        return known(request) or known(request, fresh=False)

    # Acting on it.

    async def _placed(self, request: Request, placement: Placement, *, late: bool) -> Placed:
        # To join takes ten times as long as to give a message to the user in its place.
        is_short = len(request.body) <= _THREAD_ABOVE
        joins = placement.joins_tool or placement.mends
        if is_short or (not joins and request.is_quick(_THREAD_ABOVE)):
            after, report = place(request, placement)
        else:
            pool = self._reactor.getThreadPool()
            after, report = await deferToThreadPool(self._reactor, pool, place, request, placement)
        if report is not None and report.error is not None:
            _log.warn("late system messages stay as they are: {error}", error=report.error)
        elif report is not None:
            self._say_once(placement, client_of(request))
        return Placed(after, report, late=late, by=placement)

    def _say_once(self, placement: Placement, client: str) -> None:
        says = placement.says
        if says not in self._told:
            self._told.add(says)
            _log.info(
                "the upstream {says} (logged once; {client} sends such messages)",
                says=says,
                client=client,
            )


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
