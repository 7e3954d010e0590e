r"""Rules for volatile fields that no rule covers yet.

A proposal anchors the token in the text around it on its line, at the places where it was seen. It
is valid only after a run over the whole capture (see ``cacheproxy.core.diagnose.prove``): a wrong
rule would do more harm than the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from cacheproxy.core.diagnose.prove import objection
from cacheproxy.core.diagnose.volatile import Field, Step, git_heading
from cacheproxy.core.diagnose.wording import (
    RefusedError,
    git_note,
    is_pinned,
    note_for,
    rule_toml,
    whose_field,
)
from cacheproxy.core.diff.kind import (
    DATES,
    EDGE_AFTER,
    EDGE_BEFORE,
    SHAPES,
    STATUS_LINE,
    Change,
    ChangeKind,
)
from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.document.pointer import parse_pointer
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.checks import RuleError
from cacheproxy.core.rules.rule import VOLATILE, Rule

_CONSTANTS = {
    ChangeKind.UUID: "00000000-0000-0000-0000-000000000000",
    ChangeKind.CLOCK: "00:00",
    ChangeKind.COUNTER: "0",
    ChangeKind.NONCE: "000",
}
_KEPT = "kept as first seen; the model is told when it changes"
_BEFORE, _AFTER = 40, 20
"""Characters of an anchor, at most."""
_STAMP, _LEAP = 4, 500
"""Digits of a stamp, at least, and how far two of them lie apart: a counter goes step by step."""
_STRONG = 6
"""Letters and digits from which an anchor tells its token from other text."""
_CUT_WORD = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z]+\Z")
_LITERAL = re.compile(r"[A-Za-z_=:;.,() -]+")
_NOT_IN_PATTERN = re.compile(r"[\[\]|=]")
_WRITERS = {"user": "the user", "model": "the model", "tool": "a tool"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A rule for a field that keeps its promises over all that was captured, or why none does."""

    field: Field  #: that it takes away
    rule: Rule | None = None  #: that was proven
    why: str = ""  #: there is none: one sentence, without the field's text

    def toml(self) -> str:
        """Return it as a table of the config file, "" if there is none."""
        return "" if self.rule is None else rule_toml(self.rule)


def propose(
    fields: Iterable[Field],
    steps: Sequence[Step],
    requests: Sequence[Request],
    taken: Collection[str] = (),
    whose: Callable[[Request], Client | None] = lambda _: None,
) -> list[Proposal]:
    """Return a rule, or the reason why there is none, for each field without one.

    ``fields``: as found in ``steps``; ``requests``: all that were captured, whatever their
    conversation; ``taken``: names of rules that exist; ``whose``: the client that a request is of,
    None if that cannot be told. A field seen in one client alone gets a rule for that client; if
    its name is a library's, only for those of its requests that begin like these.
    """
    proposals: list[Proposal] = []
    names = set(taken)
    for field in fields:
        if field.rules:
            continue
        try:
            rule = replace(_rule(field, steps, names), client=whose_field(field, steps, whose))
        except (RefusedError, RuleError) as error:
            proposals.append(Proposal(field, why=str(error)))
            continue
        why = objection(rule, field, steps, requests)
        proposals.append(Proposal(field, rule) if why is None else Proposal(field, why=why))
        names |= {rule.name} if why is None else set()
    return proposals


def _rule(field: Field, steps: Sequence[Step], names: Collection[str]) -> Rule:
    writer = next(
        (one.change.source for one in field.sightings if one.change.source in _WRITERS), None
    )
    if writer is not None:
        raise RefusedError(f"{_WRITERS[writer]} wrote this text")
    if field.kind not in SHAPES and field.kind is not ChangeKind.GIT:
        raise RefusedError(f"{field.kind.value}: no pattern can describe this change")
    changes = [one.change for one in field.sightings]
    if any(change.now_text is None for change in changes):
        raise RefusedError("the field is not part of a text")
    if any(hide_text(text) != text for line in _around(changes) for text in line[:2]):
        raise RefusedError("a credential stands on the same line")
    if field.kind is ChangeKind.GIT:
        heading = git_heading(changes[0]) or ""
        if _strength(heading) < 2 or not heading.isprintable():
            raise RefusedError("no text above it tells it from other text")
        anchor = _Anchor(heading[-_BEFORE:], "", is_line=len(heading) <= _BEFORE, is_first=False)
        # The lines below a heading, as many as there are.
        below = rf"\n(?P<{VOLATILE}>{STATUS_LINE}(?:\n{STATUS_LINE})*)(?=\n|\Z)"
        pattern, pin, note = anchor.start + below, True, git_note(heading)
    else:
        anchor = _anchor(changes)
        if not (anchor.before + anchor.after).isprintable():
            raise RefusedError("control characters stand on the same line")
        pin = is_pinned(field.kind, anchor.before)  # a false date is worse than yesterday's
        pattern = anchor.pattern(_shape(field.kind, changes))
        note = note_for(field.kind, anchor.before)
    places = dict.fromkeys(_place(steps[one.step][1], one.change.path) for one in field.sightings)
    return Rule(
        name=_name(field, anchor, names),
        where=tuple(places) if len(places) > 1 else next(iter(places)),
        pattern=pattern,
        replacement=None if pin else _constant(field.kind, changes),
        why=f"{field.kind.value} {_KEPT if pin else 'made constant'}",
        pin=pin,
        note=note if pin else None,
        literals=_literals(anchor),
    )


def _shape(kind: ChangeKind, changes: Sequence[Change]) -> str:
    """Return the pattern of the token: of a date in the way in which it was written each time."""
    seen = {text for change in changes for text in (change.was, change.now)}
    if _is_nonce(kind, changes):
        kind = ChangeKind.NONCE
    shapes = DATES if kind is ChangeKind.DATE else ()
    return next(
        (shape for shape in shapes if all(re.fullmatch(shape, text) for text in seen)),
        SHAPES[kind],
    )


def _constant(kind: ChangeKind, changes: Sequence[Change]) -> str:
    lengths = {len(text) for change in changes for text in (change.was, change.now)}
    if (kind is ChangeKind.NONCE or _is_nonce(kind, changes)) and len(lengths) == 1:
        return "0" * lengths.pop()
    return _CONSTANTS[kind]


def _is_nonce(kind: ChangeKind, changes: Sequence[Change]) -> bool:
    """Whether a number is none that counts, but a stamp that happened to have no letter."""
    return kind is ChangeKind.COUNTER and all(
        len(change.was) == len(change.now) >= _STAMP
        and abs(int(change.was) - int(change.now)) >= _LEAP
        for change in changes
    )


def _around(changes: Sequence[Change]) -> Iterator[tuple[str, str, bool]]:
    """Yield what stands before and after on the line, and whether it is the first, each time."""
    for change in changes:
        for text, (start, end) in (
            (change.was_text or "", change.was_span),
            (change.now_text or "", change.now_span),
        ):
            line = text.rfind("\n", 0, start) + 1
            stop = text.find("\n", end)
            yield text[line:start], text[end : stop if stop >= 0 else len(text)], line == 0


@dataclass(frozen=True, slots=True)
class _Anchor:
    """What all sightings have before and after on their line."""

    before: str  #: text
    after: str  #: text
    is_line: bool  #: whether ``before`` is the line up to the token
    is_first: bool  #: whether it is also the text up to it

    @property
    def start(self) -> str:
        """The pattern up to the token."""
        start = (r"\A" if self.is_first else "(?m:^)") if self.is_line else ""
        return start + _regex(self.before)

    def pattern(self, shape: str) -> str:
        """Return the pattern of the token between them."""
        head = EDGE_BEFORE if not self.before or self.before[-1].isalnum() else ""
        tail = EDGE_AFTER if not self.after or self.after[0].isalnum() else ""
        return f"{self.start}{head}(?P<{VOLATILE}>{shape}){tail}{_regex(self.after)}"


def _anchor(changes: Sequence[Change]) -> _Anchor:
    around = list(_around(changes))
    befores, afters = [one for one, _, _ in around], [one for _, one, _ in around]
    before = _shared_start(text[::-1] for text in befores)[::-1]
    is_line = len(set(befores)) == 1 and len(before) <= _BEFORE
    if not is_line:
        before = _last_words(before, whole=all(text == before for text in befores))
    after = _shared_start(afters)[:_AFTER]
    if _strength(before) >= _STRONG:
        after = after[:1] if not after[:1].isalnum() and not after[:1].isspace() else ""
    elif any(text != after for text in afters):
        after = _CUT_WORD.sub("", after)
    is_first = is_line and all(first for _, _, first in around)
    if _strength(before + after) < 2 and not (is_first and before.strip()):
        raise RefusedError("no text on its line tells it from other text")
    return _Anchor(before, after, is_line, is_first)


def _shared_start(texts: Iterable[str]) -> str:
    return reduce(lambda one, other: one[: common_prefix(one, other)], texts)


def _last_words(text: str, *, whole: bool) -> str:
    """Return as many of the last words as make an anchor, none of them cut short."""
    starts = [found.start() for found in re.finditer(r"(?<=\s)\S", text)] or [len(text)]
    starts = [0, *starts] if whole else starts
    strength, end = 0, len(text)
    for start in reversed(starts):
        strength += _strength(text[start:end])
        if strength >= _STRONG:
            return text[start:][-_BEFORE:]
        end = start
    return text[starts[0] :][-_BEFORE:]


def _strength(anchor: str) -> int:
    return sum(character.isalnum() for character in anchor)


def _regex(anchor: str) -> str:
    """``anchor`` as a pattern; numbers in it (versions) may be others."""
    escaped = "".join(
        r"\d+" if piece.isdecimal() else re.escape(piece) for piece in re.split(r"([0-9]+)", anchor)
    )
    return re.sub(r"\\([ #&~-])", r"\1", escaped)  # these mean nothing outside brackets


def _literals(anchor: _Anchor) -> tuple[str, ...]:
    texts = filter(_strength, _LITERAL.findall(f"{anchor.before}\0{anchor.after}"))
    found = max(texts, key=len, default="")
    return (found,) if len(found.strip()) >= 3 else ()


def _place(request: Request, pointer: str) -> str:
    """Return a path pattern for ``pointer``: of its role, type or tool, wherever that stands."""
    value: Any = request.json
    pattern = ""
    for step in parse_pointer(pointer):
        is_list = isinstance(value, list)
        value = value[int(step)] if is_list else value[step]
        if _NOT_IN_PATTERN.search(step):
            raise RefusedError("its path cannot be written as a pattern")
        escaped = step.replace("~", "~0").replace("/", "~1")
        pattern += "/" + ("*" if is_list else escaped) + _condition(value)
    return pattern


def _condition(value: Any) -> str:
    """The role of a message, the name of a tool, the type of a block: the first that it has."""
    if not isinstance(value, dict):
        return ""
    for key in ("role", "name", "type"):
        said = value.get(key)
        if isinstance(said, str) and said and not _NOT_IN_PATTERN.search(said):
            return f"[{key}={said}]"
    return ""


def _name(field: Field, anchor: _Anchor, names: Collection[str]) -> str:
    text = anchor.before.lower()
    near = text if anchor.is_line else (text.split() or [""])[-1]
    words = re.findall(r"[a-z]{2,}", near)[-3:] or [field.part.value]
    kind = field.kind.value.split()[-1]
    stem = "-".join([*words, *([] if kind in words else [kind])])
    return next(
        name
        for name in (stem, *(f"{stem}-{number}" for number in range(2, 10_000)))
        if name not in names
    )
