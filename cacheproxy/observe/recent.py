"""The last exchanges, kept in memory for our pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from cacheproxy import hookimpl, quick
from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried, is_plain, redact_target
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.record.exchange import Exchange

_MOST = 200


class Recent:
    """The observer that remembers; without the bodies, which would be the prompts themselves.

    What a verdict quotes of a break (a few words on both sides) is kept with it, so that it can
    be shown to a user who asks; credentials in it are not, nor those in the target.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._kept: deque[Exchange] = deque(maxlen=most)

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Remember them without their bodies and headers."""
        self._kept.extend(map(_bare, exchanges))

    def __iter__(self) -> Iterator[Exchange]:
        """Yield what is kept, the oldest first."""
        return iter(self._kept)

    def find(self, name: str) -> Exchange | None:
        """Return the exchange with the number ``name``.

        ``last``: the latest turn; while there is none, the latest request that failed as one.
        """
        failed = None
        for exchange in reversed(self._kept):
            if exchange.turn if name == "last" else str(exchange.number) == name:
                return exchange
            if name == "last" and exchange.session is not None and exchange.has_failed:
                failed = failed or exchange
        return failed


def _bare(exchange: Exchange) -> Exchange:
    received, verdict = exchange.received, exchange.verdict
    known: Collection[bytes] = ()
    if (verdict is not None and verdict.where is not None) or not is_plain(received.path):
        known = carried(received.headers, received.target)
    bare = Request(received.method, redact_target(received.path, known))
    return replace(
        exchange,
        received=bare,
        sent=None if exchange.sent is None else bare,
        response_headers=(),
        response_body=None,
        reports=tuple(map(_without_text, exchange.reports)),
        verdict=_without_credentials(verdict, known),
        place=None if exchange.place is None else exchange.place._replace(pair=None),
    )


def _without_text(report: RuleReport) -> RuleReport:
    """Keep where a rule edited and why: what it put there may be as long as a body."""
    if not report.edits:
        return report
    edits = tuple(Edit(edit.path, "", edit.why, edit.span) for edit in report.edits)
    return RuleReport(report.rule, edits, report.error)


def _without_credentials(verdict: Verdict | None, known: Collection[bytes]) -> Verdict | None:
    if verdict is None or verdict.where is None:
        return verdict
    where = verdict.where
    was, now = hide_text(where.was, known), hide_text(where.now, known)
    return replace(verdict, where=replace(where, was=was, now=now))
