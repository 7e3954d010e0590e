"""The log line of an exchange, without prompt text and keys."""

from __future__ import annotations

import time
from functools import lru_cache

from cacheproxy.core.adapt.late import NAME
from cacheproxy.core.adapt.placing import count_of
from cacheproxy.core.adapt.progress import NAME as PROGRESS
from cacheproxy.core.adapt.refusal import WITHHELD
from cacheproxy.core.conversation.speeds import generation_speed
from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.http1.headers import values
from cacheproxy.core.judge.advice import advice, waiting
from cacheproxy.core.judge.explain import command, said_of
from cacheproxy.core.kinds.known import name_of
from cacheproxy.core.kinds.profile import UNKNOWN
from cacheproxy.core.privacy.redact import carried, redact_target
from cacheproxy.core.prompt.client import NOBODY, Clients
from cacheproxy.record.exchange import WHOLE, Exchange, Outcome

_LONGEST = 200
"""Characters of a path at most: a request's may have 32 kB."""
_NOT_THERE = (404, 405, 501)
"""Statuses of a path or method that does not exist: their line shows the path."""


def lines(
    exchange: Exchange, *, verbose: bool = False, proxy: str = "", clients: Clients = NOBODY
) -> list[str]:
    """Return the line for ``exchange``, one for what broke it and, if ``verbose``, for each edit.

    A successful count of tokens has no line, unless ``verbose``. ``proxy``: option that commands
    need to find this proxy, "" if they need none. ``clients``: the known clients.
    """
    counted = not endpoint_of(exchange.received.path).purpose.evaluates
    if counted and not verbose and not exchange.has_failed:
        return []
    if exchange.turn:
        said = _turn(exchange)
    elif exchange.has_failed and exchange.session is not None and not counted:
        said = _refused(exchange, exchange.session.label)
    else:
        whole = exchange.outcome is Outcome.COMPLETE
        failed = _quoted(exchange.error) if whole else f"  {verdict(exchange)}"
        said = (
            f"{exchange.received.method[:_LONGEST]} {_path(exchange)}  {exchange.status or '-'}  "
            f"{exchange.seconds * 1e3:.0f} ms{failed}"
        )
    found = [f"{_clock(int(exchange.wall))} {said}"]
    verdict_ = exchange.verdict
    if exchange.was_at or (verdict_ is not None and (verdict_.reason or verdict_.evidence)):
        found += [f"         {reason}" for reason in (why(exchange, proxy),) if reason]
    if exchange.first_byte is None and exchange.has_given_up:
        cure = waiting(clients.named(exchange.client), proxy)
        found += [f"         unless somebody stopped it: {cure}"] if cure else []
    if not verbose:
        return found
    size = len(exchange.received.body)
    if size:
        sent = len(exchange.sent.body) if exchange.sent is not None else 0
        down = exchange.bytes_down or 0
        found.append(f"         body {size:,} bytes, sent {sent:,}, answer {down:,}")
    for report in exchange.reports:
        for edit in report.edits:
            found.append(f"         {report.rule}: {edit.path}: {edit.why}")
    return found


@lru_cache(8)
def _clock(second: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(second))


def verdict(exchange: Exchange) -> str:
    """Return the judgement in one word, ``side``, ``-`` if unknown, or how the exchange failed."""
    if exchange.outcome is not None and exchange.outcome not in WHOLE:
        if exchange.left_waiting and not exchange.error:
            return f"{Outcome.CLIENT_LEFT.upper()} {exchange.waited}"
        return f"{exchange.outcome.upper()}{': ' + exchange.error if exchange.error else ''}"
    if exchange.verdict is None:
        return Judgement.UNKNOWN
    word = exchange.verdict.judgement
    return "side" if exchange.side and word is not Judgement.CUT else word


def why(exchange: Exchange, proxy: str = "") -> str:
    """Return the cause of a break, by shape and place without its text, and the command for more.

    ``proxy``: option that the command needs, see ``lines``.
    """
    verdict_, moved = exchange.verdict, _moved(exchange)
    is_cut = exchange.reason is Reason.CUT
    if verdict_ is None or ((exchange.side or moved) and not is_cut):
        return moved
    if verdict_.reason is None:
        return "; ".join(verdict_.evidence)
    said = said_of(verdict_, exchange.usage)
    if is_cut:  # the server cut it without a word: whoever reads this line can mend it at once
        first = advice(verdict_, exchange.profile or UNKNOWN)[0]
        said += f"; {first.do}: {first.why}"
    return f"{verdict_.reason}: {said}.   {command(exchange.number, verdict_, proxy)}"


def _moved(exchange: Exchange) -> str:
    """Return from which upstream to which a conversation moved, and the tokens that it cost."""
    verdict_ = exchange.verdict
    if not exchange.has_moved:
        return ""
    lost = verdict_.lost if verdict_ is not None and verdict_.reason is Reason.MOVED else None
    tokens = exchange.usage.evaluated if lost is None else lost.tokens
    where = f"moved: {exchange.was_at} -> {exchange.server}"
    return where if tokens is None else f"{where}, {tokens:,} tokens"


def _turn(exchange: Exchange) -> str:
    """Return the line of a turn; unknown figures are left out, except for the tokens."""
    usage, session = exchange.usage, exchange.session
    prompt, reused, output, first = usage.prompt, usage.reused, usage.output, exchange.first_byte
    label = session.label if session is not None else "-"
    if exchange.place is not None and exchange.place.beside:
        label += f"+{exchange.place.beside}"
    said = f"{label:<12} #{exchange.turn:<3}"
    if prompt is None:
        said += "  tokens not reported"
    elif reused is None:
        said += f"  {prompt:>7,} tok  reuse not reported"
    else:
        said += f"  {prompt:>7,} tok  {reused / max(1, prompt):4.0%} reused"
        said += f"  {f'+{prompt - reused:,}':>8} new"
    if first is not None:
        said += f"  {first:5.1f}s first"
    if output is not None:
        speed = generation_speed(usage) if usage.output_seconds else None
        said += f"  {output:>4} out" + (f" {speed:.0f}/s" if speed is not None else "")
    if exchange.queued is not None:
        said += f"  waited {exchange.queued:.1f}s for {exchange.queued_for}"
    if exchange.joined is not None:
        said += f"  joined after {exchange.joined:.0f}s"
    said += f"  {verdict(exchange)}"
    if exchange.outcome is Outcome.EMPTY:
        said += "  EMPTY: the answer says nothing"
    if exchange.server:
        said += f"  at {exchange.server}"
    edits = _edits(exchange) if exchange.edits else ""
    return f"{said}  ({edits})" if edits else said


def _edits(exchange: Exchange, *, placed: bool = True) -> str:
    """Return the number of late system messages placed (not of edits), and each rule's edits.

    An edit is counted for each place that a rule changed. ``placed``: whether to name the former.
    """
    edited = _rules(exchange.edits)
    late = [count_of(each.edits) for each in exchange.reports if each.rule == NAME]
    if not (count := sum(late)) or not placed:
        return edited
    said = f"placed {count} late system message{'' if count == 1 else 's'}"
    return f"{said}; {edited}" if edited else said


@lru_cache(8)
def _rules(edits: tuple[tuple[str, int, str], ...]) -> str:
    """Return the words for the rules' edits: those of one conversation are mostly the same."""
    return ", ".join(
        f"{count} edit{'' if count == 1 else 's'} by rule {rule}"
        for rule, count, _ in edits
        if rule not in (NAME, PROGRESS)  # PROGRESS edits each request, but no prompt
    )


def _refused(exchange: Exchange, label: str) -> str:
    """Return the line of a prompt without an answer: who refused it, and in which words."""
    said = f" {verdict(exchange)}"
    if exchange.outcome is Outcome.COMPLETE:
        who = next(iter(values(exchange.response_headers, b"server")), b"")
        name = name_of(who.decode("latin-1")) or "the upstream"
        where = f" at {_path(exchange)}" if exchange.status in _NOT_THERE else ""
        said = f" from {name}{where}{_quoted(exchange.error)}"
    edited = _edits(exchange, placed=False)
    return f"{label}  {exchange.status}{said}" + (f"  ({edited})" if edited else "")


def _quoted(words: str | None) -> str:
    if not words:
        return ""
    return f": {words}" if words == WITHHELD else f': "{words}"'


def _path(exchange: Exchange) -> str:
    """Return the request's path without its query, which may hold keys."""
    received = exchange.received
    path = redact_target(received.path, carried(received.headers, received.target))
    return path if len(path) <= _LONGEST else f"{path[:_LONGEST]}…"
