r"""Notes: texts by which a pin informs the model of a changed value (append, never rewrite).

A note stands behind the text of a user message, marked as a reminder, which is how clients write
text that is not the user's. The client sends its history without the note, which it has never
seen, so each later request gets the note again, at the same place as in the request before.
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
"""Characters of a note at most (a git status, a folder tree); above, the value is not pinned."""
_LEAST = 8
"""Plain characters at the beginning of a note at least, by which it is found in a request."""
_PLAIN = re.compile(r"[ !#-.0-\[\]-~]*")
"""Characters that JSON never escapes."""
_REFERENCE = re.compile(r"\\(?:g<(\w+)>|([1-9]\d?))")
_RESULT = "tool_result"
WHY = "told where the conversation goes on"
"""Reason of the one edit made for each new note; new notes are counted by it."""
_AGAIN = "told earlier"


class NoteError(ValueError):
    """A note's template is invalid: its beginning, length or a reference."""


class NotedMessage(NamedTuple):
    """A user message that ended with notes in the request before, and comes without them now."""

    number: int  #: index of the message among all
    content: Any  #: content of the message in the new request
    notes: tuple[str, ...]  #: notes behind it in the request before, without the mark
    in_blocks: bool  #: whether each note is a block of its own


class Note:
    r"""The template of a rule's notes: ``\g<name>`` and ``\1`` stand for groups of a match.

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
        """Return the note on the match ``found``; marks in its values are escaped."""
        groups = [found[int(name) if name.isdigit() else name] or "" for name in self._groups()]
        texts = self._parts[::3]
        said = texts[0] + "".join(g + t for g, t in zip(groups, texts[1:], strict=True))
        return inside(said)

    def is_in(self, request: Request) -> bool:
        """Whether ``request`` may have a note of this template; its body is not parsed for that."""
        if request.is_read:
            return self.beginning in request.literals
        return self.beginning.encode() in request.body

    def noted(
        self, request: Request, previous: Request, pinned: Sequence[Edit] = ()
    ) -> list[NotedMessage]:
        """Return the messages with notes of this rule in ``previous`` and without in ``request``.

        ``pinned``: the edits that pin values in ``request``; messages are compared after them.
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
        return [noted for noted in found if noted.notes]

    def _groups(self) -> Iterator[str]:
        for name, number in zip(self._parts[1::3], self._parts[2::3], strict=True):
            yield name or number


def begins(request: Request) -> bool:
    """Whether ``request`` begins a conversation: no message in it is the model's or a tool's."""
    _, items = messages_of(request)
    return all(item.get("role") in ("system", "developer", "user") for item in items)


def again(request: Request, noted: Sequence[NotedMessage]) -> Iterator[Edit]:
    """Yield the edits that put earlier notes back behind their messages."""
    name, _ = messages_of(request)
    for number, content, notes, in_blocks in noted:
        yield from _append(f"/{name}/{number}/content", content, notes, _AGAIN, in_blocks=in_blocks)


def note_edit(request: Request, previous: Request, note: str) -> Iterator[Edit]:
    """Yield the edit that puts ``note`` behind the user's newest message, if that is a new one.

    A message that the server has read already stays as it is: the note waits for the next one. It
    is not put behind a tool's result, where the template would take the turn for ended.
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
    """Return the ``content`` at ``path`` after the edits in ``pinned`` that concern it."""
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
    """Return the notes behind ``now`` in ``was``, and whether each is a block of its own.

    None if ``was`` is not ``now`` with notes behind it and nothing else.
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
    """Whether the message ``was`` has the content of ``now``, with notes behind it or without."""
    if not _is_user(was):
        return False
    now, was = now["content"], was["content"]
    return blocks_of(now) == blocks_of(was) or _behind(now, was) is not None


def _is_user(item: dict[str, Any]) -> bool:
    return item.get("role") == "user" and "content" in item


def _is_said(content: Any) -> bool:
    """Whether ``content`` may be a user's words: text, or blocks of which the last is no result."""
    if isinstance(content, str):
        return bool(content.strip())
    if not isinstance(content, list) or not content:
        return False
    last = content[-1]
    return isinstance(last, dict) and last.get("type") != _RESULT
