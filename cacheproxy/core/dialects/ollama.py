"""Ollama's native API. Source: its ``docs/api.md``."""

from __future__ import annotations

from typing import Any

from cacheproxy.core.dialects.answer import ReadAnswer, Reading
from cacheproxy.core.dialects.content import calls_in
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling


def _read(answer: ReadAnswer, piece: dict[str, Any]) -> None:
    """Read a whole answer, or a line of one, which has a piece of the text, or whole calls."""
    message = piece.get("message")
    if isinstance(message, dict):
        if isinstance(message.get("content"), str):
            answer.text.append(message["content"])
        answer.calls += ((call.name, call.arguments) for call in calls_in(message))


OLLAMA = Dialect(
    name="ollama",
    path="/api/chat",
    images="images",
    endpoints=(
        Endpoint("/api/chat", Purpose.CHAT, "ollama"),
        Endpoint("/api/generate", Purpose.TEXT, "ollama"),
        Endpoint("/api/embed", Purpose.EMBEDDINGS, "ollama"),
    ),
    texts=("system", "prompt"),
    limits=("num_predict",),
    options="options",
    as_chat=lambda body: body,
    # In the last message. Ollama counts reused tokens from 0.33.3 on. ``prompt_eval_count``
    # includes the cached tokens, ``prompt_eval_duration`` does not.
    usage=(
        UsageSpelling(
            signs=("prompt_eval_duration", "prompt_eval_count"),
            prompt=("prompt_eval_count",),
            output=("eval_count",),
            reused=("prompt_eval_cached_count",),
            hint=b'"prompt_eval_',
            seconds=("prompt_eval_duration", "eval_duration"),
        ),
    ),
    end=EndMarks(lambda message: message.get("done") is True, keys=((b'"done"', b"false"),)),
    reading=Reading(_read, _read),
    error=lambda _, message: {"error": message},
)
"""``/api/chat`` and ``/api/generate``."""
