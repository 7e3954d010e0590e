r"""Rules for volatile fields that no rule covers yet.

A proposal anchors the token in the text around it on its line, at the paths where it was seen. It
is valid only after a run over the whole capture (see ``cacheproxy.core.diagnose.prove``): a wrong
rule would do more harm than the field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from cacheproxy.core.diagnose.prove import objection
from cacheproxy.core.diagnose.value import (
    ID,
    NAMED,
    constant_of,
    invented,
    lines_of,
    shared_start,
    widened,
)
from cacheproxy.core.diagnose.volatile import Field, Step, git_heading
from cacheproxy.core.diagnose.wording import (
    RefusedError,
    git_note,
    notes_for,
    rule_toml,
    whose_field,
)
from cacheproxy.core.diff.kind import (
    EDGE_AFTER,
    EDGE_BEFORE,
    SHAPES,
    STATUS_LINE,
    Change,
    ChangeKind,
)
from cacheproxy.core.document.pointer import parse_pointer
from cacheproxy.core.privacy.credentials import hide_text
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.checks import RuleError
from cacheproxy.core.rules.rule import VOLATILE, Rule

_NO_PATTERN = "no pattern can describe this change"
_PINNED = "kept as first seen; the model is told when it changes"
_BEFORE, _AFTER = 40, 20
"""Characters of an anchor, at most."""
_MOST_VALUE = 300
"""Characters of a pinned value, at most."""
_STRONG = 6
"""Letters and digits that suffice for an anchor to tell its token from other text."""
_CUT_WORD = re.compile(r"(?<![0-9A-Za-z])[0-9A-Za-z]+\Z")
_LITERAL = re.compile(r"[A-Za-z_=:;.,() -]+")
_WITHOUT = re.compile(r"\\g<\w+>")
_NOT_IN_PATTERN = re.compile(r"[\[\]|=]")
_WRITERS = {"user": "the user", "model": "the model", "tool": "a tool"}


@dataclass(frozen=True, slots=True)
class Proposal:
    """A volatile field with a rule proven on all that was captured, or the reason for none."""

    field: Field  #: field that the rule covers
    rule: Rule | None = None  #: the proven rule
    why: str = ""  #: reason why there is none: one sentence, without the field's text

    def toml(self) -> str:
        """Return the rule as a table of the config file, "" if there is none."""
        return "" if self.rule is None else rule_toml(self.rule)


def propose(
    fields: Iterable[Field],
    steps: Sequence[Step],
    requests: Sequence[Request],
    taken: Collection[str] = (),
    whose: Callable[[Request], Client | None] = lambda _: None,
) -> list[Proposal]:
    """Return a rule, or the reason why there is none, for each field without one.

    ``fields``: fields found in ``steps``; ``requests``: all captured requests of all conversations;
    ``taken``: names of existing rules; ``whose``: returns a request's client, None if not known. A
    field seen in one client alone gets a rule for that client; if the client's name is a library's,
    only for requests whose system text begins like that of these.
    """
    proposals: list[Proposal] = []
    made: dict[tuple[str | tuple[str, ...], str], str] = {}
    for field in fields:
        if field.rules:
            continue
        try:
            names = {*taken, *made.values()}
            rule = replace(_rule(field, steps, names), client=whose_field(field, steps, whose))
        except (RefusedError, RuleError) as error:
            proposals.append(Proposal(field, why=str(error)))
            continue
        place = rule.where, rule.pattern
        why = f"rule {made[place]} takes it away, too" if place in made else None
        if why is None and field.kind is ChangeKind.TEXT and not _is_named(field):
            why = f"{field.kind.value}: {_NO_PATTERN}"
        why = why or objection(rule, field, steps, requests)
        proposals.append(Proposal(field, rule) if why is None else Proposal(field, why=why))
        if why is None:
            made[place] = rule.name
    return proposals


def _is_named(field: Field) -> bool:
    """Whether each line of the field is a name with a colon, and the value."""
    before = (one.change.before for one in field.sightings)
    return all(NAMED.match(text) for text in before)


def _rule(field: Field, steps: Sequence[Step], names: Collection[str]) -> Rule:
    writer = next(
        (one.change.source for one in field.sightings if one.change.source in _WRITERS), None
    )
    if writer is not None:
        raise RefusedError(f"{_WRITERS[writer]} wrote this text")
    changes = [one.change for one in field.sightings]
    is_text = field.kind is ChangeKind.TEXT and all("\n" not in c.was + c.now for c in changes)
    if not is_text and field.kind not in (*SHAPES, ChangeKind.GIT):
        raise RefusedError(f"{field.kind.value}: {_NO_PATTERN}")
    if any(change.now_text is None for change in changes):
        raise RefusedError("the field is not part of a text")
    if any(hide_text(text) != text for line in _around(changes) for text in line[:2]):
        raise RefusedError("a credential stands on the same line")
    if field.kind is ChangeKind.GIT:
        heading = git_heading(changes[0]) or ""
        if _strength(heading) < 2 or not heading.isprintable():
            raise RefusedError("no text above it tells it from other text")
        anchor = _Anchor(heading[-_BEFORE:], "", is_line=len(heading) <= _BEFORE, is_first=False)
        # All status lines below the heading.
        below = rf"\n(?P<{VOLATILE}>{STATUS_LINE}(?:\n{STATUS_LINE})*)(?=\n|\Z)"
        pattern, constant, note = anchor.start + below, None, git_note(heading)
    else:
        seen = [request for one in field.sightings for request in steps[one.step]]
        constant = constant_of(field.kind, changes, seen)
        changes = widened(changes) if constant is None else changes
        anchor = _anchor(changes, is_whole=constant is None)
        if not (anchor.before + anchor.after).isprintable():
            raise RefusedError("control characters stand on the same line")
        pattern = anchor.pattern(ID) if constant is not None else anchor.whole
        notes = notes_for(field.kind, anchor.before)
        note = next((one for one in notes if not re.search(pattern, _WITHOUT.sub("", one))), "")
        _try_next(pattern, changes, is_pin=constant is None)
    places = dict.fromkeys(_place(steps[one.step][1], one.change.path) for one in field.sightings)
    texts = filter(_strength, _LITERAL.findall(f"{anchor.before}\0{anchor.after}"))
    found = max(texts, key=len, default="")
    return Rule(
        name=_name(field, anchor, names),
        where=tuple(places) if len(places) > 1 else next(iter(places)),
        pattern=pattern,
        replacement=constant,
        why=f"{field.kind.value} {_PINNED if constant is None else 'made constant'}",
        pin=constant is None,
        note=note if constant is None else None,
        literals=((found,) if len(found.strip()) >= 3 else ()),
    )


def _try_next(pattern: str, changes: Sequence[Change], *, is_pin: bool) -> None:
    """Raise RefusedError if ``pattern`` would miss a value that may come next.

    Likewise if a pin would match several values in one text, which one note cannot tell apart.
    """
    search = re.compile(pattern)
    if is_pin and any(
        len(search.findall(text)) > 1 for one in changes for text, _ in lines_of(one)
    ):
        raise RefusedError("another line begins like its own, so a note would not tell which it is")
    for change in (changes[0], changes[-1]):
        text, (start, end) = change.now_text or "", change.now_span
        for value in (change.now, *invented(change.now)):
            later = f"{text[:start]}{value}{text[end:]}"
            spans = (one.span(VOLATILE) for one in search.finditer(later))
            if (start, start + len(value)) not in spans:
                raise RefusedError("the next value of its kind would miss the pattern")


def _around(changes: Sequence[Change]) -> Iterator[tuple[str, str, bool]]:
    """Yield, for each text, the line before and behind the token, and whether it is the first."""
    for text, (start, end) in chain.from_iterable(map(lines_of, changes)):
        line = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", end)
        yield text[line:start], text[end : stop if stop >= 0 else len(text)], line == 0


@dataclass(frozen=True, slots=True)
class _Anchor:
    """The text around the token on its line that all sightings share."""

    before: str  #: shared text before the token
    after: str  #: shared text behind the token
    is_line: bool  #: whether ``before`` is all of the line up to the token
    is_first: bool  #: whether that line is also the text's first
    is_end: bool = False  #: whether ``after`` is all of the line behind the token

    @property
    def start(self) -> str:
        """Pattern up to the token."""
        return self._edge + _regex(self.before)

    @property
    def _edge(self) -> str:
        return (r"\A" if self.is_first else "(?m:^)") if self.is_line else ""

    @property
    def whole(self) -> str:
        """Pattern of any whole value between ``before`` and ``after``."""
        end = r"(?=\n|\Z)" if self.is_end else ""
        before, after = map(_escaped, (self.before, self.after))
        return f"{self._edge}{before}(?P<{VOLATILE}>[^\\n]{{1,{_MOST_VALUE}}}?){after}{end}"

    def pattern(self, shape: str) -> str:
        """Return the pattern of a token of ``shape`` between ``before`` and ``after``."""
        head = EDGE_BEFORE if not self.before or self.before[-1].isalnum() else ""
        tail = EDGE_AFTER if not self.after or self.after[0].isalnum() else ""
        return f"{self.start}{head}(?P<{VOLATILE}>{shape}){tail}{_regex(self.after)}"


def _anchor(changes: Sequence[Change], *, is_whole: bool) -> _Anchor:
    around = list(_around(changes))
    befores, afters = [one for one, _, _ in around], [one for _, one, _ in around]
    before = shared_start(text[::-1] for text in befores)[::-1]
    is_line = len(set(befores)) == 1 and len(before) <= _BEFORE
    if not is_line:
        before = _last_words(before, whole=all(text == before for text in befores))
    after = shared_start(afters)[:_AFTER]
    is_end = all(text == after for text in afters)
    if not is_whole and _strength(before) >= _STRONG:
        after = after[:1] if not after[:1].isalnum() and not after[:1].isspace() else ""
    elif not is_end:
        after = _CUT_WORD.sub("", after)
    is_first = is_line and all(first for _, _, first in around)
    if _strength(before + after) < 2 and not (is_first and before.strip()):
        raise RefusedError("no text on its line tells it from other text")
    if is_whole and not (after or is_end):
        raise RefusedError("no text on its line tells where it ends")
    return _Anchor(before, after, is_line, is_first, is_end)


def _last_words(text: str, *, whole: bool) -> str:
    """Return the last words of ``text``, as many as an anchor needs, the first one not cut."""
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
    """Return ``anchor`` as a pattern that matches other numbers (versions) too."""
    return re.sub(r"[0-9]+", r"\\d+", _escaped(anchor))


def _escaped(anchor: str) -> str:
    return re.sub(r"\\([ #&~-])", r"\1", re.escape(anchor))  # no meaning outside brackets


def _place(request: Request, pointer: str) -> str:
    """Return ``pointer`` as a path pattern: roles, names or types instead of indexes."""
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
    """Return a path pattern's condition: a message's role, a tool's name, or a block's type."""
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
