"""``--server-log``: a verdict on each request of a llama-server log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict

from cacheproxy.client_setup.finding import Finding, ok, warn
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, Verdict
from cacheproxy.core.kinds.known import EXAMPLE
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.serverlog.reader import LogFacts, LoggedRequest, LogReader
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.report import Conclusion, DoctorReport, Working, of_record
from cacheproxy.doctor.server_checks import RAM_OFF
from cacheproxy.http_client import CommandError
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.words import counted

_LATER = (Judgement.OK, Judgement.BREAK)
_LOG = EXAMPLE.settings.log
_SHOWN = 40  #: requests in the table, at most; ``--json`` has all of them
_HEAD = "   line   task slot   prompt   reused              new     time  verdict"


def read(lines: Iterable[str], name: str) -> DoctorReport:
    """Return the report on a log called ``name``; raises CommandError if it shows no request."""
    reader = LogReader()
    requests = [request for line in lines for request in reader.feed(line)]
    requests = sorted([*requests, *reader.close()], key=lambda request: request.line)
    if not reader.facts.lines:
        raise CommandError(
            f"{name} is not a log of {EXAMPLE.name}: none of its lines looks like one of its log "
            "lines"
        )
    if not requests:
        raise CommandError(
            f"{name} is a log of {EXAMPLE.name}, but it shows no request; {_LOG.verbose}"
        )
    rows = (
        Exchange(
            Request("POST", ""),
            turn=2 if one.verdict in _LATER else 1,
            status=200 if one.error is None else 400,
            outcome=Outcome.COMPLETE,
            usage=Usage(one.prompt, one.reused),
            verdict=Verdict(one.verdict, Reason.CUT if one.truncated else None),
        )
        for one in requests
    )
    record = Record(tuple(rows), 0.0)
    return DoctorReport(
        _conclude(record),
        [*_findings(requests, record, reader.facts)],
        "cacheproxy doctor --server-log FILE --json",
        [*_table(requests), ""],
        {"requests": [asdict(request) for request in requests], "server": asdict(reader.facts)},
    )


def _conclude(record: Record) -> Conclusion:
    """Return the verdict; NOT MEASURED if no request could have reused an earlier one."""
    if not record.measured:
        text = f"{counted(len(record.rows), 'request')}, and the log does not say what was reused."
        return Conclusion(Working.NOT_MEASURED, text)
    if record.later or record.cut:
        return of_record(record)
    text = f"{record.figures} were reused; none could have reused an earlier one."
    return Conclusion(Working.NOT_MEASURED, text)


def _findings(
    requests: Sequence[LoggedRequest], record: Record, facts: LogFacts
) -> Iterator[Finding]:
    """Yield the findings: breaks, memory, RAM cache, context, figures that are worked out."""
    reusing = len(record.later) - len(record.breaks)
    if record.breaks:
        broken = [one for one in requests if one.verdict is Judgement.BREAK]
        lost = sum(one.evaluated or 0 for one in broken)
        seconds = sum(one.seconds or 0.0 for one in broken)
        text = f"{counted(len(record.breaks), 'request')} evaluated {lost:,} tokens in "
        text += f"{seconds:.1f} s, though an earlier request had left most of them in the cache "
        text += "(judged by the lengths; a log does not tell conversations apart). Without "
        text += "--server-log doctor tells whether your agent uses the proxy"
        yield record.state("breaks", text, "cacheproxy doctor")
    elif reusing:
        yield ok("breaks", f"none; {counted(reusing, 'request')} reused an earlier one")
    if recomputed := sum(one.recomputed for one in requests):
        text = f"{counted(recomputed, 'time')} the server could not go back in its memory (sliding "
        text += "window or recurrent model) and computed the whole prompt again"
        yield warn("memory", text, _LOG.memory)
    if facts.evicted:
        text = f"{counted(facts.evicted, 'prompt')} dropped from the cache in RAM"
        text += f" (limit {facts.ram_limit_mib:,.0f} MiB)" if facts.ram_limit_mib else ""
        yield warn("cache-ram", text, _LOG.evicted)
    elif facts.ram_prompts is not None:
        text = f"{counted(facts.ram_prompts, 'prompt')} kept in RAM, {facts.ram_mib:,.0f} MiB"
        yield ok("cache-ram", text)
    elif facts.ram_off:
        yield warn("cache-ram", RAM_OFF, _LOG.ram_off)
    if truncated := sum(one.truncated for one in requests):
        text = f"{counted(truncated, 'request')} ran out of context and was cut"
        yield warn("context", text, _LOG.context)
    if refused := sum(one.error is not None for one in requests):
        text = f"{counted(refused, 'request')} refused: the prompt is longer than the context"
        yield warn("context", text, _LOG.context)
    if any(one.derived for one in requests):
        text = "figures with ~ are worked out from the slots' final lengths; this log does not say "
        text += "whether the server could go back in its memory (sliding window, recurrent model), "
        text += "nor what its cache in RAM holds"
        yield ok("figures", text, _LOG.verbose_command)


def _table(requests: Sequence[LoggedRequest]) -> Iterator[str]:
    """Yield the lines of the table of requests, the last 40 of them."""
    if len(requests) > _SHOWN:
        yield f"  {len(requests) - _SHOWN:,} earlier requests are not shown; --json has them all"
    yield _HEAD
    for one in requests[-_SHOWN:]:
        mark = "~" if one.derived else ""
        share, new = " " * 6, one.evaluated
        if one.prompt and one.reused is not None:
            share, new = f"{one.reused / one.prompt:6.1%}", one.prompt - one.reused
        seconds = "?" if one.seconds is None else f"{one.seconds:,.2f} s"
        yield (
            f"{one.line:>7} {one.task:>6} {one.slot:>4} {_number(one.prompt, mark):>8} "
            f"{_number(one.reused, mark):>8} {share} {_number(new):>8} {seconds:>8}  "
            f"{one.verdict:<6} {'longer than the context' if one.error else one.reason}"
        ).rstrip()


def _number(number: int | None, mark: str = "") -> str:
    """Return a number of tokens for people, ``mark`` before it; ``?`` for None."""
    return "?" if number is None else f"{mark}{number:,}"
