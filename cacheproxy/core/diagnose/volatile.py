"""The volatile fields of a conversation, all of them, and the rules that make them constant."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from cacheproxy.core.diff.changes import Change, changes
from cacheproxy.core.diff.forms import value_at
from cacheproxy.core.diff.kind import Kind, masked
from cacheproxy.core.diff.text import TEXT_KINDS
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.prompt import Part
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import may_fire, normalize
from cacheproxy.core.rules.rule import Normalizer

Step = tuple[Request, Request]
"""A turn and the one after it, of one conversation."""
_LABEL = re.compile(r"(?:\S*\s*[^\s0-9A-Za-z]+|\S*)\s*\Z")
_LABEL_LENGTH = 32
_LISTS = ("messages", "input", "contents", "tools")
_ALL = frozenset(Part)
_WITHOUT_LABEL = (Kind.MOVED, Kind.REORDERED, Kind.SPELLING)
_WHOLE = (Kind.ADDED, Kind.REMOVED, Kind.MOVED)
_NUMBERS = (Kind.COUNTER, Kind.NONCE)


@dataclass(frozen=True, slots=True)
class Sighting:
    """A change, and in which of the steps it was seen."""

    step: int
    change: Change


@dataclass(frozen=True, slots=True)
class Field:
    """One volatile field.

    ``path``: a pattern: the JSON pointer, with ``*`` for an index that differs. ``label``: what
    stands before it on its line. ``source``: who wrote it (see prompt.Segment). ``was``, ``now``:
    an example. ``count``: in how many steps it was seen. ``rules``: the names of those that take
    it away, in the order given; ``covered``: in how many of the steps the first of them does.
    """

    path: str
    kind: Kind
    part: Part
    source: str
    label: str
    was: str
    now: str
    count: int
    rules: tuple[str, ...] = ()
    covered: int = 0
    sightings: tuple[Sighting, ...] = field(default=(), repr=False, compare=False)


def fields(
    steps: Sequence[Step], rules: Sequence[Normalizer] = (), parts: Iterable[Part] = _ALL
) -> tuple[Field, ...]:
    """Return the volatile fields of ``steps``, in the order in which they were first seen.

    Each rule is run alone; which are switched on is not asked here.
    """
    wanted = frozenset(parts)
    groups: dict[Key, list[Sighting]] = {}
    for number, step in enumerate(steps):
        for change in changes(*step, wanted):
            groups.setdefault(key_of(change), []).append(Sighting(number, change))
    found = [_field(sightings) for sightings in groups.values()]
    seen = [
        tuple(
            general(one.change.path)
            for sightings in groups.values()
            for one in sightings
            if one.step == number
        )
        for number in range(len(steps))
    ]
    trials = _Trials(steps, rules, wanted, seen)
    return tuple(trials.covered(one) for one in found)


Key = tuple[str, str, str, str]
"""General path, kind, label, who wrote it."""


def key_of(change: Change) -> Key:
    """Return what is equal for all sightings of one field."""
    kind = change.kind.value
    label = label_of(change)
    if change.kind in TEXT_KINDS:
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
    found = _LABEL.search(change.before)
    return masked(found[0])[-_LABEL_LENGTH:] if found else ""


def general(path: str) -> str:
    """Return ``path`` with ``*`` for every index in a list that grows."""
    steps = path.split("/")
    if len(steps) < 2 or steps[1] not in _LISTS:
        return path
    return "/".join("*" if step.isdecimal() else step for step in steps)


def _field(sightings: list[Sighting]) -> Field:
    found = [sighting.change for sighting in sightings]
    kinds = {change.kind for change in found}
    kind = found[0].kind
    if len(kinds) > 1:
        kind = Kind.NONCE if kinds <= set(_NUMBERS) else Kind.TEXT
        if kinds <= {Kind.ADDED, Kind.REMOVED}:
            kind = found[0].kind
    first = next((change for change in found if change.kind is kind), found[0])
    return Field(
        path=_pattern([change.path for change in found]),
        kind=kind,
        part=first.part,
        source=first.source,
        label=key_of(first)[2],
        was=first.was,
        now=first.now,
        count=len({sighting.step for sighting in sightings}),
        sightings=tuple(sightings),
    )


def _pattern(paths: list[str]) -> str:
    split = [path.split("/") for path in paths]
    return "/".join(steps[0] if len(set(steps)) == 1 else "*" for steps in zip(*split, strict=True))


class _Trials:
    """What each rule, alone, leaves of the changes of each step; each trial is made once."""

    def __init__(
        self,
        steps: Sequence[Step],
        rules: Sequence[Normalizer],
        parts: frozenset[Part],
        seen: Sequence[Sequence[str]],
    ) -> None:
        self._steps = steps
        self._rules = rules
        self._parts = parts
        self._seen = seen
        self._results: dict[tuple[str, int], _Trial | None] = {}

    def covered(self, one: Field) -> Field:
        """Return ``one`` with the rules that take it away."""
        counts: dict[str, int] = {}
        for rule in self._rules:
            steps = {
                sighting.step for sighting in one.sightings if self._takes_away(rule, sighting)
            }
            if steps:
                counts[rule.name] = len(steps)
        if not counts:
            return one
        best = next(iter(counts))
        return replace(one, rules=tuple(counts), covered=counts[best])

    def _takes_away(self, rule: Normalizer, sighting: Sighting) -> bool:
        trial = self._trial(rule, sighting.step)
        change = sighting.change
        if trial is None or key_of(change) in trial.left:
            return False
        place = general(change.path)
        was, now = (
            sum(_is_related(place, path) for path in paths)
            for paths in (self._seen[sighting.step], trial.places)
        )
        if now >= was:  # the same change, only told in another way
            return False
        before, after = self._steps[sighting.step]
        return any(meets(edit, before, change, change.was_text) for edit in trial.before) or any(
            meets(edit, after, change, change.now_text) for edit in trial.after
        )

    def _trial(self, rule: Normalizer, step: int) -> _Trial | None:
        key = rule.name, step
        if key not in self._results:
            self._results[key] = _try(rule, self._steps[step], self._parts)
        return self._results[key]


@dataclass(frozen=True, slots=True)
class _Trial:
    """The edits in either turn, and of the changes that were left the keys and places."""

    before: tuple[Edit, ...]
    after: tuple[Edit, ...]
    left: frozenset[Key]
    places: tuple[str, ...]


def _try(rule: Normalizer, step: Step, parts: frozenset[Part]) -> _Trial | None:
    before, after = step
    if not (may_fire(rule, before) or may_fire(rule, after)):
        return None
    one = normalize(before, [rule])
    other = normalize(after, [rule], one.request)
    if one.request is before and other.request is after:
        return None
    left = changes(one.request, other.request, parts)
    edits = [
        tuple(edit for report in result.reports for edit in report.edits) for result in (one, other)
    ]
    return _Trial(
        edits[0],
        edits[1],
        frozenset(key_of(change) for change in left),
        tuple(general(change.path) for change in left),
    )


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


def _is_related(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")
