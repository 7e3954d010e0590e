"""A row of the page /_cacheproxy/exchanges, as those read it who ask the proxy for it."""

from __future__ import annotations

from typing import Any

import msgspec

from cacheproxy.record.exchange import Outcome

_FAILED = 400
"""The first status that tells of a failure."""


class RowUsage(msgspec.Struct, frozen=True):
    """What the server counted; None: it did not say."""

    prompt: int | None = None  #: tokens
    reused: int | None = None  #: tokens of the prompt


class ExchangeRow(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one exchange; what an older proxy does not say has its default."""

    number: int = 0  #: the proxy's, counted from 1
    client: str | None = None  #: its name; None: it spoke no API that we know
    session: str | None = None  #: None as for ``client``
    turn: int = 0  #: of its session, from 1; 0: it is none
    side: bool = False  #: whether it was beside the conversation
    path: str = ""  #: that the client asked for, without query
    status: int | None = None  #: as the client saw it; None: it saw nothing
    outcome: str | None = Outcome.COMPLETE  #: how it ended
    error: str | None = None  #: what went wrong, in the server's words or ours
    usage: RowUsage = RowUsage()  #: tokens
    verdict: str | None = None  #: a Judgement; None: it was not judged
    reason: str | None = None  #: of the verdict
    rewrite: str | None = None  #: what the template did
    lost: int | None = None  #: tokens of the turn before that were evaluated again
    expected: int | None = None
    """Tokens that could have been reused, by our comparison; for a turn that goes on from the one
    before all that this one had."""
    wall: float = 0.0  #: when it began, in seconds since the epoch
    seconds: float = 0.0  #: how long it took

    @property
    def prompt(self) -> int | None:
        """Tokens of the prompt; None: not reported."""
        return self.usage.prompt

    @property
    def reused(self) -> int | None:
        """Tokens of the prompt that were reused; None: not reported."""
        return self.usage.reused

    @property
    def end(self) -> float:
        """When it was over, in seconds since the epoch."""
        return self.wall + self.seconds

    @property
    def has_failed(self) -> bool:
        """Whether its client got an error, or half an answer. One that left is no failure."""
        return self.outcome == Outcome.UPSTREAM_FAILED or (self.status or 0) >= _FAILED


def rows_in(page: Any) -> list[ExchangeRow] | None:
    """Return the rows of a page, without those that are none; None where it is no such page."""
    rows = page.get("exchanges") if isinstance(page, dict) else page
    if not isinstance(rows, list):
        return None
    return [row for each in rows if isinstance(each, dict) and (row := _row(each)) is not None]


def _row(value: dict[str, Any]) -> ExchangeRow | None:
    try:
        return msgspec.convert(value, ExchangeRow)
    except msgspec.ValidationError:
        return None
