"""What a JSON text says that may be none: a server's answer, say."""

from __future__ import annotations

import json
from typing import Any


def parsed(text: str | bytes, *, strict: bool = True) -> Any:
    """Return what ``text`` says; None where it is no JSON, or nested too deeply to be read."""
    try:
        return json.loads(text, strict=strict)
    except (ValueError, RecursionError):
        return None
