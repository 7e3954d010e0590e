"""Two short prompts that show where a server without a rendering page puts late system messages.

Both prompts have a head, a longer user text, and then a few late system messages of one short word;
the second has twice as many. A refusal is an answer by itself. Otherwise the reuse of the second
prompt shows the placement: if the server moves late messages to the head, reuse ends there. If the
server does not report reuse, or did not find the first prompt (it may have several workers), the
second prompt's length shows it: each message in its place adds a message's own marks, at least two
tokens besides its word.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.dialects.dialects import beside
from cacheproxy.core.kinds.placement import Late
from cacheproxy.core.prompt.request import Request

FEW, MANY = 6, 12
"""Numbers of late messages in the first and in the second prompt."""
_WORD = "ok"
_TEXT = " ".join(f"word {number}" for number in range(60))
"""Text of about 120 tokens, more than half of the prompt."""
_HEAD = "cacheproxy asks once where a late system message stands in the prompt of this server"
_INLINE_SHARE, _HOISTED_SHARE = 0.5, 0.12
"""Shares of the first prompt that are reused at least if late messages are behind the text, and if
they are behind the head. A smaller share is the beginning that all prompts have in common."""
_PER_INLINE, _PER_HOISTED = 3.0, 2.0
"""Tokens that a late message adds: in its place at least, and within the head's text at most (its
word and a separator)."""
_NOT_FORWARDED = frozenset({b"content-length", b"content-type", b"accept-encoding"})


def short_prompt(like: Request, count: int, nonce: str) -> Request:
    """Return a prompt in the API of ``like``, for its model and with its credentials.

    ``count``: number of late system messages. ``nonce``: beginning of the head, so that no earlier
    prompt is found in the cache.
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
    """Return the treatment of late messages that the two answers show, or ``Late.UNKNOWN``."""
    if few.prompt is None or many.prompt is None:
        return Late.UNKNOWN
    each = (many.prompt - few.prompt) / (MANY - FEW)
    if each <= 0:  # fewer: it counts evaluated tokens, not the prompt's
        return Late.DROPPED if each == 0 else Late.UNKNOWN
    share = (many.reused or 0) / max(1, few.prompt)
    if share >= _HOISTED_SHARE:
        return Late.INLINE if share >= _INLINE_SHARE else Late.HOISTED
    if each <= _PER_HOISTED:
        return Late.HOISTED
    return Late.INLINE if each >= _PER_INLINE else Late.UNKNOWN
