"""Facts from a request's body that cost almost nothing to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cacheproxy.core.prompt.request import Request

_READ_HERE = 32 << 10
"""Bytes of a body that is read here, on the reactor, if nobody has read it yet."""
_NOTHING: Mapping[str, Any] = {}


def body_of(request: Request) -> Mapping[str, Any]:
    """Return the body's JSON object if it has been read before or is small; else an empty one."""
    if "document" not in request.__dict__ and len(request.body) > _READ_HERE:
        return _NOTHING
    return request.json or _NOTHING
