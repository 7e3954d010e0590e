"""What a server says of an error, whichever shape it has."""

from __future__ import annotations

import json
from typing import Any

LONGEST = 8192
"""Characters of a message that are handed on."""


def read_error(body: bytes) -> tuple[Any, str]:
    """Return an error response's JSON value and "", or None and its text if it is no JSON."""
    try:
        value: Any = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    text = body[: 4 * LONGEST].decode(errors="replace").strip() if value is None else ""
    return value, text


def details_of(value: Any) -> dict[str, Any]:
    """Return the object that describes the error: the one under ``error``, or the whole."""
    inner = value.get("error") if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) else value if isinstance(value, dict) else {}


def message_of(value: Any, details: dict[str, Any]) -> str:
    """Return what the server said, wherever it put it (FastAPI: ``detail``)."""
    for found in (details.get("message"), details.get("error"), details.get("detail"), value):
        if isinstance(found, str) and found.strip():
            return found.strip()
        if isinstance(found, list | dict) and found:
            try:
                return json.dumps(found, ensure_ascii=False)
            except RecursionError:
                return ""
    return ""
