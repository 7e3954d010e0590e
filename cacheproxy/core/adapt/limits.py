"""Answer limit: more tokens than are left for the answer, clamped by the numbers in the error.

The clamp is for one request: the next one has another prompt. A client that requests all the room
there is (Zed, opencode) would otherwise be refused from some turn on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cacheproxy.core.adapt.adaptation import Need, Refusal, Remembered
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.errors import counts_in
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.prompt.request import Request

KEY = ("answer-limit",)
"""The only key of its facts; nothing remembered under it is ever needed again."""
_STATUSES = frozenset({400, 413, 422})
_LEAST = 1_024
"""Tokens of an answer at least: with fewer left, the client must learn to compact."""
_ANY = 0
"""Value of a fact: no limit is sent, since the error has only a lower bound of the prompt."""
# OpenAI's ("This model supports at most N completion tokens") and Anthropic's ("max_tokens: M > N,
# which is the maximum allowed number of output tokens"): of the answer alone.
_OF_ANSWER = re.compile(
    r"\bat most (\d{1,12}) (?:completion|output) tokens|\bmax_tokens: \d{1,12} > (\d{1,12}),"
)
_TOGETHER = re.compile(r"exceed context limit: (\d{1,12}) \+ \d{1,12} > (\d{1,12})")
"""Anthropic's words for a prompt that would fit by itself."""
_AT_LEAST = re.compile(r"\bat least \d{1,12} input tokens")
"""vLLM's words: it stops counting where the limit is exceeded."""
_WHY = "limit of the answer, as much as is left for it"


class AnswerLimit:
    """The adaptation that clamps the answer's limit to the room that is left."""

    name = "answer-limit"

    def needed(self, request: Request, remembered: Remembered) -> Need | None:  # noqa: ARG002
        """Return None: the room left in an earlier turn means nothing for this one."""
        return None

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return the need of the room left by the refusal's numbers; None if that is too little."""
        limits = _limits(request)
        if refusal.status not in _STATUSES or not limits:
            return None
        asked = max(limits.values())
        tried = asked if need is None else need.facts.get(KEY, asked)
        if tried == _ANY:
            return None
        if _AT_LEAST.search(refusal.words) and request.dialect is not None:
            left = _halved(refusal, tried) if request.dialect.head_in_blocks else _ANY
        else:
            left = _left(refusal)
        if left is None or left == tried or (left != _ANY and not _LEAST <= left < asked):
            return None
        return Need({KEY: left})

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:
        """Return the edits of the limits that exceed the room."""
        left = need.facts[KEY]
        return [
            Edit(pointer, left if left != _ANY else REMOVE, _WHY)
            for pointer, asked in _limits(request).items()
            if left == _ANY or asked > left
        ]


def _limits(request: Request) -> dict[str, int]:
    """Return the tokens of an answer at most that ``request`` sets, by their JSON pointers."""
    dialect, body = request.dialect, request.json
    if not isinstance(dialect, Dialect) or body is None:
        return {}
    holder = body.get(dialect.options) if dialect.options else body
    above = f"/{dialect.options}" if dialect.options else ""
    members = holder if isinstance(holder, dict) else {}
    found = {f"{above}/{name}": members.get(name) for name in dialect.limits}
    return {pointer: asked for pointer, asked in found.items() if type(asked) is int}


def _left(refusal: Refusal) -> int | None:
    """Return the tokens left for the answer: one fewer than fit, as SGLang counts."""
    if found := _OF_ANSWER.search(refusal.words):
        return int(found[1] or found[2])
    counts = counts_in(refusal.words)
    prompt, limit = counts.prompt, counts.limit
    if found := _TOGETHER.search(refusal.words):
        prompt, limit = int(found[1]), int(found[2])
    return None if prompt is None or limit is None else limit - prompt - 1


def _halved(refusal: Refusal, tried: int) -> int | None:
    """Return half of the lesser of ``tried`` and the room left; None if that is not known.

    For APIs that require a limit, if the error has only a lower bound of the prompt.
    """
    left = _left(refusal)
    return None if left is None else min(left, tried) // 2
