r"""Late system messages placed: each becomes the user's where it stands.

The text is wrapped in ``<system-reminder>``, as Claude Code itself wraps such text, unless it is
already. Where a template wants user and assistant in turns, the text joins its neighbour: the
user message before it (or the tool's result, where no user message may follow one), else the one
behind it. User messages that only a late one held apart are joined then, and what stands between
a call and its result goes behind the result.

What becomes of a message depends on what stands before it alone (and, where messages are joined,
on the user message or the result that follows at once), so each later turn shows it the same: the
prompt only grows. A text alone and a list of one text block are joined alike, since clients send
the newest message as a list and later as a text. A late message without any text says nothing and
goes. Blocks that are not text stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from cacheproxy.core.dialect import ANTHROPIC, CHAT, OLLAMA, RESPONSES
from cacheproxy.core.edits import REMOVE, Edit
from cacheproxy.core.joining import join_late
from cacheproxy.core.placement import ROLES, Placement
from cacheproxy.core.reminder import says_something
from cacheproxy.core.request import Request
from cacheproxy.core.reroling import WHY, re_role
from cacheproxy.core.rules import CodeRule

NAME = "late-system-messages"
"""Under which placed messages are reported and counted, beside the rules."""
_EMPTY = "late system message without any text left out"
_LITERALS = tuple(f'"{role}"' for role in ROLES)


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


@lru_cache(maxsize=64)
def rule_for(placement: Placement) -> CodeRule:
    """Return ``placement`` as a rule, which the fold of requests can take."""
    return CodeRule(NAME, WHY, partial(_place, placement), own=True, literals=_LITERALS)


def count_of(edits: Sequence[Edit]) -> int:
    """Return how many late messages ``edits`` of such a rule placed or left out."""
    return sum(edit.why in (WHY, _EMPTY) for edit in edits)


def _place(placement: Placement, request: Request, _previous: Request | None) -> Iterator[Edit]:
    items, root = _items(request), f"/{_name(request.dialect)}"
    moved: set[int] = set()
    gone: set[int] = set()
    has_led = False  # what leads behind one that becomes the user's leads no more
    for number, role, leads in late_messages(request):
        content = items[number].get("content")
        if not isinstance(content, str | list):
            continue
        if not placement.moves(role, leads=leads and not has_led):
            continue
        if says_something(content) or items[number].get("images"):
            moved.add(number)
            has_led = True
        else:
            gone.add(number)
            yield Edit(f"{root}/{number}", REMOVE, _EMPTY)
    if not placement.joins_user and not placement.joins_tool:
        for number in sorted(moved):
            yield from re_role(f"{root}/{number}", items[number])
        return
    yield from join_late(items, moved, gone, placement, root)


def _items(request: Request) -> list[Any]:
    items = (request.json or {}).get(_name(request.dialect))
    return items if isinstance(items, list) else []


def _name(dialect: str | None) -> str:
    return "input" if dialect == RESPONSES else "messages"
