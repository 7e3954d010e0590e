"""The placing of late system messages: each becomes a user message where it stands.

The text is wrapped in ``<system-reminder>``, as Claude Code itself does, unless it already is. If
a user message behind a tool's result is refused, or costs the reasoning of the running turn, the
text joins the result. If a template requires user and assistant in turns, the text joins its
neighbour: the user message before it, otherwise the next one. User messages in a row are then
joined, too, and a text between a tool call and its result goes after the result. Ids of calls
are spelled anew for templates that refuse them.

The result for a message depends only on the messages before it (and, if messages are joined, on
the user message or tool result right after it). So each later turn shows it the same, and the
prompt only grows. A plain text and a list of one text block are joined alike, since clients send
the newest message as a list and later as a text. A late message without text is removed. Blocks
that are not text stay.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from cacheproxy.core.adapt.adaptation import Edited
from cacheproxy.core.adapt.joining import WHY, ends_with_result, join_late, re_role
from cacheproxy.core.dialects.content import call_ids_in
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import REMOVE, Edit, encode, splice, splices_of
from cacheproxy.core.document.pointer import parse_pattern, to_pointer
from cacheproxy.core.kinds.placement import ROLES, Placement
from cacheproxy.core.prompt.reminder import CLOSE, OPEN, has_text
from cacheproxy.core.prompt.request import Request, messages_of

_EMPTY = "late system message without any text left out"
_SYSTEM = f"/*[role={'|'.join(ROLES)}]/role"
_PLAIN = re.compile(
    rb'\{\s*"role"\s*:\s*"(?P<role>system|developer)(?P<between>"\s*,\s*"content"\s*:\s*")'
    rb'(?P<text>[^"\\]*(?:\\.[^"\\]*)*)"\s*\}'
)
"""A message in most clients' spelling: its role and a text."""
_MARK = OPEN.strip().encode()
_OPEN, _CLOSE = (encode(text)[1:-1].encode() for text in (OPEN, CLOSE))
_SPELLED = "id of a tool call, in nine letters or digits"
_LENGTH = 9
_SIGNS = string.digits + string.ascii_letters
_SHORT = re.compile(rf"[0-9A-Za-z]{{{_LENGTH}}}")


class LateMessage(NamedTuple):
    """A late system message's place."""

    number: int  #: its index among the messages
    role: str  #: its role in the request
    leads: bool  #: whether only system text stands before it


def late_messages(request: Request) -> list[LateMessage]:
    """Return the late system messages of ``request``, in their order."""
    dialect, document = request.dialect, request.document
    if dialect is None or document is None:
        return []
    array = document.array(dialect.items)
    if array is None:
        return []
    found = array.texts(dialect.items, (parse_pattern(f"/{dialect.items}{_SYSTEM}"),))
    if not found:
        return []
    late = [
        LateMessage(int(path[1]), role, path[1] == rank) for rank, (path, role) in enumerate(found)
    ]
    return late if document.value.get(dialect.head) or late[0].number else late[1:]


def count_of(edits: Sequence[Edit]) -> int:
    """Return the number of late messages that ``edits`` of this adaptation placed or removed."""
    return sum(edit.why in (WHY, _EMPTY) for edit in edits)


def placed(request: Request, placement: Placement, late: Sequence[LateMessage]) -> Edited:
    """Return ``request`` with its ``late`` messages placed by ``placement``, and the edits."""
    (root, items), document = messages_of(request), request.document
    if document is None or not items:
        return Edited(request)
    splices: list[Splice] = []
    moved, gone = _needed(late, items, placement)
    edits = [Edit(f"/{root}/{number}", REMOVE, _EMPTY) for number in sorted(gone)]
    done = list(edits)
    if placement.joins_user or (moved and placement.joins_tool):
        edits += join_late(items, moved, gone, placement, f"/{root}")
        done = edits
    else:
        for number in sorted(moved):
            pointer = f"/{root}/{number}"
            plain = _plainly(document, root, number)
            splices += [] if plain is None else [plain]
            edits += re_role(pointer, items[number]) if plain is None else ()
            done.append(Edit(f"{pointer}/role", "user", WHY))
    after = _edited(request, [*splices_of(document, edits), *splices])
    if placement.short_ids:  # in what was placed: a result may have become another
        spelled = list(short_ids(messages_of(after)[1], f"/{root}"))
        if spelled and after.document is not None:
            after = _edited(after, splices_of(after.document, spelled))
            done = [*done, *spelled]
    return Edited(after, done)


def _edited(request: Request, splices: list[Splice]) -> Request:
    body = splice(request.body, splices)
    return request if body is request.body else request.with_body(body, splices)


def _needed(
    late: Sequence[LateMessage], items: Sequence[Any], placement: Placement
) -> tuple[set[int], set[int]]:
    """Return the indexes of late messages that become user messages, and of those without text."""
    moved: set[int] = set()
    gone: set[int] = set()
    behind: set[int] = set()
    for number, role, leads in late:
        content = items[number].get("content")
        if not isinstance(content, str | list):
            continue
        before = number - 1
        is_behind = before in behind or (before >= 0 and ends_with_result(items[before]))
        if is_behind:
            behind.add(number)
        # What leads behind one that becomes the user's leads no more.
        if not placement.moves(role, leads=leads and not moved, behind=is_behind):
            continue
        says = has_text(content) or items[number].get("images")
        (moved if says else gone).add(number)
    return moved, gone


def _plainly(document: Document, root: str, number: int) -> Splice | None:
    """Return the splice that makes a message of role and text alone a user's; None for others.

    The result is that of ``re_role``, in a tenth of the time: there may be hundreds.
    """
    entry = document.entry((root, number))
    found = _PLAIN.fullmatch(document.body, entry.value_start, entry.end)
    if found is None or found["text"].startswith((_MARK, b"\\")):  # marked, or it may be
        return None
    new = (b"user", found["between"], _OPEN, found["text"], _CLOSE)
    return Splice(found.start("role"), found.end("text"), b"".join(new))


def short_ids(items: Sequence[Any], root: str) -> Iterator[Edit]:
    """Yield the edits that respell the ids of calls in ``items``, which stand at the path ``root``.

    Mistral's templates demand nine letters or digits. Any other id becomes the same one in every
    turn, in the call and in its result. The server never sees the client's own ids; ids in the
    model's answers are the server's.
    """
    for number, item in enumerate(items):
        for path, spelled in call_ids_in(item):
            if not _SHORT.fullmatch(spelled):
                yield Edit(f"{root}/{number}{to_pointer(path)}", short_id(spelled), _SPELLED)


@lru_cache(4096)
def short_id(spelled: str) -> str:
    """Return nine letters and digits for the id ``spelled``; two ids collide once in 10**16."""
    data = spelled.encode("utf-8", "surrogatepass")
    number = int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
    signs = []
    for _ in range(_LENGTH):
        number, at = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[at])
    return "".join(signs)
