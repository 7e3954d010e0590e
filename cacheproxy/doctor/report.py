"""The report: verdict first, then a line for each finding with what mends it below."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from rich.console import Console
from rich.text import Text

from cacheproxy.asking import shown, with_proxy
from cacheproxy.client_setup.finding import Finding, FindingState
from cacheproxy.core.servers.profile import for_people
from cacheproxy.core.servers.status import NOTHING, Look
from cacheproxy.doctor.conclusion import Conclusion, Working, conclude
from cacheproxy.doctor.facts import Examination
from cacheproxy.doctor.trial import Shot, Trial
from cacheproxy.words import counted

QUESTION = "Is the cache working?"
_COMMAND = "cacheproxy doctor --json"
_INDENT = 18
_COLOURS = {
    FindingState.OK: "green",
    FindingState.NOTE: "cyan",
    FindingState.WARN: "yellow",
    FindingState.FAIL: "bold red",
    Working.YES: "bold green",
    Working.MOSTLY: "bold yellow",
    Working.NO: "bold red",
    Working.NOT_MEASURED: "bold yellow",
    Working.NOT_NEEDED: "bold green",
}


@dataclass(frozen=True, slots=True)
class DoctorReport:
    """What to tell."""

    conclusion: Conclusion  #: stands first
    findings: Sequence[Finding]  #: a line for each
    command: str = _COMMAND  #: that tells it to machines
    between: Sequence[str] = ()  #: lines that stand between verdict and findings
    more: dict[str, Any] = field(default_factory=dict)  #: what ``--json`` tells besides

    @property
    def exit_code(self) -> int:
        """1 if something FAILs, else 0."""
        return int(any(finding.state is FindingState.FAIL for finding in self.findings))

    def json(self) -> dict[str, Any]:
        """Return everything as one JSON object."""
        return {
            "answer": str(self.conclusion.answer),
            "text": self.conclusion.text,
            "exit_code": self.exit_code,
            "findings": [asdict(finding) for finding in self.findings],
            **self.more,
        }

    def text(self, console: Console) -> str:
        """Return the report for people, as wide as ``console``; colours only repeat words."""
        with console.capture() as captured:
            for line in self._lines(console.width):
                console.print(line, soft_wrap=True)
        return captured.get().rstrip("\n")

    def _lines(self, width: int) -> Iterator[Text]:
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
    """Return the report on what was found."""
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
    """Return what the server has worked on so far: None for what it does not say."""
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
    first, *rest = _wrapped(finding.text, width - _INDENT) or [""]
    yield Text.assemble(
        f"  {finding.name:<10}", (f"{finding.state:<6}", _COLOURS[finding.state]), first
    )
    for line in rest:
        yield Text(" " * _INDENT + line)
    if finding.fix is not None:
        yield Text(" " * _INDENT + f"fix: {_printable(finding.fix)}")


def _wrapped(text: str, width: int) -> list[str]:
    width = max(20, width)
    return textwrap.wrap(_printable(text), width, break_long_words=False, break_on_hyphens=False)


def _printable(text: str) -> str:
    """Spell out control characters: names and messages come from other programs."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _trial(trial: Trial) -> dict[str, Any]:
    shots = ("first", "second", "without", "next_turn", "same")
    return {
        "path": trial.path,
        "through_proxy": trial.through_proxy,
        "error": trial.error,
        **{name: _shot(getattr(trial, name)) for name in shots},
    }


def _shot(shot: Shot | None) -> dict[str, Any] | None:
    if shot is None:
        return None
    usage = shot.usage
    return {
        "prompt": usage.prompt,
        "reused": usage.reused,
        "prompt_seconds": usage.prompt_seconds,
        "wall": round(shot.wall, 4),
    }
