"""What came through the proxy lately, as it remembers it: who, and what became of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from cacheproxy.asking import PAGE_SECONDS, Site
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.conversation.session import DOCTOR
from cacheproxy.core.conversation.verdict import Judgement, Reason, Rewrite
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.judge.explain import FELT
from cacheproxy.core.placement.refusal import refuses_late
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.row import rows_in
from cacheproxy.words import ago, counted, short

PAGE = "/_cacheproxy/exchanges"
_LATELY = 3600.0
"""Seconds: of older turns nothing is concluded."""
_MOST = 0.5
"""Share of lost tokens. Of few turns, a quarter may be one turn that had to break."""
_LAST = 10
"""Requests of a client that show how it fares now."""
_CUT = (Reason.CUT, Reason.CONTEXT_SHIFTED)
_LONGEST = 200
"""Characters of what a server said."""
_IN_TEMPLATE = "Jinja Exception:"
"""llama-server: behind it stands what the template has to say, before it a part of its source."""
_CONTEXT = re.compile(r"context (?:size|length|window)|exceed_context", re.IGNORECASE)
_KEY = (401, 403)
_ITS_OWN = range(400, 500)
"""Statuses that blame the request."""


class Fault(StrEnum):
    """What is to blame for a failed request, by what mends it; "" where the server decides that."""

    PLACE = "start the proxy with --placement user"
    """A system message comes late, and the template refuses it."""
    LENGTH = ""  #: the prompt is longer than the server's context
    KEY = "give the client the model server's key"  #: the server does not accept the client's
    REQUEST = "mend what the client sends; the server says what is wrong with it"
    """It is malformed, or asks for what is not there."""
    SERVER = "look in the model server's log"  #: not the request


@dataclass(frozen=True)
class Record:
    """What came through the proxy; a time in it is seconds since the epoch."""

    rows: tuple[Exchange, ...]  #: those with a prompt, oldest first, without doctor's own
    now: float  #: when it was read
    known: frozenset[str] = frozenset()  #: names of the clients that packages declare
    is_kept: bool = True  #: whether the proxy keeps one; False, too, where none runs

    @cached_property
    def lately(self) -> tuple[Exchange, ...]:
        """Those of the last hour."""
        return tuple(one for one in self.rows if one.ended >= self.now - _LATELY)

    @cached_property
    def turns(self) -> tuple[Exchange, ...]:
        """The last hour's that were answered, and are no request beside a conversation."""
        return tuple(one for one in self.lately if one.turn and not one.side and not one.went_wrong)

    @cached_property
    def measured(self) -> tuple[Exchange, ...]:
        """The turns whose reuse the server told."""
        return tuple(one for one in self.turns if None not in (one.usage.prompt, one.usage.reused))

    @property
    def figures(self) -> str:
        """How much of the measured prompts was reused, for people."""
        tokens = sum(one.usage.prompt or 0 for one in self.measured)
        share = sum(one.usage.reused or 0 for one in self.measured) / max(1, tokens)
        turns = counted(len(self.measured), "turn")
        return f"{100 * share:.0f} % of {short(tokens)} tokens in {turns}"

    @cached_property
    def later(self) -> tuple[Exchange, ...]:
        """The measured turns that could have reused the turn before."""
        return tuple(one for one in self.measured if one.turn > 1)

    @cached_property
    def breaks(self) -> tuple[Exchange, ...]:
        """The later turns that lost the cache."""
        return tuple(one for one in self.later if one.judgement is Judgement.BREAK)

    @cached_property
    def cut(self) -> tuple[Exchange, ...]:
        """The turns that the server cut, and those that lost the cache as the one before was."""
        return tuple(one for one in self.turns if one.reason in _CUT)

    @property
    def lost_share(self) -> float:
        """Share of the later turns' prompt tokens that the breaks had evaluated again."""
        prompt = sum(one.usage.prompt or 0 for one in self.later)
        lost = sum(
            (one.usage.prompt or 0) - (one.usage.reused or 0) if one.lost is None else one.lost
            for one in self.breaks
        )
        return lost / prompt if prompt else 0.0

    @property
    def state(self) -> FindingState:
        """How bad the breaks are: felt, or half of the later turns' prompt tokens were lost."""
        if self.lost_share >= FELT:
            return FindingState.FAIL if self.lost_share >= _MOST else FindingState.WARN
        return FindingState.OK

    def rewritten(self, rewrite: Rewrite) -> tuple[int, int]:
        """Return how many turns lost how many tokens because the template did this."""
        lost = [
            one.lost or 0
            for one in self.rows
            if one.verdict is not None and one.verdict.rewrite is rewrite and not one.side
        ]
        return len(lost), sum(lost)

    @cached_property
    def failing(self) -> dict[str, tuple[Exchange, ...]]:
        """The last requests of each client, of the hour, of which the very last, or half, failed.

        Not those of one that only tried: a single request, or a stranger's among turns that went
        well, and all by their own fault.
        """
        found = {}
        for client in dict.fromkeys(one.client for one in self.lately):
            mine = tuple(one for one in self.lately if one.client == client)[-_LAST:]
            failed = sum(one.went_wrong for one in mine)
            is_try = failed == len(mine) and all(fault_of(one) is Fault.REQUEST for one in mine)
            if is_try and (len(mine) == 1 or (self.turns and client not in self.known)):
                continue
            # one malformed request behind others that went well is a try, too
            is_serious = fault_of(mine[-1]) is not Fault.REQUEST or mine[-2:-1] == ()
            is_stuck = all(one.went_wrong for one in mine[-1 if is_serious else -2 :])
            if is_stuck or 2 * failed >= len(mine):
                found[client] = mine
        return found

    @cached_property
    def given_up(self) -> dict[str, tuple[Exchange, ...]]:
        """The last hour's turns that each client gave up before the answer began.

        None of one that has since waited longer for an answer: its limit has been raised.
        """
        found: dict[str, tuple[Exchange, ...]] = {}
        for one in self.turns:
            before = found.get(one.client, ())
            if one.has_given_up:
                found[one.client] = (*before, one)
            elif before and (one.first_byte or 0.0) > before[-1].seconds:
                del found[one.client]
        return found

    def clients(self) -> dict[str, int]:
        """Return how many requests each client sent."""
        return Counter(one.client for one in self.rows)


NO_RECORD = Record((), 0.0, is_kept=False)


def read(
    proxy: str, headers: Mapping[str, str], now: float, known: frozenset[str] = frozenset()
) -> Record:
    """Return the record of the proxy at ``proxy`` (a URL). Never raises.

    ``headers``: the proxy's token, if it has one. ``now``, ``known``: see ``Record``.
    """
    rows = rows_in(Site(proxy, headers).tell(PAGE, seconds=PAGE_SECONDS))
    if rows is None:
        return NO_RECORD
    mine = (one for one in rows if _has_prompt(one) and one.client != DOCTOR)
    return Record(tuple(sorted(mine, key=lambda one: one.number)), now, known)


def said_of(one: Exchange) -> str:
    """Return what a server said on one line of a sane length, of a template's error the end."""
    return " ".join((one.error or "").rpartition(_IN_TEMPLATE)[2].split())[:_LONGEST]


def summary(last: Sequence[Exchange]) -> str:
    """Return how many of the last requests of one client failed, for people."""
    failed, client = sum(one.went_wrong for one in last), last[-1].client
    if failed == len(last) == 1:
        return f"the only request of {client} failed"
    part = "all" if failed == len(last) else str(failed)
    return f"{part} of the last {counted(len(last), 'request')} of {client} failed"


def failure(one: Exchange, now: float) -> str:
    """Return when and how a request failed, for people."""
    how = "an answer that broke off"
    if one.has_failed:
        said = said_of(one)
        how = f"HTTP {one.status}" + (f': "{said}"' if said else "")
    elif one.error:
        how = f'HTTP {one.status} and then: "{one.error}"'
    return f"{ago(now - one.wall)} on {one.received.path or 'a path'}, with {how}"


def fault_of(one: Exchange) -> Fault:
    """Return what is to blame for a failure, as far as status and words tell."""
    said = one.error or ""
    if refuses_late(said.encode("utf-8", "replace")):
        return Fault.PLACE
    if _CONTEXT.search(said):
        return Fault.LENGTH
    if one.status in _KEY:
        return Fault.KEY
    return Fault.REQUEST if one.status in _ITS_OWN else Fault.SERVER


def _has_prompt(one: Exchange) -> bool:
    """Whether it is a turn, or would have been one if it had not failed."""
    counts = endpoint_of(one.received.path).purpose is Purpose.COUNT
    return one.turn > 0 or (one.went_wrong and one.session is not None and not counts)
