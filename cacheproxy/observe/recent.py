"""The proxy's recent past in memory, for pages: the last exchanges, running ones, and looks."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from operator import itemgetter
from typing import Any

from msgspec import structs
from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.core.conversation.speeds import PrefillCost
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.kinds.status import Look
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried, is_plain, redact_target
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange

_MOST = 200
"""Exchanges of each kind in memory, at most."""
_log = Logger()
_LONG = 5.0
"""Seconds of prefill before the log reports it."""
_AGAIN = 60.0
"""Seconds before the log reports it again."""
_AT_ONCE = 0.05
"""Seconds between two progress reports that came together: a retry gets all earlier ones at
once."""
_MOST_SHOWN = 256
"""Running requests on a page, at most."""


class Recent:
    """The observer that remembers exchanges, without their bodies, which hold the prompts.

    A verdict's quotation of a break (a few words on both sides) is remembered, so that a user can
    ask for it, but without credentials; so is the request's target.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._rows = defaultdict[Any, deque[tuple[int, Exchange]]](partial(deque, maxlen=most))
        self._came = 0

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Remember them without their bodies and headers.

        Turns, prompts without an answer, and all else (a monitor's polls) do not push out one
        another.
        """
        for exchange in exchanges:
            is_turn = exchange.turn > 0
            kind = is_turn, not is_turn and exchange.session is not None and exchange.went_wrong
            self._came += 1
            self._rows[kind].append((self._came, _bare(exchange)))

    def __iter__(self) -> Iterator[Exchange]:
        """Yield the remembered exchanges, the oldest first."""
        return (exchange for _, exchange in sorted(chain(*self._rows.values()), key=itemgetter(0)))

    def find(self, name: str) -> Exchange | None:
        """Return the exchange with the number ``name``.

        ``last``: the latest turn; while there is none, the latest request that failed as one.
        """
        failed = None
        for exchange in reversed(list(self)):
            if exchange.turn if name == "last" else str(exchange.number) == name:
                return exchange
            if name == "last" and exchange.session is not None and exchange.has_failed:
                failed = failed or exchange
        return failed


def _bare(exchange: Exchange) -> Exchange:
    received, verdict, place = exchange.received, exchange.verdict, exchange.place
    where = None if verdict is None else verdict.where
    bare = _plain(received.method, received.path)
    if bare is None or where is not None:
        known = carried(received.headers, received.target)
        bare = bare or Request(received.method, redact_target(received.path, known))
        if verdict is not None and where is not None:
            was, now = hide_text(where.was, known), hide_text(where.now, known)
            verdict = structs.replace(verdict, where=structs.replace(where, was=was, now=now))
    return exchange.with_fields(
        received=bare,
        sent=None if exchange.sent is None else bare,
        model=None,  # a model's name may be as long, too
        response_headers=(),
        response_body=None,
        edits=exchange.edits,
        reports=(),  # their values may be as long as a body
        verdict=verdict,
        place=place if place is None or place.pair is None else place._replace(pair=None),
    )


@lru_cache(64)
def _plain(method: str, path: str) -> Request | None:
    """Return the request of a path that no credential can be in, None for any other."""
    return Request(method, path) if is_plain(path) else None


class _Reading:
    """The progress of a prompt's reading. ``again``: seconds at which the log reports it next."""

    def __init__(self, progress: Progress, seconds: float) -> None:
        self.again = _LONG
        self._progress, self._at = progress, seconds
        self._cost = PrefillCost()

    def take(self, progress: Progress, seconds: float) -> None:
        """Record the progress after so many ``seconds``."""
        before, self._progress = self._progress, progress
        if seconds - self._at > _AT_ONCE:
            self._cost.learn(before.done, progress.done - before.done, seconds - self._at)
        self._at = seconds

    def to_go(self, seconds: float) -> float | None:
        """Return the seconds to go, by this prompt's own progress; None if unknown.

        The cost of a token is taken to grow with its depth as it did so far.
        """
        rest = self._cost.seconds(self._progress.done, self._progress.total, grows=True)
        return None if rest is None else max(0.0, rest - max(0.0, seconds - self._at))


class Latest:
    """The running exchanges; the log gets a line for each whose prompt takes long.

    ``changes`` grows with each news for the pages. ``looks``: the last of each upstream, by its
    URL.
    """

    def __init__(self) -> None:
        self.changes = 0
        self.looks: dict[str, Look] = {}
        self._running: dict[int, tuple[Exchange, Progress | None]] = {}
        self._reading: dict[int, _Reading] = {}

    def __call__(
        self, exchange: Exchange, progress: Progress | None, seconds: float | None
    ) -> None:
        """Record the state of ``exchange`` after so many ``seconds``; None: it is over.

        ``progress``: None if the server does not report it, or has read the prompt.
        """
        key = id(exchange)
        if seconds is None:
            self._running.pop(key, None)
            if self._reading:
                self._reading.pop(key, None)
        else:
            self._running[key] = exchange, progress
            if progress is not None:
                self._read(exchange, progress, seconds)
        self.changes += 1

    def _read(self, exchange: Exchange, progress: Progress, seconds: float) -> None:
        reading = self._reading.setdefault(id(exchange), _Reading(progress, seconds))
        reading.take(progress, seconds)
        if seconds >= reading.again:
            reading.again = seconds + _AGAIN
            said = line(exchange, progress, seconds, reading.to_go(seconds))
            _log.info("{text}", text=hide_text(said))

    def as_json(self, now: float) -> list[dict[str, Any]]:
        """Return the running exchanges, the longest first; ``now``: seconds since the epoch."""
        running = sorted(self._running.values(), key=lambda each: each[0].wall)[:_MOST_SHOWN]
        return [
            {
                "session": hide_text(session.label),
                "conversation": hide_text(session.name),
                "turn": exchange.turn,
                "done": progress and progress.done,
                "total": progress and progress.total,
                "seconds": max(0.0, now - exchange.wall),
                "to_go": reading and progress and reading.to_go(now - exchange.wall),
                "held": exchange.held,
                "waits_for": hide_text(exchange.queued_for or "")
                if exchange.queued is None
                else "",
            }
            for exchange, progress in running
            if (session := exchange.session) is not None
            for reading in (self._reading.get(id(exchange)),)
        ]

    def keep(self, urls: Collection[str]) -> None:
        """Forget the looks at upstreams that are not among ``urls``."""
        self.looks = {url: look for url, look in self.looks.items() if url in urls}


def line(exchange: Exchange, progress: Progress, seconds: float, to_go: float | None = None) -> str:
    """Return the line for the log; ``to_go``: seconds, shown with two digits."""
    done, total = progress.done, progress.total
    label = exchange.session.label if exchange.session is not None else "-"
    return (
        f"{time.strftime('%H:%M:%S')} {label:<12} #{exchange.turn:<3}  "
        f"prefill {done:,} of {total:,} tokens ({progress.share:.0%}) after {seconds:.0f}s"
        + ("" if to_go is None else f", ~{float(f'{to_go:.2g}'):,.0f}s to go")
    )
