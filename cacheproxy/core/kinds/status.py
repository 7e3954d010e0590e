"""One look at the upstream: whether it is there, its counters, its slots, what it serves."""

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
"""Status codes by which a server says that it has no such page, or not for us."""


class UpstreamState(StrEnum):
    """Whether the upstream can answer."""

    UP = "up"
    LOADING = "loading"
    DOWN = "down"
    STRANGE = "strange"  #: it answers with web pages, as no model server does


class MetricsPage(StrEnum):
    """Whether the upstream tells its counters."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class ServerFigures(NamedTuple):
    """Amounts of work, each None where it is not told."""

    prompt: float | None = None  #: tokens in all
    reused: float | None = None  #: tokens of the prompts
    evaluated: float | None = None  #: tokens of the prompts
    generated: float | None = None  #: tokens
    prefill: float | None = None  #: seconds
    generation: float | None = None  #: seconds
    requests: float | None = None  #: those that were finished

    def completed(self) -> ServerFigures:
        """Return these, and of ``prompt``, ``reused`` and ``evaluated`` also the third of two."""
        prompt, reused, evaluated = self.prompt, self.reused, self.evaluated
        if prompt is None and reused is not None and evaluated is not None:
            prompt = reused + evaluated
        elif evaluated is None and prompt is not None and reused is not None:
            evaluated = prompt - reused
        return self._replace(prompt=prompt, evaluated=evaluated)


NOTHING = ServerFigures()


@dataclass(frozen=True, slots=True)
class CacheConfig:
    """How a server keeps prompts. None: not told."""

    block: int | None = None  #: tokens of a block
    capacity: int | None = None  #: tokens in all
    is_hybrid: bool = False  #: a part of the model keeps a state beside the blocks
    reuses: bool | None = None  #: whether prompts are looked up there at all


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at ``/metrics``. None: not told."""

    figures: ServerFigures  #: its counters, as told
    model: str | None = None  #: the one name in its labels
    start: str | None = None  #: of the process, as text
    running: int | None = None  #: requests
    waiting: int | None = None  #: requests
    kv: float | None = None  #: share of the KV cache in use, 0 to 1
    cache: CacheConfig | None = None  #: how its memory is made


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
    file: str | None = None  #: where that model was read from, whatever name it is served under
    measures: str | None = None  #: its parameters, bytes, vocabulary and trained context
    slots: tuple[Slot, ...] = ()  #: of a server that has them
    start: str | None = None  #: anything that is another after a restart; None: not told
    tasks: int | None = None
    """A number that only rises while the server runs; None: not told."""
    formats: tuple[str, ...] = ()  #: in which its chat template prints the time
    context: int | None = None  #: tokens that the one loaded model got
    is_silent: bool = False  #: it is down, though it takes connections
    has_cleared: bool = False  #: a slot held a prompt and holds none, though it is idle

    @property
    def figures(self) -> ServerFigures | None:
        """The server's counters, if it told them."""
        is_told = self.metrics is MetricsPage.ON and self.sample is not None
        return self.sample.figures if is_told and self.sample is not None else None

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
    now: Identity = look.start, look.served, kind, server.version, look.file, look.measures
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
    is_web: bool = False  #: instead of models it lists a web page

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


def gain(before: Look | None, now: Look) -> tuple[ServerFigures, bool]:
    """Return what the counters in ``now`` gained, and whether they began anew.

    A counter rises while its server runs and begins at zero after a restart. So its gain between
    two looks is the difference or, after a restart, its present value.
    """
    old, new = (None if before is None else before.figures), now.figures or NOTHING
    if before is None or old is None or _is_another(before, now):
        return new.completed(), True
    gained = (None if now is None else now - (was or 0) for was, now in zip(old, new, strict=True))
    return ServerFigures(*gained).completed(), False


def _is_another(before: Look, now: Look) -> bool:
    """Whether the server was restarted between the two."""
    if before.start is not None and now.start is not None and before.start != now.start:
        return True
    old = (*(before.figures or NOTHING), before.tasks)
    new = (*(now.figures or NOTHING), now.tasks)
    pairs = zip(old, new, strict=True)
    return any(was is not None and now is not None and now < was for was, now in pairs)
