r"""Late system messages placed: each becomes the user's where it stands.

The text is wrapped in ``<system-reminder>``, as Claude Code itself wraps such text, unless it is
already; where a template wants user and assistant in turns, it joins its neighbour (joining.py).

What becomes of a message depends on what stands before it alone (and, behind an assistant's, on
the user message that follows at once), so each later turn shows it the same: the prompt only
grows. A late message without any text says nothing and goes. Blocks that are not text stay.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cacheproxy.core.dialect import ANTHROPIC, CHAT, OLLAMA, RESPONSES
from cacheproxy.core.document import Document
from cacheproxy.core.edits import Edit, edit_body, encode, removal, splice
from cacheproxy.core.joining import WHY, as_user, joining_edits, runs_of
from cacheproxy.core.normalize import Report, describe
from cacheproxy.core.placement import ROLES, Placement
from cacheproxy.core.reminder import CLOSE, OPEN, says_something
from cacheproxy.core.request import Request
from cacheproxy.core.rereading import Splice

NAME = "late-system-messages"
"""Under which placed messages are reported and counted, beside the rules."""
_LITERALS = tuple(f'"{role}"' for role in ROLES)
_PLAIN = re.compile(
    rb'(?P<before>\{\s*"role"\s*:\s*")(?:system|developer)(?P<between>"\s*,\s*"content"\s*:\s*")'
    rb'(?P<text>[^"\\]*(?:\\.[^"\\]*)*)(?P<behind>"\s*\})'
)
"""A message as most clients spell it: its role and a text."""
_MARK = OPEN.strip().encode()
_OPEN, _CLOSE = (encode(text)[1:-1].encode() for text in (OPEN, CLOSE))


class LateMessage(NamedTuple):
    """Where a late system message stands; ``leads``: only system text stands before it."""

    number: int
    role: str
    leads: bool


def late_messages(request: Request) -> list[LateMessage]:
    """Return the late system messages of ``request``, in their order."""
    if request.dialect not in (ANTHROPIC, CHAT, OLLAMA, RESPONSES):
        return []
    if not any(literal in request.literals for literal in _LITERALS):
        return []
    items = _items(request)
    head = {ANTHROPIC: "system", RESPONSES: "instructions"}.get(request.dialect)
    has_head = head is not None and bool((request.json or {}).get(head))
    found: list[LateMessage] = []
    leads = True
    for index, item in enumerate(items):
        role = item.get("role") if isinstance(item, dict) else None
        if role not in ROLES:
            leads = False
        elif has_head or not leads:
            found.append(LateMessage(index, role, leads))
        else:
            has_head = True
    return found


def place(request: Request, placement: Placement) -> tuple[Request, Report | None]:
    """Return ``request`` with its late messages where ``placement`` says, and what was done.

    It never raises: what cannot be placed goes on as it came, and the report says why.
    """
    moved = {
        late.number
        for late in late_messages(request)
        if placement.moves(late.role, leads=late.leads)
    }
    items, name = _items(request), _name(request.dialect)
    moved = {number for number in moved if isinstance(items[number].get("content"), str | list)}
    document = request.document
    if not moved or document is None:
        return request, None
    empty = {number for number in moved if not says_something(items[number]["content"])}
    runs = list(runs_of(items, moved - empty, empty, placement))
    try:
        if max(map(len, runs), default=0) > 1:
            edits = list(joining_edits(runs, items, moved, empty, f"/{name}"))
            edited = edit_body(document, edits)
        else:
            edited = splice(document, _splices(document, name, [run[0] for run in runs], empty))
    except Exception as error:  # law 4
        return request, Report(NAME, error=describe(error))
    if edited is None:
        return request, None
    done = tuple(Edit(f"/{name}/{number}", "user", WHY) for number in sorted(moved))
    return request.with_body(*edited), Report(NAME, done)


def _splices(document: Document, name: str, alone: list[int], empty: set[int]) -> list[Splice]:
    """Return one splice for each message, which by paths would take ten times as long."""
    container = document.inner(name)
    assert container is not None
    start = document.entry((name,)).value_start
    splices = list(removal(document, (name,), set(empty))) if empty else []
    for number in alone:
        first, last = start + container.starts[number], start + container.ends[number]
        new = _as_user(document.body[first:last], container.values[number])
        splices.append(Splice(first, last, new))
    return splices


def _as_user(spelled: bytes, item: dict[str, Any]) -> bytes:
    """Return a message as the user's: its text's bytes are kept where it has nothing but text."""
    found = _PLAIN.fullmatch(spelled)
    if found is None or found["text"].startswith(_MARK):
        return encode(as_user(item)).encode()
    return b"%buser%b%b%b%b%b" % (
        found["before"],
        found["between"],
        _OPEN,
        found["text"],
        _CLOSE,
        found["behind"],
    )


def _items(request: Request) -> list[Any]:
    items = (request.json or {}).get(_name(request.dialect))
    return items if isinstance(items, list) else []


def _name(dialect: str | None) -> str:
    return "input" if dialect == RESPONSES else "messages"
