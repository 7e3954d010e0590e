r"""The rule that puts the list of skills back: resumed sessions of 2.1.90 have it elsewhere.

Each process of Claude Code puts the list before the first text that it gets from the user::

    <system-reminder>
    The following skills are available for use with the Skill tool:

    - update-config: Use this skill to …
    </system-reminder>

Up to 2.1.90 a session is stored without the list: after ``--resume`` it is missing from its old
message, and stands in the newest one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from cacheproxy import REMOVE, CodeRule, Edit, Request, blocks_of, messages_of, quick

_HEAD = "The following skills are available for use with the Skill tool:"
_SKILLS = re.compile(rf"<system-reminder>\n{_HEAD}\n[\s\S]*\n</system-reminder>\s*")
_CONTEXT = (
    "<system-reminder>\nAs you answer the user's questions, you can use the following context:"
)
_REMINDER = re.compile(r"<system-reminder>\n[\s\S]*\n</system-reminder>\s*")
_PLACE = _HEAD.encode()


@quick
def _as_before(request: Request, previous: Request | None) -> Iterator[Edit]:
    """Put the list back into its old message, and remove the same list from a later one.

    A different list stays in the later message as well: skills have changed.
    """
    if previous is None or _has_stayed(request, previous):
        return
    (name, messages), (_, before) = messages_of(request), messages_of(previous)
    known, is_back = None, False
    for number, message in enumerate(messages):
        if message.get("role") != "user":
            continue
        blocks = blocks_of(message.get("content"))
        had = blocks_of(before[number].get("content")) if number < len(before) else []
        ours, theirs = _skills(blocks), _skills(had)
        if theirs is not None and ours is None and _is_rest(blocks, had[1:]):
            yield _put_back(f"/{name}/{number}/content", message, had[0])
            known, is_back = theirs, True
        elif is_back and ours == known and _is_copy(blocks, had, is_new=number >= len(before)):
            yield Edit(f"/{name}/{number}/content/0", REMOVE, KEEP_SKILLS.why)
        else:
            known = ours or known


def _has_stayed(request: Request, previous: Request) -> bool:
    """Return whether each list of the previous turn is in this body at the same offset."""
    if previous.is_read and _goes_on(request, previous):
        return True
    place = now = -1
    while place == now:
        place, now = previous.body.find(_PLACE, place + 1), request.body.find(_PLACE, now + 1)
        if -1 in (place, now):
            return True
    return False


def _goes_on(request: Request, previous: Request) -> bool:
    """Return whether the previous turn's messages all begin this one, by their stored documents."""
    name = request.dialect.items if request.dialect is not None else ""
    one, other = (each.document and each.document.array(name) for each in (request, previous))
    if not one or not other:
        return False
    return one is other or one.items[: len(other.items)] == other.items


def _is_copy(blocks: list[Any], had: list[Any], *, is_new: bool) -> bool:
    """Return whether the list at the start of ``blocks`` is a copy, to be removed.

    It is one in a new message, or in one that ``had`` the other blocks alone.
    """
    return len(blocks) > 1 and (is_new or _is_rest(blocks[1:], had))


def _put_back(path: str, message: dict[str, Any], block: Any) -> Edit:
    """Return the edit that puts ``block`` before all content of ``message``."""
    content = message["content"]
    if isinstance(content, str):
        return Edit(path, [block, *blocks_of(content)], KEEP_SKILLS.why)
    return Edit(f"{path}/0", block, KEEP_SKILLS.why, adds=True)


def _is_rest(blocks: list[Any], had: list[Any]) -> bool:
    """Return whether ``blocks`` are those that the message ``had``, except for notes at its end.

    The context that the client puts before the first text may have another date: a pin restores it.
    """
    return bool(blocks) and all(
        one == other or (_is_reminder(other) if one is None else _are_contexts(one, other))
        for one, other in zip_longest(blocks, had)
    )


def _skills(blocks: list[Any]) -> str | None:
    """Return the list of skills if ``blocks`` begin with it, else None."""
    text = _text(blocks[0]) if blocks else ""
    return text if _SKILLS.fullmatch(text) else None


def _is_reminder(block: Any) -> bool:
    """Return whether ``block`` is nothing but a ``<system-reminder>``."""
    return _REMINDER.fullmatch(_text(block)) is not None


def _are_contexts(one: Any, other: Any) -> bool:
    """Return whether both blocks are the context that the client puts first."""
    return _text(one).startswith(_CONTEXT) and _text(other).startswith(_CONTEXT)


def _text(block: Any) -> str:
    """Return the text of ``block``, "" if it has none."""
    text = block.get("text") if isinstance(block, dict) else None
    return text if isinstance(text, str) else ""


KEEP_SKILLS = CodeRule(
    name="claude-keep-skills",
    why="list of skills put back where it was",
    find=_as_before,
    literals=(_HEAD,),
    needs_previous=True,
)
