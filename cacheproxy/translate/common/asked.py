"""What the answer to a request needs to know of it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar


@dataclass(frozen=True, kw_only=True)
class Asked:
    """``model``: as the client names it; ``body``: what went up.

    ``ANSWER``, ``CALL``: what ids of answers and of tool calls begin with in the client's dialect;
    ``THEIRS``: the server's word for the former.
    """

    ANSWER: ClassVar[str]
    CALL: ClassVar[str]
    THEIRS: ClassVar[str]

    model: str = ""
    body: bytes = field(default=b"", repr=False)

    def model_of(self, answer: dict[str, Any]) -> str:
        """Return the model that an answer names, else the one that was asked for."""
        model = answer.get("model")
        return model if isinstance(model, str) and model else self.model

    def answer_id(self, given: Any) -> str:
        """Return the answer's id for the id that the server gave."""
        if isinstance(given, str) and given:
            return self.ANSWER + given.removeprefix(self.THEIRS).removeprefix(self.ANSWER)
        return self.ANSWER + self._digest

    def call_id(self, given: Any, number: int) -> str:
        """Return the id of an answer's tool call ``number``: the server's own, if it gives any.

        Else one that follows from the request: the same for the same request, another for the
        next turn's.
        """
        if isinstance(given, str) and given:
            return given
        return f"{self.CALL}{self._digest}_{number}"

    @cached_property
    def _digest(self) -> str:
        return hashlib.sha256(self.body).hexdigest()[:24]
