"""The demo's result in words: the verdict, the table, and notes on their meaning."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cacheproxy.words import count, seconds, share
from cacheproxy_demo.client import Cost
from cacheproxy_demo.figures import DemoFigures, figures, total
from cacheproxy_demo.run import PATHS, DemoOutcome

WORTH_NAMING = 1.2
"""Smallest ratio that is reported as a difference."""
COLD = 0.1
"""Reused part of the possible tokens, below which the server's prompt cache seems to be off."""

CACHE_NOTE = (
    "a client sends the whole conversation with each request. The server keeps what it has read, "
    "and reads on from the first word that is another than before"
)
LATE_NOTE = (
    "adds a system message to the conversation in each request (2.1.197 and later). The templates "
    "of some models refuse that (Qwen3.5, Qwen3.6, Ministral-3): an error, no answer. Others move "
    "it to the front (DeepSeek V3.x, Solar), so the conversation is read again each time. "
    "cacheproxy sends it as a user message, in its place, where that is needed"
)
CCH_NOTE = (
    "writes another code (cch) at the start of each request (until 2.1.179), so the whole prompt "
    "is read again each time. cacheproxy writes the same code each time"
)
IDLE_NOTE = "hardly anything was reused even through cacheproxy: is the server's prompt cache on?"
SILENT_NOTE = "this server does not say what it reused; compare the seconds"
REMOTE_NOTE = (
    "this upstream is not on your own network. There the proxy edits requests only with "
    "--edit-remote, which this command has set"
)
NEXT = "cacheproxy serve --upstream http://localhost:8080"
SERVE = "cacheproxy demo --serve"

DIRECT, THROUGH = "directly", "through cacheproxy"
HEADS = ("requests", "reused", "of what could be", "new", "seconds")
_CELLS = "{:>9}{:>10}{:>18}{:>10}{:>13}"
_LINE = "{:<20}" + _CELLS


@dataclass(frozen=True, slots=True)
class DemoReport:
    """The outcomes of the scenes, and the facts that the report needs beside them."""

    outcomes: list[DemoOutcome]  #: outcome of each scene
    server: str  #: description of the upstream
    embedded: bool  #: whether the upstream is the embedded server
    model: str | None = None  #: requested model; None: the server's only one
    edit_remote: bool = False  #: whether the proxy needed --edit-remote, for a remote server

    def verdict(self) -> list[str]:
        """Return the two sentences of the verdict: on the pass through the proxy, and directly."""
        direct, through = (
            total(map(figures, passes)) for passes in zip(*self._passes(), strict=True)
        )
        return [_through(through), self._direct(direct)]

    def _direct(self, direct: DemoFigures) -> str:
        """Return the sentence on the direct pass: requests refused, tokens or seconds in excess."""
        answered = [
            (figures(one), figures(other))
            for one, other in self._passes()
            if not any(cost.refused for cost in (*one, *other))
        ]
        said = []
        if direct.refused:
            said.append(f"{direct.refused} of {direct.requests} were refused")
        if answered:
            before, after = (total(passes) for passes in zip(*answered, strict=True))
            who = "the rest" if direct.refused else "the server"
            if before.evaluated is None or after.evaluated is None:
                took = f"{who} took {seconds(before.seconds)} instead of {seconds(after.seconds)}"
                ratio = before.seconds / after.seconds
            else:
                new, would_do = count(before.evaluated), count(after.evaluated)
                took = f"{who} evaluated {new} prompt tokens instead of {would_do}"
                ratio = before.evaluated / max(after.evaluated, 1)
            if ratio >= WORTH_NAMING:
                said.append(took)
        return f"Directly {', and '.join(said)}." if said else "Directly it is no worse here."

    def _passes(self) -> Iterator[tuple[tuple[Cost, ...], tuple[Cost, ...]]]:
        """Yield the costs of each scene's requests: sent directly, and through cacheproxy."""
        for outcome in self.outcomes:
            yield outcome.direct, outcome.through

    def notes(self) -> Iterator[tuple[str, str]]:
        """Yield labels and notes: the requests, the server, the figures' origin, and warnings."""
        through = total(figures(outcome.through) for outcome in self.outcomes)
        yield "the cache", CACHE_NOTE
        yield "Claude Code", LATE_NOTE
        if not self.embedded:
            yield "here", _placement_text(self.outcomes[0])
        yield "an old one", CCH_NOTE
        yield "sent", "recorded requests with scrambled words, each time as if they were new to it"
        yield "server", self.server
        if through.reused is None and not through.refused:
            yield "tokens", SILENT_NOTE
        else:
            yield "reused, new", "tokens that the server had, and that it had to read; it counted"
        yield "seconds", "until all answers were there"
        if through.share is not None and through.share < COLD:
            yield "note", IDLE_NOTE
        if self.edit_remote:
            yield "note", REMOTE_NOTE

    def json(self) -> dict[str, Any]:
        """Return the whole result as one JSON object."""
        return {
            "verdict": " ".join(self.verdict()),
            "server": self.server,
            "embedded": self.embedded,
            "model": self.model,
            "scenes": [
                {
                    "client": outcome.scene.conversation.client,
                    "what": outcome.scene.what,
                    "path": PATHS[outcome.api],
                    "placement": dict(outcome.placement),
                    "direct": _pass(outcome.direct),
                    "through": _pass(outcome.through),
                }
                for outcome in self.outcomes
            ],
            "notes": [f"{label}: {note}" for label, note in self.notes()],
        }

    def text(self, console: Console) -> str:
        """Return the result for people, laid out and coloured for ``console``."""
        notes = Table.grid(padding=(0, 2, 0, 0))
        for label, note in self.notes():
            notes.add_row(Text(f"  {label}"), Text(note))
        with console.capture() as captured:
            verdict = Text("\n".join(self.verdict()), style="bold")
            console.print(verdict, "", *map(Text, self._rows()), "", notes, sep="\n")
            if self.embedded:
                console.print(f"\nNext: {NEXT}\nWithout a model server: {SERVE}")
        # rich pads every line of a grid to its full width
        return "\n".join(line.rstrip() for line in captured.get().splitlines())

    def _rows(self) -> Iterator[str]:
        """Yield the lines of the table: heads, then a title and two rows for each scene."""
        yield _LINE.format("", *HEADS)
        for outcome in self.outcomes:
            client, path = outcome.scene.conversation.client, PATHS[outcome.api]
            yield f"{client}, {path}: {outcome.scene.what}"
            for how, costs in (DIRECT, outcome.direct), (THROUGH, outcome.through):
                yield f"  {how:<18}{_cells(costs)}"


def _placement_text(outcome: DemoOutcome) -> str:
    """Return the server's treatment of late system messages, and the source of this knowledge."""
    placement = outcome.placement
    if not placement.get("says"):
        return "the server does not show what it does with them"
    return f"the server {placement['says']} (told by {placement['told_by']})"


def _through(through: DemoFigures) -> str:
    """Return the sentence on the pass through cacheproxy: refusals, or the share reused."""
    if through.refused:
        return f"Through cacheproxy {through.refused} of {through.requests} requests were refused."
    said = f"Through cacheproxy all {through.requests} requests were answered"
    if through.share is None:
        return f"{said}."
    return f"{said}, and {share(through.share)} of what could be reused was."


def _cells(costs: tuple[Cost, ...]) -> str:
    """Return one row's figures as a line of text, or how many requests were refused."""
    row = figures(costs)
    if row.refused:
        statuses = sorted({cost.refused for cost in costs if cost.refused})
        return f"{row.refused:>9} of {row.requests} refused: HTTP {', '.join(map(str, statuses))}"
    counts = count(row.reused), share(row.share), count(row.evaluated)
    return _CELLS.format(row.requests, *counts, seconds(row.seconds))


def _pass(costs: tuple[Cost, ...]) -> dict[str, Any]:
    """Return a pass's figures for JSON, turn by turn and in total."""
    turns = [
        {
            "turn": number,
            "prompt": cost.usage.prompt,
            "reused": cost.usage.reused,
            "evaluated": cost.usage.evaluated,
            "seconds": cost.wall,
            "refused": cost.refused,
        }
        for number, cost in enumerate(costs, start=1)
    ]
    return {"turns": turns, "total": figures(costs).as_dict()}
