r"""Late system messages placed: each becomes the user's where it stands.

The text is wrapped in ``<system-reminder>``, as Claude Code itself wraps such text, unless it is
already. Where a template wants user and assistant in turns, the text joins its neighbour: the
user message before it (or the tool's result, where no user message may follow one), else the one
behind it. User messages that only a late one held apart are joined then.

What becomes of a message depends on what stands before it alone (and, behind an assistant's, on
the user message that follows at once), so each later turn shows it the same: the prompt only
grows. A late message without any text says nothing and goes. Blocks that are not text stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from cacheproxy.core.dialect import ANTHROPIC, CHAT, OLLAMA, RESPONSES
from cacheproxy.core.edits import REMOVE, Edit
from cacheproxy.core.paths import to_pointer
from cacheproxy.core.placement import ROLES, Placement
from cacheproxy.core.reminder import (
    BETWEEN,
    CLOSE,
    OPEN,
    is_all_text,
    is_text,
    is_wrapped,
    kind_of_texts,
    says_something,
    text_in,
    wrap_blocks,
    wrapped,
)
from cacheproxy.core.request import Request
from cacheproxy.core.rules import CodeRule

NAME = "late-system-messages"
"""Under which placed messages are reported and counted, beside the rules."""
WHY = "late system message given to the user, in its place"
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


def _place(placement: Placement, request: Request, _previous: Request | None) -> Iterator[Edit]:
    moved = {
        late.number
        for late in late_messages(request)
        if placement.moves(late.role, leads=late.leads)
    }
    moved = {
        index for index in moved if isinstance(_items(request)[index].get("content"), str | list)
    }
    if not moved:
        return
    items, name = _items(request), _name(request.dialect)
    empty = {index for index in moved if not says_something(items[index]["content"])}
    for index in sorted(empty):
        yield Edit(f"/{name}/{index}", REMOVE, WHY)
    for run in _runs(items, moved - empty, empty, placement):
        yield from _settle(run, items, moved, f"/{name}")


def _runs(
    items: Sequence[Any], moved: set[int], gone: set[int], placement: Placement
) -> Iterator[list[int]]:
    """Yield which messages become one: a late one alone, or with those that it has to join.

    The first of a run is where it all goes.
    """
    run: list[int] = []
    for index, item in enumerate(items):
        if index in gone:
            continue
        is_user = index in moved or _role(item) == "user"
        joins = bool(run) and is_user and _joins(items, run, index, moved, placement)
        if not joins:
            if moved.intersection(run):
                yield run
            run = []
        if is_user or _is_result(item):
            run.append(index)
    if moved.intersection(run):
        yield run


def _joins(
    items: Sequence[Any], run: list[int], index: int, moved: set[int], placement: Placement
) -> bool:
    """Whether the user message at ``index``, a late one or not, is one with the run before it.

    Two that the client itself sends in a row are its own affair.
    """
    if run[0] not in moved and _ends_with_result(items[run[0]]):
        return placement.joins_tool and index in moved and is_all_text(items[index]["content"])
    if not placement.joins_user:
        return False
    return index in moved or bool(moved.intersection(run))


def _settle(run: list[int], items: Sequence[Any], moved: set[int], root: str) -> Iterator[Edit]:
    """Make one user message of ``run``, or add late texts to the tool's result it begins with."""
    home, rest = run[0], run[1:]
    pointer = f"{root}/{home}"
    if home in moved and not rest:
        yield from _re_role(pointer, items[home])
        return
    if not rest:
        return
    if home not in moved and _ends_with_result(items[home]):
        yield from _after_result(pointer, items[home], [items[index] for index in rest])
    elif (
        home not in moved and isinstance(items[home].get("content"), str) and moved.issuperset(rest)
    ):
        text = "".join(BETWEEN + wrapped(text_in(items[index]["content"])) for index in rest)
        end = len(items[home]["content"])
        yield Edit(f"{pointer}/content", text, WHY, (end, end))
    else:
        yield Edit(f"{pointer}/content", _joined(run, items, moved), WHY)
        if home in moved:
            yield from _become_user(pointer, items[home])
    for index in rest:
        yield Edit(f"{root}/{index}", REMOVE, WHY)


def _re_role(pointer: str, item: dict[str, Any]) -> Iterator[Edit]:
    """Turn a message into the user's, its text's bytes kept."""
    content = item["content"]
    texts = (
        [(f"{pointer}/content", content)]
        if isinstance(content, str)
        else [
            (f"{pointer}/content/{number}/text", block["text"])
            for number, block in enumerate(content)
            if is_text(block)
        ]
    )
    if texts and not is_wrapped(texts[0][1], texts[-1][1]):
        last, closing = texts[-1]
        yield Edit(texts[0][0], OPEN, WHY, (0, 0))
        yield Edit(last, CLOSE, WHY, (len(closing), len(closing)))
    yield from _become_user(pointer, item)


def _become_user(pointer: str, item: dict[str, Any]) -> Iterator[Edit]:
    yield Edit(f"{pointer}/role", "user", WHY)
    for key in item:
        if key not in ("role", "content", "type", "id", "status"):
            yield Edit(pointer + to_pointer((key,)), REMOVE, WHY)


def _after_result(pointer: str, item: dict[str, Any], late: list[Any]) -> Iterator[Edit]:
    """Add the texts behind what the tool returned, which stays as it is."""
    text = "".join(BETWEEN + wrapped(text_in(each["content"])) for each in late)
    holder, key, value = _result_of(item)
    place = f"{pointer}{holder}/{key}"
    if isinstance(value, str):
        yield Edit(place, text, WHY, (len(value), len(value)))
        return
    blocks = value if isinstance(value, list) else []
    number = len(blocks) - 1
    if blocks and is_text(blocks[number]):
        end = len(blocks[number]["text"])
        yield Edit(f"{place}/{number}/text", text, WHY, (end, end))
    else:
        kind = "input_text" if key == "output" else "text"
        yield Edit(place, [*blocks, {"type": kind, "text": text.lstrip()}], WHY)


def _result_of(item: dict[str, Any]) -> tuple[str, str, Any]:
    """Return where in ``item`` the last result stands: a block, its member, and what it holds."""
    if item.get("type") == "function_call_output":
        return "", "output", item.get("output")
    content = item.get("content")
    if item.get("role") == "tool":
        return "", "content", content
    assert isinstance(content, list)
    number = len(content) - 1
    return f"/content/{number}", "content", content[number].get("content", [])


def _is_result(item: Any) -> bool:
    """Whether ``item`` is a tool's result by itself, outside a user message."""
    if not isinstance(item, dict):
        return False
    if item.get("type") == "function_call_output":
        return isinstance(item.get("output"), str | list)
    return item.get("role") == "tool" and isinstance(item.get("content"), str | list)


def _ends_with_result(item: Any) -> bool:
    """Whether a tool's result is the last that ``item`` says."""
    if _is_result(item):
        return True
    content = item.get("content") if isinstance(item, dict) else None
    last = content[-1] if isinstance(content, list) and content else None
    return isinstance(last, dict) and last.get("type") == "tool_result"


def _role(item: Any) -> Any:
    return item.get("role") if isinstance(item, dict) else None


def _items(request: Request) -> list[Any]:
    items = (request.json or {}).get(_name(request.dialect))
    return items if isinstance(items, list) else []


def _name(dialect: str | None) -> str:
    return "input" if dialect == RESPONSES else "messages"


def _joined(run: list[int], items: Sequence[Any], moved: set[int]) -> Any:
    """Return the content of all messages of ``run`` as that of one."""
    contents = [items[index]["content"] for index in run]
    if all(isinstance(content, str) for content in contents):
        return BETWEEN.join(
            wrapped(content) if index in moved else content
            for index, content in zip(run, contents, strict=True)
        )
    blocks: list[Any] = []
    kind = kind_of_texts(contents)
    for index, content in zip(run, contents, strict=True):
        own = [{"type": kind, "text": content}] if isinstance(content, str) else list(content)
        if index in moved:
            wrap_blocks(own)
        blocks += own
    return blocks
