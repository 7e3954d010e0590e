"""Proof: the comparison of two rendered prompts, for what was evaluated again, and why.

The server renders and counts; that is proof only if its counts equal those of the answers. The
texts where the two differ show the template's rewrite: reasoning is gone, a system message has
moved to the head, tools have moved, or a time of day has changed.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from cacheproxy.core.conversation.divergence import Parting
from cacheproxy.core.conversation.verdict import Break, Rewrite, TokenCount
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.diff.kind import ChangeKind, token_at
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.judge.evidence import Evidence, Proof
from cacheproxy.core.judge.judge import excerpt, writer
from cacheproxy.core.prompt.prompt import Prompt, is_late

_FEW, _SHARE = 8, 0.002
"""Tokens, and share of them, by which a rendered prompt may differ from the answer's count: marks
around the prompt, and text that a server drops by itself (a billing header)."""
_BY_PARAMETERS = (Rewrite.THINKING, Rewrite.OTHER)
"""Rewrites that a parameter may cause."""
_MARK = 32
"""Characters by which a text is recognised."""
_BESIDE = 96
"""Characters around the place where two prompts part in which the cause is searched for."""
_BEHIND = 4096
"""Characters behind that place within which missing reasoning must begin."""
_LATEST = 16
"""Late system messages, the last ones, that are searched for at the head: each search may read the
whole prompt."""
_HEAD, _MOST_TIMES = 1 << 16, 64
"""Characters at the head, and times in them, among which the template's own is searched for."""
_THOUGHTS = ("/thinking", "/reasoning_content", "/reasoning")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]{3,64})"')
_TIME = re.compile(r"(?<![0-9A-Za-z:])[0-2]?\d:[0-5]\d(?::[0-5]\d)?(?![0-9A-Za-z:])")
_DAY = re.compile(r"(?<![0-9A-Za-z])(?:\d{4}-\d{2}-\d{2}|\d{1,2} [A-Z][a-z]{2,8} \d{4})(?![\w-])")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A prompt as the server evaluates it."""

    text: str  #: text as the template renders it
    tokens: array[int]  #: token ids


def proof_of(
    was: Rendered,
    now: Rendered,
    turn: Evidence,
    alike: Rendered | None = None,
    head: Rendered | None = None,
) -> Proof | None:
    """Return the proof by the rendered prompts; None if their tokens differ from the counts.

    ``alike``: the request before, rendered with the parameters of this one. ``head``: the text
    before the place of ``clock_at``; without it, that place is estimated in tokens.
    """
    before = turn.before
    if before is None or not _is_of(was, before.tokens) or not _is_of(now, turn.usage.prompt):
        return None
    shared = _shared(was, now)
    clock = len(head.tokens) if head is not None else _clock(now, turn)
    if shared >= len(was.tokens):
        return Proof(len(was.tokens), len(now.tokens), shared, clock=clock)
    at = common_prefix(was.text, now.text)
    rewrite, path = _rewrite(was.text, now.text, at, before.sent, turn.sent)
    token, left = token_at(was.text, now.text, at, at), turn.parted(before, turn.sent.order).left
    parameter = turn.parameter if rewrite in _BY_PARAMETERS else None
    if alike is not None and parameter is not None and _shared(alike, now) > shared + _FEW:
        where = Break(
            parameter.path, 0, TokenCount(shared, "measured"), ChangeKind.TEXT, *parameter[1:]
        )
        return Proof(len(was.tokens), len(now.tokens), shared, is_parameter=True, where=where)
    where = Break(
        path=path,
        byte=0,
        position=TokenCount(shared, "measured"),
        kind=ChangeKind.TEXT if token is None else token.kind,
        was=excerpt(was.text, at),
        now=excerpt(now.text, at),
        source=writer(left),
    )
    fits = _fits(was.text, now.text, at, left)
    return Proof(len(was.tokens), len(now.tokens), shared, fits, rewrite, where, clock)


def _shared(was: Rendered, now: Rendered) -> int:
    return common_prefix(was.tokens.tobytes(), now.tokens.tobytes()) // now.tokens.itemsize


def _is_of(rendered: Rendered, counted: int | None) -> bool:
    return counted is not None and abs(len(rendered.tokens) - counted) <= max(
        _FEW, _SHARE * counted
    )


def _fits(was: str, now: str, at: int, left: Parting) -> bool:
    """Whether the difference of the requests stands where the rendered prompts part."""
    for segment, inside, text in ((left.was, left.was_at, was), (left.now, left.now_at, now)):
        if segment is None:
            continue
        mark = segment.text[inside : inside + _MARK].strip()
        if len(mark) >= _FEW and mark in text[max(0, at - _BESIDE) : at + _BESIDE]:
            return True
    return False


def _rewrite(was: str, now: str, at: int, before: Prompt, after: Prompt) -> tuple[Rewrite, str]:
    """Return the template's rewrite where the two part, and its object: a JSON pointer or ""."""
    said = next(_said(after), None)
    for path, mark in _late(after):
        end = at + _BESIDE + len(mark)
        place = now.find(mark, 0, end)
        # Where it was moved to the head, what the user said first stands behind it.
        is_first = said is None or now.find(said, max(0, place)) >= 0
        if place >= 0 > was.find(mark, 0, end) and is_first:
            return Rewrite.HOISTED, path
    thought = next(_gone(was, now, at, before), None)
    if thought is not None:
        return Rewrite.THINKING, thought
    thought = next(_gone(now, was, at, before), None)
    if thought is not None:  # it was sent before, and is rendered from now on
        return Rewrite.KEPT, thought
    token = token_at(was, now, at, at)
    if token is not None and token.kind in (ChangeKind.DATE, ChangeKind.CLOCK):
        return Rewrite.CLOCK, ""
    for mark in _tools(after):
        old, new = was.find(mark), now.find(mark)
        # Nearby they only stand behind a text that has grown or shrunk.
        if 0 <= old <= at + 8 * _BESIDE and abs(old - new) > _MARK:
            return Rewrite.TOOLS, "/tools"
    if ("think>" in was[at - _BESIDE // 4 : at + _BESIDE // 2]) != (
        "think>" in now[at - _BESIDE // 4 : at + _BESIDE // 2]
    ):
        return Rewrite.THINKING, ""
    return Rewrite.OTHER, ""


def _late(prompt: Prompt) -> Iterator[tuple[str, str]]:
    """Yield the path and the beginning of the last late system messages."""
    for piece in islice(filter(is_late, reversed(prompt.pieces)), _LATEST):
        for segment in piece.segments:
            mark = segment.text.strip()[:_MARK]
            if segment.path.endswith("/role") or len(mark) < _FEW:
                continue
            yield segment.path, mark


def _said(prompt: Prompt) -> Iterator[str]:
    """Yield the beginnings of users' texts, the first ones first."""
    for segment in prompt.segments:
        mark = segment.text.strip()[: 4 * _MARK]
        if segment.source == "user" and not segment.path.endswith("/role") and len(mark) >= _FEW:
            yield mark


def _gone(was: str, now: str, at: int, before: Prompt) -> Iterator[str]:
    """Yield paths of reasoning in ``before`` that ``was`` has behind ``at``, and ``now`` lacks."""
    for segment in before.segments:
        if segment.source == "model" and segment.path.endswith(_THOUGHTS):
            mark = segment.text.strip()[:_MARK]
            begin = max(0, at - _BESIDE)
            is_there = len(mark) >= _FEW and was.find(mark, begin, at + _BEHIND) >= 0
            if is_there and now.find(mark, begin) < 0:
                yield segment.path


def _tools(prompt: Prompt) -> Iterator[str]:
    for segment in prompt.of(Part.TOOLS)[:1]:
        found = _NAME.search(segment.text)
        if found is not None:
            yield found[1]


def _clock(now: Rendered, turn: Evidence) -> int | None:
    """Return about where the template prints a time, in tokens; None if it prints none."""
    at = clock_at(now, turn)
    return None if at is None else round(at * len(now.tokens) / max(1, len(now.text)))


def clock_at(now: Rendered, turn: Evidence) -> int | None:
    """Return the place in ``now`` of a time that no request has, in characters; None if none."""
    patterns = (_TIME, _DAY) if turn.profile.clock else (_TIME,)
    places = []
    for pattern in patterns:
        for found in islice(pattern.finditer(now.text, 0, _HEAD), _MOST_TIMES):
            if not any(found[0] in segment.text for segment in turn.sent.segments):
                places.append(found.start())
                break
    return min(places, default=None)
