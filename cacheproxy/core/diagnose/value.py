"""Values of volatile fields: the whole value around a token, meaningless ids, possible next values.

The model may act on a path, a port, a count, a commit: such a value is pinned as a whole, with the
words that belong to it on its line, and a note reports its changes. Only an id to which nothing
else in the request refers may be made constant (law 11).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from hashlib import sha256

from cacheproxy.core.diff.kind import Change, ChangeKind
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.prompt.request import Request

_SHORT = 200
"""Characters of a line, at most, whose value reaches from its name to the line's end."""
NAMED = re.compile(r"\A\s*+(?:\d++[.)]\s++)?(?:<[\w-]++>|[^\d=/\\\n]*?(?::[ \t]+|=[ \t]*))")
"""Pattern of a line's text before its value: a tag, or a name with a colon."""
_WORDS = re.compile(r"(?:[^\s\d/\\@]+[ \t]+)*")
_END = re.compile(r"(?:</[\w-]++>|(?<![.,;|\s]))[.,;|\s]*+\Z")
"""Pattern of a line's end behind its value."""
_CLAUSE = re.compile(r"[.!?;](?=\s|\Z)|</|\Z")
_TOKEN = re.compile(r"(?<![.,;:!?)\"'`])[.,;:!?)\"'`]*+(?:\s|\Z)|</")
_STARTED = re.compile(r"(?:(?<=[:=])[ \t]+[^\n]{0,24}|[^\s=(\"'`<>\[{]*)\Z")
"""Pattern of a value's text before its token: all behind a colon, otherwise the token's word."""
_MOST_CLAUSE = 160
_ID_NAMED = re.compile(
    r"(?i)(?:\A|[.;,|{(\[>!?:]|(?<!\s)\s{2})[\s*\"'<-]{,16}+(?:(?:the|this|current|x)[ -])?"
    r"((?:request|trace|span|correlation|run|build|invocation|session)[ _-]?id"
    r"|nonce|stamp|cch|uuid|guid)[\"'>*]*+\s*+(?:[:=#]|is\b)?[\s\"'(`]*\Z"
)
"""Pattern of names of ids that only programs use; other ids (of a job, a message, a process) the
model may use."""
_ID_ENDS = re.compile(r"[\"'`)\]}>]*(?:\Z|[.!?](?=\s|\Z)|;|\||</|,\s*[\"']?[\w-]+[\"']?\s*[:=])")
_POINTS_BACK = re.compile(
    r"(?i)\b(?:it|its|(?:this|that|the above) (?:id|value|one|nonce|stamp))\b"
)
_NEAR = 120
_SPELLED = r"(?:[\s\\\"':=#*(`>]{0,6}|\s?is\s)[0-9a-f-]{3,}"
"""Pattern of JSON text behind an id's name if the id itself follows."""
ID = r"[0-9A-Za-z][0-9A-Za-z_-]*"
"""Pattern of any id: the next value may have other letters."""
_IDS = (ChangeKind.UUID, ChangeKind.NONCE)
_LETTER = re.compile(r"[0-9A-Za-z]")
_STAMP, _LEAP = 4, 500
"""Digits of a stamp, and the distance of two stamps, at least: a counter takes smaller steps."""
_BREAK = re.compile(r"\n")
_RUN = re.compile(r"\d+")
_HEX = re.compile(r"(?<![0-9A-Fa-f])(?=[A-Fa-f]*+\d)[0-9A-Fa-f]{6,}+")


def lines_of(change: Change) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each of the two texts of ``change``, with the span of the token in it."""
    yield change.was_text or "", change.was_span
    yield change.now_text or "", change.now_span


def shared_start(texts: Iterable[str]) -> str:
    """Return the common prefix of all ``texts``."""
    return reduce(lambda one, other: one[: common_prefix(one, other)], texts)


def widened(changes: Sequence[Change]) -> list[Change]:
    """Return ``changes`` of one field with their tokens widened to the whole value."""
    spots = [
        (text.rfind("\n", 0, span[0]) + 1, _first(_BREAK, text, span[1]), text, span)
        for change in changes
        for text, span in lines_of(change)
    ]
    lines = [text[start:stop] for start, stop, text, _ in spots]
    if max(map(len, lines)) <= _SHORT:
        head = shared_start(lines)
        cut = len((NAMED.match(head) or _WORDS.match(head) or [""])[0])
        tail = shared_start(line[: cut - len(line) - 1 : -1] for line in lines)[::-1]
        rest = len(tail) - _first(_END, tail)
        spans = [(start + cut, stop - rest) for start, stop, _, _ in spots]
    else:
        befores = [text[start:at][::-1] for start, _, text, (at, _) in spots]
        started = _STARTED.search(shared_start(befores)[:_NEAR][::-1])
        back = len(started[0].lstrip()) if started else 0
        afters = [text[end:stop] for _, stop, text, (_, end) in spots]
        ends = [_first(_CLAUSE, after) for after in afters]
        if max(ends) > _MOST_CLAUSE:
            ends = [_first(_TOKEN, after) for after in afters]
        places = [span for *_, span in spots]
        spans = [(at - back, end + more) for (at, end), more in zip(places, ends, strict=True)]
    pairs = zip(spans[::2], spans[1::2], strict=True)
    return [
        replace(
            one,
            was=(one.was_text or "")[slice(*was)],
            now=(one.now_text or "")[slice(*now)],
            was_span=was,
            now_span=now,
        )
        for one, (was, now) in zip(changes, pairs, strict=True)
    ]


def _first(pattern: re.Pattern[str], text: str, start: int = 0) -> int:
    found = pattern.search(text, start)
    return found.start() if found else len(text)


def constant_of(
    kind: ChangeKind, changes: Sequence[Change], requests: Iterable[Request]
) -> str | None:
    """Return the constant for an id that means nothing to the model, None for any other value.

    ``requests``: the requests with ``changes``. The id means something if another text in them
    contains it or mentions its name.
    """
    if kind not in _IDS and not all(map(_is_leap, changes)):
        return None
    names = set[str]()
    for change in changes:
        for text, (start, end) in lines_of(change):
            line = text.rfind("\n", 0, start) + 1
            named = _ID_NAMED.search(text[max(line, start - _NEAR) : start])
            ends = _ID_ENDS.match(text[end:].partition("\n")[0])
            if named is None or ends is None or _POINTS_BACK.search(text, end, end + _NEAR):
                return None
            names.add(re.sub(r"[ _-]?id$", r"[ _-]?id", named[1].lower()))
    values = {text for change in changes for text in (change.was, change.now)}
    spoken = re.compile(rf"\b(?:{'|'.join(names)})\b(?!{_SPELLED})".encode())
    for request in requests:
        body = request.body.lower()
        if any(body.count(value.lower().encode()) > 1 for value in values) or spoken.search(body):
            return None
    forms = {_LETTER.sub("0", value) for value in values}
    return forms.pop() if len(forms) == 1 else "0"


def _is_leap(change: Change) -> bool:
    """Whether a number is no counter, but a stamp that happened to have no letter."""
    return (
        change.kind is ChangeKind.COUNTER
        and len(change.was) == len(change.now) >= _STAMP
        and abs(int(change.was) - int(change.now)) >= _LEAP
    )


def invented(value: str) -> Iterator[str]:
    """Yield values that may follow ``value``: counted up, shorter, longer, of other letters."""
    yield _RUN.sub(lambda found: str(int(found[0]) + 1).zfill(len(found[0])), value)
    yield _RUN.sub("9", value)
    yield _RUN.sub(lambda found: f"1{found[0]}", value)
    for seed in "abc":
        other = sha256(f"{seed}{value}".encode()).hexdigest()
        yield _HEX.sub(partial(_cut_to, other), value)


def _cut_to(other: str, found: re.Match[str]) -> str:
    return other[: len(found[0])]
