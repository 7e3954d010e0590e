"""GET /_cacheproxy/diagnose/ID|last: the report on one of the last exchanges.

It quotes a few words of the prompt around a break, since the user asks for it by this page.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from cacheproxy.core.diagnose.report import failed, report
from cacheproxy.observe.recent import Recent
from cacheproxy.web.pages import Content

PREFIX = b"/_cacheproxy/diagnose/"


class Diagnosis:
    """The page; ``active``: the names of the rules that are on; ``captures``: their folder."""

    def __init__(
        self, recent: Recent, active: Collection[str], captures: Callable[[], str] = str
    ) -> None:
        self._recent = recent
        self._active = active
        self._captures = captures

    async def __call__(self, name: str) -> Mapping[str, Any] | Content | None:
        """Return the report on the exchange called ``name``, or None if there is none."""
        exchange = self._recent.find(name)
        if exchange is None:
            return None
        if exchange.has_failed:
            why = failed(exchange)
            return Content(b"application/json", json.dumps({"error": why}).encode(), 404)
        if exchange.verdict is None:
            return None
        captures = filter(None, [self._captures()])
        found = report(exchange, exchange.verdict, active=self._active, captures=tuple(captures))
        return found.as_json()
