"""The last hour's requests through the proxy, from its own memory: clients, turns and losses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from cacheproxy.client_setup.finding import FindingState
from cacheproxy.core.conversation.session import DOCTOR
from cacheproxy.core.conversation.verdict import Judgement, Reason, Rewrite
from cacheproxy.core.judge.explain import FELT
from cacheproxy.http_client import PAGE_SECONDS, Site
from cacheproxy.observe.failures import LATELY, failing, has_prompt
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.row import rows_in
from cacheproxy.words import counted, short

PAGE = "/_cacheproxy/exchanges"
_MOST = 0.5
"""Share of lost tokens that is a failure. Of few turns, a quarter may be one unavoidable break."""
_CUT = (Reason.CUT, Reason.CONTEXT_SHIFTED)


@dataclass(frozen=True)
class Record:
    """Requests that came through the proxy; times are in seconds since the epoch."""

    rows: tuple[Exchange, ...]  #: exchanges with a prompt, oldest first, without doctor's own
    now: float  #: time of the reading
    known: frozenset[str] = frozenset()  #: names of the clients that packages declare
    remembers: bool = True  #: whether the proxy remembers requests; False if none runs, too

    @cached_property
    def lately(self) -> tuple[Exchange, ...]:
        """Exchanges of the last hour."""
        return tuple(one for one in self.rows if one.ended >= self.now - LATELY)

    @cached_property
    def turns(self) -> tuple[Exchange, ...]:
        """Turns of the last hour that were answered; no requests beside a conversation."""
        return tuple(one for one in self.lately if one.turn and not one.side and not one.went_wrong)

    @cached_property
    def measured(self) -> tuple[Exchange, ...]:
        """Turns whose reuse the server reported."""
        return tuple(one for one in self.turns if None not in (one.usage.prompt, one.usage.reused))

    @property
    def figures(self) -> str:
        """Share of the measured prompts that was reused: ``85 % of 1.20M tokens in 3 turns``."""
        tokens = sum(one.usage.prompt or 0 for one in self.measured)
        share = sum(one.usage.reused or 0 for one in self.measured) / max(1, tokens)
        turns = counted(len(self.measured), "turn")
        return f"{100 * share:.0f} % of {short(tokens)} tokens in {turns}"

    @cached_property
    def later(self) -> tuple[Exchange, ...]:
        """Measured turns that could have reused the turn before."""
        return tuple(one for one in self.measured if one.turn > 1)

    @cached_property
    def breaks(self) -> tuple[Exchange, ...]:
        """Later turns that lost the cache."""
        return tuple(one for one in self.later if one.judgement is Judgement.BREAK)

    @cached_property
    def cut(self) -> tuple[Exchange, ...]:
        """Turns that the server cut, and turns that lost the cache since the one before was cut."""
        return tuple(one for one in self.turns if one.reason in _CUT)

    @property
    def lost_share(self) -> float:
        """Share, 0 to 1, of later turns' prompt tokens that were evaluated again after breaks."""
        prompt = sum(one.usage.prompt or 0 for one in self.later)
        lost = sum(
            (one.usage.prompt or 0) - (one.usage.reused or 0) if one.lost is None else one.lost
            for one in self.breaks
        )
        return lost / prompt if prompt else 0.0

    @property
    def state(self) -> FindingState:
        """Severity of the breaks by ``lost_share``: OK, WARN from ``FELT``, FAIL from a half on."""
        if self.lost_share >= FELT:
            return FindingState.FAIL if self.lost_share >= _MOST else FindingState.WARN
        return FindingState.OK

    def rewritten(self, rewrite: Rewrite) -> tuple[int, int]:
        """Return the number of turns that lost tokens by this rewriting, and their tokens."""
        lost = [
            one.lost or 0
            for one in self.rows
            if one.verdict is not None and one.verdict.rewrite is rewrite and not one.side
        ]
        return len(lost), sum(lost)

    @cached_property
    def failing(self) -> dict[str, tuple[Exchange, ...]]:
        """Last requests, by client, of each one whose very last, or half of them, failed."""
        return failing(self.lately, self.known, tries_count=not self.turns)

    @cached_property
    def given_up(self) -> dict[str, tuple[Exchange, ...]]:
        """Turns of the last hour that each client gave up before the answer began.

        A client that has since waited longer for an answer is left out: its limit has been raised.
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
        """Return the number of requests of each client."""
        return Counter(one.client for one in self.rows)


NO_RECORD = Record((), 0.0, remembers=False)


def read(
    proxy: str, headers: Mapping[str, str], now: float, known: frozenset[str] = frozenset()
) -> Record:
    """Return the record of the proxy at ``proxy`` (a URL). Never raises.

    ``headers``: with the proxy's token, if it has one. ``now``, ``known``: see ``Record``.
    """
    rows = rows_in(Site(proxy, headers).tell(PAGE, seconds=PAGE_SECONDS))
    if rows is None:
        return NO_RECORD
    mine = (one for one in rows if has_prompt(one) and one.client != DOCTOR)
    return Record(tuple(sorted(mine, key=lambda one: one.number)), now, known)
