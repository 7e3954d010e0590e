"""One log line per exchange: no prompt text, no keys, ever."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache

from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.speeds import generation_speed
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason
from cacheproxy.core.http1.headers import values
from cacheproxy.core.judge.explain import command, said_of
from cacheproxy.core.placement.placing import NAME, count_of
from cacheproxy.core.placement.refusal import WITHHELD
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.privacy.redact import carried, redact_target
from cacheproxy.core.servers.kinds import name_of

_log = Logger()
_GATHERED = 0.005
"""Seconds in which lines are gathered: those of exchanges that are seen together."""
_LONGEST = 200
"""Characters of a path: it may be 32 kB."""
_COUNTED = ("/count_tokens", "/apply-template")
_NOT_THERE = (404, 405, 501)
"""What is said of a path, which is shown then."""


class LogLine:
    """The observer that logs; ``verbose`` adds body sizes and each edit.

    ``proxy``: the option by which commands find this proxy, "" where they do by themselves.

    Lines that come together are one log event: an event of its own for each would be formatted,
    written and flushed by itself.
    """

    def __init__(self, clock: IReactorTime, *, verbose: bool) -> None:
        self.verbose = verbose
        self.proxy = ""
        self._clock = clock
        self._lines: list[str] = []
        self._timer: IDelayedCall | None = None

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Have them logged, soon; a count of tokens that went well only if verbose."""
        for exchange in exchanges:
            counted = exchange.received.path.endswith(_COUNTED) and not exchange.has_failed
            if self.verbose or not counted:
                self._lines += lines(exchange, verbose=self.verbose, proxy=self.proxy)
        if self._lines and self._timer is None:
            self._timer = self._clock.callLater(_GATHERED, self._tell)

    def finish(self) -> None:
        """Log what waits."""
        if self._timer is not None:
            self._timer.cancel()
            self._tell()

    def _tell(self) -> None:
        gathered, self._lines, self._timer = self._lines, [], None
        _log.info("{text}", text=hide_text("\n".join(gathered)))


def lines(exchange: Exchange, *, verbose: bool = False, proxy: str = "") -> Iterator[str]:
    """Yield the line for ``exchange`` and, if ``verbose``, one for each edit.

    ``proxy``: see ``LogLine``.
    """
    what = _turn if exchange.turn else _refused if _was_prompt(exchange) else _plain
    yield f"{_clock(int(exchange.wall))} {what(exchange)}"
    reason = why(exchange, proxy)
    if reason:
        yield f"         {reason}"
    if not verbose:
        return
    size = len(exchange.received.body)
    if size:
        sent = len(exchange.sent.body) if exchange.sent is not None else 0
        yield f"         body {size:,} bytes, sent {sent:,}, answer {exchange.bytes_down:,}"
    for report in exchange.reports:
        for edit in report.edits:
            yield f"         {report.rule}: {edit.path}: {edit.why}"


@lru_cache(8)
def _clock(second: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(second))


def verdict(exchange: Exchange) -> str:
    """Return the judgement in one word, ``side``, ``-`` (not known), or how it failed."""
    if exchange.outcome is not Outcome.COMPLETE:
        return f"{exchange.outcome.upper()}{': ' + exchange.error if exchange.error else ''}"
    if exchange.verdict is None:
        return Judgement.UNKNOWN
    return "side" if exchange.side else exchange.verdict.judgement


def why(exchange: Exchange, proxy: str = "") -> str:
    """Return what broke a turn, by its shape and place, never the text itself; and the command.

    ``proxy``: what the command needs beside it, see ``LogLine``.
    """
    verdict_, moved = exchange.verdict, _moved(exchange)
    if verdict_ is None or exchange.side or moved:
        return moved
    if verdict_.reason is None:
        return "; ".join(verdict_.evidence)
    said = said_of(verdict_, exchange.usage)
    return f"{verdict_.reason}: {said}.   {command(exchange.number, verdict_, proxy)}"


def _moved(exchange: Exchange) -> str:
    """From where to where a conversation went, of several upstreams, and what that took."""
    verdict_ = exchange.verdict
    if not exchange.has_moved:
        return ""
    lost = verdict_.lost if verdict_ is not None and verdict_.reason is Reason.MOVED else None
    tokens = exchange.usage.evaluated if lost is None else lost.tokens
    where = f"moved: {exchange.was_at} -> {exchange.server}"
    return where if tokens is None else f"{where}, {tokens:,} tokens"


def _turn(exchange: Exchange) -> str:
    session = exchange.session.label if exchange.session is not None else "-"
    parts = [f"{session:<12} #{exchange.turn:<3}", *_figures(exchange.usage)]
    if exchange.first_byte is not None:
        parts.append(f"{exchange.first_byte:5.1f}s first")
    parts += [*_output(exchange.usage), verdict(exchange)]
    if exchange.server:
        parts.append(f"at {exchange.server}")
    edited = "; ".join(filter(None, (_placed(exchange), _edited(exchange))))
    return "  ".join(parts) + (f"  ({edited})" if edited else "")


def _was_prompt(exchange: Exchange) -> bool:
    """Whether it would be a turn, had it not failed."""
    is_prompt = exchange.session is not None and not exchange.received.path.endswith(_COUNTED)
    return is_prompt and exchange.has_failed


def _refused(exchange: Exchange) -> str:
    """A prompt that was not answered: who turned it down, and in which words."""
    label = exchange.session.label if exchange.session is not None else "-"
    edited = _edited(exchange)
    said = _said(exchange) if exchange.outcome is Outcome.COMPLETE else f" {verdict(exchange)}"
    return f"{label}  {exchange.status}{said}" + (f"  ({edited})" if edited else "")


def _said(exchange: Exchange) -> str:
    who = next(iter(values(exchange.response_headers, b"server")), b"")
    name = name_of(who.decode("latin-1")) or "the upstream"
    where = f" at {_path(exchange)}" if exchange.status in _NOT_THERE else ""
    return f" from {name}{where}{_quoted(exchange.error)}"


def _quoted(words: str | None) -> str:
    if not words:
        return ""
    return f": {words}" if words == WITHHELD else f': "{words}"'


def _figures(usage: Usage) -> Iterator[str]:
    if usage.prompt is None:
        yield "tokens not reported"
        return
    yield f"{usage.prompt:>7,} tok"
    if usage.reused is None or usage.evaluated is None:
        yield "reuse not reported"
    else:
        yield f"{usage.reused / max(1, usage.prompt):4.0%} reused"
        yield f"{f'+{usage.evaluated:,}':>8} new"


def _output(usage: Usage) -> Iterator[str]:
    if usage.output is not None:
        speed = generation_speed(usage)
        yield f"{usage.output:>4} out" + (f" {speed:.0f}/s" if speed is not None else "")


def _plain(exchange: Exchange) -> str:
    """A request that is no turn."""
    whole = exchange.outcome is Outcome.COMPLETE
    failed = _quoted(exchange.error) if whole else f"  {verdict(exchange)}"
    return (
        f"{exchange.received.method[:_LONGEST]} {_path(exchange)}  {exchange.status or '-'}  "
        f"{exchange.seconds * 1e3:.0f} ms{failed}"
    )


def _path(exchange: Exchange) -> str:
    """Without the query, which may hold keys."""
    received = exchange.received
    path = redact_target(received.path, carried(received.headers, received.target))
    return path if len(path) <= _LONGEST else f"{path[:_LONGEST]}…"


def _placed(exchange: Exchange) -> str:
    """How many late system messages were given to the user: messages, not edits."""
    count = sum(count_of(report.edits) for report in exchange.reports if report.rule == NAME)
    return f"placed {count} late system message{'' if count == 1 else 's'}" if count else ""


def _edited(exchange: Exchange) -> str:
    """How many places each rule changed."""
    return ", ".join(
        f"{(count := len(report.edits))} edit{'' if count == 1 else 's'} by rule {report.rule}"
        for report in exchange.reports
        if report.edits and report.rule != NAME
    )
