"""What llama-server says of its work so far: counters, or what its slots hold."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

from cacheproxy.asking import NoAnswerError, Site
from cacheproxy.core.server.metrics_page import Sample, sample_of
from cacheproxy.core.server.status import METRICS, SLOTS


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot: ``task``: the number of its last request, None if it was never used.

    ``held``: tokens that it has in memory, of ``context``.
    """

    id: int
    task: int | None = None
    held: int = 0
    context: int = 0
    busy: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """A look at the server at one moment; None where it does not say.

    ``evaluated``, ``reused``: prompt tokens since the server started (``/metrics``).
    ``slots``: what is in them (``/slots``).
    """

    evaluated: int | None = None
    reused: int | None = None
    slots: tuple[Slot, ...] | None = None

    @property
    def held(self) -> int | None:
        """Tokens that the fullest slot holds."""
        return max((slot.held for slot in self.slots), default=0) if self.slots else None

    def since(self, before: Load) -> int | None:
        """Return the prompt tokens that were evaluated since ``before``."""
        if self.evaluated is None or before.evaluated is None:
            return None
        return max(0, self.evaluated - before.evaluated)

    def worked_since(self, before: Load) -> bool | None:
        """Return whether any request was worked on since ``before``."""
        tokens = self.since(before)
        if tokens is not None:
            return tokens > 0
        if self.slots is None or before.slots is None:
            return None
        return [slot.task for slot in self.slots] != [slot.task for slot in before.slots]


NOTHING = Load()
"""A server that tells nothing of its work."""


def look(site: Site) -> Load:
    """Ask the server at ``site``. Never raises."""
    return load_of(sample_at(site), _page(site))


def slots_at(site: Site) -> tuple[Slot, ...] | None:
    """Return what the server at ``site`` says of its slots, if it does. Never raises."""
    return _slots(_page(site))


def sample_at(site: Site) -> Sample | None:
    """Return what the counters at ``site`` show now, if it has any. Never raises."""
    with contextlib.suppress(NoAnswerError):
        answer = site.get(METRICS)
        if answer.status == 200:
            return sample_of(answer.body.decode("utf-8", "replace"))
    return None


def load_of(sample: Sample | None, slots: Any) -> Load:
    """Return what the two pages tell; ``slots``: a JSON value."""
    figures = sample.figures if sample is not None else None
    evaluated, reused = (figures.evaluated, figures.reused) if figures else (None, None)
    return Load(
        int(evaluated) if evaluated is not None else None,
        int(reused) if reused is not None else None,
        _slots(slots),
    )


def _page(site: Site) -> Any:
    with contextlib.suppress(NoAnswerError):
        return site.page(SLOTS)
    return None


def _slots(page: Any) -> tuple[Slot, ...] | None:
    if not isinstance(page, list) or not all(isinstance(slot, dict) for slot in page):
        return None
    return tuple(_slot(slot) for slot in page)


def _slot(said: dict[str, Any]) -> Slot:
    task = said.get("id_task")
    return Slot(
        _number(said.get("id")),
        task if type(task) is int and task >= 0 else None,
        _number(said.get("n_prompt_tokens")),
        _number(said.get("n_ctx")),
        said.get("is_processing") is True,
    )


def _number(value: Any) -> int:
    return value if type(value) is int else 0
