"""What a user can do now: what stands in the way of the cache, and goes from the list when done."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from cacheproxy.core.diagnose.report import TurnReport
from cacheproxy.core.judge.explain import FELT, phrase
from cacheproxy.core.servers.kinds import kind_of
from cacheproxy.core.servers.profile import Profile
from cacheproxy.core.servers.status import Look, MetricsPage, UpstreamState

_IDLE = ("nothing", "see", "see all")
"""Advice that leaves nothing to be done, or not here."""
_MOST_CAUSES = 3
_COMMAND = re.compile(r"cacheproxy (?:diagnose|env) [\w .-]+")

Json = dict[str, Any]


def todo(
    profile: Profile,
    look: Look | None,
    sums: Mapping[str, Any],
    breaks: Sequence[Mapping[str, Any]],
    report_on: Callable[[int], TurnReport | None],
) -> list[Json]:
    """Return what can be done, what matters most first.

    ``look``: the last one at the upstream; ``sums`` and ``breaks``: of the window;
    ``report_on`` returns what is known of the exchange with that number, None where nothing is
    left to do about it.
    """
    return [*_server(profile, look, sums), *_causes(breaks, report_on)]


def _server(profile: Profile, look: Look | None, sums: Mapping[str, Any]) -> Iterator[Json]:
    kind = kind_of(profile)
    if look is not None and look.state is UpstreamState.DOWN:
        yield _card("upstream-down", "Start the model server", f"{look.url} does not answer.")
        return
    if profile.reuses is False and kind.caching is not None:
        yield _card("prompt-cache", f"Switch on {kind.called}'s prompt cache", kind.caching.says)
    is_unmeasured = sums["prompt"] and not (sums["reused"] or sums["evaluated"])
    flag = profile.flag or kind.flag
    if flag and is_unmeasured:
        why = f"Start it with {flag}: its answers say then how much they reused."
        yield _card("reporting", f"Have {kind.called} report reuse", why)
    if look is not None and look.metrics is MetricsPage.OFF and kind.metrics:
        why = "then its counters tell the speed that some answers do not."
        yield _card("metrics", f"Have {kind.called} count", f"Start it with {kind.metrics}: {why}")


def _causes(
    breaks: Sequence[Mapping[str, Any]], report_on: Callable[[int], TurnReport | None]
) -> Iterator[Json]:
    """Yield what cures the causes that are felt, the dearest first."""
    for each in breaks[:_MOST_CAUSES]:
        found = None
        if each["number"] is not None and (each["share"] or 0.0) >= FELT:
            found = report_on(each["number"])
        advice = next((one for one in found.advice if one.do not in _IDLE), None) if found else None
        if advice is not None:
            name = f"{each['reason']} {each['shape'] or ''}".strip().replace(" ", "-")
            title = phrase(each["reason"], each["shape"])
            command = _COMMAND.match(advice.why)
            why = f"{advice.do}: {advice.why}"
            yield _card(name, title, why, command[0].strip() if command else None)


def _card(name: str, title: str, why: str, command: str | None = None) -> Json:
    return {"id": name, "title": title, "why": why, "command": command}
