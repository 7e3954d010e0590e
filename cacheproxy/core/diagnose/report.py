"""The report on one turn: the same from a running proxy as from a capture."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import msgspec

from cacheproxy.core.conversation.verdict import (
    Basis,
    Break,
    Judgement,
    Reason,
    Rewrite,
    Sign,
    TokenCount,
    Verdict,
)
from cacheproxy.core.diagnose.volatile import Field
from cacheproxy.core.diff.kind import ChangeKind, token_at
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.judge.advice import Advice, Changed, advice, often
from cacheproxy.core.judge.explain import said_of
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.prompt import prompt_of
from cacheproxy.core.servers.profile import UNKNOWN
from cacheproxy.record.exchange import Exchange

CHARS_PER_TOKEN = 4.0
_LEFT, _RIGHT = 48, 36
"""Characters of an excerpt before and after the difference."""


class ReportError(ValueError):
    """Not the JSON of what was expected."""


class AsJson:
    """What a running proxy tells of a turn. It quotes the prompt: for the user who asks, only."""

    __slots__ = ()

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        built: dict[str, Any] = msgspec.to_builtins(self)
        return built

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Return what ``value`` is; raises ReportError."""
        try:
            return msgspec.convert(value, cls)
        except msgspec.ValidationError as error:
            raise ReportError(f"not a {cls.__name__.lower()}: {error}") from None


@dataclass(frozen=True, slots=True)
class Excerpts:
    """The line that changed."""

    was: str  #: before
    now: str  #: now
    marked: tuple[int, int]  #: (start, end) of the change in ``now``, in characters


@dataclass(frozen=True, slots=True)
class TurnReport(AsJson):
    """One turn, compared with the turn before."""

    number: int  #: of the exchange, or its place in the captures
    client: str  #: the client's name
    session: str  #: as the log calls it
    turn: int  #: its number in the session, from 1
    side: bool  #: a request beside the conversation
    judgement: Judgement  #: as in ``Verdict``
    reason: Reason | None  #: as in ``Verdict``
    prompt: TokenCount | None  #: its tokens
    equal: TokenCount | None  #: tokens that it shares with the turn before
    reused: int | None  #: tokens, as the server said
    evaluated: int | None  #: tokens, as the server said
    seconds: float | None  #: of reading the prompt, as the server said
    path: str | None = None  #: JSON pointer to where they part
    byte: int | None = None  #: offset in the text there
    excerpts: Excerpts | None = None  #: the line that changed
    kind: ChangeKind | None = None  #: the shape of what changed
    frequency: str = ""  #: in how many turns the same field changed, for people
    source: str = ""  #: who wrote it
    rules: tuple[str, ...] = ()  #: those that take the field away
    on: tuple[str, ...] = ()  #: of these, those that are on
    seen: tuple[int, int] | None = None  #: in how many steps of how many the same field changed
    lost: TokenCount | None = None  #: as in ``Verdict``
    seconds_lost: float | None = None  #: as in ``Verdict``
    saved: TokenCount | None = None  #: as in ``Verdict``
    basis: Basis | None = None  #: as in ``Verdict``
    rewrite: Rewrite | None = None  #: as in ``Verdict``
    beneath: Reason | None = None  #: as in ``Verdict``
    evidence: tuple[Sign, ...] = ()  #: as in ``Verdict``
    ruled_out: tuple[str, ...] = ()  #: as in ``Verdict``
    says: str = ""  #: why it broke, in a sentence
    advice: tuple[Advice, ...] = ()  #: what can be done


def report(
    exchange: Exchange,
    verdict: Verdict,
    *,
    field: Field | None = None,
    seen: tuple[int, int] | None = None,
    active: Collection[str] = (),
    number: int | None = None,
    turn: int | None = None,
    captures: Sequence[str] = (),
    clients: Iterable[Client] = (),
) -> TurnReport:
    """Return the report on a turn.

    ``verdict``: with its excerpts, as it was reached. ``field``: the volatile field at the break,
    with the rules that cover it, if the bodies are at hand. ``active``: the names of the rules
    that are on. ``number`` and ``turn`` where the exchange does not know its own. ``captures``:
    files or folders of them, and ``clients``: those that packages declare, for the advice.
    """
    where = verdict.where
    usage = exchange.usage
    kind = field.kind if field is not None else where.kind if where is not None else None
    rules = field.rules if field is not None else ()
    found = TurnReport(
        number=exchange.number if number is None else number,
        client=exchange.session.client if exchange.session is not None else "",
        session=exchange.session.id if exchange.session is not None else "",
        turn=exchange.turn if turn is None else turn,
        side=exchange.side,
        judgement=verdict.judgement,
        reason=verdict.reason,
        prompt=_prompt(exchange),
        equal=where.position if where is not None else verdict.expected,
        reused=usage.reused,
        evaluated=usage.evaluated,
        seconds=usage.prompt_seconds,
        path=(where.path.removesuffix("/role") or None) if where is not None else None,
        # What a template did stands in no request: its excerpts are of the rendered prompts.
        byte=where.byte if where is not None and verdict.rewrite is None else None,
        excerpts=_excerpts(where) if where is not None else None,
        kind=kind,
        frequency=often(kind, seen),
        source=field.source if field is not None else "",
        rules=rules,
        on=tuple(name for name in rules if name in active),
        seen=seen,
        lost=verdict.lost if verdict.judgement is Judgement.BREAK else None,
        seconds_lost=verdict.seconds_lost,
        saved=verdict.saved,
        basis=verdict.basis,
        rewrite=verdict.rewrite,
        beneath=verdict.beneath,
        evidence=verdict.evidence,
        ruled_out=verdict.ruled_out,
        says=said_of(verdict, usage),
    )
    live = exchange.number if number is None else None
    changed = Changed(kind, found.source, rules, found.on, seen, tuple(captures), live)
    profile = exchange.profile or UNKNOWN
    client = next((one for one in clients if one.name == found.client), None)
    return replace(found, advice=advice(verdict, profile, client, changed))


def failed(exchange: Exchange, number: int | None = None) -> str:
    """Return why there is no report on a request that failed. ``number``: as in ``report``."""
    number = exchange.number if number is None else number
    said = f" ({exchange.error})" if exchange.error else ""
    return (
        f"request {number} failed with status {exchange.status}{said}: the server evaluated nothing"
    )


def _prompt(exchange: Exchange) -> TokenCount | None:
    if exchange.usage.prompt is not None:
        return TokenCount(exchange.usage.prompt, "measured")
    prompt = prompt_of(exchange.sent or exchange.received)
    if prompt is None:
        return None
    return TokenCount(round(prompt.chars / CHARS_PER_TOKEN), "estimated")


def _excerpts(where: Break) -> Excerpts | None:
    """Cut a break's excerpts to the line in which they differ."""
    was, now = where.was, where.now
    if not was and not now:
        return None
    at = common_prefix(was, now)
    token = token_at(was, now, at, at)
    start = now.rfind("\n", 0, at) + 1
    start = max(start, (token.now[0] if token is not None else at) - _LEFT)
    lines = [text[start : at + _RIGHT] for text in (was, now)]
    # A change that begins with a new line is shown with it, else there would be nothing to see.
    lines = [text.split("\n")[0] or text.replace("\n", "⏎") for text in lines]
    span = token.now if token is not None else (at, at + 1)
    marked = (span[0] - start, min(span[1] - start, len(lines[1])))
    return Excerpts(lines[0], lines[1], (marked[0], max(marked)))
