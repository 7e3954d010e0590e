"""One look at the upstream: whether it is there, its counters, its slots, what it serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cacheproxy.core.servers.counters import Reading, Sample
from cacheproxy.core.servers.profile import UNKNOWN_KIND, ServerFacts

HEALTH = "/health"
METRICS = "/metrics"
MODELS = "/v1/models"
ABSENT = frozenset({401, 403, 404, 405, 501})
"""Status codes by which a server says that it has no such page, or not for us."""


class UpstreamState(StrEnum):
    """Whether the upstream can answer."""

    UP = "up"
    LOADING = "loading"
    DOWN = "down"


class MetricsPage(StrEnum):
    """Whether the upstream tells its counters."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Slot:
    """A KV lane of a server that has such. Nothing of what it holds."""

    id: int  #: its number
    context: int  #: tokens that it has room for
    used: int  #: tokens that it holds
    busy: bool  #: whether a request runs in it
    task: int | None = None  #: number of its last request; None: it never had one


@dataclass(frozen=True, slots=True)
class Look:
    """What an upstream said of itself."""

    url: str  #: the upstream's
    wall: float  #: seconds since the epoch
    moment: float  #: seconds on a clock that only goes forward
    state: UpstreamState  #: whether it answers
    metrics: MetricsPage = MetricsPage.UNKNOWN  #: what became of its page of metrics
    sample: Sample | None = None  #: that page, if it was read
    server: ServerFacts | None = None  #: None where it did not answer
    served: str | None = None
    """The one model it serves; None where there are several, or none is named."""
    slots: tuple[Slot, ...] = ()  #: of a server that has them
    start: str | None = None  #: see ``Reading``
    tasks: int | None = None  #: see ``Reading``
    formats: tuple[str, ...] = ()  #: in which its chat template prints the time
    context: int | None = None  #: tokens that the one loaded model got
    has_cleared: bool = False  #: a slot held a prompt and holds none, though it is idle

    @property
    def reading(self) -> Reading | None:
        """The server's counters, if it told them."""
        if self.metrics is not MetricsPage.ON or self.sample is None:
            return None
        return Reading(self.sample.figures, self.start, self.tasks)

    @property
    def kv(self) -> float | None:
        """Share of the KV cache in use, 0 to 1: the server's own figure, or from its slots."""
        if self.sample is not None and self.sample.kv is not None:
            return self.sample.kv
        context = sum(slot.context for slot in self.slots)
        return sum(slot.used for slot in self.slots) / context if context else None


Identity = tuple[str | None, ...]
"""What tells one server, and one model, from another; None for what it did not say."""


def identity_of(look: Look, before: Identity | None) -> tuple[Identity | None, bool]:
    """Return who was looked at, and whether that is another than ``before``.

    What it does not say this time has not changed.
    """
    server = look.server
    if server is None:
        return before, False
    kind = None if server.kind == UNKNOWN_KIND else server.kind
    now: Identity = (look.start, look.served, kind, server.version)
    if before is None:
        return now, False
    pairs = list(zip(before, now, strict=True))
    is_other = any(None not in pair and pair[0] != pair[1] for pair in pairs)
    return tuple(old if new is None else new for old, new in pairs), is_other


@dataclass(frozen=True, slots=True)
class Answers:
    """What a server's pages answered."""

    statuses: Mapping[str, int]  #: by path
    pages: Mapping[str, Any]  #: JSON values of those that said 200, by path
    sample: Sample | None = None  #: of the page of metrics
    software: str = ""  #: what the answers' header Server says

    @property
    def model(self) -> Mapping[str, Any]:
        """The first model that is listed, {} for none."""
        page = self.pages.get(MODELS)
        data = page.get("data") if isinstance(page, dict) else None
        first = data[0] if isinstance(data, list) and data else None
        return first if isinstance(first, dict) else {}

    @property
    def owner(self) -> str:
        """Whose that model is, in small letters."""
        return (text(self.model.get("owned_by")) or "").lower()


def text(value: Any) -> str | None:
    """Return printable text of a sane length: it goes to a terminal."""
    if not isinstance(value, str) or not value.isprintable():
        return None
    return value[:80]


def number(value: Any) -> int | None:
    """Return a positive whole number that a page said."""
    return value if type(value) is int and 0 < value < 1 << 53 else None


def only(page: Any, name: str) -> dict[str, Any]:
    """Return the one object that ``page`` lists under ``name``; {} where there is not one."""
    found = page.get(name) if isinstance(page, dict) else None
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        return {}
    return found[0]
