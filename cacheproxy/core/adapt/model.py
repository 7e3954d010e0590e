"""Model name: a route's own name of the model replaces the client's."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproxy.core.adapt.adaptation import Adaptation, Need, Remembered
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request

NAME = "model"
"""Name under which it is reported, among the rules."""
_WHY = "the name that this upstream has for its model"


class ModelName(Adaptation):
    """The adaptation that sets the name ``model``, in requests that name a model."""

    name = NAME

    def __init__(self, model: str) -> None:
        self.given: Remembered = {(): model}

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the need of the other name; None if the request names no model, or this one."""
        named = (request.json or {}).get("model")
        return Need(remembered) if isinstance(named, str) and named != remembered[()] else None

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:  # noqa: ARG002
        """Return the edit of ``model``."""
        return (Edit("/model", need.facts[()], _WHY),)
