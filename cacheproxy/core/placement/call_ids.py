"""Ids of tool calls, spelled as Mistral's templates want them: nine letters or digits.

Each id that is none becomes the same one in every turn, in the call and in its result. The server
never sees the client's own; those that the model's answers bring are the server's.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any

from cacheproxy.core.document.edits import Edit

WHY = "id of a tool call, in nine letters or digits"
_LENGTH = 9
_SIGNS = string.digits + string.ascii_letters
_SHORT = re.compile(rf"[0-9A-Za-z]{{{_LENGTH}}}")


def short_ids(items: Sequence[Any], root: str) -> Iterator[Edit]:
    """Yield the edits that spell each call's id in ``items``, which stand at the path ``root``."""
    for number, item in enumerate(items):
        if not isinstance(item, dict):
            continue
        place = f"{root}/{number}"
        if item.get("type") in ("function_call", "function_call_output"):  # Responses
            yield from _short(place, item, "call_id")
        elif item.get("role") == "tool":  # Chat Completions
            yield from _short(place, item, "tool_call_id")
        elif isinstance(calls := item.get("tool_calls"), list):
            for at, call in enumerate(calls):
                yield from _short(f"{place}/tool_calls/{at}", call, "id")
        elif isinstance(blocks := item.get("content"), list):  # Messages
            for at, block in enumerate(blocks):
                kind = block.get("type") if isinstance(block, dict) else None
                name = {"tool_use": "id", "tool_result": "tool_use_id"}.get(kind or "")
                if name is not None:
                    yield from _short(f"{place}/content/{at}", block, name)


def _short(place: str, holder: Any, name: str) -> Iterator[Edit]:
    spelled = holder.get(name) if isinstance(holder, dict) else None
    if isinstance(spelled, str) and not _SHORT.fullmatch(spelled):
        yield Edit(f"{place}/{name}", short_id(spelled), WHY)


@lru_cache(4096)
def short_id(spelled: str) -> str:
    """Return nine letters and digits for an id; two ids share them once in 10**16."""
    data = spelled.encode("utf-8", "surrogatepass")
    number = int.from_bytes(blake2b(data, digest_size=8).digest(), "big")
    signs = []
    for _ in range(_LENGTH):
        number, at = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[at])
    return "".join(signs)
