"""The facts on a request, before it is sent, that routes match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.dialects.dialect import Purpose
from cacheproxy.core.dialects.dialects import endpoint_of
from cacheproxy.core.prompt.request import Request

_CHARS_PER_TOKEN = 3.6
"""Density of an uncounted prompt: rather too many tokens than too few."""
_LOOKED_AT = 4000
"""Characters of a text that are searched for its purpose."""
_TITLE = re.compile(r"\b(?:titles?|new conversation topic)\b", re.IGNORECASE)
_COMPACTION = re.compile(
    r"\bsummar(?:y of|i[sz]e|i[sz]ing) (?:the |our |this )?(?:entire |current )?"
    r"(?:conversation|chat|session|history|messages)"
    r"|\bcontext checkpoint compaction\b|\bcompact(?:ing|ion)? (?:the|this) conversation\b",
    re.IGNORECASE,
)


class RequestKind(StrEnum):
    """The purpose of a request."""

    MAIN = "main"
    TITLE = "title"
    SUBAGENT = "subagent"
    COMPACTION = "compaction"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts by which a route is chosen."""

    client: str = ""  #: the client's name
    model: str = ""  #: requested model, "" for none
    has_tools: bool = False  #: whether the request names tools
    tokens: int = 0  #: estimated tokens of the prompt
    kind: RequestKind = RequestKind.MAIN  #: purpose of the request


def facts_of(request: Request, turn: Turn, *, with_kind: bool = True) -> Facts:
    """Return the facts on ``request`` of ``turn``; without ``with_kind`` its purpose is MAIN."""
    body = request.json or {}
    model = body.get("model")
    return Facts(
        client=turn.session.client,
        model=model if isinstance(model, str) else "",
        has_tools=bool(body.get("tools")),
        tokens=tokens_of(turn),
        kind=kind_of(request, turn) if with_kind else RequestKind.MAIN,
    )


def tokens_of(turn: Turn) -> int:
    """Return the estimated tokens of a turn's prompt, 0 without a prompt that is understood.

    The density is that of the turn before if the server counted it, else 3.6 characters a token.
    """
    if turn.prompt is None:
        return 0
    before = None if turn.lane is None else turn.lane.before
    if before is not None and before.tokens and before.sent.chars:
        return round(turn.prompt.chars * before.tokens / before.sent.chars)
    return round(turn.prompt.chars / _CHARS_PER_TOKEN)


def kind_of(request: Request, turn: Turn) -> RequestKind:
    """Return the purpose of ``request``, the first that fits; MAIN if none does.

    COUNT by the path; COMPACTION by the last message, or without tools by the system text; TITLE by
    the system text, without tools and answers; SUBAGENT if the session has another root.
    """
    if endpoint_of(request.path).purpose is Purpose.COUNT:
        return RequestKind.COUNT
    body = request.json or {}
    messages = body.get(request.dialect.items) if request.dialect is not None else None
    messages = messages if isinstance(messages, list) else [{"role": "user", "content": messages}]
    opening = "" if body.get("tools") else _opening_text(request)
    last = messages[-1] if messages else None
    asked = _start_of_last_text(last.get("content")) if isinstance(last, dict) else ""
    if _asks_for_summary(asked) or _asks_for_summary(opening):
        return RequestKind.COMPACTION
    has_answers = any(
        isinstance(each, dict) and each.get("role") == "assistant" for each in messages
    )
    if opening and not has_answers and _TITLE.search(opening):
        return RequestKind.TITLE
    return RequestKind.SUBAGENT if turn.root not in (None, turn.session) else RequestKind.MAIN


def _asks_for_summary(text: str) -> bool:
    lowered = text.lower()  # a search for these words takes a tenth of the time
    return ("summar" in lowered or "compact" in lowered) and bool(_COMPACTION.search(text))


def _opening_text(request: Request) -> str:
    """Return the beginnings of the system texts, joined: 8,000 characters at most."""
    texts = [text for each in request.opening for text in each]
    return "\n".join(text[:_LOOKED_AT] for text in texts)[: 2 * _LOOKED_AT]


def _start_of_last_text(content: Any) -> str:
    """Return the beginning of a message's last text, where instructions stand; "" for none."""
    if isinstance(content, str):
        return content[:_LOOKED_AT]
    for block in reversed(content) if isinstance(content, list) else ():
        text = block.get("text") if isinstance(block, dict) else None
        if isinstance(text, str):
            return text[:_LOOKED_AT]
    return ""
