"""Two short prompts that show what a server does with late system messages.

For servers without a page that renders prompts. Both prompts have a head, a longer user text, and
then a few late system messages of one short word; the second has twice as many. A refusal is an
answer by itself. Otherwise the reuse of the second prompt shows where the late messages went: if
the server moves them, the reuse ends with the head. If the server does not report reuse, or did
not find the first prompt (it may have several workers), the second prompt's length shows it: each
message in its place adds a message's own marks, at least two tokens besides its word.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.dialects.dialects import beside
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.placement import Late

FEW, MANY = 6, 12
"""Late messages in the first and in the second prompt."""
_WORD = "ok"
_TEXT = " ".join(f"word {number}" for number in range(60))
"""About 120 tokens, more than half of the prompt."""
_HEAD = "cacheproxy asks once where a late system message stands in the prompt of this server"
_INLINE_SHARE, _HOISTED_SHARE = 0.5, 0.12
"""Parts of the first prompt of which at least so much is reused where late messages stand behind
the text, and where they stand behind the head. Less are the words that every prompt begins with.
"""
_PER_INLINE, _PER_HOISTED = 3.0, 2.0
"""Tokens that one more late message brings: at least so many in its place, at most so many among
the head's other text (its word, and what parts it from the next)."""
_NOT_FORWARDED = frozenset({b"content-length", b"content-type", b"accept-encoding"})


def short_prompt(like: Request, count: int, nonce: str) -> Request:
    """Return a prompt in the API of ``like``, for its model and with its credentials.

    ``count``: how many late system messages it holds. ``nonce`` begins the head, so that no
    earlier prompt is found in the cache.
    """
    head = f"{nonce}: {_HEAD}"
    user = {"role": "user", "content": _TEXT}
    late = [{"role": "system", "content": _WORD} for _ in range(count)]
    body: dict[str, Any] = {"model": (like.json or {}).get("model"), "stream": False}
    dialect = like.dialect
    assert dialect is not None
    body |= dialect.body(head, [user, *late]) | dialect.limited({}, 1) | dialect.unstored
    if body["model"] is None:
        del body["model"]
    headers = tuple(pair for pair in like.headers if pair[0].lower() not in _NOT_FORWARDED)
    _, mark, query = like.target.partition("?")
    target = beside(like.path, dialect) + mark + query
    return replace(
        like,
        method="POST",
        target=target,
        headers=(*headers, (b"Content-Type", b"application/json")),
        body=json.dumps(body).encode(),
    )


def late_of(few: Usage, many: Usage) -> Late:
    """Return what the two answers say, ``Late.UNKNOWN`` where they do not tell."""
    if few.prompt is None or many.prompt is None:
        return Late.UNKNOWN
    each = (many.prompt - few.prompt) / (MANY - FEW)
    if each <= 0:  # fewer: it counts what it evaluated, not the prompt
        return Late.DROPPED if each == 0 else Late.UNKNOWN
    share = (many.reused or 0) / max(1, few.prompt)
    if share >= _HOISTED_SHARE:
        return Late.INLINE if share >= _INLINE_SHARE else Late.HOISTED
    if each <= _PER_HOISTED:
        return Late.HOISTED
    return Late.INLINE if each >= _PER_INLINE else Late.UNKNOWN
