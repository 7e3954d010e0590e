"""What is kept of one exchange: figures and names, nothing of its content.

A failed request is no turn: nothing came of it, whatever was evaluated for it.
"""

from __future__ import annotations

from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.prompt.client import client_of
from cacheproxy.observe.body import body_of
from cacheproxy.totals.columns import Json, columns_of

LONGEST_NAME = 120
"""Characters of a name that a client chose."""
LONGEST_PLACE = 200


def record_of(exchange: Exchange, served: str | None = None) -> Json:
    """Return the row of ``exchanges`` (``columns.EXCHANGES``), with texts for numbers of words.

    ``served``: the one model that its upstream serves, if it names one. In the result, no columns
    but needed for other tables: ``client``, the session's, or as the request names itself;
    ``served``; ``route``, None where there is but one upstream; ``price``, what its upstream
    charges; ``root``, the session that its own works for.
    """
    session, received = exchange.session, exchange.received
    failed = has_failed(exchange.outcome, exchange.status)
    verdict = None if failed else exchange.verdict
    where = None if verdict is None else verdict.where
    fired = [report.rule for report in exchange.reports if report.edits]
    sent = exchange.sent or received
    model = body_of(sent).get("model") if sent.dialect is not None else None
    record = columns_of(
        exchange=exchange,
        usage=exchange.usage,
        verdict=verdict,
        spared=None if failed else exchange.spared,
        parts=None if failed else exchange.parts,
    )
    record |= {
        "client": session.client if session is not None else client_of(received),
        "served": served,
        "route": exchange.route if exchange.server else None,
        "price": exchange.price or 0.0,
        "root": None if exchange.place is None else exchange.place.root,
        "session": session.id if session is not None else None,
        "model": model[:LONGEST_NAME] if isinstance(model, str) and model else None,
        "shape": (verdict and verdict.rewrite) or (where and where.kind),
        "rules": ",".join(fired)[: 4 * LONGEST_NAME] if fired else None,
        "turn": 0 if failed else exchange.turn,
        "failed": failed,
        "lost": None,
        "up": len(received.body),
        "place": None if where is None else where.path[:LONGEST_PLACE],
        "equal": None,
    }
    if verdict is not None and verdict.reason is not None:
        record["lost"] = None if verdict.lost is None else verdict.lost.tokens
        record["equal"] = _equal(verdict)
    return record


def _equal(verdict: Verdict) -> int | None:
    """Return the tokens that a turn which broke shares with the one before."""
    equal = verdict.expected if verdict.where is None else verdict.where.position
    return None if equal is None else equal.tokens


def has_failed(outcome: Outcome, status: int | None) -> bool:
    """Return whether it failed, on our side or the server's; a client may leave as it likes."""
    if outcome is Outcome.COMPLETE:
        return status is None or status >= 400
    return outcome is not Outcome.CLIENT_LEFT
