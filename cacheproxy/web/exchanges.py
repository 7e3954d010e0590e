"""GET /_cacheproxy/exchanges and /_cacheproxy/diagnose/ID|last: what the last exchanges were.

The list has nothing of their texts. The report on one quotes a few words of the prompt around a
break, since the user asks for it by this page; to those who may see prompts only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.diagnose.report import TurnReport, failed
from cacheproxy.observe.recent import Recent
from cacheproxy.proxy.downstream.request import ProxyRequest
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.row import page_of, row_of
from cacheproxy.web.pages import Answer, answer, said
from cacheproxy.web.prompts import Prompts

_NO_TURN = "no turn has come through this proxy yet"


async def exchanges(recent: Iterable[Exchange]) -> Mapping[str, Any]:
    """Return the list of the ``recent`` ones."""
    return page_of(map(row_of, recent))


def diagnosis(
    recent: Recent,
    report: Callable[[Exchange, Verdict], TurnReport],
    prompts: Prompts,
    request: ProxyRequest,
    name: str,
) -> bytes | int:
    """Answer with the report on the exchange called ``name``."""

    async def page() -> Answer | None:
        exchange = recent.find(name)
        if exchange is None:
            return None
        if exchange.has_failed:
            return said(failed(exchange), 404)
        if exchange.verdict is None:
            return None
        found = report(exchange, exchange.verdict).as_json()
        return found if prompts.why_not(request) is None else found | {"excerpts": None}

    return answer(request, page, _NO_TURN) if name == "last" else answer(request, page)
