"""What the dashboard shows, as JSON: figures and names, nothing of what was said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict
from typing import Any, Protocol

from twisted.internet.defer import Deferred

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.diagnose.report import report
from cacheproxy.core.judge.advice import FREQUENCY
from cacheproxy.core.judge.explain import PHRASES
from cacheproxy.core.server.profile import Profile
from cacheproxy.core.server.profile_text import says
from cacheproxy.core.server.status import Look
from cacheproxy.observe.latest import Latest
from cacheproxy.observe.recent import Recent
from cacheproxy.totals.requests import FILTERS, requests, sessions
from cacheproxy.totals.snapshot import lifetime, routed
from cacheproxy.totals.store import Store
from cacheproxy.totals.windows import WINDOWS, breaks, overview
from cacheproxy.web.headline import headline, speeds
from cacheproxy.web.pages import QueryError

DATA = b"/_cacheproxy/data"
REQUESTS = b"/_cacheproxy/requests"
DETAIL = b"/_cacheproxy/detail/"
LATEST = 80
"""Requests that a page shows at first, in its table and its chart."""
_SESSIONS = 50
_LONGEST_SEARCH = 120
_WINDOW = "1h"

Json = dict[str, Any]


class Source(Protocol):
    """Who answers questions about what was: ``totals.Totals``, or ``Unkept``."""

    @property
    def now(self) -> int:
        """Now, in the milliseconds that questions take."""

    def ask(self, question: Any, *arguments: Any, **more: Any) -> Deferred[Any]:
        """Ask one of the functions that take a Store first."""


class Dashboard:
    """The pages of data. ``kept``: whether ``source`` outlives the process.

    ``url``, ``active`` (names of the rules that are on) and ``profile`` (returns what is known of
    the model server), and ``upstreams`` (what is known of each, where there are several) are set
    anew when the configuration is.
    """

    def __init__(
        self, source: Source, recent: Recent, latest: Latest, version: str, *, kept: bool
    ) -> None:
        self.url = ""
        self.active: Collection[str] = ()
        self.profile: Callable[[], Profile] = Profile
        self.upstreams: Callable[[], list[Json]] = list
        self._source = source
        self._latest = latest
        self._recent = recent
        self._fixed = {"version": version, "kept": kept}
        self.captures = ""
        """Their folder, "" if none are made; set anew with the configuration, too."""

    async def data(self, query: Mapping[str, str]) -> Json:
        """Return all that one window shows."""
        return await self.snapshot(window_of(query))

    async def requests(self, query: Mapping[str, str]) -> Json:
        """Return a page of the table; see ``totals.requests.requests``."""
        which, before = query.get("filter", "all"), query.get("before", "")
        if which not in FILTERS:
            raise QueryError(f"filter is one of {', '.join(FILTERS)}")
        if before and not (before.isascii() and before.isdecimal() and len(before) < 16):
            raise QueryError("before is the next of another page")
        page: Json = await self._source.ask(
            requests,
            which,
            query.get("search", "")[:_LONGEST_SEARCH],
            int(before) if before else None,
            50,
        )
        return page

    async def detail(self, name: str) -> Json | None:
        """Return what there is to say of one of the last exchanges, without its words."""
        exchange = self._recent.find(name)
        return None if exchange is None else self._detail(exchange)

    async def snapshot(self, window: str) -> Json:
        """Return the figures of ``window``, one of WINDOWS."""
        now, look = self._source.now, self._latest.looks.get(self.url)
        found: Json = await self._source.ask(_figures, window, now)
        return {
            **self._fixed,
            "now": now / 1e3,
            "upstream": upstream_of(self.url, look) | {"says": says(self.profile())},
            "upstreams": self.upstreams(),
            "prefills": self._latest.prefills.as_json(),
            "rules": list(self.active),
            "reasons": PHRASES,
            "shapes": list(FREQUENCY),
            "headline": headline(window, found["overview"]["sums"]),
            "speeds": speeds(found["overview"]),
            **found,
        }

    async def latest(self, count: int = LATEST) -> list[Json]:
        """Return the last requests, the latest first."""
        page: Json = await self._source.ask(requests, limit=count)
        rows: list[Json] = page["requests"]
        return rows

    def _detail(self, exchange: Exchange) -> Json:
        found: Json = {}
        if exchange.verdict is not None:
            found = report(
                exchange,
                exchange.verdict,
                active=self.active,
                captures=(self.captures,) if self.captures else (),
            ).as_json()
            found.pop("excerpts", None)
        return {
            **found,
            "number": exchange.number,
            "method": exchange.received.method,
            "path_asked": exchange.received.path,
            "error": exchange.error,
            "edits": [
                {"rule": each.rule, "count": len(each.edits), "why": each.edits[0].why}
                for each in exchange.reports
                if each.edits
            ],
        }


def window_of(query: Mapping[str, str]) -> str:
    """Return the window that is asked for; raises QueryError."""
    window = query.get("window", _WINDOW)
    if window not in WINDOWS:
        raise QueryError(f"window is one of {', '.join(WINDOWS)}")
    return window


def upstream_of(url: str, look: Look | None) -> Json:
    """Return what the model server said when it was last looked at; ``seen``: when, in seconds."""
    if look is None or look.url != url:
        return {"url": url, "state": "unknown", "slots": []}
    return {
        "url": url,
        "state": look.state,
        "seen": look.wall,
        "server": asdict(look.server) | {"summary": look.server.summary} if look.server else None,
        "metrics": look.metrics,
        "running": look.sample.running if look.sample is not None else None,
        "waiting": look.sample.waiting if look.sample is not None else None,
        "kv": look.kv,
        "kv_source": "metrics" if look.sample is not None and look.sample.kv is not None
        else "slots" if look.slots else None,
        "slots": [asdict(slot) for slot in look.slots],
    }  # fmt: skip


def _figures(store: Store, window: str, now: int) -> Json:
    found = overview(store, window, now)
    return {
        "overview": found,
        "breaks": breaks(store, window, now),
        "sessions": sessions(store, round(found["start"] * 1e3), _SESSIONS),
        "lifetime": lifetime(store),
        "routed": routed(store),
    }
