"""All volatile fields of a conversation, and the rules that make them constant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.dialects.content import Part
from cacheproxy.core.dialects.dialects import LISTS
from cacheproxy.core.diff.changes import changes, value_at
from cacheproxy.core.diff.kind import Change, ChangeKind, masked, status_at
from cacheproxy.core.diff.text import TEXT_KINDS
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.judge.evidence import Parted
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import Normalized, may_fire, normalize

Step = tuple[Request, Request]
"""A turn and the next one of the same conversation."""
Key = tuple[str, str, str, str]
"""General path, kind, label, and part with writer: equal for all sightings of a field."""
_LABEL = re.compile(r"(?:\S*\s*[^\s0-9A-Za-z]+|\S*)\s*\Z")
_LABEL_LENGTH = 32
_REACH = 200
"""Characters before a change that are searched for its label."""
_LISTS = {*LISTS, "tools"}
ALL = frozenset(Part)
_WITHOUT_LABEL = (ChangeKind.MOVED, ChangeKind.REORDERED, ChangeKind.SPELLING)
_WHOLE = (ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.MOVED)
_NUMBERS = (ChangeKind.COUNTER, ChangeKind.NONCE)


@dataclass(frozen=True, slots=True)
class Sighting:
    """One occurrence of a change."""

    step: int  #: index of the step
    change: Change  #: the change


@dataclass(frozen=True, slots=True)
class Field:
    """One volatile field."""

    path: str  #: path pattern: the JSON pointer, with ``*`` for an index that differs
    kind: ChangeKind  #: shape of the changes
    part: Part  #: part of the prompt
    source: str  #: writer of the field (see prompt.Segment)
    label: str  #: words before the field on its line
    was: str  #: an example of its text before a step
    now: str  #: the same example after the step
    count: int  #: number of steps with a change of the field
    rules: tuple[str, ...] = ()  #: names of rules that cover it, in the order given
    covered: int = 0  #: number of steps in which the first of these rules does
    sightings: tuple[Sighting, ...] = field(default=(), repr=False, compare=False)
    """All changes of the field."""


def fields(
    steps: Sequence[Step], rules: Sequence[Normalizer] = (), parts: Iterable[Part] = ALL
) -> tuple[Field, ...]:
    """Return the volatile fields of ``steps``, in the order in which they were first seen.

    Each rule is run alone, whether it is active or not.
    """
    wanted = frozenset(parts)
    changed = [changes(*step, wanted) for step in steps]
    groups: dict[Key, list[Sighting]] = {}
    for number, found in enumerate(changed):
        for change in found:
            groups.setdefault(key_of(change), []).append(Sighting(number, change))
    trials = [
        (
            rule.name,
            [
                tried(rule, step, found, wanted) if found else None
                for step, found in zip(steps, changed, strict=True)
            ],
        )
        for rule in rules
    ]
    return tuple(_field(sightings, trials) for sightings in groups.values())


def key_of(change: Change) -> Key:
    """Return the key of the field that ``change`` belongs to."""
    kind = change.kind.value
    found = _LABEL.search(change.before[-_REACH:])
    label = masked(found[0])[-_LABEL_LENGTH:] if found else ""
    heading = git_heading(change)
    if heading is not None:
        kind, label = ChangeKind.GIT.value, masked(heading)[-_LABEL_LENGTH:]
    elif change.kind in TEXT_KINDS:
        kind = "text"
        if not label.rstrip().endswith((":", "=")):
            label = ""
    elif change.kind in _NUMBERS:  # a nonce may have no letter in one turn
        kind = "number"
    elif change.kind in _WITHOUT_LABEL:
        label = ""
    return general(change.path), kind, label, f"{change.part.value} {change.source}"


def git_heading(change: Change) -> str | None:
    """Return the line above the git status (or commits) that changed, None for other changes.

    The status may have gained or lost lines.
    """
    if change.was_text is None or change.now_text is None:
        return None
    spans = (
        status_at(change.was_text, change.was_span[0]),
        status_at(change.now_text, change.now_span[0]),
    )
    headings = {
        None if span is None else text[: span[0]].rpartition("\n")[0].rpartition("\n")[2]
        for text, span in zip((change.was_text, change.now_text), spans, strict=True)
    }
    heading = headings.pop() if len(headings) == 1 else None
    return heading if heading and heading.strip() else None


def general(path: str) -> str:
    """Return ``path`` with ``*`` for every index in a list that grows."""
    steps = path.split("/")
    if len(steps) < 2 or steps[1] not in _LISTS:
        return path
    return "/".join("*" if step.isdecimal() else step for step in steps)


def _field(
    sightings: list[Sighting], tried: Sequence[tuple[str, Sequence[RuleTrial | None]]]
) -> Field:
    """Return the field of ``sightings``; ``tried``: names of rules, and their trials by step."""
    found = [sighting.change for sighting in sightings]
    kinds = {change.kind for change in found}
    if git_heading(found[0]) is not None:
        kind = ChangeKind.GIT
    elif len(kinds) == 1 or kinds <= {ChangeKind.ADDED, ChangeKind.REMOVED}:
        kind = found[0].kind
    else:
        kind = ChangeKind.NONCE if kinds <= set(_NUMBERS) else ChangeKind.TEXT
    first = next((change for change in found if change.kind is kind), found[0])
    covered = {}
    for name, trials in tried:
        gone = [
            one for one in sightings if (trial := trials[one.step]) and trial.takes_away(one.change)
        ]
        if gone:
            covered[name] = len({one.step for one in gone})
    return Field(
        path=_pattern([change.path for change in found]),
        kind=kind,
        part=first.part,
        source=first.source,
        label=key_of(first)[2],
        was=first.was,
        now=first.now,
        count=len({sighting.step for sighting in sightings}),
        rules=tuple(covered),
        covered=next(iter(covered.values()), 0),
        sightings=tuple(sightings),
    )


def _pattern(paths: list[str]) -> str:
    split = [path.split("/") for path in paths]
    return "/".join(steps[0] if len(set(steps)) == 1 else "*" for steps in zip(*split, strict=True))


@dataclass(frozen=True, slots=True)
class RuleTrial:
    """The trial of one rule in a step."""

    step: Step  #: the step without the rule
    changed: Sequence[Change]  #: the changes without the rule
    sent: Step  #: the step with the rule
    edits: tuple[tuple[Edit, ...], tuple[Edit, ...]]  #: the rule's edits in either turn
    left: Sequence[Change]  #: the changes with the rule

    def takes_away(self, change: Change) -> bool:
        """Whether the rule makes ``change`` disappear, by an edit that meets it."""
        if key_of(change) in map(key_of, self.left):
            return False
        place = general(change.path)
        was, now = (
            sum(is_related(place, general(one.path)) for one in found)
            for found in (self.changed, self.left)
        )
        if now >= was:  # the same change, described in another way
            return False
        return any(
            meets(edit, request, change, text)
            for request, edits, text in zip(
                self.step, self.edits, (change.was_text, change.now_text), strict=True
            )
            for edit in edits
        )


def tried(
    rule: Normalizer, step: Step, changed: Sequence[Change], parts: frozenset[Part] = ALL
) -> RuleTrial | None:
    """Return the trial of ``rule`` alone in ``step``, None if it edits nothing.

    ``changed``: the changes in ``step``.
    """
    before, after = step
    if not (may_fire(rule, before) or may_fire(rule, after)):
        return None
    one = normalize(before, [rule])
    other = normalize(after, [rule], one.request)
    if one.request is before and other.request is after:
        return None
    sent, edits = (one.request, other.request), (edits_of(one), edits_of(other))
    return RuleTrial(step, changed, sent, edits, changes(*sent, parts))


def folded(step: Step, rules: Sequence[Normalizer]) -> Step:
    """Return ``step`` as sent with ``rules``."""
    before = normalize(step[0], rules).request
    return before, normalize(step[1], rules, before).request


def parted(step: Step, order: PromptOrder) -> Parted | None:
    """Return the prompts of ``step`` in ``order`` and their divergence, None without a prompt."""
    was, now = (prompt_of(request, order) for request in step)
    return None if was is None or now is None else Parted(was, now, parting(was, now))


def edits_of(result: Normalized) -> tuple[Edit, ...]:
    """Return all edits of all rules in ``result``."""
    return tuple(edit for report in result.reports for edit in report.edits)


def meets(edit: Edit, request: Request, change: Change, text: str | None) -> bool:
    """Whether ``edit`` of ``request`` overlaps ``change``: at its place, around it or inside it.

    ``text``: the string with the change in that request (``was_text`` or ``now_text``).
    """
    ours, theirs = general(edit.path), general(change.path)
    if ours != theirs:
        # A block that came or went as a whole is not mended by an edit inside it.
        is_inside = ours.startswith(f"{theirs}/") and change.kind not in _WHOLE
        return is_inside or theirs.startswith(f"{ours}/")
    if edit.span is None or text is None:
        return True
    span = change.now_span if text is change.now_text else change.was_span
    touches = edit.span[0] <= span[1] and span[0] <= edit.span[1]
    return touches and value_at(request, edit.path) == text


def is_related(one: str, other: str) -> bool:
    """Whether two paths are equal, or one leads into the value of the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
