"""The proof of a proposed rule on captured requests.

A proven rule makes the prompts of consecutive turns equal wherever it fires, never fires in text
that a user, a tool or the model wrote, is idempotent, and leaves every other byte as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from cacheproxy.core.diagnose.volatile import (
    Field,
    Key,
    Step,
    edits_of,
    key_of,
    meets,
    parted,
    tried,
)
from cacheproxy.core.diff.changes import changes
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import REMOVE, Edit, apply
from cacheproxy.core.document.pointer import parse_pointer, to_pointer
from cacheproxy.core.document.search import SlowPatternError
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import is_for, normalize
from cacheproxy.core.rules.rule import Rule

_UNCLEAN = "the rule is not idempotent, or changes more than it names"


def objection(
    rule: Rule, field: Field, steps: Sequence[Step], requests: Iterable[Request]
) -> str | None:
    """Return the reason against ``rule`` for ``field``, which quotes no request; None if proven."""
    spy = Rule(rule.name, rule.where, rule.pattern, "\N{SYMBOL FOR NULL}")
    for request in requests:
        if not is_for(rule, request):
            continue
        try:
            is_clients = _is_clients(spy, request)
        except SlowPatternError as error:
            return str(error)
        if not is_clients:
            return "the rule's pattern also matches text that a user, a tool or the model wrote"
        if not _is_clean(rule, request):
            return _UNCLEAN
    wanted = key_of(field.sightings[0].change)
    seen = {sighting.step for sighting in field.sightings}
    for number, (before, after) in enumerate(steps):
        if not _is_clean(rule, after, before):
            return _UNCLEAN
        if not _mends(rule, before, after, wanted if number in seen else None):
            return "the rule does not make the turns equal wherever it fires"
    return None


def _is_clients(spy: Rule, request: Request) -> bool:
    """Whether the pattern matches only in text that the client itself wrote."""
    edits = list(spy.edits(request))
    if not edits:
        return True
    prompt = prompt_of(request)
    sources = {segment.path: segment.source for segment in prompt.segments} if prompt else {}
    return all(
        edit.path.startswith("/tools/") or sources.get(edit.path) == "client" for edit in edits
    )


def _is_clean(rule: Rule, request: Request, previous: Request | None = None) -> bool:
    """Whether a first pass changes nothing but the spans it names, and a second pass nothing."""
    once = normalize(request, [rule], previous)
    if any(report.error for report in once.reports):
        return False
    again = normalize(once.request, [rule], previous)
    is_same = again.request is once.request
    return is_same and _only_there(request.document, once.request.document, edits_of(once))


def _only_there(was: Document | None, now: Document | None, edits: Sequence[Edit]) -> bool:
    """Whether two bodies are equal but for the spans that ``edits`` name."""
    if was is None or now is None:
        return was is now
    inside: dict[str, list[Edit]] = {}
    for edit in edits:
        if not edit.adds:
            inside.setdefault(edit.path, []).append(edit)
    for pointer, found in inside.items():
        path = was.resolve(parse_pointer(pointer))
        if _edited(was.get(path), found) != now.get(path):
            return False
    bare = [Edit(pointer, None, "") for pointer in inside]
    return apply(was, bare) == apply(now, [*bare, *_without_added(now, edits)])


def _without_added(now: Document, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Yield edits that remove from ``now`` the elements that ``edits`` have added to arrays."""
    for place in dict.fromkeys(edit.path for edit in edits if edit.adds):
        array = now.resolve(parse_pointer(place)[:-1])
        last, count = len(now.get(array)), sum(edit.path == place for edit in edits)
        for number in range(last - count, last):
            yield Edit(to_pointer((*array, number)), REMOVE, "")


def _edited(text: str, edits: Sequence[Edit]) -> str:
    for edit in sorted(edits, key=lambda edit: edit.span or (0, 0), reverse=True):
        start, end = edit.span or (0, len(text))
        text = text[:start] + edit.new + text[end:]
    return text


def _mends(rule: Rule, before: Request, after: Request, wanted: Key | None) -> bool:
    """Whether ``rule`` leaves no difference where it fires.

    ``wanted``: key of the change that must be gone, None if the rule need not fire.
    """
    step = before, after
    trial = tried(rule, step, changes(before, after))
    if trial is None:
        return wanted is None
    (one, other), left = trial.sent, trial.left
    known = {key_of(change) for change in trial.changed}
    if any(key_of(change) == wanted or key_of(change) not in known for change in left):
        return False
    edits = _landed(trial.edits[1])
    if any(meets(edit, other, change, change.now_text) for edit in edits for change in left):
        return False
    longer = max(0, len(one.body) - len(before.body))
    return all(_lost(trial.sent, order) <= _lost(step, order) + longer for order in PromptOrder)


def _landed(edits: Sequence[Edit]) -> list[Edit]:
    """Return ``edits`` of texts, with their spans in the edited text."""
    landed: list[Edit] = []
    shifts: dict[str, int] = {}
    for edit in sorted(edits, key=lambda edit: edit.span or (0, 0)):
        if edit.adds:
            continue
        start, end = edit.span or (0, 0)
        place = start + shifts.get(edit.path, 0)
        landed.append(replace(edit, span=(place, place + len(edit.new))))
        shifts[edit.path] = place + len(edit.new) - end
    return landed


def _lost(step: Step, order: PromptOrder) -> int:
    """Return the characters of the earlier prompt that are no prefix of the later one."""
    found = parted(step, order)
    return 0 if found is None else found.was.chars - found.left.shared
