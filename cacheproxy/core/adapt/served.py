"""Served model: the name of a model that the server does not have is replaced by one that it has.

Requests of subagents and for titles name models of their own (``claude-haiku-…``). They get the
model that serves the main thread of their conversation; without one, the refusal stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from cacheproxy.core.adapt.adaptation import Need, Refusal, Remembered
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.turn import Turn
from cacheproxy.core.document.edits import Edit
from cacheproxy.core.prompt.request import Request

_STATUSES = frozenset({400, 404, 422, 500})
# Ollama's ("model 'x' not found"), vLLM's ("The model `x` does not exist."), LM Studio's, LiteLLM's
# ("Invalid model name"), mlx-lm's (Hugging Face's "Repository Not Found"), llama-swap's ("could not
# find suitable inference handler for x").
_MISSING = re.compile(
    r"\bmodel\b[^\n]{0,200}\b(?:not found|does(?: not|n't) exist"
    r"|is not (?:available|loaded|served))"
    r"|\b(?:unknown|invalid|no such) model\b|\brepository not found\b|\bmodel_not_found\b"
    r"|\b(?:could not find|no) (?:suitable )?(?:inference )?handler\b",
    re.IGNORECASE,
)
_WHY = "model that the server does not have: the one that the conversation is served by"


class ServedModel:
    """The adaptation that sets the model's name to ``served``: the main thread's, "" for none."""

    name = "served-model"

    def __init__(self, store: Store, served: str = "") -> None:
        self._store, self._served = store, served

    def bound(self, turn: Turn | None) -> ServedModel:
        """Return the adaptation for the requests of ``turn``, with its main thread's model."""
        for session in () if turn is None else (turn.root, turn.session):
            known = None if session is None else self._store.conversation(session)
            lane = None if known is None else known.lane(known.main)
            if lane is not None and lane.before is not None:
                return ServedModel(self._store, lane.before.sent.model)
        return ServedModel(self._store)

    def needed(self, request: Request, remembered: Remembered) -> Need | None:
        """Return the need of another name, if the requested model is known to be missing."""
        return self._need(request) if remembered and _key(request) in remembered else None

    def refused(self, refusal: Refusal, request: Request, need: Need | None) -> Need | None:
        """Return the need of another name, if ``refusal`` says that the model is missing."""
        says = f"{refusal.code} {refusal.words}"
        is_missing = refusal.status in _STATUSES and _MISSING.search(says) is not None
        return self._need(request) if is_missing and need is None else None

    def edits(self, request: Request, need: Need) -> Sequence[Edit]:
        """Return the edit of the name."""
        return [Edit("/model", need.facts[_key(request)], _WHY)]

    def _need(self, request: Request) -> Need | None:
        """Return the need of the served model; None without one, or if ``request`` names it."""
        asked, served = _key(request)[1], self._served
        return Need({_key(request): served}) if asked and served and served != asked else None


def _key(request: Request) -> tuple[str, str]:
    asked = (request.json or {}).get("model")
    return "model", asked if isinstance(asked, str) else ""
