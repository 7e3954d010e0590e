"""Is the proxy needed at all? Some servers and settings make it superfluous."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cacheproxy.core.placement.placement import Placement
from cacheproxy.core.rules.built_in import NAMES
from cacheproxy.doctor.claude import ATTRIBUTION, ClaudeSettings
from cacheproxy.doctor.outcome import HEADER_RULE
from cacheproxy.doctor.reuse import Trial

_LATE = (
    "this server's template does not accept system messages where they stand; Claude Code "
    "2.1.197 and later sends one in each turn, and Codex sends a second one at the head"
)


_MOST_NAMED, _RULES = 5, "cacheproxy rules"


@dataclass(frozen=True, slots=True)
class Superfluous:
    """``is_superfluous``: whether to take the proxy out; ``text``: why, or why not."""

    is_superfluous: bool
    text: str


def judge(
    trials: Sequence[Trial],
    settings: ClaudeSettings,
    rules: Sequence[str],
    clients: Sequence[str],
    placement: Placement | None = None,
) -> Superfluous | None:
    """Return whether the proxy is needed, as far as it is known; None if nothing is.

    ``rules``: names of those that are on. ``clients``: those seen by the proxy.
    ``placement``: what is known of the server's template.
    """
    if placement is not None and placement.late.harms:
        return Superfluous(False, f"needed: {_LATE}")
    measured = [
        trial
        for trial in trials
        if trial.error is None and trial.is_measured and trial.without is not None
    ]
    others = [
        name
        for name in rules
        if name not in NAMES and not name.startswith("claude-") and HEADER_RULE not in name
    ]
    strangers = [name for name in clients if name != "claude"]
    named = ", ".join(others) if len(others) <= _MOST_NAMED else f"{len(others)}, see {_RULES}"
    rest = f"; other rules: {named}" if others else ""
    off = settings.header_off
    if off is not None:
        text = f"with {ATTRIBUTION}=0 Claude Code has no volatile header to make constant"
        if others or strangers:
            return Superfluous(
                False, f"not needed for Claude Code: {text}; perhaps for others{rest}"
            )
        return Superfluous(True, f"not needed: {text}; only its statistics are left")
    if not measured:
        return None
    if all(trial.works_without for trial in measured):
        text = "the server reuses a prompt although its billing header changes"
        if others:
            return Superfluous(
                False, f"not needed for Claude Code: {text}; perhaps for others{rest}"
            )
        return Superfluous(True, f"not needed: {text}, with the rules and without")
    return _needed(measured)


def _needed(measured: Sequence[Trial]) -> Superfluous | None:
    working = [trial for trial in measured if trial.works and not trial.works_without]
    if not working:
        return None
    repaired = [one for one in working if one.cch_only is not None and one.cch_only.is_reused]
    if repaired:
        path = repaired[0].path
        without = repaired[0].without
        left = without.usage.reused if without is not None else 0
        return Superfluous(
            False,
            f"partly: on {path} the server repairs the header's cch itself, so it also reuses the "
            "turns of one Claude Code conversation without the proxy; but a new conversation or "
            f"subagent has another cc_version, and reuses {left or 0:,} tokens without the proxy"
            + (f". {_on_others(working, path)}" if len(working) > 1 else ""),
        )
    return Superfluous(False, f"needed: {_on_others(working, '')}")


def _on_others(working: Sequence[Trial], but: str) -> str:
    parts = [
        f"on {trial.path} {trial.without.usage.reused or 0:,} of "
        f"{trial.without.usage.prompt or 0:,} tokens are reused without the proxy"
        for trial in working
        if trial.path != but and trial.without is not None
    ]
    return ", ".join(parts)
