"""What the answer to a request needs to know of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_PREFIX = "chatcmpl-"


@dataclass(frozen=True)
class Asked:
    """What a chat client asked for.

    ``model``: as it names it; ``created``: seconds since 1970 for its answer; ``usage``: whether a
    stream is to end with the usage; ``functions``: whether it knows ``function_call`` alone, the
    older form of tool calls; ``body``: what went up.
    """

    model: str = ""
    created: int = 0
    usage: bool = False
    functions: bool = False
    body: bytes = field(default=b"", repr=False)

    def completion_id(self, given: Any) -> str:
        """Return the completion's id for the id that the server gave its message."""
        if isinstance(given, str) and given:
            return _PREFIX + given.removeprefix("msg_").removeprefix(_PREFIX)
        return _PREFIX + self._digest

    def call_id(self, given: Any, number: int) -> str:
        """Return the id of an answer's tool call ``number``: the server's own, if it gives any.

        Else one that follows from the request: the same for the same request, another for the
        next turn's.
        """
        if isinstance(given, str) and given:
            return given
        return f"call_{self._digest}_{number}"

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()[:24]
