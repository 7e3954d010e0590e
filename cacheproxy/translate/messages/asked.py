"""What the answer to a request needs to know of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Asked:
    """``model``: as the client names it; ``stops``: its stop sequences; ``body``: what went up."""

    model: str = ""
    stops: tuple[str, ...] = ()
    body: bytes = field(default=b"", repr=False)

    def message_id(self, given: Any) -> str:
        """Return the message's id for the id that the server gave."""
        if isinstance(given, str) and given:
            return "msg_" + given.removeprefix("chatcmpl-")
        return "msg_" + self._digest

    def call_id(self, given: Any, number: int) -> str:
        """Return the id of an answer's tool call ``number``: the server's own, if it gives any.

        Else one that follows from the request: the same for the same request, another for the
        next turn's.
        """
        if isinstance(given, str) and given:
            return given
        return f"toolu_{self._digest}_{number}"

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()[:24]
