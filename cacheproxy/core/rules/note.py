r"""Notes: what a pin says to the model when the pinned value changes (append, never rewrite).

A note stands behind the text of a user message, marked as a reminder, as clients write what the
user did not. The client knows nothing of it and sends its history without it, so each later
request gets it again, at the same place: whatever the request before had there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from regex import Match

from cacheproxy.core.dialects.content import blocks_of, is_text, texts_in
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.document.search import SearchPattern, SlowPatternError
from cacheproxy.core.prompt.reminder import BETWEEN, CLOSE, OPEN, inside
from cacheproxy.core.prompt.request import Request, messages_of

MOST_NOTE = 64 << 10
"""Characters of a note: a git status, a folder tree. A longer one is not told, nor its pin made."""
_LEAST = 8
"""Plain characters that a note begins with: by them it is found."""
_PLAIN = re.compile(r"[ !#-.0-\[\]-~]*")
"""Characters that JSON always spells as they are."""
_ASKING = ("system", "developer", "user")
_REFERENCE = re.compile(r"\\(?:g<(\w+)>|([1-9]\d?))")
_RESULT = "tool_result"
WHY = "told where the conversation goes on"
"""Why one edit is made for each note that is new; by it they are counted."""
_AGAIN = "told earlier"


class NoteError(ValueError):
    """A note that cannot be told: bad beginning or reference."""


class NotedMessage(NamedTuple):
    """A user message of the request before that ends with notes, and as it comes now."""

    number: int  #: its place among the messages
    content: Any  #: as it comes now
    notes: tuple[str, ...]  #: those that follow it, without the mark
    in_blocks: bool  #: whether each is a block of its own


class Note:
    r"""The text of a rule's notes: ``\g<name>`` and ``\1`` stand for groups of its match.

    It begins with eight or more plain ASCII characters. Raises NoteError.
    """

    def __init__(self, template: str, pattern: SearchPattern) -> None:
        self._parts = _REFERENCE.split(template)
        found = _PLAIN.match(template)
        self.beginning = found[0] if found else ""
        if len(self.beginning) < _LEAST:
            raise NoteError(f"a note must begin with {_LEAST} or more plain characters")
        if len(template) > MOST_NOTE:
            raise NoteError(f"more than {MOST_NOTE:,} characters")
        if "\\" in "".join(self._parts[::3]) or inside(template) != template:
            raise NoteError(r"a note must be plain text, with \g<name> or \1 for groups")
        for group in self._groups():
            is_number = group.isdigit() and 0 < int(group) <= pattern.groups
            if group not in pattern.groupindex and not is_number:
                raise NoteError(f"the pattern has no group {group!r}")
        shape = ".*?".join(map(re.escape, self._parts[::3]))
        self._shape = re.compile(shape, re.DOTALL)
        with suppress(SlowPatternError):
            if pattern.within().search("".join(self._parts[::3])):
                raise NoteError("the rule would find the note and change it")

    def of(self, found: Match[str]) -> str:
        """Return what is told of a match; no value in it can end the mark around it."""
        groups = [found[int(name) if name.isdigit() else name] or "" for name in self._groups()]
        texts = self._parts[::3]
        said = texts[0] + "".join(g + t for g, t in zip(groups, texts[1:], strict=True))
        return inside(said)

    def is_in(self, request: Request) -> bool:
        """Whether such a note may be in ``request``; it is not read for that."""
        if request.is_read:
            return self.beginning in request.literals
        return self.beginning.encode() in request.body

    def kept(
        self, request: Request, previous: Request, pinned: Sequence[Edit] = ()
    ) -> list[NotedMessage]:
        """Return where ``previous`` has notes of this rule that ``request`` comes without.

        ``pinned``: the edits that are made in ``request`` beside.
        """
        name, items = messages_of(request)
        _, before = messages_of(previous)
        found = []
        for index, (was, now) in enumerate(zip(before, items, strict=False)):
            if not (_is_user(was) and _is_user(now)):
                continue
            if not any(self.beginning in text for text in texts_in(was["content"])):
                continue
            path = f"/{name}/{index}/content"
            behind = _behind(_patched(path, now["content"], pinned), was["content"])
            if behind is not None:
                notes = tuple(filter(self._shape.fullmatch, behind[0]))
                found.append(NotedMessage(index, now["content"], notes, in_blocks=behind[1]))
        return [kept for kept in found if kept.notes]

    def _groups(self) -> Iterator[str]:
        for name, number in zip(self._parts[1::3], self._parts[2::3], strict=True):
            yield name or number


def begins(request: Request) -> bool:
    """Whether ``request`` begins a conversation: nothing in it is the model's or a tool's.

    It goes on with none, and has nothing to keep: a question that is asked anew each day.
    """
    _, items = messages_of(request)
    return all(item.get("role") in _ASKING for item in items)


def again(request: Request, kept: Sequence[NotedMessage]) -> Iterator[Edit]:
    """Yield the edits that put the notes back behind the messages that had them."""
    name, _ = messages_of(request)
    for number, content, notes, in_blocks in kept:
        yield from _append(f"/{name}/{number}/content", content, notes, _AGAIN, in_blocks=in_blocks)


def note_edit(request: Request, previous: Request, note: str) -> Iterator[Edit]:
    """Yield the edit that puts ``note`` behind the user's newest message.

    Nothing if that is not new: what the server has read already stays as it is, and the note waits
    for the next one. Behind a tool's result it would make the template take the turn for ended.
    """
    name, items = messages_of(request)
    _, before = messages_of(previous)
    first = next((index for index, item in enumerate(items) if _is_user(item)), None)
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if not _is_user(item) or not _is_said(item["content"]):
            continue
        is_new = index >= min(request.agreed, len(before)) or (
            index != first and not _goes_on(item, before[index])
        )
        if is_new:
            content = item["content"]
            in_blocks = isinstance(content, list)
            pointer = f"/{name}/{index}/content"
            yield from _append(pointer, content, (note,), WHY, in_blocks=in_blocks)
        return


def _append(
    pointer: str, content: Any, notes: Sequence[str], why: str, *, in_blocks: bool
) -> Iterator[Edit]:
    marked = [f"{OPEN}{note}{CLOSE}" for note in notes]
    if in_blocks:
        kind = "input_text" if pointer.startswith("/input/") else "text"
        blocks = [{"type": kind, "text": text} for text in marked]
        if isinstance(content, str):
            yield Edit(pointer, [{"type": kind, "text": content}, *blocks], why)
        for block in blocks if isinstance(content, list) else ():
            yield Edit(f"{pointer}/-", block, why, adds=True)
        return
    text, place = content, pointer
    if isinstance(content, list):
        text, place = content[-1]["text"], f"{pointer}/{len(content) - 1}/text"
    yield Edit(place, "".join(BETWEEN + one for one in marked), why, (len(text), len(text)))


def _patched(path: str, content: Any, pinned: Sequence[Edit]) -> Any:
    """Return the ``content`` at ``path`` with ``pinned`` values in it."""
    own = [edit for edit in pinned if edit.path == path or edit.path.startswith(f"{path}/")]
    if not own:
        return content
    blocks = blocks_of(content)
    for edit in reversed(own):
        number = int(edit.path.split("/")[4]) if edit.path != path else 0
        (start, end), text = edit.span or (0, 0), blocks[number]["text"]
        blocks[number] = {**blocks[number], "text": text[:start] + edit.new + text[end:]}
    return blocks


def _behind(now: Any, was: Any) -> tuple[list[str], bool] | None:
    """Return the notes with which ``was`` goes on where ``now`` ends, and whether in blocks.

    None where it does not, or where there is more than notes.
    """
    ours, theirs = blocks_of(now), blocks_of(was)
    count = len(ours)
    if len(theirs) > count and theirs[:count] == ours:
        rest = [block["text"] if is_text(block) else "" for block in theirs[count:]]
        if all(text.startswith(OPEN) and text.endswith(CLOSE) for text in rest):
            return [text[len(OPEN) : -len(CLOSE)] for text in rest], True
        return None
    if not count or len(theirs) != count or theirs[:-1] != ours[:-1]:
        return None
    if not (is_text(ours[-1]) and is_text(theirs[-1])):
        return None
    text, longer = ours[-1]["text"], theirs[-1]["text"]
    first = len(text) + len(BETWEEN + OPEN)
    if not (longer.startswith(f"{text}{BETWEEN}{OPEN}") and longer.endswith(CLOSE, first)):
        return None
    return longer[first : -len(CLOSE)].split(f"{CLOSE}{BETWEEN}{OPEN}"), False


def _goes_on(now: Any, was: Any) -> bool:
    """Whether ``was`` is the message ``now``, with notes behind it or without."""
    if not _is_user(was):
        return False
    now, was = now["content"], was["content"]
    return blocks_of(now) == blocks_of(was) or _behind(now, was) is not None


def _is_user(item: dict[str, Any]) -> bool:
    return item.get("role") == "user" and "content" in item


def _is_said(content: Any) -> bool:
    """Whether a user may have said it: text, or blocks that end with no tool's result."""
    if isinstance(content, str):
        return bool(content.strip())
    if not isinstance(content, list) or not content:
        return False
    last = content[-1]
    return isinstance(last, dict) and last.get("type") != _RESULT
