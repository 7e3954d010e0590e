"""The verdict on the cache as a whole, and whether the proxy is needed at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cacheproxy.asking import shown
from cacheproxy.client_setup.checkup import Volatile
from cacheproxy.client_setup.finding import Finding, FindingState
from cacheproxy.core.placement.placement import Placement
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.rules.built_in import NAMES
from cacheproxy.core.servers.profile import UNKNOWN, Profile
from cacheproxy.doctor.clients import CheckedClient, volatile_of
from cacheproxy.doctor.proxy import Proxy
from cacheproxy.doctor.record import Record, summary
from cacheproxy.doctor.reuse import Trial
from cacheproxy.doctor.upstream import SeenUpstream
from cacheproxy.words import counted

_LATE = "this server's template does not accept system messages where they stand"
_MOST_NAMED, _RULES = 5, "cacheproxy rules"


@dataclass(frozen=True, slots=True)
class Superfluous:
    """Whether the proxy is needed at all: some servers and settings make it superfluous."""

    is_superfluous: bool  #: whether to take it out
    text: str  #: why, or why not


def judge(  # noqa: PLR0917 (what may make it superfluous)
    trials: Sequence[Trial],
    checked: Sequence[CheckedClient],
    rules: Sequence[str],
    seen: Sequence[str],
    placement: Placement | None = None,
    clients: Iterable[Client] = (),
) -> Superfluous | None:
    """Return whether the proxy is needed, as far as it is known; None if nothing is.

    ``checked``: the clients whose packages were asked. ``rules``: names of those that are on.
    ``seen``: names of the clients seen by the proxy. ``placement``: what is known of the server's
    template. ``clients``: those whose packages are installed.
    """
    if placement is not None and placement.late.harms:
        late = ", and ".join(client.sends_late for client in clients if client.sends_late)
        return Superfluous(False, f"needed: {_LATE}{'; ' if late else ''}{late}")
    tried = volatile_of(checked)
    if tried is None or tried.checkup.volatile is None:
        return None
    volatile = tried.checkup.volatile
    measured = [
        trial
        for trial in trials
        if trial.error is None and trial.is_measured and trial.without is not None
    ]
    others = [name for name in rules if name not in NAMES and name not in tried.rules]
    strangers = [name for name in seen if name != tried.client.name]
    named = ", ".join(others) if len(others) <= _MOST_NAMED else f"{len(others)}, see {_RULES}"
    rest = f"; other rules: {named}" if others else ""
    if text := tried.checkup.needless:
        if others or strangers:
            return Superfluous(
                False, f"not needed for {tried.client.called}: {text}; perhaps for others{rest}"
            )
        return Superfluous(True, f"not needed: {text}; only its statistics are left")
    if not measured:
        return None
    if all(trial.works_without for trial in measured):
        text = f"the server reuses a prompt although its {volatile.what} changes"
        if others:
            return Superfluous(
                False, f"not needed for {tried.client.called}: {text}; perhaps for others{rest}"
            )
        return Superfluous(True, f"not needed: {text}, with the rules and without")
    return _needed(measured, volatile)


def _needed(measured: Sequence[Trial], volatile: Volatile) -> Superfluous | None:
    working = [trial for trial in measured if trial.works and not trial.works_without]
    if not working:
        return None
    repaired = [one for one in working if one.next_turn is not None and one.next_turn.is_reused]
    if repaired:
        path = repaired[0].path
        without = repaired[0].without
        left = without.usage.reused if without is not None else 0
        return Superfluous(
            False,
            f"partly: on {path} the server {volatile.repaired}, and reuses {left or 0:,} tokens "
            "without the proxy" + (f". {_on_others(working, path)}" if len(working) > 1 else ""),
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


class Working(StrEnum):
    """The answer to the question whether the cache is working."""

    YES = "YES"
    NO = "NO"
    NOT_MEASURED = "NOT MEASURED"
    NOT_NEEDED = "NOT NEEDED"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict."""

    answer: Working  #: whether the cache is working
    text: str  #: the sentence that says why


@dataclass(frozen=True, slots=True)
class Examination:
    """What the checks found."""

    proxy: Proxy  #: as it was found
    upstream: SeenUpstream  #: the model server as it was found
    record: Record | None  #: None: the proxy keeps none, or none runs
    trials: tuple[Trial, ...]  #: with test prompts, one on each path
    need: Superfluous | None  #: None: it is not known whether the proxy is needed
    profile: Profile = UNKNOWN  #: what is known of the server
    findings: tuple[Finding, ...] = ()  #: in the report's order
    checked: tuple[CheckedClient, ...] = ()  #: the clients whose packages were asked


def conclude(known: Examination) -> Conclusion:
    """Return the verdict: what agents' requests showed comes before what ours did."""
    if known.upstream.server is None:
        return Conclusion(Working.NOT_MEASURED, _sentence(known.upstream.problem or ""))
    if known.record is not None and known.record.failing:
        failing = map(summary, known.record.failing.values())
        return Conclusion(Working.NO, _sentence(", and ".join(failing)))
    if known.need is not None and known.need.is_superfluous:
        return Conclusion(Working.NOT_NEEDED, _sentence(known.need.text.partition(": ")[2]))
    if known.record is not None and known.record.later:
        return _of_record(known.record)
    failed = {finding.name for finding in known.findings if finding.state is FindingState.FAIL}
    if known.proxy.is_up and "traffic" in failed:
        return Conclusion(Working.NOT_MEASURED, "No agent request has come through the proxy yet.")
    for one in known.checked:
        if known.proxy.is_up and one.client.name in failed:
            text = f"{one.client.called} is set up to go past the proxy."
            return Conclusion(Working.NOT_MEASURED, text)
    return _of_trials(known)


def _of_record(record: Record) -> Conclusion:
    """Later turns decide; a session's first cannot reuse anything."""
    measured, later = record.measured, record.later
    prompt = sum(one.prompt or 0 for one in measured)
    reused = sum(one.reused or 0 for one in measured)
    share = reused / prompt if prompt else 0.0
    text = (
        f"{share:.1%} of {prompt:,} prompt tokens were reused in the last "
        f"{counted(len(measured), 'request')}."
    )
    if record.breaks:
        text += f" {len(record.breaks)} of {counted(len(later), 'follow-up turn')} lost the cache."
    return Conclusion(Working.NO if record.is_broken else Working.YES, text)


def _of_trials(known: Examination) -> Conclusion:
    measured = [trial for trial in known.trials if trial.error is None and trial.is_measured]
    working = [trial for trial in measured if trial.works]
    if not measured:
        why = "The server does not say what it reused."
        if not known.trials:
            why = "No test prompt was sent."
        elif any(trial.is_short for trial in known.trials):
            why = "The test prompt is shorter than the blocks of tokens that the server keeps."
        elif all(trial.error for trial in known.trials):
            why = "The test requests failed."
        return Conclusion(Working.NOT_MEASURED, why)
    if any(trial.has_several for trial in measured):
        text = "Several servers take turns to answer, and none has the cache of another."
        return Conclusion(Working.NO, text)
    if not working:
        last = measured[0]
        if last.same is not None and last.same.is_reused and _has_no_rule(last, known):
            text = (
                "No rule for the test prompt's header is on, so the test says nothing about your "
                "agents."
            )
            return Conclusion(Working.NOT_MEASURED, text)
        if last.same is not None and not last.same.is_reused:
            text = "The server reused nothing, not even when the same prompt was sent again."
            return Conclusion(Working.NO, text)
        return Conclusion(Working.NO, "A prompt sent twice with different headers was not reused.")
    best = working[0].second
    assert best is not None
    figures = f"{best.usage.reused or 0:,} of {best.usage.prompt or 0:,} tokens"
    if not known.proxy.is_up:
        where = shown(known.proxy.url)
        text = f"No proxy answers at {where}. With the rules a test prompt reused {figures}."
        return Conclusion(Working.NO, text)
    if len(working) < len(measured):
        broken = next(trial for trial in measured if not trial.works)
        return Conclusion(Working.NO, f"A test prompt was reused, but not on {broken.path}.")
    text = f"A test prompt reused {figures}; no agent's turns have been measured yet."
    return Conclusion(Working.YES, text)


def _has_no_rule(trial: Trial, known: Examination) -> bool:
    if trial.edited is not None:
        return not trial.edited
    tried = volatile_of(known.checked)
    volatile = tried.checkup.volatile if tried is not None else None
    return volatile is not None and {*volatile.rules}.isdisjoint(known.proxy.rules)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
