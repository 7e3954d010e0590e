"""Built-in rules: they belong to no package, are for all clients, and are switched by name."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from cacheproxy.core.dialects.content import Call, calls_in
from cacheproxy.core.document.compare import alike, common_prefix, means_same
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.edits import Edit, Raw
from cacheproxy.core.document.pointer import Path, to_pointer
from cacheproxy.core.document.spans import Container, SpelledValue
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.prompt.segments import tool_name
from cacheproxy.core.rules.code_rule import CodeRule, quick

_CALLS_WHY = "tool calls of the turn before keep their spelling"
_FEW = 50
"""Calls at most to search the turn before for, one by one; for more, parsing it costs less."""
_TOOLS_WHY = "tools of the turn before keep their order and spelling; new ones come last"


@quick
def _calls_as_before(request: Request, previous: Request | None) -> Sequence[Edit]:
    """Return edits that spell each call as in the turn before, if id and arguments are equal.

    Messages that both bodies begin with are skipped. The turn before is parsed only if a call's id
    occurs in it behind these, or if the calls are many.
    """
    document, edits = request.document, list[Edit]()
    if previous is None or request.dialect is None or document is None:
        return edits
    name = request.dialect.items
    messages = document.array(name)
    if messages is None:
        return edits
    theirs = previous.document if previous.is_read else None
    before = None if theirs is None else theirs.array(name)
    notes, same = messages.before
    if theirs is not None and before is not None and before.notes is notes:
        start = theirs.start_of(name)  # it was read as going on with this one
    else:
        start = document.start_of(name)
        same = bisect_right(messages.ends, common_prefix(previous.body, messages.spelled, start))
    calls = _calls(name, messages, same)
    if len(calls) <= _FEW:
        rest = start + messages.ends[same - 1] if same else 0
        for call in calls:
            if previous.body.find(call.id.encode(), rest) >= 0:
                break
        else:
            return edits
    if previous.document is None or (before := previous.document.array(name)) is None:
        return edits
    known = {call.id: call for call in reversed(_calls(name, before, same))}
    for call in calls:
        number = int(call.path[1])
        was = before.items[number : number + 1]
        is_same = bool(was) and was[0].spelled == messages.items[number].spelled
        if call.id in known and not is_same:
            edits += _respelled(call, document, known[call.id], previous.document)
    return edits


def _calls(name: str, messages: Container, first: int) -> list[Call]:
    """Return the calls with an ASCII id, from the message numbered ``first`` on."""
    calls: list[Call] = []
    for number, message in enumerate(messages.values[first:], first):
        if isinstance(message, dict) and message.get("role") in ("assistant", None):
            for one in calls_in(message, (name, number)):
                if isinstance(one.id, str) and one.id.isascii() and one.id:
                    calls.append(one)  # noqa: PERF401 - a comprehension is a call
    return calls


def _respelled(call: Call, ours: Document, first: Call, theirs: Document) -> Iterator[Edit]:
    """Yield the edit that gives ``call`` the spelling of ``first``, if that means the same."""
    new, old = call.arguments, first.arguments
    pointer = to_pointer(call.path)
    if isinstance(new, str) and isinstance(old, str):
        if new != old and means_same(new, old):
            yield Edit(pointer, old, _CALLS_WHY)
    elif isinstance(new, dict) and isinstance(old, dict):
        spelled = _spelling(theirs, first.path)
        if spelled != _spelling(ours, call.path) and alike(old, new):
            yield Edit(pointer, Raw(spelled.decode()), _CALLS_WHY)


def _spelling(document: Document, path: Path) -> bytes:
    entry = document.entry(path)
    return document.body[entry.value_start : entry.end]


CALLS_AS_BEFORE = CodeRule("calls-as-before", _CALLS_WHY, _calls_as_before, needs_previous=True)


@quick
def _tools_as_before(request: Request, previous: Request | None) -> Iterable[Edit]:
    """Return edits that put the tools in the order of the turn before, each spelled as it was.

    There are none if two tools have one name, or one has no name: these cannot be matched.
    """
    document = request.document
    if previous is None or request.dialect is None or document is None:
        return ()
    tools = document.array("tools")
    if tools is None:
        return ()
    start, body = document.start_of("tools"), previous.body
    if body.startswith(tools.spelled, start):  # equal tools at the same distance from the start
        return ()
    start += len(body) - len(request.body)
    if start >= 0 and body.startswith(tools.spelled, start):  # or at the same one from the end
        return ()
    return _reordered(tools, previous.document)


def _reordered(tools: Container, document: Document | None) -> Iterator[Edit]:
    """Yield the edits that give ``tools`` their order and spelling in ``document``."""
    before = None if document is None else document.array("tools")
    ours, theirs = _by_name(tools), _by_name(before)
    order = [name for name in theirs if name in ours]
    order += [name for name in ours if name not in theirs]
    for at, name in enumerate(order):
        tool, known = ours[name], theirs.get(name)
        if known is not None and known.spelled != tool.spelled and alike(known.value, tool.value):
            tool = known
        if tool.spelled != tools.items[at].spelled:
            yield Edit(f"/tools/{at}", Raw(tool.spelled.decode()), _TOOLS_WHY)


def _by_name(tools: Container | None) -> dict[str, SpelledValue]:
    """Return the tools by name; nothing if a name is missing or occurs twice."""
    items = () if tools is None else tools.items
    found = {name: item for item in items if (name := tool_name(item.value)) is not None}
    return found if len(found) == len(items) else {}


TOOLS_AS_BEFORE = CodeRule("tools-as-before", _TOOLS_WHY, _tools_as_before, needs_previous=True)
BUILT_IN: tuple[CodeRule, ...] = (TOOLS_AS_BEFORE, CALLS_AS_BEFORE)
"""Rules that run last: those of packages and of the user may have made more equal to before."""
NAMES = frozenset(rule.name for rule in BUILT_IN)
"""Names of the built-in rules; if no others are on, no client has rules of its own."""
