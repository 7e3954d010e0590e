"""Ollama's native API. Source: its ``docs/api.md``."""

from __future__ import annotations

from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling

OLLAMA = Dialect(
    name="ollama",
    path="/api/chat",
    endpoints=(
        Endpoint("/api/chat", Purpose.CHAT, "ollama"),
        Endpoint("/api/generate", Purpose.TEXT, "ollama"),
        Endpoint("/api/embed", Purpose.EMBEDDINGS, "ollama"),
    ),
    texts=("system", "prompt"),
    limits=("num_predict",),
    options="options",
    as_chat=lambda body: body,
    # Its last message. Before 0.33.3 it does not say what it reused. ``prompt_eval_count`` includes
    # the cached tokens, ``prompt_eval_duration`` does not.
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
    error=lambda _, message: {"error": message},
)
"""``/api/chat`` and ``/api/generate``."""
