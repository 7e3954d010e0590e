"""Does the agent really go through the proxy: its record against the server's own counters."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.asking import proxy_option, shown
from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.load import Load
from cacheproxy.doctor.record import Record
from cacheproxy.words import counted

_NOISE = 5000
"""Prompt tokens: earlier runs of doctor, and tries with curl, are no agent."""


@dataclass(frozen=True, slots=True)
class Look:
    """The server's work and the proxy's record at one moment; ``record`` None: it keeps none."""

    load: Load
    record: Record | None


def check(proxy: str, upstream: str, before: Look, after: Look, watched: float) -> list[Finding]:
    """Return the findings.

    ``proxy``, ``upstream``: URLs. ``before``, ``after``: looks ``watched`` seconds apart; with 0
    they are the same.
    """
    if after.record is None:
        text = (
            "this proxy keeps no record of its requests, so doctor cannot tell whether your "
            "agent uses the proxy. Look in the proxy's log: each request has a line"
        )
        return [Finding("traffic", State.WARN, text)]
    if watched:
        return [_watched(proxy, upstream, before, after, watched)]
    seen = len(after.record.seen)
    if seen:
        text = f"{counted(seen, 'request')} with a prompt came through this proxy"
        return [Finding("traffic", State.OK, text)]
    work = _work(after.load)
    if work is None:
        text = "no agent request has come through this proxy yet"
        return [Finding("traffic", State.WARN, text, _through(proxy))]
    text = (
        f"{work}, but no agent request has come through this proxy. If you used your agent since "
        f"then, it talks to {shown(upstream)} directly. To be sure, use your agent during: "
        f"cacheproxy doctor --watch 60{proxy_option(proxy)}"
    )
    return [Finding("traffic", State.WARN, text, _through(proxy))]


def _watched(proxy: str, upstream: str, before: Look, after: Look, watched: float) -> Finding:
    assert after.record is not None
    new = after.record.after(before.record) if before.record is not None else after.record.seen
    worked, tokens = after.load.worked_since(before.load), after.load.since(before.load)
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
            return Finding("traffic", State.WARN, text, _through(proxy))
        return Finding("traffic", State.OK, text)
    if not worked:
        text = (
            f"{when} no request came through this proxy, and none to the server, as far as the "
            "server tells"
        )
        return Finding("traffic", State.WARN, text, "use your agent while doctor watches")
    text = (
        f"{when} the server {did}, but no request came through this proxy: your agent still talks "
        f"to {shown(upstream)} directly"
    )
    return Finding("traffic", State.FAIL, text, _through(proxy))


def _work(load: Load) -> str | None:
    """Say what the server has worked on since its start, if it was more than noise."""
    if load.evaluated is not None:
        if load.evaluated <= _NOISE:
            return None
        return f"the server has evaluated {load.evaluated:,} prompt tokens since it started"
    if load.held is None or load.held <= _NOISE:
        return None
    return f"the server's slots hold a prompt of {load.held:,} tokens"


def _through(proxy: str) -> str:
    return f"ANTHROPIC_BASE_URL={shown(proxy)} claude   (OpenAI clients: {shown(proxy)}/v1)"
