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
"""A turn and the one after it, of one conversation."""
Key = tuple[str, str, str, str]
"""General path, kind, label, who wrote it."""
_LABEL = re.compile(r"(?:\S*\s*[^\s0-9A-Za-z]+|\S*)\s*\Z")
_LABEL_LENGTH = 32
_REACH = 200
"""Characters before a change in which its label is looked for."""
_LISTS = {*LISTS, "tools"}
ALL = frozenset(Part)
_WITHOUT_LABEL = (ChangeKind.MOVED, ChangeKind.REORDERED, ChangeKind.SPELLING)
_WHOLE = (ChangeKind.ADDED, ChangeKind.REMOVED, ChangeKind.MOVED)
_NUMBERS = (ChangeKind.COUNTER, ChangeKind.NONCE)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A change where it was seen."""

    step: int  #: in which of the steps
    change: Change  #: what changed


@dataclass(frozen=True, slots=True)
class Field:
    """One volatile field."""

    path: str  #: a pattern: the JSON pointer, with ``*`` for an index that differs
    kind: ChangeKind  #: the shape of what changes
    part: Part  #: of the prompt
    source: str  #: who wrote it (see prompt.Segment)
    label: str  #: what stands before it on its line
    was: str  #: an example, before
    now: str  #: the same example, after
    count: int  #: in how many steps it was seen
    rules: tuple[str, ...] = ()  #: the names of those that take it away, in the order given
    covered: int = 0  #: in how many of the steps the first of them does
    sightings: tuple[Sighting, ...] = field(default=(), repr=False, compare=False)
    """Where it was seen."""


def fields(
    steps: Sequence[Step], rules: Sequence[Normalizer] = (), parts: Iterable[Part] = ALL
) -> tuple[Field, ...]:
    """Return the volatile fields of ``steps``, in the order in which they were first seen.

    Each rule is run alone; which are switched on is not asked here.
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
    """Return what is equal for all sightings of one field."""
    kind = change.kind.value
    label = label_of(change)
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


def label_of(change: Change) -> str:
    """Return the words right before the change on its line, numbers masked."""
    found = _LABEL.search(change.before[-_REACH:])
    return masked(found[0])[-_LABEL_LENGTH:] if found else ""


def git_heading(change: Change) -> str | None:
    """Return the line above the git status (or the commits) that changed, None where it is none.

    Some of its lines may have come or gone.
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
    """Return the field of ``sightings``; ``tried``: each rule in each step."""
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
    """What one rule does in a step."""

    step: Step  #: which
    changed: Sequence[Change]  #: the changes without it
    sent: Step  #: the step with it
    edits: tuple[tuple[Edit, ...], tuple[Edit, ...]]  #: its edits in either turn
    left: Sequence[Change]  #: the changes that it leaves

    def takes_away(self, change: Change) -> bool:
        """Whether ``change`` is gone, and by an edit that meets it."""
        if key_of(change) in map(key_of, self.left):
            return False
        place = general(change.path)
        was, now = (
            sum(is_related(place, general(one.path)) for one in found)
            for found in (self.changed, self.left)
        )
        if now >= was:  # the same change, only told in another way
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
    """Return what ``rule`` alone does in ``step``, where ``changed`` differs; None: nothing."""
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
    """Return ``step`` as it would be sent with ``rules``."""
    before = normalize(step[0], rules).request
    return before, normalize(step[1], rules, before).request


def parted(step: Step, order: PromptOrder) -> Parted | None:
    """Return the prompts of ``step`` in ``order``, and where they part; None where one has none."""
    was, now = (prompt_of(request, order) for request in step)
    return None if was is None or now is None else Parted(was, now, parting(was, now))


def edits_of(result: Normalized) -> tuple[Edit, ...]:
    """Return all edits that were made."""
    return tuple(edit for report in result.reports for edit in report.edits)


def meets(edit: Edit, request: Request, change: Change, text: str | None) -> bool:
    """Whether ``edit`` of ``request`` is made where ``change`` is: there, around or inside it.

    ``text``: the string that the change is in, in that request (``was_text`` or ``now_text``).
    """
    ours, theirs = general(edit.path), general(change.path)
    if ours != theirs:
        # What has come or gone as a whole is not mended by an edit somewhere inside it.
        is_inside = ours.startswith(f"{theirs}/") and change.kind not in _WHOLE
        return is_inside or theirs.startswith(f"{ours}/")
    if edit.span is None or text is None:
        return True
    span = change.now_span if text is change.now_text else change.was_span
    touches = edit.span[0] <= span[1] and span[0] <= edit.span[1]
    return touches and value_at(request, edit.path) == text


def is_related(one: str, other: str) -> bool:
    """Whether two paths lead to one value, or to a value and a part of it."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
