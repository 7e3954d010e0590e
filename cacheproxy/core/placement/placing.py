r"""Places late system messages: each becomes a user message where it stands.

The text is wrapped in ``<system-reminder>``, as Claude Code itself does, unless it already is. If
a template requires user and assistant in turns, the text joins its neighbour: the user message
before it (or the tool result, if no user message may follow one), otherwise the next one. User
messages that were separated only by a late one are then joined, and a text between a tool call and
its result goes after the result.

The result for a message depends only on the messages before it (and, if messages are joined, on
the user message or tool result right after it). So each later turn shows it the same, and the
prompt only grows. A plain text and a list of one text block are joined alike, since clients send
the newest message as a list and later as a text. A late message without text is removed. Blocks
that are not text stay.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import REMOVE, Edit, encode, splice, splices_of
from cacheproxy.core.placement.joining import join_late
from cacheproxy.core.placement.placement import ROLES, Placement
from cacheproxy.core.placement.reroling import WHY, re_role
from cacheproxy.core.prompt.dialect import ANTHROPIC, CHAT, OLLAMA, RESPONSES
from cacheproxy.core.prompt.reminder import CLOSE, OPEN, says_something
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import Report, describe

NAME = "late-system-messages"
"""Under which placed messages are reported and counted, beside the rules."""
_EMPTY = "late system message without any text left out"
_LITERALS = tuple(f'"{role}"' for role in ROLES)
_PLAIN = re.compile(
    rb'\{\s*"role"\s*:\s*"(?P<role>system|developer)(?P<between>"\s*,\s*"content"\s*:\s*")'
    rb'(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"\s*\}'
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


def count_of(edits: Sequence[Edit]) -> int:
    """Return how many late messages ``edits`` of such a rule placed or left out."""
    return sum(edit.why in (WHY, _EMPTY) for edit in edits)


def place(request: Request, placement: Placement) -> tuple[Request, Report | None]:
    """Return ``request`` with its late messages where ``placement`` says, and what was done.

    It never raises: what cannot be placed goes on as it came, and the report says why.
    """
    items, document = _items(request), request.document
    moved, gone = _needed(request, items, placement)
    if document is None or not (moved or gone):
        return request, None
    root = _name(request.dialect)
    splices: list[Splice] = []
    edits = [Edit(f"/{root}/{number}", REMOVE, _EMPTY) for number in sorted(gone)]
    done = list(edits)
    try:
        if placement.joins_user or placement.joins_tool:
            edits += join_late(items, moved, gone, placement, f"/{root}")
            done = edits
        else:
            for number in sorted(moved):
                pointer = f"/{root}/{number}"
                plain = _plainly(document, root, number)
                splices += [] if plain is None else [plain]
                edits += re_role(pointer, items[number]) if plain is None else ()
                done.append(Edit(f"{pointer}/role", "user", WHY))
        splices = [*splices_of(document, edits), *splices]
        body = splice(document.body, splices)
    except Exception as error:  # law 4
        return request, Report(NAME, error=describe(error))
    if body is request.body:
        return request, None
    return request.with_body(body, splices), Report(NAME, tuple(done))


def _needed(request: Request, items: list[Any], placement: Placement) -> tuple[set[int], set[int]]:
    """Return which late messages become the user's, and which go: they say nothing."""
    moved: set[int] = set()
    gone: set[int] = set()
    for number, role, leads in late_messages(request):
        content = items[number].get("content")
        if not isinstance(content, str | list):
            continue
        # What leads behind one that becomes the user's leads no more.
        if not placement.moves(role, leads=leads and not moved):
            continue
        says = says_something(content) or items[number].get("images")
        (moved if says else gone).add(number)
    return moved, gone


def _plainly(document: Document, root: str, number: int) -> Splice | None:
    """Return a message of nothing but role and text as the user's; None for any other.

    The same as ``re_role`` does, in a tenth of the time: a conversation may hold hundreds.
    """
    entry = document.entry((root, number))
    found = _PLAIN.fullmatch(document.body, entry.value_start, entry.end)
    if found is None or found["text"].startswith((_MARK, b"\\")):  # marked, or it may be
        return None
    new = (b"user", found["between"], _OPEN, found["text"], _CLOSE)
    return Splice(found.start("role"), found.end("text"), b"".join(new))


def _items(request: Request) -> list[Any]:
    items = (request.json or {}).get(_name(request.dialect))
    return items if isinstance(items, list) else []


def _name(dialect: str | None) -> str:
    return "input" if dialect == RESPONSES else "messages"
