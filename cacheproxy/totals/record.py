"""What is kept of one exchange: figures and names, nothing of its content.

A failed request is no turn: nothing came of it, whatever was evaluated for it.
"""

from __future__ import annotations

from typing import NamedTuple

from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.verdict import Judgement, Reason, Verdict
from cacheproxy.core.prompt.client import client_of
from cacheproxy.observe.body import body_of

LONGEST_NAME = 120
"""Characters of a name that a client chose."""
LONGEST_PLACE = 200
NO_COLUMNS = ("began", "client", "route", "price", "root")
_NO_VERDICT = Verdict(Judgement.UNKNOWN)


class Record(NamedTuple):
    """One exchange, by the columns that it is kept in (``schema/001.sql``), with texts for numbers.

    ``began``: seconds on the clock that only goes forward; ``client``: the session's, or as the
    request names itself; ``route``: the one that it took, None where there is but one upstream;
    ``price``: what its upstream charges; ``root``: the session that its own works for. These are no
    columns. ``rendered``: the order of the prompt's parts, of which ``tools`` to ``newest`` are.
    """

    began: float
    client: str
    route: str | None
    price: float
    root: Session | None
    at: int
    number: int
    upstream: str
    session: str | None
    model: str | None
    dialect: str | None
    outcome: Outcome
    verdict: Judgement | None
    reason: Reason | None
    shape: str | None
    rules: str | None
    turn: int
    side: bool
    failed: bool
    status: int | None
    prompt: int | None
    reused: int | None
    evaluated: int | None
    output: int | None
    prompt_ms: int | None
    output_ms: int | None
    first_ms: int | None
    total_ms: int
    added_us: int | None
    lost: int | None
    lost_ms: int | None
    spared: int | None
    spared_ms: int | None
    up: int
    down: int
    place: str | None
    tools: int | None
    system: int | None
    history: int | None
    thinking: int | None
    newest: int | None
    rendered: str | None
    equal: int | None


def record_of(exchange: Exchange, now: float) -> Record:
    """Return the record; ``now``: the moment on the clock that only goes forward."""
    usage, session, received = exchange.usage, exchange.session, exchange.received
    failed = has_failed(exchange.outcome, exchange.status)
    verdict, spared = (None, None) if failed else (exchange.verdict, exchange.spared)
    judged = verdict or _NO_VERDICT
    where, reason, parts = judged.where, judged.reason, None if failed else exchange.parts
    fired = [report.rule for report in exchange.reports if report.edits]
    sent = exchange.sent or received
    model = body_of(sent).get("model") if sent.dialect is not None else None
    return Record(
        began=now - exchange.seconds,
        client=session.client if session is not None else client_of(received),
        route=exchange.route if exchange.server else None,
        price=exchange.price or 0.0,
        root=None if exchange.place is None else exchange.place.root,
        at=milliseconds(exchange.wall),
        number=exchange.number,
        upstream=exchange.upstream,
        session=session.id if session is not None else None,
        model=model[:LONGEST_NAME] if isinstance(model, str) and model else None,
        dialect=received.dialect,
        outcome=exchange.outcome,
        verdict=verdict.judgement if verdict is not None else None,
        reason=reason,
        shape=judged.rewrite or (where.kind if where is not None else None),
        rules=",".join(fired)[: 4 * LONGEST_NAME] if fired else None,
        turn=0 if failed else exchange.turn,
        side=exchange.side,
        failed=failed,
        status=exchange.status,
        prompt=usage.prompt,
        reused=usage.reused,
        evaluated=usage.evaluated,
        output=usage.output,
        prompt_ms=_milliseconds(usage.prompt_seconds),
        output_ms=_milliseconds(usage.output_seconds),
        first_ms=_milliseconds(exchange.first_byte),
        total_ms=milliseconds(exchange.seconds),
        added_us=None if exchange.sent_after is None else round(exchange.sent_after * 1e6),
        lost=judged.lost.tokens if reason is not None and judged.lost is not None else None,
        lost_ms=_milliseconds(judged.seconds_lost),
        spared=spared.tokens if spared is not None else None,
        spared_ms=_milliseconds(spared.seconds if spared is not None else None),
        up=len(received.body),
        down=exchange.bytes_down,
        place=where.path[:LONGEST_PLACE] if where is not None else None,
        tools=parts and parts.tools,
        system=parts and parts.system,
        history=parts and parts.history,
        thinking=parts and parts.thinking,
        newest=parts and parts.newest,
        rendered=parts and parts.order,
        equal=_equal(judged),
    )


def _equal(verdict: Verdict) -> int | None:
    """Return the tokens that a turn which broke shares with the one before."""
    equal = verdict.expected if verdict.where is None else verdict.where.position
    return None if verdict.reason is None or equal is None else equal.tokens


def has_failed(outcome: Outcome, status: int | None) -> bool:
    """Return whether it failed, on our side or the server's; a client may leave as it likes."""
    if outcome is Outcome.COMPLETE:
        return status is None or status >= 400
    return outcome is not Outcome.CLIENT_LEFT


def milliseconds(seconds: float) -> int:
    """Return ``seconds`` in whole milliseconds."""
    return round(seconds * 1e3)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else milliseconds(seconds)
