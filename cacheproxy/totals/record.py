"""What is kept of one exchange: figures and names, nothing of its content.

A failed request is no turn: nothing came of it, whatever was evaluated for it.
"""

from __future__ import annotations

from typing import NamedTuple

from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.core.prompt.client import client_of
from cacheproxy.core.prompt.request import Request

LONGEST_NAME = 120
"""Characters of a name that a client chose."""
LONGEST_PLACE = 200
_PARSED_HERE = 32 << 10
"""Bytes of a body that is read here for its model's name, if nobody has read it yet."""


class Record(NamedTuple):
    """One exchange. ``began``: on the clock that only goes forward. Times in seconds, as there.

    ``lost``, ``lost_seconds``: of a break. ``spared``, ``spared_seconds``: see ``core.spared``.
    ``up``, ``down``: bytes of the bodies. ``place``: JSON pointer of a break, ``shape`` what kind
    of text it is, or what the template did.
    """

    wall: float
    began: float
    number: int
    upstream: str
    client: str
    session: str | None
    model: str | None
    dialect: str | None
    turn: int
    side: bool
    status: int | None
    outcome: Outcome
    failed: bool
    prompt: int | None
    reused: int | None
    evaluated: int | None
    output: int | None
    prompt_seconds: float | None
    output_seconds: float | None
    first_byte: float | None
    seconds: float
    added: float | None
    verdict: Judgement | None
    reason: Reason | None
    shape: str | None
    place: str | None
    lost: int | None
    lost_seconds: float | None
    spared: int | None
    spared_seconds: float | None
    rules: str | None
    up: int
    down: int

    @property
    def is_break(self) -> bool:
        """Whether a conversation broke: what comes beside it (a title) is expected to differ."""
        return self.reason is not None and not self.side


def record_of(exchange: Exchange, now: float) -> Record:
    """Return the record; ``now``: the moment on the clock that only goes forward."""
    usage, session = exchange.usage, exchange.session
    status, outcome = exchange.status, exchange.outcome
    failed = has_failed(outcome, status)
    verdict, spared = (None, None) if failed else (exchange.verdict, exchange.spared)
    where = verdict.where if verdict is not None else None
    lost = verdict.lost if verdict is not None and verdict.reason is not None else None
    fired = [report.rule for report in exchange.reports if report.edits]
    rewrite = verdict.rewrite if verdict is not None else None
    shape = rewrite or (where.kind if where is not None else None)
    sent = exchange.sent or exchange.received
    return Record(
        wall=exchange.wall,
        began=now - exchange.seconds,
        number=exchange.number,
        upstream=exchange.upstream,
        client=(session.client if session is not None else client_of(exchange.received)),
        session=session.id if session is not None else None,
        model=_model(sent),
        dialect=exchange.received.dialect,
        turn=0 if failed else exchange.turn,
        side=exchange.side,
        status=status,
        outcome=outcome,
        failed=failed,
        prompt=usage.prompt,
        reused=usage.reused,
        evaluated=usage.evaluated,
        output=usage.output,
        prompt_seconds=usage.prompt_seconds,
        output_seconds=usage.output_seconds,
        first_byte=exchange.first_byte,
        seconds=exchange.seconds,
        added=exchange.sent_after,
        verdict=verdict.judgement if verdict is not None else None,
        reason=verdict.reason if verdict is not None else None,
        shape=shape,
        place=where.path[:LONGEST_PLACE] if where is not None else None,
        lost=lost.tokens if lost is not None else None,
        lost_seconds=verdict.seconds_lost if verdict is not None else None,
        spared=spared.tokens if spared is not None else None,
        spared_seconds=spared.seconds if spared is not None else None,
        rules=",".join(fired)[: 4 * LONGEST_NAME] if fired else None,
        up=len(exchange.received.body),
        down=exchange.bytes_down,
    )


def has_failed(outcome: Outcome, status: int | None) -> bool:
    """Return whether it failed, on our side or the server's; a client may leave as it likes."""
    if outcome is Outcome.COMPLETE:
        return status is None or status >= 400
    return outcome is not Outcome.CLIENT_LEFT


def _model(request: Request) -> str | None:
    if "document" not in request.__dict__ and len(request.body) > _PARSED_HERE:
        return None
    body = request.json if request.dialect is not None else None
    model = body.get("model") if body is not None else None
    return model[:LONGEST_NAME] if isinstance(model, str) and model else None
