"""GET /_cacheproxy/exchanges and /_cacheproxy/diagnose/ID: what the last exchanges were."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.conversation.verdict import Verdict

PATH = b"/_cacheproxy/exchanges"


class Exchanges:
    """The list of the last exchanges, without anything of their texts."""

    def __init__(self, recent: Iterable[Exchange]) -> None:
        self._recent = recent

    async def __call__(self) -> Mapping[str, Any]:
        """Return the page's JSON object."""
        return {"exchanges": [summary(exchange) for exchange in self._recent]}


def summary(exchange: Exchange) -> dict[str, Any]:
    """Return the figures of one exchange as JSON: no prompt text, no query, no header."""
    usage, verdict, session = exchange.usage, exchange.verdict, exchange.session
    return {
        "number": exchange.number,
        "client": session.client if session is not None else None,
        "session": session.id if session is not None else None,
        "turn": exchange.turn,
        "side": exchange.side,
        "method": exchange.received.method,
        "path": exchange.received.path,
        "status": exchange.status,
        "outcome": exchange.outcome,
        "error": exchange.error,
        "usage": {"prompt": usage.prompt, "reused": usage.reused, "output": usage.output},
        "verdict": verdict.judgement if verdict is not None else None,
        "reason": verdict.reason if verdict is not None else None,
        "lost": _lost(verdict),
        "rules": {report.rule: len(report.edits) for report in exchange.reports if report.edits},
        "wall": exchange.wall,
        "first_byte": exchange.first_byte,
        "seconds": exchange.seconds,
    }


def _lost(verdict: Verdict | None) -> int | None:
    """Return the tokens that a break lost."""
    if verdict is None or verdict.reason is None or verdict.lost is None:
        return None
    return verdict.lost.tokens
