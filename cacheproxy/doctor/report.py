"""Verdict and report: whether the cache works, and a line for each finding."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from rich.console import Console
from rich.text import Text

from cacheproxy.client_setup.finding import Finding, FindingState
from cacheproxy.core.kinds.profile import for_people
from cacheproxy.core.kinds.status import NOTHING, Look
from cacheproxy.doctor.facts import Examination
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.trial import Shot, Trial, TrialOutcome
from cacheproxy.http_client import shown, with_proxy
from cacheproxy.observe.failures import summary
from cacheproxy.words import capitalised, counted

_LOSSES = (TrialOutcome.SEVERAL, TrialOutcome.KEEPS_NOTHING, TrialOutcome.NOT_REUSED)
"""Outcomes of trials that prove a fault of the cache."""
QUESTION = "Is the cache working?"
_COMMAND = "cacheproxy doctor --json"
_INDENT = 18


class Working(StrEnum):
    """The answer to the question whether the cache works."""

    YES = "YES"
    MOSTLY = "MOSTLY"
    NO = "NO"
    NOT_MEASURED = "NOT MEASURED"


_COLOURS = {
    FindingState.OK: "green",
    FindingState.NOTE: "cyan",
    FindingState.WARN: "yellow",
    FindingState.FAIL: "bold red",
    Working.YES: "bold green",
    Working.MOSTLY: "bold yellow",
    Working.NO: "bold red",
    Working.NOT_MEASURED: "bold yellow",
}


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Doctor's verdict."""

    answer: Working  #: whether the cache is working
    text: str  #: sentence that gives the reason


def conclude(facts: Examination, findings: Sequence[Finding]) -> Conclusion:
    """Return the verdict: evidence from agents' requests comes before that from test prompts."""
    if facts.server is None:
        text = f"{capitalised(facts.upstream.problem or '')}."
        return Conclusion(Working.NOT_MEASURED, text)
    record = facts.record
    if record.failing:
        text = ", and ".join(map(summary, record.failing.values()))
        return Conclusion(Working.NO, f"{capitalised(text)}.")
    if record.later or record.cut:
        return of_record(record)
    failed = {finding.name for finding in findings if finding.state is FindingState.FAIL}
    if facts.proxy.is_up and "traffic" in failed:
        return Conclusion(Working.NOT_MEASURED, "No agent request has come through the proxy yet.")
    for one in facts.checked:
        if facts.proxy.is_up and one.client.name in failed:
            text = f"{one.client.called} is set up to go past the proxy."
            return Conclusion(Working.NOT_MEASURED, text)
    if not facts.trials:
        return Conclusion(Working.NOT_MEASURED, "No test prompt was sent.")
    outcomes = facts.outcomes
    first = min(outcomes, key=[*TrialOutcome].index)
    if first is TrialOutcome.SEVERAL or TrialOutcome.WORKS not in outcomes:
        return Conclusion(Working.NO if first in _LOSSES else Working.NOT_MEASURED, first)
    best = facts.trials[outcomes.index(TrialOutcome.WORKS)].second
    assert best is not None
    figures = f"{best.figures} tokens"
    if not facts.proxy.is_up:
        where = shown(facts.proxy.url)
        text = f"No proxy answers at {where}. With the rules a test prompt reused {figures}."
        return Conclusion(Working.NO, text)
    if first is not TrialOutcome.WORKS:
        broken = facts.trials[outcomes.index(first)]
        return Conclusion(Working.NO, f"A test prompt was reused, but not on {broken.path}.")
    text = f"A test prompt reused {figures}; no agent's turns have been measured lately."
    return Conclusion(Working.YES, text)


def of_record(record: Record) -> Conclusion:
    """Return the verdict by later turns, YES, MOSTLY or NO: a first turn cannot reuse anything."""
    cut, turns, state = len(record.cut), len(record.turns), record.state
    lost = f"{len(record.breaks)} of {counted(len(record.later), 'follow-up turn')} lost the cache"
    parts = [f"The server cut {cut} of {counted(turns, 'turn')} to fit its context"] if cut else []
    parts += [lost] if state is not FindingState.OK else []
    parts += [f"{record.figures} were reused"] if record.measured else []
    parts += [lost] if record.breaks and state is FindingState.OK else []
    is_bad = state is FindingState.FAIL or (cut and 2 * cut >= turns)
    answer = Working.MOSTLY if cut or state is not FindingState.OK else Working.YES
    return Conclusion(Working.NO if is_bad else answer, f"{'; '.join(parts)}.")


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """The contents of a report."""

    conclusion: Conclusion  #: the verdict, printed first
    findings: Sequence[Finding]  #: the findings, a line for each
    command: str = _COMMAND  #: the command that prints the report as JSON
    between: Sequence[str] = ()  #: lines between verdict and findings
    more: dict[str, Any] = field(default_factory=dict)  #: further members for ``--json``

    @property
    def exit_code(self) -> int:
        """1 if something FAILs, else 0."""
        return int(any(finding.state is FindingState.FAIL for finding in self.findings))

    def json(self) -> dict[str, Any]:
        """Return the report as one JSON object."""
        return {
            "answer": str(self.conclusion.answer),
            "text": self.conclusion.text,
            "exit_code": self.exit_code,
            "findings": [asdict(finding) for finding in self.findings],
            **self.more,
        }

    def text(self, console: Console) -> str:
        """Return the report for people, as wide as ``console``; colours only repeat the words."""
        with console.capture() as captured:
            for line in self._lines(console.width):
                console.print(line, soft_wrap=True)
        return captured.get().rstrip("\n")

    def _lines(self, width: int) -> Iterator[Text]:
        """Yield the lines of the report: verdict, lines between, findings, their number."""
        answer = self.conclusion.answer
        head = f"{QUESTION}   {answer}   "
        first, *rest = _wrapped(self.conclusion.text, width - len(head)) or [""]
        yield Text.assemble(f"{QUESTION}   ", (str(answer), _COLOURS[answer]), f"   {first}")
        for line in rest:
            yield Text(" " * len(head) + line)
        yield Text()
        for line in self.between:
            yield Text(_printable(line))
        for finding in self.findings:
            yield from _finding(finding, width)
        if self.findings:
            yield Text()
        warnings = sum(finding.state is FindingState.WARN for finding in self.findings)
        problems = sum(finding.state is FindingState.FAIL for finding in self.findings)
        yield Text(
            f"{counted(warnings, 'warning')}, {counted(problems, 'problem')}. "
            f"Exit code {self.exit_code}.   Machine-readable: {self.command}"
        )


def report_of(facts: Examination, findings: Sequence[Finding]) -> DoctorReport:
    """Return the report on an examination, its commands with the --proxy that they need."""
    server, url = facts.server, facts.proxy.url
    below = ("profile", "fix", "evicted")
    told = asdict(facts.proxy) | {"url": shown(url)}
    return DoctorReport(
        conclude(facts, findings),
        [replace(one, fix=one.fix and with_proxy(one.fix, url)) for one in findings],
        with_proxy(_COMMAND, url),
        more={
            "proxy": {name: value for name, value in told.items() if name not in below},
            "profile": for_people(facts.profile),
            "upstream": {
                "url": shown(facts.upstream.url),
                "server": asdict(server) if server is not None else None,
                "load": _load(facts.upstream.look),
            },
            "trials": [_trial(trial) for trial in facts.trials],
        },
    )


def _load(look: Look | None) -> dict[str, Any]:
    """Return the server's work so far: None for figures that it does not report."""
    figures = look.sample.figures if look is not None and look.sample is not None else NOTHING
    slots = [
        {"id": one.id, "task": one.task, "held": one.used, "context": one.context, "busy": one.busy}
        for one in (look.slots if look is not None else ())
    ]
    tokens = {
        name: None if figure is None else int(figure)
        for name, figure in (("evaluated", figures.evaluated), ("reused", figures.reused))
    }
    return {**tokens, "slots": slots or None}


def _finding(finding: Finding, width: int) -> Iterator[Text]:
    """Yield a finding's lines, wrapped to ``width``, and its fix, which is not."""
    first, *rest = _wrapped(finding.text, width - _INDENT) or [""]
    yield Text.assemble(
        f"  {finding.name:<10}", (f"{finding.state:<6}", _COLOURS[finding.state]), first
    )
    for line in rest:
        yield Text(" " * _INDENT + line)
    if finding.fix is not None:
        yield Text(" " * _INDENT + f"fix: {_printable(finding.fix)}")


def _wrapped(text: str, width: int) -> list[str]:
    """Return ``text``, escaped, as lines of ``width`` (at least 20) characters, cut at blanks."""
    width = max(20, width)
    return textwrap.wrap(_printable(text), width, break_long_words=False, break_on_hyphens=False)


def _printable(text: str) -> str:
    """Return ``text`` with control characters escaped: names and messages may hold any."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _trial(trial: Trial) -> dict[str, Any]:
    """Return a trial as a JSON object: its path, its error, and tokens and seconds of each shot."""
    told = {name: getattr(trial, name) for name in ("path", "through_proxy", "error")}
    for name in ("first", "second", "without", "same"):
        shot: Shot | None = getattr(trial, name)
        told[name] = shot and {
            "prompt": shot.usage.prompt,
            "reused": shot.usage.reused,
            "prompt_seconds": shot.usage.prompt_seconds,
            "wall": round(shot.wall, 4),
        }
    return told
