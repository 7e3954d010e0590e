"""Does the agent really go through the proxy: its record against the server's own counters."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.asking import proxy_option, shown
from cacheproxy.core.server import status
from cacheproxy.doctor.finding import Finding, FindingState
from cacheproxy.doctor.record import Record
from cacheproxy.words import counted

_NOISE = 5000
"""Prompt tokens: earlier runs of doctor, and tries with curl, are no agent."""


@dataclass(frozen=True, slots=True)
class TrafficLook:
    """The server and the proxy's record at one moment."""

    server: status.Look | None  #: None: it did not answer
    record: Record | None  #: None: the proxy keeps none

    @property
    def evaluated(self) -> int | None:
        """Prompt tokens since the server started, if its counters tell."""
        sample = self.server.sample if self.server is not None else None
        tokens = sample.figures.evaluated if sample is not None else None
        return None if tokens is None else int(tokens)

    @property
    def tasks(self) -> int | None:
        """The number of the server's last request, if its slots tell."""
        return self.server.tasks if self.server is not None else None

    @property
    def held(self) -> int:
        """Tokens that the fullest slot holds."""
        return max((slot.used for slot in self.server.slots), default=0) if self.server else 0

    def since(self, before: TrafficLook) -> int | None:
        """Return the prompt tokens that were evaluated since ``before``."""
        if self.evaluated is None or before.evaluated is None:
            return None
        return max(0, self.evaluated - before.evaluated)

    def worked_since(self, before: TrafficLook) -> bool:
        """Return whether any request is known to have been worked on since ``before``."""
        tokens = self.since(before)
        return tokens > 0 if tokens is not None else self.tasks != before.tasks


def check(
    proxy: str, upstream: str, before: TrafficLook, after: TrafficLook, watched: float
) -> list[Finding]:
    """Return the findings.

    ``proxy``, ``upstream``: URLs. ``before``, ``after``: looks ``watched`` seconds apart; with 0
    they are the same.
    """
    if after.record is None:
        text = (
            "this proxy keeps no record of its requests, so doctor cannot tell whether your "
            "agent uses the proxy. Look in the proxy's log: each request has a line"
        )
        return [Finding("traffic", FindingState.WARN, text)]
    if watched:
        return [_watched(proxy, upstream, before, after, watched)]
    seen = len(after.record.seen)
    if seen:
        text = f"{counted(seen, 'request')} with a prompt came through this proxy"
        return [Finding("traffic", FindingState.OK, text)]
    work = _work(after)
    if work is None:
        text = "no agent request has come through this proxy yet"
        return [Finding("traffic", FindingState.WARN, text, _through(proxy))]
    text = (
        f"{work}, but no agent request has come through this proxy. If you used your agent since "
        f"then, it talks to {shown(upstream)} directly. To be sure, use your agent during: "
        f"cacheproxy doctor --watch 60{proxy_option(proxy)}"
    )
    return [Finding("traffic", FindingState.WARN, text, _through(proxy))]


def _watched(
    proxy: str, upstream: str, before: TrafficLook, after: TrafficLook, watched: float
) -> Finding:
    assert after.record is not None
    new = after.record.after(before.record) if before.record is not None else after.record.seen
    tokens = after.since(before)
    did = f"evaluated {tokens:,} prompt tokens" if tokens is not None else "worked on requests"
    when = f"within {watched:.0f} s"
    if new:
        evaluated = sum((one.prompt or 0) - (one.reused or 0) for one in new)
        text = f"{counted(len(new), 'request')} came through this proxy {when}"
        if tokens is not None and tokens > evaluated + _NOISE:
            text += (
                f", but the server {did}, {tokens - evaluated:,} of them for requests from "
                "elsewhere"
            )
            return Finding("traffic", FindingState.WARN, text, _through(proxy))
        return Finding("traffic", FindingState.OK, text)
    if not after.worked_since(before):
        text = (
            f"{when} no request came through this proxy, and none to the server, as far as the "
            "server tells"
        )
        return Finding("traffic", FindingState.WARN, text, "use your agent while doctor watches")
    text = (
        f"{when} the server {did}, but no request came through this proxy: your agent still talks "
        f"to {shown(upstream)} directly"
    )
    return Finding("traffic", FindingState.FAIL, text, _through(proxy))


def _work(look: TrafficLook) -> str | None:
    """Say what the server has worked on since its start, if it was more than noise."""
    if look.evaluated is not None:
        if look.evaluated <= _NOISE:
            return None
        return f"the server has evaluated {look.evaluated:,} prompt tokens since it started"
    if look.held <= _NOISE:
        return None
    return f"the server's slots hold a prompt of {look.held:,} tokens"


def _through(proxy: str) -> str:
    return f"ANTHROPIC_BASE_URL={shown(proxy)} claude   (OpenAI clients: {shown(proxy)}/v1)"
