"""The rule calls-as-before: a tool call of the turn before stays spelled as it was.

Clients keep the arguments of a call as a value, and some spell it anew when they send it again:
members in another order, other spaces or escapes, ``1`` for ``1.0``.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterator

from cacheproxy.core.dialects.content import Call, calls_in
from cacheproxy.core.document.alike import alike
from cacheproxy.core.document.compare import shared_from
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import Edit, Raw
from cacheproxy.core.document.pointer import Path, to_pointer
from cacheproxy.core.document.spans import Container
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import CodeRule, quick

_WHY = "tool calls of the turn before keep their spelling"
_FEW = 50
"""Calls that are looked for one by one. To read the turn before costs less than to search it for
more of them."""


@quick
def _as_before(request: Request, previous: Request | None) -> Iterator[Edit]:
    """Spell each call as the turn before did, if it is the same one with equal arguments.

    Messages that both bodies begin with are not looked at. The turn before is read only if it has
    the id of a call in another one, or if there are many.
    """
    document = request.document
    if previous is None or request.dialect is None or document is None:
        return
    name = request.dialect.items
    messages = document.array(name)
    if messages is None:
        return
    start = document.entry((name,)).value_start
    same = bisect_right(messages.ends, shared_from(previous.body, start, messages.spelled))
    rest = start + messages.ends[same - 1] if same else 0
    calls = _calls(name, messages, same)
    if len(calls) <= _FEW and not any(
        previous.body.find(call.id.encode(), rest) >= 0 for call in calls
    ):
        return
    if previous.document is None or (before := previous.document.array(name)) is None:
        return
    known = {call.id: call for call in reversed(_calls(name, before, same))}
    for call in calls:
        number = int(call.path[1])
        if call.id in known and not _is_same(messages, before, number):
            yield from _respelled(call, document, known[call.id], previous.document)


def _calls(name: str, messages: Container, first: int) -> list[Call]:
    """Return the calls that have an id, from the message numbered ``first`` on."""
    return [
        call
        for number, message in enumerate(messages.values[first:], first)
        if isinstance(message, dict) and message.get("role") in ("assistant", None)
        for call in calls_in(message, (name, number))
        if isinstance(call.id, str) and call.id.isascii() and call.id
    ]


def _is_same(messages: Container, before: Container, number: int) -> bool:
    items = before.items[number : number + 1]
    return bool(items) and items[0].spelled == messages.items[number].spelled


def _respelled(call: Call, ours: Document, first: Call, theirs: Document) -> Iterator[Edit]:
    """Yield the edit to the spelling of ``first``, where that means the same."""
    new, old = call.arguments, first.arguments
    pointer = to_pointer(call.path)
    if isinstance(new, str) and isinstance(old, str):
        if new != old and _means_same(new, old):
            yield Edit(pointer, old, _WHY)
    elif isinstance(new, dict) and isinstance(old, dict):
        spelled = _spelling(theirs, first.path)
        if spelled != _spelling(ours, call.path) and alike(old, new):
            yield Edit(pointer, Raw(spelled.decode()), _WHY)


def _means_same(new: str, old: str) -> bool:
    try:
        return alike(json.loads(new), json.loads(old))
    except (ValueError, RecursionError):
        return False


def _spelling(document: Document, path: Path) -> bytes:
    entry = document.entry(path)
    return document.body[entry.value_start : entry.end]


CALLS_AS_BEFORE = CodeRule("calls-as-before", _WHY, _as_before, needs_previous=True)
