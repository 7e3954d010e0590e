"""What the answer to a Messages request needs to know of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_ANSWER, _CALL, _THEIRS = "msg_", "toolu_", "chatcmpl-"
"""What ids of answers and of tool calls begin with; chat servers' word for the former."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request."""

    model: str = ""  #: As the client names it.
    stops: tuple[str, ...] = ()  #: The client's stop sequences.
    body: bytes = field(default=b"", repr=False)  #: What went up.

    def model_of(self, answer: dict[str, Any]) -> str:
        """Return the model that an answer names, else the one that was asked for."""
        model = answer.get("model")
        return model if isinstance(model, str) and model else self.model

    def answer_id(self, given: Any) -> str:
        """Return the answer's id for the id that the server gave."""
        if isinstance(given, str) and given:
            return _ANSWER + given.removeprefix(_THEIRS).removeprefix(_ANSWER)
        return _ANSWER + self._digest

    def call_id(self, given: Any, number: int) -> str:
        """Return the id of an answer's tool call ``number``: the server's own, if it gives any.

        Else one that follows from the request: the same for the same request, another for the
        next turn's.
        """
        if isinstance(given, str) and given:
            return given
        return f"{_CALL}{self._digest}_{number}"

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()[:24]
