"""The model's name that a route's upstream has, asked for instead of the client's."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproxy.core.adapt.adaptation import Adaptation, Need, Remembered
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request

NAME = "model"
"""Under which it is reported, beside the rules."""
_WHY = "the name that this upstream has for its model"


class ModelName(Adaptation):
    """Has requests ask for ``model``; those that name none go on as they came."""

    name = NAME

    def __init__(self, model: str) -> None:
        self.given: Remembered = {(): model}

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the need of another name."""
        named = (request.json or {}).get("model")
        return Need(remembered) if isinstance(named, str) and named != remembered[()] else None

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:  # noqa: ARG002
        """Return the one edit."""
        return (Edit("/model", need.facts[()], _WHY),)
