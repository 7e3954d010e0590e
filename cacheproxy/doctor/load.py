"""What llama-server says of its work so far: counters, or what its slots hold."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass
from typing import Any

from cacheproxy.doctor.site import NoAnswerError, Site

_COUNTER = re.compile(r"^llamacpp:(prompt_tokens(?:_cached)?_total) ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Load:
    """A look at the server at one moment; None where it does not say.

    ``evaluated``, ``reused``: prompt tokens since the server started (``/metrics``).
    ``tasks``: the last request of each slot, ``held``: tokens of the longest (``/slots``).
    """

    evaluated: int | None = None
    reused: int | None = None
    tasks: tuple[tuple[int, int], ...] | None = None
    held: int | None = None

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
        if self.tasks is None or before.tasks is None:
            return None
        return self.tasks != before.tasks


NOTHING = Load()
"""A server that tells nothing of its work."""


def look(site: Site) -> Load:
    """Ask the server at ``site``. Never raises."""
    counters: dict[str, int] = {}
    with contextlib.suppress(NoAnswerError):
        metrics = site.get("/metrics")
        if metrics.status == 200:
            text = metrics.body.decode("utf-8", "replace")
            counters = {name: int(float(value)) for name, value in _COUNTER.findall(text)}
    slots: Any = None
    with contextlib.suppress(NoAnswerError):
        slots = site.page("/slots")
    tasks = _tasks(slots)
    return Load(
        counters.get("prompt_tokens_total"),
        counters.get("prompt_tokens_cached_total"),
        tasks,
        max((_number(slot.get("n_prompt_tokens")) for slot in slots), default=0) if tasks else None,
    )


def _tasks(slots: Any) -> tuple[tuple[int, int], ...] | None:
    if not isinstance(slots, list) or not all(isinstance(slot, dict) for slot in slots):
        return None
    return tuple((_number(slot.get("id")), _number(slot.get("id_task"), -1)) for slot in slots)


def _number(value: Any, otherwise: int = 0) -> int:
    return value if type(value) is int else otherwise
