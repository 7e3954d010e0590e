"""One look at the upstream: whether it is there, its counters, its slots, what it serves.

Sources: llama.cpp's ``tools/server/README.md`` (``/health``, ``/slots``, ``/props``); vLLM's and
SGLang's ``/v1/models``; Ollama's ``docs/api.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cacheproxy.core.document.parsed import parsed
from cacheproxy.core.servers.clock import clock_formats
from cacheproxy.core.servers.counters import Reading
from cacheproxy.core.servers.identify import (
    LOADING,
    OLLAMA,
    UNKNOWN,
    VERSION,
    ServerFacts,
    Signs,
    identify,
    may_tell,
)
from cacheproxy.core.servers.metrics_page import Sample, sample_of

HEALTH = "/health"
METRICS = "/metrics"
SLOTS = "/slots"
PROPS = "/props"
RUNNING = "/api/ps"
PAGES = (HEALTH, METRICS, SLOTS, PROPS, "/v1/models", "/api/version")
"""What to ask for, in this order."""
MORE_PAGES = (VERSION, LOADING, RUNNING)
"""What to ask for besides where it may tell (see ``Answers.wants``). RUNNING: the models that
Ollama has loaded, each with the context that it got (its ``docs/api.md``)."""
ABSENT = frozenset({401, 403, 404, 405, 501})
"""Status codes by which a server says that it has no such page, or not for us."""
_LARGEST = 512 << 10
"""Bytes of a page that is read: it is read on the reactor."""
_MOST_SLOTS = 256


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
    """A KV lane of llama-server. Nothing of what it holds."""

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
    slots: tuple[Slot, ...] = ()  #: of llama-server
    start: str | None = None  #: see ``Reading``
    tasks: int | None = None  #: see ``Reading``
    formats: tuple[str, ...] = ()  #: in which its chat template prints the time
    context: int | None = None  #: tokens that the one loaded model of Ollama got
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
    kind = None if server.kind == UNKNOWN else server.kind
    now: Identity = (look.start, look.served, kind, server.version)
    if before is None:
        return now, False
    pairs = list(zip(before, now, strict=True))
    is_other = any(None not in pair and pair[0] != pair[1] for pair in pairs)
    return tuple(old if new is None else new for old, new in pairs), is_other


@dataclass(frozen=True, slots=True)
class Answers:
    """What PAGES answered."""

    statuses: Mapping[str, int]  #: by path
    pages: Mapping[str, Any]  #: JSON values of those that said 200, by path
    sample: Sample | None = None  #: of the page of metrics
    software: str = ""  #: what the answers' header Server says

    @property
    def server(self) -> ServerFacts:
        """Who answered."""
        return identify(self.pages, self._signs)

    def wants(self, path: str) -> bool:
        """Whether one of MORE_PAGES can tell more of a server that has answered PAGES so."""
        if path == RUNNING:
            return self.server.kind == OLLAMA
        return may_tell(path, self.pages, self._signs)

    @property
    def _signs(self) -> Signs:
        return Signs(self.software, self.statuses)


Asking = Generator[str, tuple[int, bytes, str] | None, Answers | None]
"""Yields paths to GET; takes of each answer the status, the body and the header Server, or None."""


def asking(known: Mapping[str, tuple[int, Any]]) -> Asking:
    """Ask a server for its status pages, whoever gets the paths that this yields.

    It returns what they say; None where the first that is asked for does not answer. ``known``: the
    status and the JSON value of those that need not be asked for.
    """
    statuses: dict[str, int] = {}
    pages: dict[str, Any] = {}
    sample: Sample | None = None
    software, is_there = "", False
    for path in (*PAGES, *MORE_PAGES):
        if path in known:
            statuses[path], value = known[path]
            pages |= {path: value} if value is not None else {}
            continue
        if path in MORE_PAGES and not Answers(statuses, pages, sample, software).wants(path):
            continue
        answer = yield path
        if answer is None:
            if not is_there:
                return None
            continue
        is_there = True
        status, body, said = answer
        statuses[path], software = status, software or said
        if status == 200 and len(body) <= _LARGEST:
            if path == METRICS:
                sample = sample_of(body.decode("utf-8", "replace"))
            elif path != HEALTH:
                pages[path] = parsed(body)
    return Answers(statuses, pages, sample, software)


def look_of(url: str, wall: float, moment: float, answers: Answers) -> Look:
    """Return the look at a server that answered; arguments as in Look."""
    statuses, pages, sample = answers.statuses, answers.pages, answers.sample
    metrics = MetricsPage.UNKNOWN
    if statuses.get(METRICS) == 200 and sample is not None:
        metrics = MetricsPage.ON
    elif statuses.get(METRICS) in ABSENT or statuses.get(METRICS) == 200:
        metrics = MetricsPage.OFF
    loading = statuses.get(HEALTH) == 503 or 503 in statuses.values()
    served, props = _served(pages.get("/v1/models")), pages.get(PROPS)
    slots = slots_of(pages.get(SLOTS))
    return Look(
        url=url,
        wall=wall,
        moment=moment,
        state=UpstreamState.LOADING if loading else UpstreamState.UP,
        metrics=MetricsPage.UNKNOWN if loading else metrics,
        sample=sample,
        server=answers.server,
        served=served or (sample.model if sample is not None else None),
        slots=slots,
        start=start_of(props, sample),
        # They are given in order, from 0, by each server.
        tasks=max((slot.task for slot in slots if slot.task is not None), default=None),
        formats=clock_formats(props.get("chat_template") if isinstance(props, dict) else None),
        context=_context(pages.get(RUNNING)),
        has_cleared=_has_cleared(pages.get(SLOTS)),
    )


def slots_of(page: Any) -> tuple[Slot, ...]:
    """Return the slots that llama-server's ``/slots`` lists; none for anything else."""
    return tuple(map(_slot, _slots_in(page)))


def _slots_in(page: Any) -> list[dict[str, Any]]:
    found = page[:_MOST_SLOTS] if isinstance(page, list) else ()
    return [slot for slot in found if isinstance(slot, dict)]


def _slot(slot: Mapping[str, Any]) -> Slot:
    next_token = slot.get("next_token")
    token = next_token[0] if isinstance(next_token, list) and next_token else next_token
    decoded = _number(token.get("n_decoded")) if isinstance(token, dict) else 0
    busy = slot.get("is_processing") is True
    # An idle slot's n_prompt_tokens is all it holds; while it works, its answer comes beside it.
    used = _number(slot.get("n_prompt_tokens")) + (decoded if busy else 0)
    context = _number(slot.get("n_ctx"))
    task = slot.get("id_task")
    return Slot(
        _number(slot.get("id")),
        context,
        min(used, context),
        busy,
        task if type(task) is int and task >= 0 else None,
    )


def _has_cleared(page: Any) -> bool:
    """Whether an idle slot that had a task holds nothing."""
    return any(
        slot.get("is_processing") is False
        and type(slot.get("id_task")) is int
        and slot["id_task"] >= 0
        and slot.get("n_prompt_tokens") == 0
        for slot in _slots_in(page)
    )


def _context(page: Any) -> int | None:
    """Return the context of the one model that Ollama has loaded."""
    return _number(_only(page, "models").get("context_length")) or None


def start_of(props: Any, sample: Sample | None) -> str | None:
    """Return what is another after a restart.

    llama-server makes the marker for media in its prompts anew, at random, when it starts. Kept
    is a hash: who knows the marker could write it into a prompt.
    """
    if sample is not None and sample.start is not None:
        return sample.start
    marker = props.get("media_marker") if isinstance(props, dict) else None
    if not isinstance(marker, str) or not marker:
        return None
    return hashlib.sha256(marker.encode("utf-8", "replace")).hexdigest()[:16]


def _served(page: Any) -> str | None:
    name = _only(page, "data").get("id")
    return name[:120] if isinstance(name, str) and name and name.isprintable() else None


def _only(page: Any, name: str) -> dict[str, Any]:
    """Return the one object that ``page`` lists under ``name``; {} where there is not one."""
    found = page.get(name) if isinstance(page, dict) else None
    if not isinstance(found, list) or len(found) != 1 or not isinstance(found[0], dict):
        return {}
    return found[0]


def _number(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 1 << 53 else 0
