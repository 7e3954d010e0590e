"""The dashboard's data as JSON: figures and names, no text of prompts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import unquote

import msgspec
from twisted.web.server import Request

from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.diagnose.report import TurnReport, report
from cacheproxy.core.judge.advice import CURABLE
from cacheproxy.core.judge.explain import PHRASES
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.kinds.status import Look
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import NOBODY, Clients
from cacheproxy.observe.crowd import crowd_of
from cacheproxy.observe.failures import stuck
from cacheproxy.observe.recent import Latest, Recent
from cacheproxy.record.exchange import Exchange
from cacheproxy.totals.lists import (
    FILTERS,
    SORTS,
    START,
    Period,
    conversation,
    conversations,
    requests,
    rows_of,
    sessions,
)
from cacheproxy.totals.store import TotalsStore
from cacheproxy.totals.totals import Totals
from cacheproxy.totals.windows import (
    WINDOWS,
    breaks,
    groups,
    last_break,
    lifetime,
    overview,
    routed,
)
from cacheproxy.web.answers import failing, headline, todo, without
from cacheproxy.web.pages import Content, Json, PageError, Streamed, query_of
from cacheproxy.words import clients

LATEST = 80
"""Requests that a page shows at first, in its table and its chart."""
_SESSIONS = 50
_LONGEST_SEARCH = 120
_WINDOW = "1h"
_NO_NEXT = "before must be the value of next on another page"
_EVER = 10**15
"""Seconds since the epoch, later than any period that is asked for."""


@dataclass(eq=False)
class Dashboard:
    """The pages of data; a reload sets the fields with defaults again."""

    source: Totals  #: the totals
    recent: Recent  #: the last exchanges
    latest: Latest  #: the exchanges under way, and the last looks at upstreams
    version: str  #: cacheproxy's version
    url: str = ""  #: URL of the first upstream
    active: Collection[str] = ()  #: names of the active rules
    clients: Clients = NOBODY  #: the clients of packages
    profile: Callable[[], Profile] = Profile  #: returns the model server's profile
    words: Callable[[], Json] = dict  #: returns the profile in words
    upstreams: Callable[[], list[Json]] = list  #: returns facts on each, if there are several
    speed: Callable[[], float | None] = lambda: None  #: returns the prefill speed, tokens a second
    is_applied: Callable[[int], bool] = lambda _: False
    """Returns whether the cure for the exchange with that number was applied here."""
    captures: str = ""  #: folder of the captures, "" if none are made
    _figures: dict[str, tuple[int, Json]] = field(default_factory=dict)
    """The last answer by window, with the time (ms) when the totals were asked."""

    async def data(self, query: Mapping[str, str]) -> Json:
        """Return the data of one window."""
        return await self.snapshot(window_of(query))

    async def requests(self, query: Mapping[str, str]) -> Json:
        """Return a page of the table (``totals.lists.requests``); PageError for a bad query."""
        which = query.get("filter", "all")
        if which not in FILTERS:
            raise PageError(f"filter is one of {', '.join(FILTERS)}")
        page: Json = await self.source.ask(
            requests,
            which,
            query.get("search", "")[:_LONGEST_SEARCH],
            row_of(query),
            period=period_of(query),
            cause=query.get("cause", "")[:_LONGEST_SEARCH],
        )
        return page

    async def conversations(self, query: Mapping[str, str]) -> Content:
        """Return a page of the list (``totals.lists.conversations``); PageError for a bad query."""
        sort = query.get("sort", "last")
        if sort not in SORTS:
            raise PageError(f"sort is one of {', '.join(SORTS)}")
        search, before = query.get("search", "")[:_LONGEST_SEARCH], query.get("before", "")
        asked = conversations, window_of(query), self.source.now
        try:
            page = await self.source.ask(_spelled, *asked, search=search, sort=sort, before=before)
        except ValueError:
            raise PageError(_NO_NEXT) from None
        return Content(b"application/json", page)

    async def conversation(self, request: Request, name: str) -> Content:
        """Return the turns of the conversation ``name``: client/session, percent-encoded."""
        before = row_of(query_of(request))
        found = await self.source.ask(_spelled, conversation, unquote(name), before)
        if found is None:
            raise PageError("there is no such conversation; see /_cacheproxy/conversations", 404)
        return Content(b"application/json", found)

    async def table(self, name: str, query: Mapping[str, str]) -> Streamed:
        """Return one of TABLES as comma-separated values, for a window, page by page."""
        since = WINDOWS[window_of(query)].start(self.source.now)
        as_file = (b"Content-Disposition", b'attachment; filename="%s.csv"' % name.encode())
        kind = b"text/csv; charset=utf-8; header=present"
        return Streamed(kind, self._lines(name, since), (as_file,))

    async def _lines(self, name: str, since: int) -> AsyncIterator[bytes]:
        """Yield one of TABLES as CSV, a page at a time; ``since``: milliseconds since 1970."""
        after: tuple[int, int] | None = START
        while after is not None:
            text, after = await self.source.ask(rows_of, name, since, after)
            yield text.encode()

    async def snapshot(self, window: str, age: float = 0.0) -> Json:
        """Return the figures of ``window``, one of WINDOWS.

        ``age``: seconds that figures of the totals may be old. The server's state is always fresh.
        """
        now, look = self.source.now, self.latest.looks.get(self.url)
        asked, found = self._figures.get(window, (0, {}))
        if not 0 <= now - asked < age * 1e3:
            found = await self.source.ask(_figures, window, now)
            self._figures[window] = now, found
        sums, last = found["overview"]["sums"], found["last_break"]
        came = (
            (each.session.client, each.session.id, each.wall)
            for each in self.recent
            if each.session is not None and (each.turn or each.has_failed)
        )
        failed = stuck(self.recent, now / 1e3)
        if last is not None and last["number"] is not None:
            last = last | {"cured": self.is_applied(last["number"])}
        return {
            "version": self.version,
            "unkept": self.source.unkept,
            "now": now / 1e3,
            "upstream": upstream_of(self.url, look) | {"words": self.words()},
            "upstreams": self.upstreams(),
            "clients": hide_text(clients(came, now / 1e3)),
            "starts": self.clients.starts("{url}", "{option}"),
            "prefills": self.latest.as_json(now / 1e3),
            "rules": list(self.active),
            "reasons": PHRASES,
            "shapes": list(CURABLE),
            "headline": headline(window, sums),
            "without": without(sums),
            "speeds": {
                # llama-server's counters have the times that its Messages answers lack
                "prefill": sums["prefill_speed"] or (self.speed() if sums["turns"] else None),
                "generation": sums["generation_speed"],
            },
            "todo": [
                *failing(failed, self.upstreams()),
                *todo(
                    self.profile(),
                    look,
                    sums,
                    found["breaks"],
                    self._open_report,
                    crowd=crowd_of(self.recent, self.url, now / 1e3),
                ),
            ],
            "last_failure": failed[-1][0] if failed else None,
            **found,
            "last_break": last,
        }

    async def last(self, count: int = LATEST) -> list[Json]:
        """Return the rows of the last ``count`` requests, the latest first."""
        page: Json = await self.source.ask(requests, limit=count)
        rows: list[Json] = page["requests"]
        return rows

    def _open_report(self, number: int) -> TurnReport | None:
        """Return the report on an exchange; None if it is forgotten, unjudged or cured."""
        exchange = None if self.is_applied(number) else self.recent.find(str(number))
        if exchange is None or exchange.verdict is None:
            return None
        return self.report(exchange, exchange.verdict)

    def report(self, exchange: Exchange, verdict: Verdict) -> TurnReport:
        """Return the report on ``exchange``, with advice."""
        folders = (self.captures,) if self.captures else ()
        return report(exchange, verdict, active=self.active, captures=folders, clients=self.clients)


def window_of(query: Mapping[str, str]) -> str:
    """Return the window named in the query; raises PageError."""
    window = query.get("window", _WINDOW)
    if window not in WINDOWS:
        raise PageError(f"window is one of {', '.join(WINDOWS)}")
    return window


def row_of(query: Mapping[str, str]) -> int | None:
    """Return the row (``before``) before which the page ends, None for the first; PageError."""
    return _number(query, "before", _NO_NEXT)


def period_of(query: Mapping[str, str]) -> Period | None:
    """Return the query's period, (start, end) in ms; None for all time; raises PageError."""
    start, end = (
        _number(query, name, "from and to are whole seconds since 1970") for name in ("from", "to")
    )
    if start is None and end is None:
        return None
    return 1000 * (start or 0), 1000 * (_EVER if end is None else end)


def _number(query: Mapping[str, str], name: str, why: str) -> int | None:
    """Return the number of the query's field ``name``, None without; raises PageError(``why``)."""
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 16):
        raise PageError(why)
    return int(text) if text else None


def upstream_of(url: str, look: Look | None) -> Json:
    """Return the server's status at ``look`` (``seen``: its time, s), unknown if of another URL."""
    if look is None or look.url != url:
        return {"url": url, "state": "unknown", "slots": []}
    return {
        "url": url,
        "state": look.state,
        "silent": look.is_silent,
        "seen": look.wall,
        "server": asdict(look.server) | {"summary": look.server.summary} if look.server else None,
        "metrics": look.metrics,
        "running": look.sample.running if look.sample is not None else None,
        "waiting": look.sample.waiting if look.sample is not None else None,
        "kv": look.kv,
        "kv_source": "metrics" if look.sample is not None and look.sample.kv is not None
        else "slots" if look.slots else None,
        "slots": [
            {"id": slot.id, "context": slot.context, "used": slot.used, "busy": slot.busy}
            for slot in look.slots
        ],
    }  # fmt: skip


def _figures(store: TotalsStore, window: str, now: int) -> Json:
    """Return the figures of ``window`` from the totals; ``now``: milliseconds since 1970."""
    found = overview(store, window, now)
    start, end = (round(found[name] * 1e3) for name in ("start", "end"))
    return {
        "overview": found,
        "breaks": breaks(store, window, now),
        "groups": groups(store, window, now),
        "last_break": last_break(store, window, now),
        "sessions": sessions(store, start, end, _SESSIONS),
        "lifetime": lifetime(store),
        "routed": routed(store),
    }


def _spelled(
    store: TotalsStore, question: Callable[..., Json | None], *arguments: Any, **more: Any
) -> Any:
    """Return the answer as JSON text, or None. It is encoded here, in the thread: up to 77 ms."""
    found = question(store, *arguments, **more)
    return None if found is None else msgspec.json.encode(found)
