"""One look at the upstream: its state, its counters, its slots, its model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from cacheproxy.core.kinds.profile import UNKNOWN_KIND, ServerFacts

HEALTH = "/health"
METRICS = "/metrics"
MODELS = "/v1/models"
ABSENT = frozenset({401, 403, 404, 405, 501})
"""Status codes of a page that a server does not have, or does not allow."""


class UpstreamState(StrEnum):
    """The upstream's state, as a look shows it."""

    UP = "up"
    LOADING = "loading"
    DOWN = "down"
    STRANGE = "strange"  #: it answers with web pages, so that it is no model server


class MetricsPage(StrEnum):
    """Whether the upstream has a page of metrics."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class ServerFigures(NamedTuple):
    """A server's counters of its work, None for those that it does not report."""

    prompt: float | None = None  #: tokens of all prompts
    reused: float | None = None  #: tokens of prompts that were reused
    evaluated: float | None = None  #: tokens of prompts that were evaluated
    generated: float | None = None  #: tokens generated
    prefill: float | None = None  #: seconds of prefill
    generation: float | None = None  #: seconds of generation
    requests: float | None = None  #: number of finished requests

    def completed(self) -> ServerFigures:
        """Return the figures with ``prompt`` or ``evaluated`` computed from the other two."""
        prompt, reused, evaluated = self.prompt, self.reused, self.evaluated
        if prompt is None and reused is not None and evaluated is not None:
            prompt = reused + evaluated
        elif evaluated is None and prompt is not None and reused is not None:
            evaluated = prompt - reused
        return self._replace(prompt=prompt, evaluated=evaluated)


NOTHING = ServerFigures()


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """A server's settings of its cache; None for those that it does not report."""

    block: int | None = None  #: tokens of a block
    capacity: int | None = None  #: tokens in all
    is_hybrid: bool = False  #: whether a part of the model has a state beside the blocks
    reuses: bool | None = None  #: whether the cache is on


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading of ``/metrics``; None for values that are not there."""

    figures: ServerFigures  #: the counters, as reported
    model: str | None = None  #: the one model named in the labels
    start: str | None = None  #: start time of the process, as text
    running: int | None = None  #: number of running requests
    waiting: int | None = None  #: number of waiting requests
    kv: float | None = None  #: share of the KV cache in use, 0 to 1
    cache: CacheConfig | None = None  #: settings of the cache


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of the server's KV cache, without the text in it."""

    id: int  #: number of the slot
    context: int  #: tokens that it has room for
    used: int  #: tokens that are in it
    busy: bool  #: whether a request runs in it
    task: int | None = None  #: number of its last request; None: it never had one


@dataclass(frozen=True, slots=True)
class Look:
    """The facts that an upstream's status pages reported at one time."""

    url: str  #: URL of the upstream
    wall: float  #: seconds since the epoch
    moment: float  #: seconds of a monotonic clock
    state: UpstreamState  #: the upstream's state
    metrics: MetricsPage = MetricsPage.UNKNOWN  #: whether it has a page of metrics
    sample: Sample | None = None  #: reading of that page, if there is one
    server: ServerFacts | None = None  #: its own facts, None if it did not answer
    served: str | None = None
    """The one model that it serves; None if there are several, or none is named."""
    file: str | None = None  #: file of that model, whatever name it is served under
    measures: str | None = None  #: that model's parameters, bytes, vocabulary, trained context
    slots: tuple[Slot, ...] = ()  #: its slots, if it has any
    start: str | None = None  #: mark that changes with every restart; None: not reported
    tasks: int | None = None
    """A number that only rises while the server runs; None: not reported."""
    formats: tuple[str, ...] = ()  #: formats in which its chat template prints the time
    context: int | None = None  #: tokens of the context of the one loaded model
    is_silent: bool = False  #: whether it is down although it takes connections
    has_cleared: bool = False  #: whether an idle slot has lost the prompt that was in it

    @property
    def figures(self) -> ServerFigures | None:
        """The server's counters, None if it reported none."""
        is_told = self.metrics is MetricsPage.ON and self.sample is not None
        return self.sample.figures if is_told and self.sample is not None else None

    @property
    def kv(self) -> float | None:
        """Share of the KV cache in use, 0 to 1: as reported, else computed from the slots."""
        if self.sample is not None and self.sample.kv is not None:
            return self.sample.kv
        context = sum(slot.context for slot in self.slots)
        return sum(slot.used for slot in self.slots) / context if context else None


Identity = tuple[str | None, ...]
"""Facts by which a server or its model differs from another; None for those not reported."""


def identity_of(look: Look, before: Identity | None) -> tuple[Identity | None, bool]:
    """Return the identity of the server, and whether it is another than ``before``.

    A fact that is not reported this time has not changed.
    """
    server = look.server
    if server is None:
        return before, False
    kind = None if server.kind == UNKNOWN_KIND else server.kind
    now: Identity = look.start, look.served, kind, server.version, look.file, look.measures
    if before is None:
        return now, False
    pairs = list(zip(before, now, strict=True))
    is_other = any(None not in pair and pair[0] != pair[1] for pair in pairs)
    return tuple(old if new is None else new for old, new in pairs), is_other


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a server's status pages."""

    statuses: Mapping[str, int]  #: status codes, by path
    pages: Mapping[str, Any]  #: JSON values of pages with status 200, by path
    sample: Sample | None = None  #: reading of the page of metrics
    software: str = ""  #: the answers' header Server
    is_web: bool = False  #: whether the list of models is a web page instead

    @property
    def model(self) -> Mapping[str, Any]:
        """The first model in the list of models, {} for none."""
        page = self.pages.get(MODELS)
        data = page.get("data") if isinstance(page, dict) else None
        first = data[0] if isinstance(data, list) and data else None
        return first if isinstance(first, dict) else {}

    @property
    def owner(self) -> str:
        """The ``owned_by`` of that model, in lower case."""
        return (text(self.model.get("owned_by")) or "").lower()


def text(value: Any) -> str | None:
    """Return ``value``, shortened, if it is printable text, else None: it goes to a terminal."""
    if not isinstance(value, str) or not value.isprintable():
        return None
    return value[:80]


def number(value: Any) -> int | None:
    """Return ``value`` if it is a positive whole number, else None."""
    return value if type(value) is int and 0 < value < 1 << 53 else None


def only(page: Any, name: str) -> dict[str, Any]:
    """Return the one object that ``page`` lists under ``name``; {} if there is not exactly one."""
    found = page.get(name) if isinstance(page, dict) else None
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        return {}
    return found[0]


def gain(before: Look | None, now: Look) -> tuple[ServerFigures, bool]:
    """Return the gain of the counters in ``now``, and whether they began again.

    A counter rises while its server runs and begins at zero after a restart. So its gain between
    two looks is the difference or, after a restart, its present value.
    """
    old, new = (None if before is None else before.figures), now.figures or NOTHING
    if before is None or old is None or _is_another(before, now):
        return new.completed(), True
    gained = (None if now is None else now - (was or 0) for was, now in zip(old, new, strict=True))
    return ServerFigures(*gained).completed(), False


def _is_another(before: Look, now: Look) -> bool:
    """Whether the server was restarted between the two looks."""
    if before.start is not None and now.start is not None and before.start != now.start:
        return True
    old = (*(before.figures or NOTHING), before.tasks)
    new = (*(now.figures or NOTHING), now.tasks)
    pairs = zip(old, new, strict=True)
    return any(was is not None and now is not None and now < was for was, now in pairs)
