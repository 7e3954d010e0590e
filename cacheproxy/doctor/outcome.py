"""What a trial means."""

from __future__ import annotations

from cacheproxy.doctor.finding import Finding, State
from cacheproxy.doctor.reuse import Shot, Trial

PACKAGE = "cacheproxy-claude-code"
HEADER_RULE = "billing-header"
"""Part of the names of the rules that make the header constant."""


_SAYS_WITH = {
    "vLLM": "start vLLM with --enable-prompt-tokens-details",
    "SGLang": "start SGLang with --enable-cache-report",
}
"""What makes a server tell what it reused."""


def check(trial: Trial, rules: tuple[str, ...], kind: str, *, has_package: bool) -> Finding:
    """Return the finding on ``trial``; ``rules``: the names of those that were on.

    ``kind``: the server's. ``has_package``: whether the package that brings the rule for the
    header is installed.
    """
    if trial.error is not None:
        return Finding("reuse", State.WARN, trial.error, _mend(trial.error))
    first, second, without = trial.first, trial.second, trial.without
    assert first is not None
    assert second is not None
    how = "through the proxy" if trial.through_proxy else "with the rules installed here"
    prompt = f"{second.usage.prompt:,}-token " if second.usage.prompt else ""
    if not trial.is_measured:
        text = (
            f"{trial.path}: the server does not say what it reused. A {prompt}prompt took "
            f"{_seconds(first)}, again with another billing header {_seconds(second)} {how}"
            + (f", and {_seconds(without)} without" if without is not None else "")
        )
        fix = _SAYS_WITH.get(kind, "compare the seconds; cacheproxy demo --upstream URL shows more")
        return Finding("reuse", State.WARN, text, fix)
    sent = f"{trial.path}: sent one {prompt}prompt twice with different billing headers: "
    if trial.works:
        text = f"{sent}the second answer reused {_reused(second)} tokens {how}"
        text += f" (without: {without.usage.reused or 0:,})" if without is not None else ""
        return Finding("reuse", State.OK, text)
    text = f"{sent}the second answer reused only {_reused(second)} tokens {how}"
    if trial.held_back:
        return Finding("reuse", State.WARN, f"{text}; what else would tell why was not sent")
    if trial.same is None or not trial.same.is_reused:
        text += ", and the very same prompt sent again no more: the server reuses nothing"
        fix = "switch its prompt cache on (llama-server: no --no-cache-prompt); is it busy?"
        return Finding("reuse", State.FAIL, text, fix)
    text += f", the very same prompt sent again {_reused(trial.same)}"
    if any(HEADER_RULE in name for name in rules):
        text += ": the rule for the header does not reach the requests"
        fix = "see the proxy's log; is it another proxy, or another upstream?"
        return Finding("reuse", State.FAIL, text, fix)
    text += ": no rule for this header is on, which matters if you use Claude Code"
    fix = "switch claude-billing-header on (cacheproxy plugins)"
    return Finding("reuse", State.WARN, text, fix if has_package else f"pip install {PACKAGE}")


def _reused(shot: Shot) -> str:
    return f"{shot.usage.reused or 0:,} of {shot.usage.prompt or 0:,}"


def _seconds(shot: Shot) -> str:
    return f"{shot.wall:.2f} s"


def _mend(error: str) -> str | None:
    if "context" in error:
        return "start the server with a larger context (llama-server: -c 32768)"
    if "401" in error or "403" in error:
        return "give the server's key with --api-key KEY"
    if "model" in error.lower():
        return "name a model with --model"
    return None
