"""A replay's result in words, for a terminal or as Markdown to share, and as one JSON object.

The result has no text of a prompt.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.words import counted, seconds
from cacheproxy_replay import Cold, Via, table
from cacheproxy_replay.estimate import Assessed, ReplayFigures, Total
from cacheproxy_replay.run import AS_CAPTURED, THROUGH, ReplayRun

WIDTH = 96
TIMES = "\N{MULTIPLICATION SIGN}"
WORTH_NAMING = 1.2
"""Smallest ratio that is reported as a difference."""

HOW_COLD = {
    Cold.MARK: "each pass has its own mark in its first tool and its system text",
    Cold.ERASE: "the server's slots were emptied before each pass (/slots erase)",
}
HOW_COUNTED = {
    True: "counted with the server's own template and tokenizer",
    False: "~ is estimated from the characters, at the turn's own tokens per character",
    None: "nothing to compare",
}

REMOTE_NOTE = (
    "this server is not on your own network. There the proxy edits requests only with "
    "--edit-remote, which this command has set"
)

Styled = tuple[str, str]
"""A line and its style: ``bold``, ``red``, or ""."""


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """The run with its figures, and the facts that the report needs beside them."""

    run: ReplayRun  #: both passes
    figures: ReplayFigures  #: the passes' figures and sums
    server: str  #: description of the server, without its address
    order: PromptOrder | None  #: order of its prompts; None: not known, ``ASSUMED``
    slots: int | None  #: number of its slots; None: it may cache more prompts than those
    files: tuple[str, ...]  #: names of the captures, without folders
    interrupted: bool = False  #: whether Ctrl-C ended the passes

    def head(self) -> str:
        """Return one line about the requests and the passes."""
        done = "Interrupted. " if self.interrupted else ""
        requests = counted(len(self.run.plan.items), "request")
        cold = "Both passes start with a cold cache"
        if self.figures.warm:
            cold = "The passes did not start with a cold cache"
        return (
            f"{done}Replaying {requests} twice, in order, max_tokens={self.run.plan.answers}. "
            f"{cold}. No tool is run."
        )

    def verdict(self) -> str:
        """Return the verdict in one sentence."""
        figures = self.figures
        if not self.run.through:
            return "The pass through cacheproxy did not start: nothing to compare."
        before, after = figures.totals
        faster, fewer = figures.faster, figures.fewer
        what = "prefill" if figures.server_time else "first tokens"
        ratio = fewer or faster
        if ratio is None or faster is None:
            return "Nothing to compare: no request was answered in both passes."
        took = f"{seconds(after.seconds)} through cacheproxy, {seconds(before.seconds)} as captured"
        if 1 / WORTH_NAMING < ratio < WORTH_NAMING:
            in_what = "" if fewer is None else " in the tokens to evaluate"
            return f"No difference{in_what}: {what} took {took}."
        tokens = ""
        if fewer is not None:
            more = f"{times(fewer)} fewer" if fewer > 1 else f"{times(1 / fewer)} more"
            tokens = f"{more} prompt tokens to evaluate"
        if faster >= WORTH_NAMING:
            return f"{times(faster)} faster {what}{tokens and ', '}{tokens}."
        return f"{tokens}{tokens and '; '}{what} took {took}."

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield labels and notes: the requests, the server, the figures' origin, and warnings."""
        run, figures = self.run, self.figures
        sessions = {turn.session for turn in run.captured}
        what = f"{', '.join(self.files)}: {counted(len(run.plan.items), 'request')}"
        yield "sent", f"{what}, {counted(len(sessions), 'session')}"
        for line in run.plan.left_out:
            yield "not sent", line
        yield "to", self.server
        yield "cold", HOW_COLD[run.cold]
        applied = "a proxy in between" if run.via is Via.PROXY else "this command, without a proxy"
        yield "rules", f"{', '.join(run.ruleset.names) or 'none'}; applied by {applied}"
        first = "first token: by the wall clock"
        yield "seconds", f"prefill: the server's own; {first}" if figures.server_time else first
        yield "expected", self._how_expected()
        yield from self._warnings()

    def problems(self) -> Iterator[str]:
        """Yield the problems with the server, each a line with its remedy."""
        failed = [row for row in self.figures.both if row.failed]
        if failed:
            first = failed[0].turn.error
            yield f"{counted(len(failed), 'request')} failed, the first: {first}"
        rows = [row for row in self.figures.both if not row.failed]
        if rows and all(row.usage.prompt is None for row in rows):
            yield (
                f"{self.run.site.url} counts no tokens in its answers (no usage): only seconds "
                "can be compared; llama-server, vLLM and SGLang count them"
            )
        elif rows and all(row.usage.reused is None for row in rows):
            yield (
                f"{self.run.site.url} does not say what it reused: only seconds can be compared "
                "(vLLM: --enable-prompt-tokens-details; SGLang: --enable-cache-report)"
            )

    def text(self, today: str) -> Iterator[Styled]:
        """Yield the lines for people; ``today`` (a date) names the file to save to."""
        for line in textwrap.wrap(self.head(), WIDTH):
            yield line, ""
        yield "", ""
        for line in table.summary(self.figures).text():
            yield line, ""
        yield "", ""
        for line in textwrap.wrap(self.verdict(), WIDTH - 2):
            yield f"  {line}", "bold"
        for name, rows in self._passes():
            yield "", ""
            yield f"{name[0].upper()}{name[1:]}", ""
            for line in self._table(rows).text():
                yield from _wrapped(line)
        yield "", ""
        for label, note in self.notes():
            lines = textwrap.wrap(note, WIDTH - 13, break_on_hyphens=False) or [""]
            yield f"  {label:<9}  {lines[0]}", ""
            for line in lines[1:]:
                yield f"{'':<13}{line}", ""
        yield "", ""
        yield f"Keep it: --save replay-{today}.json   Share it: --markdown", ""
        if self.run.plan.answers == 1:
            yield "To compare the answers too: --answers 64", ""

    def markdown(self) -> str:
        """Return the result as Markdown."""
        lines = [f"**{self.verdict()}** {self.head()}", "", *table.summary(self.figures).markdown()]
        for name, rows in self._passes():
            lines += ["", f"### {name[0].upper()}{name[1:]}", "", *self._table(rows).markdown()]
        lines += ["", *(f"* {label}: {note}" for label, note in self.notes())]
        return "\n".join(lines)

    def _passes(self) -> Iterator[tuple[str, tuple[Assessed, ...]]]:
        """Yield name and turns of each pass; the second only if it started."""
        yield AS_CAPTURED, self.figures.captured
        if self.figures.through:
            yield THROUGH, self.figures.through

    def _table(self, rows: tuple[Assessed, ...]) -> table.Table:
        """Return the table of a pass, with the columns that either pass needs."""
        both = self.figures.both
        sessions = len({row.turn.session for row in both}) > 1
        prefill = any(row.usage.prompt_seconds is not None for row in both)
        return table.turns(rows, sessions=sessions, prefill=prefill)

    def _how_expected(self) -> str:
        """Return the source of the expected reuse, in one line."""
        order = self.order
        template = "its template is assumed to print tools first"
        if order is not None:
            template = f"its template prints {order.value}"
        kept = "any earlier request of the pass"
        if self.slots is not None and self.figures.exact:
            slots = counted(self.slots, "slot")
            kept = f"what its {slots} still had; it caches no prompt outside its slots"
        return f"shared with {kept}; {HOW_COUNTED[self.figures.exact]}; {template}"

    def _warnings(self) -> Iterator[tuple[str, str]]:
        """Yield labels and warnings: what makes the figures less than they seem."""
        figures, run = self.figures, self.run
        if figures.compared < len(run.plan.items):
            yield "note", f"the sums are those of {counted(figures.compared, 'request')}"
        if figures.warm:
            numbers = ", ".join(map(str, figures.warm))
            yield (
                "note",
                f"not cold: #{numbers} reused text that no earlier request of the pass had sent",
            )
        if not run.ruleset.plan.rules:
            yield "note", "no rule is on: cacheproxy plugins lists them"
        if run.edit_remote:
            yield "note", REMOTE_NOTE
        if run.plan.answers > 1:
            same, of = run.answered_alike()
            alike = f"{same:,} of {of:,} alike"
            yield "answers", f"{alike}; a server that samples at random answers otherwise each time"


def _wrapped(line: str) -> Iterator[Styled]:
    """Yield ``line`` in lines of WIDTH with its style: red for a BREAK."""
    style = "red" if line.endswith(" BREAK") else ""
    if len(line) <= WIDTH:
        yield line, style
        return
    for part in textwrap.wrap(line.strip(), WIDTH - 7, break_on_hyphens=False):
        yield f"       {part}", style


def record(report: ReplayReport) -> dict[str, Any]:
    """Return the report for JSON: options, sums and every turn; None for unknown figures."""
    figures, run = report.figures, report.run
    alike, answered = run.answered_alike()
    return {
        "verdict": report.verdict(),
        "files": list(report.files),
        "server": report.server,
        "requests": len(run.plan.items),
        "max_tokens": run.plan.answers,
        "cold": run.cold.value,
        "warm": figures.warm,
        "rules": list(run.ruleset.names),
        "via": run.via.value,
        "template": report.order.value if report.order is not None else None,
        "expected": "counted" if figures.exact else "estimated",
        "seconds_from": "server" if figures.server_time else "wall clock",
        "interrupted": report.interrupted,
        "compared": figures.compared,
        "ratio": {"seconds": figures.faster, "evaluated": figures.fewer},
        "as_captured": _pass_fields(figures.captured, figures.totals[0]),
        "through": _pass_fields(figures.through, figures.totals[1]),
        "answers": {"alike": alike, "of": answered} if run.plan.answers > 1 else None,
        "notes": [f"{label}: {note}" for label, note in report.notes()],
    }


def _pass_fields(turns: tuple[Assessed, ...], total: Total) -> dict[str, Any]:
    """Return a pass's turns and sums for JSON."""
    names = ("prompt", "reused", "evaluated", "expected", "seconds")
    return {
        "turns": [_turn_fields(one) for one in turns],
        "total": {name: getattr(total, name) for name in names},
    }


def _turn_fields(one: Assessed) -> dict[str, Any]:
    """Return a turn's figures and verdict for JSON, without text of its prompt."""
    turn, judged = one.turn, one.verdict
    where = judged.where if judged is not None else None
    reason = judged.reason if judged is not None else None
    lost = judged.lost if judged is not None else None
    return {
        "number": one.number,
        "session": turn.session and turn.session.label,
        "turn": turn.turn,
        "side": turn.side,
        "prompt": one.usage.prompt,
        "reused": one.usage.reused,
        "evaluated": one.usage.evaluated,
        "prefill_seconds": one.usage.prompt_seconds,
        "first_token_seconds": turn.first_byte,
        "expected": asdict(one.expected) if one.expected is not None else None,
        "verdict": table.verdict(one),
        "reason": reason.value if reason is not None else None,
        "path": where.path if where is not None else None,
        "kind": where.kind.value if where is not None else None,
        "lost": lost.tokens if lost is not None else None,
        "status": turn.status or 0,
    }


def times(ratio: float) -> str:
    """Return ``ratio`` as a number with the sign for times."""
    return f"{ratio:.1f}{TIMES}" if ratio < 9.95 else f"{ratio:.0f}{TIMES}"
