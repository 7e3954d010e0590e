"""What came through the proxy lately, as the proxy itself remembers it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from cacheproxy.asking import NoAnswerError, Site
from cacheproxy.core.conversation.exchange import Outcome
from cacheproxy.core.conversation.session import DOCTOR
from cacheproxy.core.conversation.verdict import Judgement, Rewrite
from cacheproxy.core.judge.weights import FELT

PAGE = "/_cacheproxy/exchanges"
_LAST = 10
"""Requests that the headline speaks of."""
_MOST = 0.5
"""Share of lost tokens. Of so few turns, a quarter may be one turn that had to break."""
_LONGEST = 200
"""Characters of what a server said."""
_IN_TEMPLATE = "Jinja Exception:"
"""llama-server: behind it stands what the template has to say, before it a part of its source."""


@dataclass(frozen=True, slots=True)
class SeenExchange:
    """One exchange. Tokens None if not reported; ``lost``: of the turn before.

    ``wall``: when it began, in seconds since the epoch; ``seconds``: how long it took. ``rewrite``:
    what the template did. ``status``: as the client saw it, None if it saw nothing. ``said``: what
    the server said of a failure.
    """

    number: int = 0
    client: str = "client"
    session: str = ""
    turn: int = 0
    side: bool = False
    prompt: int | None = None
    reused: int | None = None
    verdict: str = "-"
    reason: str = ""
    rewrite: str = ""
    wall: float = 0.0
    seconds: float = 0.0
    path: str = ""
    status: int | None = None
    outcome: str = Outcome.COMPLETE
    said: str | None = None
    lost: int | None = None

    @property
    def end(self) -> float:
        """When it was over, in seconds since the epoch."""
        return self.wall + self.seconds

    @property
    def failed(self) -> bool:
        """Whether its client got an error, or half an answer. One that left is no failure."""
        return self.outcome == Outcome.UPSTREAM_FAILED or (self.status or 0) >= 400


@dataclass(frozen=True, slots=True)
class Record:
    """The exchanges that had a prompt, oldest first, without those that doctor sent itself."""

    seen: tuple[SeenExchange, ...]

    @property
    def recent(self) -> tuple[SeenExchange, ...]:
        """The last exchanges."""
        return self.seen[-_LAST:]

    @property
    def measured(self) -> tuple[SeenExchange, ...]:
        """The last exchanges whose reuse the server told."""
        known = [
            one
            for one in self.seen
            if one.prompt is not None and one.reused is not None and not one.failed
        ]
        return tuple(known[-_LAST:])

    @property
    def later(self) -> tuple[SeenExchange, ...]:
        """The measured turns that could have reused the turn before."""
        return tuple(one for one in self.measured if one.turn > 1 and not one.side)

    @property
    def breaks(self) -> tuple[SeenExchange, ...]:
        """The later turns that lost the cache."""
        return tuple(one for one in self.later if one.verdict == Judgement.BREAK)

    @property
    def lost_share(self) -> float:
        """Share of the later turns' prompt tokens that the breaks had evaluated again."""
        prompt = sum(one.prompt or 0 for one in self.later)
        lost = sum(
            (one.prompt or 0) - (one.reused or 0) if one.lost is None else one.lost
            for one in self.breaks
        )
        return lost / prompt if prompt else 0.0

    @property
    def is_broken(self) -> bool:
        """Whether the breaks lost half of the later turns' prompt tokens, or more."""
        return self.lost_share >= _MOST

    @property
    def is_hurt(self) -> bool:
        """Whether they lost enough to be felt (see ``weights.FELT``)."""
        return self.lost_share >= FELT

    def rewritten(self, rewrite: Rewrite) -> tuple[int, int]:
        """Return how many turns lost how many tokens because the template did this."""
        lost = [one.lost or 0 for one in self.seen if one.rewrite == rewrite and not one.side]
        return len(lost), sum(lost)

    @property
    def failing(self) -> dict[str, tuple[SeenExchange, ...]]:
        """The last requests of each client of which the very last, or half, failed."""
        found = {}
        for client in self.clients():
            last = [one for one in self.seen if one.client == client][-_LAST:]
            if last[-1].failed or 2 * sum(one.failed for one in last) >= len(last):
                found[client] = tuple(last)
        return found

    def clients(self) -> dict[str, int]:
        """Return how many requests each client sent."""
        return Counter(one.client for one in self.seen)

    def after(self, earlier: Record) -> tuple[SeenExchange, ...]:
        """Return what came since ``earlier`` was read."""
        last = max((one.number for one in earlier.seen), default=0)
        return tuple(one for one in self.seen if one.number > last)


def read(proxy: str, headers: Mapping[str, str]) -> Record | None:
    """Return the record of the proxy at ``proxy`` (a URL), None if it keeps none. Never raises.

    ``headers``: the proxy's token, if it has one.
    """
    try:
        page = Site(proxy, dict(headers)).page(PAGE)
    except NoAnswerError:
        return None
    if isinstance(page, dict):
        page = page.get("exchanges")
    if not isinstance(page, list):
        return None
    seen = (_seen(item) for item in page if isinstance(item, dict))
    mine = [one for one in seen if one and _has_prompt(one) and one.client != DOCTOR]
    return Record(tuple(sorted(mine, key=lambda one: one.number)))


def _has_prompt(one: SeenExchange) -> bool:
    """Whether it is a turn, or would have been one if it had not failed."""
    counts = one.path.rstrip("/").endswith("/count_tokens")
    return one.turn > 0 or (one.failed and bool(one.session) and not counts)


def _seen(item: dict[str, Any]) -> SeenExchange | None:
    """Read one row of the page, None where it is none; what it does not say has its default."""
    usage = item.get("usage")
    said = {**item, **(usage if isinstance(usage, dict) else {}), "said": _line(item.get("error"))}
    try:
        return msgspec.convert(
            {name: one for name, one in said.items() if one is not None}, SeenExchange
        )
    except msgspec.ValidationError:
        return None


def _line(value: Any) -> str | None:
    """Return what a server said on one line of a sane length, of a template's error the end."""
    if not isinstance(value, str):
        return None
    return " ".join(value.rpartition(_IN_TEMPLATE)[2].split())[:_LONGEST] or None
