"""The reader of llama-server's log: reused tokens of each prompt, for all builds.

The formats of lines, oldest first (llama.cpp issues 9492, 10547, 13689, 19408 and 21831 among
others quote each kind):

- 2024 and ik_llama.cpp: ``kv cache rm [p0, end) | … id_slot=0 id_task=1 p0=0``, or as JSON
- to autumn 2025: ``slot update_slots: id  0 | task 5 | kv cache rm [0, end)``
- since: ``… | n_tokens = 17800, memory_seq_rm [17800, end)``, once for each batch of a prompt, so
  that only a task's first line has the reused tokens
- 2026: ``0.00.093.863 I slot   operator(): id  1 | task 4 | cached n_tokens = 607, memory_…``; at
  the default verbosity without that line. Prompt and reuse are then derived from the slot's final
  length, less the generated tokens, and from the evaluated tokens.

A line may have a journal's or container's prefix; a router's prefix ``[42027] `` separates the
servers that share its log.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from cacheproxy.core.conversation.verdict import Judgement

_LONGEST_LINE = 4000
"""Characters read of a line: some builds log whole prompts in one line."""
_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_INSTANCE = re.compile(r"\[(\d{1,18})\] ")
_OURS = re.compile(
    r"\b(?:slot|srv)\s+\S+:\s|id_slot\"?[=:]|\bslot \d+ (?::|is processing \[)|\bprint_timings:"
)
_MAYBE_OURS = re.compile(r"\b(?:eval|total) time\s*=|\bmodel loaded\b")
_HEADS = (
    re.compile(r"\bslot\s+\S+:\s*id\s+(\d{1,18})\s*\|\s*task\s+(-?\d{1,18})\s*\|"),
    re.compile(r"id_slot\"?[=:]\s*(\d{1,18}).*?id_task\"?[=:]\s*(-?\d{1,18})"),
    re.compile(r"\bslot (\d{1,18}) is processing \[task id: (\d{1,18})\]"),
)
_BARE_SLOT = re.compile(r"\bslot (\d{1,18}) : ")
_BEGINS = re.compile(r"\bprocessing task\b|\bis processing \[task id")
_TIMING = re.compile(r"\bprompt eval time\s*=\s*(\d{1,18}(?:\.\d+)?) ms /\s*(\d{1,18}) tokens")
_OUTPUT = re.compile(r"(?<!prompt )\beval time\s*=\s*[\d.]+ ms /\s*(\d{1,18}) (?:tokens|runs)")
_RELEASED = re.compile(
    r"(?:stop processing: n_(?:tokens|past) = (\d{1,18}), truncated = |"
    r"slot released.*?n_past\"?[=:]\s*(\d{1,18}).*?truncated\"?[=:]\s*)(1|0|true|false)"
)
_FIRST = (
    ("prompt", re.compile(r"\bnew prompt,.*\b(?:n_prompt_tokens|task\.n_tokens) = (\d{1,18})")),
    ("reused", re.compile(r"(?:memory_seq_rm|kv cache rm)(?: -)? \[(\d{1,18}), end\)")),
    ("reused", re.compile(r"kv cache rm \[p0, end\).*\bp0\"?[=:]\s*(\d{1,18})")),
    ("reused", re.compile(r"in cache: (\d{1,18}) tokens \| to process")),
)
"""Figures of a task of which only the first line counts."""
_NUMBER = r"(\d{1,18}(?:\.\d+)?)"
_SIMILAR = re.compile(rf"selected slot by \w+ similarity(?:.*?f_keep = {_NUMBER})?")
_SHARED = re.compile(
    r"checking sim = [\d.]+ \((\d{1,18})/|prompt with length\s+\d+, lcp =\s+(\d{1,18})"
)
_TOO_LONG = re.compile(r"task id = (\d{1,18}), error: (request \(\d+ tokens\) exceeds[^,]*)")
_CACHE_STATE = re.compile(
    rf"cache state: (\d{{1,18}}) prompts, {_NUMBER} MiB \(limits: {_NUMBER} MiB"
)
_EVICTED = re.compile(r"removing oldest entry")
_STARTED = re.compile(r"\bmodel loaded\b")
REMEMBERED = 16
"""Prompts remembered: a conversation's last turn is hardly older, nor then still cached."""
_SHORT = 256
"""Tokens below which a prompt has next to nothing to lose."""
_MOSTLY = 0.9
_GROWN = 1.05
"""Length of the turn before, at most, relative to a prompt: the reasoning in it may be dropped."""


@dataclass(slots=True)
class _Open:
    """A request whose lines are not complete."""

    request: LoggedRequest  #: the request as far as it has been read
    in_slot: int | None = None  #: tokens in its slot at its end; None: not logged yet
    timed: bool = False  #: whether its times have been logged

    @property
    def has_figures(self) -> bool:
        """Whether its lines had a figure or an error."""
        told = self.request
        figures = (told.prompt, told.reused, told.evaluated, told.output)
        return bool(told.error) or any(figure is not None for figure in figures)


@dataclass(slots=True)
class _Instance:
    """One server."""

    open: dict[int, _Open] = field(default_factory=dict)  #: its open requests by slot
    current: int | None = None  #: slot that was named last
    kept: float | None = None
    """``LoggedRequest.kept`` of the next request, logged before it has a slot."""
    shared: int | None = None  #: ``LoggedRequest.shared`` of the next request
    earlier: deque[int] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    """Lengths of its last prompts, in tokens."""


class LogReader:
    """The reader of a log, line by line; it never raises, and stores little.

    ``feed(line)`` returns the requests that the line completes; ``close()`` the rest.
    """

    def __init__(self) -> None:
        self.facts = LogFacts()
        self._number = 0
        self._instances: dict[str, _Instance] = {}

    def feed(self, line: str) -> list[LoggedRequest]:
        """Read a line, with or without its newline; return the requests that it completes."""
        self._number += 1
        line = _ANSI.sub("", line[:_LONGEST_LINE])
        if _OURS.search(line):
            self.facts.lines += 1
        elif not _MAYBE_OURS.search(line):
            return []
        prefix = _INSTANCE.match(line)
        server = self._instances.setdefault(prefix[1] if prefix else "", _Instance())
        found = next((head for pattern in _HEADS if (head := pattern.search(line))), None)
        if found is None:
            return self._without_head(server, line)
        slot, task = int(found[1]), int(found[2])
        if task < 0:
            self._before_a_task(server, line)
            return []
        done = []
        known = server.open.get(slot)
        begins = _BEGINS.search(line) is not None
        if known is None or known.request.task != task or (begins and known.has_figures):
            done = self._finish(server, slot)
            request = LoggedRequest(
                self._number, task, slot, kept=server.kept, shared=server.shared
            )
            server.kept = server.shared = None
            known = server.open[slot] = _Open(request)
        server.current = slot
        self._read(known, line)
        return done + self._finish_if_over(server, slot)

    def close(self) -> list[LoggedRequest]:
        """Return the requests that were still open."""
        rest = [
            request
            for server in self._instances.values()
            for slot in sorted(server.open, key=lambda slot: server.open[slot].request.line)
            for request in self._finish(server, slot)
        ]
        return sorted(rest, key=lambda request: request.line)

    def _without_head(self, server: _Instance, line: str) -> list[LoggedRequest]:
        """Read a line without a task: one of the server, or of the slot that was named last."""
        if _STARTED.search(line):
            done = [gone for slot in list(server.open) for gone in self._finish(server, slot)]
            server.earlier.clear()
            return done
        bare = _BARE_SLOT.search(line)
        if bare is not None:
            server.current = int(bare[1])
        too_long = _TOO_LONG.search(line)
        if too_long is not None:
            for known in server.open.values():
                if known.request.task == int(too_long[1]):
                    known.request.error = too_long[2]
            return []
        self._before_a_task(server, line)
        self._read_facts(line)
        slot = server.current
        if slot is None or slot not in server.open:
            return []
        self._read(server.open[slot], line)
        return self._finish_if_over(server, slot)

    def _before_a_task(self, server: _Instance, line: str) -> None:
        """Read a line of the server's choice of a slot."""
        if found := _SIMILAR.search(line):
            server.kept = float(found[1]) if found[1] else None
        elif found := _SHARED.search(line):
            server.shared = max(server.shared or 0, int(found[1] or found[2]))

    def _read(self, known: _Open, line: str) -> None:
        request = known.request
        for name, pattern in _FIRST:
            if getattr(request, name) is None and (found := pattern.search(line)):
                setattr(request, name, int(found[1]))
        if found := _TIMING.search(line):
            request.seconds = float(found[1]) / 1e3
            request.evaluated = int(found[2])
        elif found := _OUTPUT.search(line):
            request.output = int(found[1])
        elif found := _RELEASED.search(line):
            known.in_slot = int(found[1] or found[2])
            request.truncated = found[3] in ("1", "true")
        elif "total time" in line:
            known.timed = True
        elif "forcing full prompt re-processing" in line:
            request.recomputed = True

    def _read_facts(self, line: str) -> None:
        facts = self.facts
        if found := _CACHE_STATE.search(line):
            facts.ram_prompts = int(found[1])
            facts.ram_mib, facts.ram_limit_mib = float(found[2]), float(found[3])
        elif _EVICTED.search(line):
            facts.evicted += 1
        elif "prompt cache is disabled" in line:
            facts.ram_off = True

    def _finish_if_over(self, server: _Instance, slot: int) -> list[LoggedRequest]:
        """Finish the request in ``slot`` once it is released and timed, in either order."""
        known = server.open.get(slot)
        if known is None or not known.timed or known.in_slot is None:
            return []
        return self._finish(server, slot)

    def _finish(self, server: _Instance, slot: int) -> list[LoggedRequest]:
        known = server.open.pop(slot, None)
        if known is None or not known.has_figures:
            return []
        request = known.request
        _derive(request, known.in_slot)
        request.verdict, request.reason = judge_logged(request, server.earlier)
        if request.error is None and request.prompt is not None:
            server.earlier.append(request.prompt)
        return [request]


def _derive(request: LoggedRequest, in_slot: int | None) -> None:
    """Derive unlogged tokens of prompt and reuse; ``in_slot``: tokens in the slot at its end."""
    prompt, reused, evaluated = request.prompt, request.reused, request.evaluated
    if evaluated is None:
        return
    if prompt is None and reused is not None:
        request.prompt = reused + evaluated
    elif prompt is not None and reused is None and evaluated <= prompt:
        request.reused = prompt - evaluated
    elif prompt is None and in_slot is not None and request.output is not None:
        if request.truncated:  # a shifted slot has another length
            return
        # The slot has prompt and answer in the end, but for the last token.
        request.prompt = max(evaluated, in_slot - max(0, request.output - 1))
        request.reused = request.prompt - evaluated
        request.derived = True


@dataclass(slots=True)
class LoggedRequest:
    """One request in the log, filled while its lines are read; None: not logged."""

    line: int  #: number of its first line in the log
    task: int  #: the server's number of the request
    slot: int  #: the server's slot of the request
    prompt: int | None = None  #: tokens of the prompt
    reused: int | None = None  #: reused tokens
    evaluated: int | None = None  #: evaluated tokens
    output: int | None = None  #: generated tokens
    derived: bool = False  #: prompt and reuse were derived, not logged (see core.serverlog.reader)
    kept: float | None = None  #: share of its slot's tokens that the prompt begins with, 0 to 1
    shared: int | None = None
    """Tokens of its longest prefix in any slot or cached prompt."""
    seconds: float | None = None  #: seconds of prefill
    recomputed: bool = False
    """The server could not go back in its memory and evaluated the whole prompt again (sliding
    window, recurrent models)."""
    truncated: bool = False  #: the server cut the prompt, or shifted its slot
    error: str | None = None  #: the server's error for a refused request
    verdict: Judgement = Judgement.UNKNOWN  #: verdict on the cache
    reason: str = ""  #: reason of the verdict, in words


@dataclass(slots=True)
class LogFacts:
    """The facts in a log on the server itself."""

    lines: int = 0  #: number of llama-server's lines, of whatever content
    ram_off: bool = False
    """The prompt cache in RAM (``--cache-ram``) is off. A line that it is on is not believed
    (llama.cpp issue 22127)."""
    ram_prompts: int | None = None  #: prompts in that cache, as last logged
    ram_mib: float | None = None  #: MiB that they take, as last logged
    ram_limit_mib: float | None = None  #: MiB that they may take, as last logged
    evicted: int = 0  #: number of prompts evicted from that cache


def judge_logged(request: LoggedRequest, earlier: Collection[int]) -> tuple[Judgement, str]:
    """Return the verdict on ``request`` and the reason in a few words.

    A log does not name a request's conversation. So the prompt's size is compared with earlier
    ones: a turn is a little longer than the turn it extends.

    ``earlier``: lengths, in tokens, of the last prompts of its server.
    """
    prompt, reused, kept = request.prompt, request.reused, request.kept
    if request.error is not None:
        return Judgement.UNKNOWN, request.error
    if prompt is None or reused is None:
        return Judgement.UNKNOWN, "the log does not say what was reused"
    like = max((length for length in earlier if length <= _GROWN * prompt), default=0)
    like = min(like, prompt)
    extends = like >= _SHORT and reused >= _MOSTLY * like
    keeps = kept is not None and kept >= _MOSTLY and reused >= _SHORT
    if extends or keeps or reused >= prompt / 2:
        return Judgement.OK, ""
    if not earlier:
        return Judgement.COLD, "the first one"
    if prompt < _SHORT:
        return Judgement.COLD, "a short prompt"
    if like < prompt / 2:
        return Judgement.COLD, "none like it came before"
    if request.recomputed:
        return Judgement.BREAK, "computed all anew: memory"
    if request.shared is not None:
        return Judgement.BREAK, f"only {request.shared:,} tokens still held"
    return Judgement.BREAK, f"one of {like:,} came before"
