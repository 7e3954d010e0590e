"""The list of models, in Anthropic's shape."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cacheproxy.translate.common.reading import models_in
from cacheproxy.translate.common.writing import write

_UNKNOWN = "1970-01-01T00:00:00Z"
"""As Anthropic's API reference says of a release date that is unknown: "an epoch value"."""


def models(body: bytes) -> bytes:
    """Return the answer to GET ``/v1/models`` for the chat server's own answer ``body``.

    ``max_input_tokens`` is there where the server says how much fits: llama.cpp
    (``meta.n_ctx``), vLLM (``max_model_len``). Raises TranslationError if it is no list of models.
    """
    found = [_model(model) for model in models_in(body)]
    return write(
        {
            "data": found,
            "has_more": False,
            "first_id": found[0]["id"] if found else None,
            "last_id": found[-1]["id"] if found else None,
        }
    )


def _model(model: dict[str, Any]) -> dict[str, Any]:
    said = {
        "type": "model",
        "id": model["id"],
        "display_name": model["id"],
        "lifecycle": "active",
        "created_at": _date(model.get("created")),
    }
    meta = model.get("meta")
    for room in (meta.get("n_ctx") if isinstance(meta, dict) else None, model.get("max_model_len")):
        if type(room) is int and room > 0:
            said["max_input_tokens"] = room
            break
    return said


def _date(seconds: Any) -> str:
    """Return ``seconds`` since 1970 as RFC 3339 text."""
    if type(seconds) is not int:
        return _UNKNOWN
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return _UNKNOWN
