"""What a trial with test prompts shows, as a finding."""

from __future__ import annotations

from collections.abc import Sequence

from cacheproxy.client_setup.finding import Finding, fail, ok, warn
from cacheproxy.core.servers.kinds import kind_called
from cacheproxy.doctor.clients import CheckedClient
from cacheproxy.doctor.reuse import Shot, Trial

NO_MODEL = "default"
"""The model that is asked for where the server lists none."""


def check(
    trial: Trial, rules: tuple[str, ...], kind: str, tried: CheckedClient | None, cure: str = ""
) -> Finding:
    """Return the finding on ``trial``; ``rules``: the names of those that were on.

    ``kind``: the server's. ``tried``: the client with whose volatile heads it was sent. ``cure``:
    what mends the router, where there is one.
    """
    volatile = tried.checkup.volatile if tried is not None else None
    if trial.error is not None:
        return warn("reuse", trial.error, _mend(trial.error, kind))
    first, second, without = trial.first, trial.second, trial.without
    assert first is not None
    assert second is not None
    how = "through the proxy" if trial.through_proxy else "with the rules installed here"
    if trial.translated:
        how += ", which uses another path of the server"
    prompt = f"{second.usage.prompt:,}-token " if second.usage.prompt else ""
    if trial.is_short:
        text = (
            f"{trial.path}: a {prompt}prompt is too short for this test: the server reuses only "
            f"whole blocks of {second.memory.block or 1:,} tokens"
        )
        return warn("reuse", text)
    if not trial.is_measured:
        other = f"with another {volatile.what} " if volatile is not None else ""
        text = (
            f"{trial.path}: the server does not say what it reused. A {prompt}prompt took "
            f"{_seconds(first)}, again {other}{_seconds(second)} {how}"
            + (f", and {_seconds(without)} without" if without is not None else "")
        )
        fix = _saying(kind) or "compare the seconds; cacheproxy demo --upstream URL shows more"
        return warn("reuse", text, fix)
    heads = f" with different {volatile.what}s" if volatile is not None else ""
    sent = f"{trial.path}: sent one {prompt}prompt twice{heads}: "
    if trial.has_several:
        text = (
            f"{trial.path}: one {prompt}prompt was sent several times {how}; one answer reused it "
            "and another did not. Several servers take turns to answer, and the router does not "
            "keep a conversation at one server. (If there is only one server, other requests "
            "pushed the prompt out.)"
        )
        return fail("reuse", text, cure)
    if trial.works:
        text = f"{sent}the second answer reused {_reused(second)} tokens {how}"
        text += f" (without: {without.usage.reused or 0:,})" if without is not None else ""
        return ok("reuse", text)
    text = f"{sent}the second answer reused only {_reused(second)} tokens {how}"
    if trial.held_back:
        return warn("reuse", f"{text}; doctor did not send the prompts that would tell why")
    if trial.same is None or not trial.same.is_reused:
        text += "; the same prompt sent again reused no more, so the server reuses nothing"
        return fail("reuse", text, _caching(kind))
    text += f"; the same prompt sent again reused {_reused(trial.same)}"
    if tried is None or volatile is None:
        return fail("reuse", text, _caching(kind))
    if not {*volatile.rules}.isdisjoint(rules):
        text += ": the rule for the header does not reach the requests"
        fix = "look in the proxy's log: is this another proxy, or another upstream?"
        return fail("reuse", text, fix)
    text += f": no rule for this header is on, which matters if you use {tried.client.called}"
    return warn("reuse", text, f"switch {volatile.rules[0]} on (cacheproxy plugins)")


def unreported(trials: Sequence[Trial], kind: str) -> list[Finding]:
    """Return the finding on a server whose answers do not say what its counters do."""
    shots = [trial.second for trial in trials if trial.is_measured]
    if not any(shot.is_counted for shot in shots if shot is not None):
        return []
    text = (
        "only /metrics tells what was reused; the answers do not, so the proxy does not know it "
        "where several requests run at the same time"
    )
    return [warn("reports", text, _saying(kind))]


def _saying(kind: str) -> str | None:
    """Return what makes a server tell what it reused, if anything does."""
    server = kind_called(kind)
    return f"start {server.called} with {server.flag}" if server.flag else None


def _caching(kind: str) -> str | None:
    server = kind_called(kind)
    if server.keeps_none:
        return None
    if server.caching is not None:
        return f"start {server.called} {server.caching.flag}, or try again when the server is idle"
    return (
        "switch on the server's prompt cache, if it has one, or try again when the server is idle"
    )


def _reused(shot: Shot) -> str:
    return f"{shot.usage.reused or 0:,} of {shot.usage.prompt or 0:,}"


def _seconds(shot: Shot) -> str:
    return f"{shot.wall:.2f} s"


def _mend(error: str, kind: str) -> str | None:
    if "context" in error:
        server = kind_called(kind)
        flag = f": {server.context} 32768" if server.context.startswith("-") else ""
        return f"start {server.called} with a larger context{flag}"
    if "401" in error or "403" in error:
        return "give the server's key with --api-key KEY"
    if "model" in error.lower() or NO_MODEL in error:
        return "name a model with --model"
    return None
