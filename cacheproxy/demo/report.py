"""The demo's result in words: verdict first, then the table, then what was sent where."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from cacheproxy.demo.figures import Figures, Row, total
from cacheproxy.demo.run import PATHS, Api, Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console

WORTH_NAMING = 1.2
"""A smaller ratio is no difference."""

SHAPES: dict[Api, str] = {
    "chat": "/v1/chat/completions, the way gateways send it",
    "messages": "/v1/messages, the way Claude Code sends it",
}

CCH_NOTE = (
    "llama.cpp overwrites a five-character cch on /v1/messages by itself, so with it both passes "
    "reuse; on chat completions it does not (--api chat)"
)
IDLE_NOTE = (
    "hardly anything was reused even through cacheproxy: is the server's prompt cache on, and is "
    "the rule for the billing header (cacheproxy plugins)?"
)
REMOTE_NOTE = (
    "this upstream is not on your own network, where the proxy edits requests only with "
    "--edit-remote; it was set here"
)
NEXT = "twistd -n cacheproxy --upstream http://localhost:8080"

UNKNOWN = "?"
TIMES = "\N{MULTIPLICATION SIGN}"


@dataclass(frozen=True, slots=True)
class Report:
    """What was done and what came of it. ``server``: the upstream, in words."""

    plan: Plan
    server: str
    figures: Figures
    embedded: bool
    edit_remote: bool = False

    def verdict(self) -> list[str]:
        """Return the one or two sentences to remember: tokens, where they are known, then time.

        Tokens decide whether there is a difference, since seconds waver on a busy machine.
        """
        figures = self.figures
        direct, through = total(figures.direct), total(figures.through)
        took = f"{_seconds(through)} through cacheproxy, {_seconds(direct)} directly"
        faster, later, fewer = figures.faster, figures.faster_later, figures.fewer
        if faster is None or (fewer or faster) < WORTH_NAMING:
            return [f"No difference: {took}."]
        also = "" if later is None else f", {_times(later)} from turn 2 on"
        what = "prefill" if figures.server_time else "answers"
        lines = [f"{_times(faster)} faster {what}{also}: {took}."]
        if fewer is not None:
            new = f"{_count(through.evaluated)} through cacheproxy, {_count(direct.evaluated)}"
            lines.insert(0, f"{_times(fewer)} fewer prompt tokens to evaluate: {new} directly.")
        return lines

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield what was sent where, where the figures come from, and what to know of them."""
        figures, plan = self.figures, self.plan
        client, turns = plan.conversation.client, _turns(plan.turns)
        yield "sent", f"{turns} of {client}, recorded; words scrambled; max_tokens 1"
        yield "as", f"{SHAPES[plan.api]}; another cch in each request"
        yield "to", self.server
        if figures.warm:
            yield "start", "not cold: the server had kept something of an earlier prompt"
        elif self.embedded:
            yield "start", "cold in both passes: the server was started anew for each"
        else:
            yield "start", "cold in both passes: each marks its first tool and its system text"
        if total(figures.direct + figures.through).reused is None:
            yield "tokens", "this server does not say what it reused; compare the seconds"
        else:
            yield "tokens", "measured by the server"
        yield "seconds", "the server's prompt time" if figures.server_time else "until the answer"
        if figures.idle:
            yield "note", IDLE_NOTE
        if plan.api == "messages":
            yield "note", CCH_NOTE
        if self.edit_remote:
            yield "note", REMOTE_NOTE

    def json(self) -> dict[str, Any]:
        """Return the whole result as one JSON object."""
        figures = self.figures
        return {
            "verdict": " ".join(self.verdict()),
            "client": self.plan.conversation.client,
            "api": self.plan.api,
            "path": PATHS[self.plan.api],
            "server": self.server,
            "embedded": self.embedded,
            "model": self.plan.model,
            "seconds_from": "server" if figures.server_time else "wall clock",
            "ratio": {
                "seconds": figures.faster,
                "seconds_after_turn_1": figures.faster_later,
                "evaluated": figures.fewer,
            },
            "direct": _pass(figures.direct),
            "through": _pass(figures.through),
            "notes": [f"{label}: {note}" for label, note in self.notes()],
        }

    def text(self, console: Console) -> str:
        """Return the result for people, laid out and coloured for ``console``."""
        notes = Table.grid(padding=(0, 2, 0, 0))
        for label, note in self.notes():
            notes.add_row(Text(f"  {label}"), Text(note))
        with console.capture() as captured:
            verdict = Text("\n".join(self.verdict()), style="bold")
            console.print(verdict, "", self._table(), "", notes, sep="\n")
            if self.embedded:
                console.print(f"\nNext: {NEXT}")
        # rich fills every line of a table to its width
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="")
        for head in ("\nturn", "\nprompt", *_heads("directly"), *_heads("via cacheproxy")):
            table.add_column(head, justify="right", no_wrap=True)
        direct, through = self.figures.direct, self.figures.through
        names = [str(number) for number in range(1, len(direct) + 1)]
        rows = list(zip(names, direct, through, strict=True))
        for name, one, other in [*rows, ("all", total(direct), total(through))]:
            table.add_row(name, _count(one.prompt), *_cells(one), *_cells(other))
        return table


def _heads(how: str) -> tuple[str, str, str]:
    return f"{how}\nreused", "\nnew", "\nseconds"


def _cells(row: Row) -> tuple[str, str, str]:
    share = UNKNOWN if row.share is None else f"{row.share:.1%}"
    return f"{_count(row.reused)} {share:>6}", _count(row.evaluated), _seconds(row)


def _turns(count: int) -> str:
    return "1 turn" if count == 1 else f"{count} turns"


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"


def _seconds(row: Row) -> str:
    return f"{row.seconds:.2f} s" if row.seconds < 10 else f"{row.seconds:.1f} s"


def _times(ratio: float) -> str:
    return f"{ratio:.1f}{TIMES}" if ratio < 10 else f"{ratio:.0f}{TIMES}"


def _pass(rows: tuple[Row, ...]) -> dict[str, Any]:
    turns = [{"turn": number, **asdict(row)} for number, row in enumerate(rows, start=1)]
    return {"turns": turns, "total": asdict(total(rows))}
