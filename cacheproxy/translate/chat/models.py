"""The list of models, in OpenAI's shape."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from cacheproxy.translate.common.reading import models_in
from cacheproxy.translate.common.writing import write

_OWNER = "anthropic"


def models(body: bytes) -> bytes:
    """Return the answer to GET ``/v1/models`` for the Messages server's own answer ``body``.

    ``max_model_len``, vLLM's word, is there where the server says how much fits. Raises
    TranslationError if it is no list of models.
    """
    return write({"object": "list", "data": [_model(one) for one in models_in(body)]})


def _model(model: dict[str, Any]) -> dict[str, Any]:
    owner, room = model.get("owned_by"), model.get("max_input_tokens")
    return {
        "id": model["id"],
        "object": "model",
        "created": _seconds(model.get("created_at"), model.get("created")),
        "owned_by": owner if isinstance(owner, str) else _OWNER,
        **({"max_model_len": room} if type(room) is int and room > 0 else {}),
    }


def _seconds(date: Any, seconds: Any) -> int:
    """Return a date (RFC 3339 text, or ``seconds`` that the server gave too) since 1970."""
    if type(seconds) is int:
        return seconds
    if not isinstance(date, str):
        return 0
    try:
        when = datetime.fromisoformat(date)
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError):
        return 0
