"""What is kept of one exchange: figures and names, nothing of its content.

A failed request is no turn: nothing came of it, whatever was evaluated for it.
"""

from __future__ import annotations

from typing import Any

from cacheproxy.core.conversation.verdict import Judgement, Verdict
from cacheproxy.core.prompt.client import client_of
from cacheproxy.record.body import body_of
from cacheproxy.record.exchange import Exchange

LONGEST_NAME = 120
"""Characters of a name that a client chose."""
LONGEST_PLACE = 200
_NO_VERDICT = Verdict(Judgement.UNKNOWN)


def record_of(exchange: Exchange, served: str | None = None) -> dict[str, Any]:
    """Return the row of ``exchanges`` (``schema/001.sql`` and on), with texts for numbers of words.

    ``served``: the one model that its upstream serves, if it names one. In the result, no columns
    but needed for other tables: ``client``, the session's, or as the request names itself;
    ``served``; ``route``, None where there is but one upstream; ``price``, what its upstream
    charges; ``root``, the session that its own works for.
    """
    usage, session, received = exchange.usage, exchange.session, exchange.received
    failed = exchange.went_wrong
    verdict, spared = (None, None) if failed else (exchange.verdict, exchange.spared)
    judged = verdict or _NO_VERDICT
    where, reason, parts = judged.where, judged.reason, None if failed else exchange.parts
    fired = [report.rule for report in exchange.reports if report.edits]
    sent = exchange.sent or received
    model = body_of(sent).get("model") if sent.dialect is not None else None
    return {
        "client": session.client if session is not None else client_of(received),
        "served": served,
        "route": exchange.route if exchange.server else None,
        "price": exchange.price or 0.0,
        "root": None if exchange.place is None else exchange.place.root,
        "at": milliseconds(exchange.wall),
        "number": exchange.number,
        "upstream": exchange.upstream,
        "session": session.id if session is not None else None,
        "model": model[:LONGEST_NAME] if isinstance(model, str) and model else None,
        "dialect": received.dialect.name if received.dialect is not None else None,
        "outcome": exchange.outcome,
        "verdict": verdict.judgement if verdict is not None else None,
        "reason": reason,
        "shape": judged.rewrite or (where.kind if where is not None else None),
        "rules": ",".join(fired)[: 4 * LONGEST_NAME] if fired else None,
        "turn": 0 if failed else exchange.turn,
        "side": exchange.side,
        "failed": failed,
        "status": exchange.status,
        "prompt": usage.prompt,
        "reused": usage.reused,
        "evaluated": usage.evaluated,
        "output": usage.output,
        "prompt_ms": _milliseconds(usage.prompt_seconds),
        "output_ms": _milliseconds(usage.output_seconds),
        "first_ms": _milliseconds(exchange.first_byte),
        "total_ms": milliseconds(exchange.seconds),
        "added_us": None if exchange.sent_after is None else round(exchange.sent_after * 1e6),
        "lost": judged.lost.tokens if reason is not None and judged.lost is not None else None,
        "lost_ms": _milliseconds(judged.seconds_lost),
        "spared": spared.tokens if spared is not None else None,
        "spared_ms": _milliseconds(spared.seconds if spared is not None else None),
        "up": len(received.body),
        "down": exchange.bytes_down,
        "place": where.path[:LONGEST_PLACE] if where is not None else None,
        "tools": parts and parts.tools,
        "system": parts and parts.system,
        "history": parts and parts.history,
        "thinking": parts and parts.thinking,
        "newest": parts and parts.newest,
        "rendered": parts and parts.order,
        "equal": _equal(judged),
    }


def _equal(verdict: Verdict) -> int | None:
    """Return the tokens that a turn which broke shares with the one before."""
    equal = verdict.expected if verdict.where is None else verdict.where.position
    return None if verdict.reason is None or equal is None else equal.tokens


def milliseconds(seconds: float) -> int:
    """Return ``seconds`` in whole milliseconds."""
    return round(seconds * 1e3)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else milliseconds(seconds)
