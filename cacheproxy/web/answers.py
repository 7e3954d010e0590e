"""The page's first answers: does the cache work, what does the proxy add, what is to be done."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.judge.explain import BROKEN, FELT, phrase, share_in_words
from cacheproxy.core.kinds.crowds import Crowd
from cacheproxy.core.kinds.known import kind_of
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.kinds.status import Look, MetricsPage, UpstreamState
from cacheproxy.observe.crowd import SeenCrowd
from cacheproxy.observe.failures import cure_of
from cacheproxy.record.exchange import Exchange
from cacheproxy.totals.windows import WINDOWS
from cacheproxy.web.pages import Json
from cacheproxy.words import counted, span

_LITTLE = 0.5
_IDLE = ("nothing", "see", "see all")
"""First words of advice that asks for nothing to be done."""
_MOST_CAUSES = 3
_DOWN = "Start", "does not answer"
_COMMAND = re.compile(r"cacheproxy (?:diagnose \d+|env [a-z][\w-]*)(?: --[a-z]+)*")
_CROWDS = {
    Crowd.TURNS: "Conversations by turns lose their place to one another",
    Crowd.HEAD: "Conversations that begin alike lose their place to one another",
    Crowd.SUBAGENTS: "Subagents and titles take the place of their main thread",
    Crowd.TOGETHER: "Conversations that start together each have the same head read",
}
"""Titles of crowds."""
_SPARED = (
    "estimate: where prompts part with and without us; each priced once, when it happened, at the "
    "speed of prefill that its server showed then"
)


class CacheState(StrEnum):
    """State of the cache in a window, in words; the page's colour only repeats it."""

    EMPTY = "No requests yet"
    FAILING = "Requests fail"
    UNMEASURED = "Not measured"
    COLD = "First turns only"
    WORKING = "Cache is working"
    HITCHES = "Cache works, with breaks"
    BREAKING = "Cache is breaking"


def headline(window: str, sums: Mapping[str, Any]) -> Json:
    """Return the verdict on a window, from its ``sums`` (see totals.windows.overview).

    ``share``: reused part (0 to 1) of the prompt tokens for which the server reported both
    figures. In ``due``: ``tokens`` saved, ``seconds`` of prefill saved, None if its speed was never
    known, and ``unpriced`` tokens that are not in ``seconds``.
    """
    known = sums["reused"] + sums["evaluated"]
    standing, text = _judged(window, sums, known)
    spared = sums["spared"]
    return {
        "standing": standing.name.lower(),
        "title": standing.value,
        "text": text,
        "share": sums["reused"] / known if known else None,
        "reused": sums["reused"],
        "evaluated": sums["evaluated"],
        "due": {
            "tokens": spared,
            "seconds": sums["spared_seconds"] if spared != sums["unpriced"] or not spared else None,
            "unpriced": sums["unpriced"],
            "source": _SPARED,
        },
    }


def without(sums: Mapping[str, Any]) -> float | None:
    """Return the share (0 to 1) that would be reused without the proxy, None if not known."""
    known = sums["reused"] + sums["evaluated"]
    return min(1.0, max(0.0, (sums["reused"] - sums["spared"]) / known)) if known else None


def _judged(window: str, sums: Mapping[str, Any], known: int) -> tuple[CacheState, str]:
    """Return state and sentence; ``known``: tokens reused and evaluated, 0 if not reported."""
    when = f"in the last {WINDOWS[window].name}"
    if not sums["turns"] and sums["errors"]:
        said = counted(sums["errors"], "request")
        return CacheState.FAILING, f"{said} failed {when}, and none was answered."
    if not sums["turns"]:
        return CacheState.EMPTY, f"No figures {when}."
    if not known:
        return CacheState.UNMEASURED, "The server does not say what it reused."
    said, lost = f"No breaks {when}", sums["lost"]
    if sums["breaks"]:
        part = share_in_words(lost / known)
        said = f"{counted(sums['breaks'], 'break')} cost {lost:,} tokens, {part} of all, {when}"
    if lost / known >= FELT:
        return CacheState.BREAKING if lost / known >= BROKEN else CacheState.HITCHES, f"{said}."
    if sums["reused"] / known < _LITTLE:
        return CacheState.COLD, f"{said}: most prompts were new to the server."
    return CacheState.WORKING, f"{said}."


def todo(
    profile: Profile,
    look: Look | None,
    sums: Mapping[str, Any],
    breaks: Sequence[Mapping[str, Any]],
    report_on: Callable[[int], TurnReport | None],
    *,
    crowd: SeenCrowd | None = None,
) -> list[Json]:
    """Return the page's To do: obstacles to the cache with their cures, the costliest first.

    ``look``: the last look at the upstream. ``sums`` and ``breaks`` are the window's.
    ``report_on`` returns the report on the exchange with that number, None if nothing is left to do
    about it. ``crowd``: the crowd that the last day's turns show; its setting stands in place of
    advice on single dropped prompts.
    """
    crowded = [] if crowd is None else [*_crowd(profile, crowd)]
    if crowded:
        breaks = [each for each in breaks if each["reason"] != Reason.EVICTED]
    return [*_server(profile, look, sums), *crowded, *_causes(breaks, report_on)]


def _crowd(profile: Profile, seen: SeenCrowd) -> Iterator[Json]:
    kind = kind_of(profile)
    for_crowd = kind.settings.for_crowd
    setting = for_crowd(seen.crowd, profile.memory) if for_crowd is not None else None
    if setting is not None:
        about = "about " if seen.crowd is Crowd.TOGETHER else ""  # heads' tokens are estimated
        why = f"{kind.called}: {setting.text}. In the last {span(seen.seconds)} "
        why += f"it would have saved at most {about}{seen.lost:,} tokens"
        yield _card("crowd", f"{_CROWDS[seen.crowd]} ({seen.conversations})", why)


def failing(
    failed: Iterable[tuple[str, Exchange]], upstreams: Iterable[Mapping[str, Any]]
) -> list[Json]:
    """Return the To do entries for upstreams that are down or no model server, and failures.

    ``failed``: see ``observe.failures.stuck``; ``upstreams``: all of them, if there are several.
    """
    servers = []
    for name, state in ((each["name"], each["state"]) for each in upstreams):
        if state == UpstreamState.DOWN:
            servers.append(_card(f"{name}-down", f"Start {name}", f"{name} does not answer."))
        elif state == UpstreamState.STRANGE:
            why = f"{name} answers with web pages: it is no model server."
            servers.append(_card(f"{name}-strange", f"Mend the URL of {name}", why))
    failures = [
        _card(f"failed-{one.client}", f"Mend what fails: {one.client}", f"{said}. {cure_of(one)}.")
        for said, one in failed
    ]
    return [*servers, *failures]


def _server(profile: Profile, look: Look | None, sums: Mapping[str, Any]) -> Iterator[Json]:
    """Yield To do entries for the server: down, no model server, or settings to switch on."""
    kind = kind_of(profile)
    if look is not None and look.state is UpstreamState.DOWN:
        do, what = ("Restart", "takes connections, and answers none") if look.is_silent else _DOWN
        yield _card("upstream-down", f"{do} the model server", f"{look.url} {what}.")
        return
    if look is not None and look.state is UpstreamState.STRANGE:
        why = f"{look.url} answers with web pages. Give its URL with --upstream."
        yield _card("upstream-strange", "Name the model server", why)
    caching, metrics = kind.settings.caching, kind.settings.metrics
    if profile.reuses is False and caching is not None:
        yield _card("prompt-cache", f"Switch on {kind.called}'s prompt cache", caching.text)
    is_unmeasured = sums["prompt"] and not (sums["reused"] or sums["evaluated"])
    flag = profile.flag or kind.settings.reports
    if flag and is_unmeasured:
        why = f"Start it with {flag}: its answers say then how much they reused."
        yield _card("reporting", f"Have {kind.called} report reuse", why)
    if look is not None and look.metrics is MetricsPage.OFF and metrics:
        why = "then its counters tell the speed that some answers do not."
        yield _card("metrics", f"Have {kind.called} count", f"Start it with {metrics}: {why}")


def _causes(
    breaks: Sequence[Mapping[str, Any]], report_on: Callable[[int], TurnReport | None]
) -> Iterator[Json]:
    """Yield To do entries for the costliest ``breaks`` that cost noticeably, or a rule cures."""
    for each in breaks[:_MOST_CAUSES]:
        found = None if each["number"] is None else report_on(each["number"])
        is_felt = (each["share"] or 0.0) >= FELT
        could = [one for one in found.advice if one.do not in _IDLE] if found else []
        advice = next((one for one in could if is_felt or one.do == "a rule"), None)
        if advice is not None:
            name = f"{each['reason']} {each['shape'] or ''}".strip().replace(" ", "-")
            title = phrase(each["reason"], each["shape"])
            command = _COMMAND.match(advice.why)
            why = f"{advice.do}: {advice.why}"
            yield _card(name, title, why, command[0] if command else None)


def _card(name: str, title: str, why: str, command: str | None = None) -> Json:
    return {"id": name, "title": title, "why": why, "command": command}
