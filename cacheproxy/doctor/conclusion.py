"""The verdict on the cache as a whole, and whether the proxy is needed at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cacheproxy.asking import shown
from cacheproxy.client_setup.finding import Finding, FindingState, ok
from cacheproxy.core.rules.built_in import NAMES
from cacheproxy.doctor.facts import Examination
from cacheproxy.doctor.record import Record, summary
from cacheproxy.doctor.trial import Trial, TrialOutcome
from cacheproxy.words import counted

_LATE = "this server's template does not accept system messages where they stand"
_MOST_NAMED, _RULES = 5, "cacheproxy rules"


class Working(StrEnum):
    """The answer to the question whether the cache is working."""

    YES = "YES"
    MOSTLY = "MOSTLY"
    NO = "NO"
    NOT_MEASURED = "NOT MEASURED"
    NOT_NEEDED = "NOT NEEDED"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The verdict."""

    answer: Working  #: whether the cache is working
    text: str  #: the sentence that says why


_BY_STATE = {
    FindingState.OK: Working.YES,
    FindingState.WARN: Working.MOSTLY,
    FindingState.FAIL: Working.NO,
}


class Needed(NamedTuple):
    """Whether the proxy is needed at all: some servers and settings make it superfluous."""

    is_superfluous: bool  #: whether to take it out
    text: str  #: why, or why not


def judge(facts: Examination) -> Needed | None:
    """Return whether the proxy is needed, as far as it is known; None if nothing is."""
    placement, tried, heads = facts.profile.placement, facts.tried, facts.heads
    if placement is not None and placement.late.harms:
        late = [one.sends_late for one in facts.found.packages.clients if one.sends_late]
        why = [f"needed: {_LATE}", *[", and ".join(late)] * bool(late)]
        return Needed(False, "; ".join(why))
    if tried is None or heads is None:
        return None
    measured = [one for one in _measured(facts) if one.without is not None]
    text = tried.checkup.needless
    if not text and measured and all(trial.works_without for trial in measured):
        text = f"the server reuses a prompt although its {heads.what} changes"
    if not text:
        return _needed(measured, heads.repaired) if measured else None
    others = [name for name in facts.rules if name not in NAMES and name not in tried.rules]
    seen = facts.record.clients() if facts.record is not None else {}
    has_strangers = any(name != tried.client.name for name in seen)
    if others or (tried.checkup.needless and has_strangers):
        named = ", ".join(others) if len(others) <= _MOST_NAMED else f"{len(others)}, see {_RULES}"
        rest = f"; other rules: {named}" if others else ""
        whom = tried.client.called
        return Needed(False, f"not needed for {whom}: {text}; perhaps for others{rest}")
    left = "only its statistics are left" if tried.checkup.needless else ""
    text = f"{text}; {left}" if left else f"{text}, with the rules and without"
    return Needed(True, f"not needed: {text}")


def need(facts: Examination) -> Iterator[Finding]:
    """Yield the finding on whether it is needed."""
    needed = judge(facts)
    if needed is not None:
        yield ok("need", needed.text)


def _measured(facts: Examination) -> list[Trial]:
    return [trial for trial in facts.trials if trial.error is None and trial.is_measured]


def _needed(measured: Sequence[Trial], repaired: str) -> Needed | None:
    working = [trial for trial in measured if trial.works and not trial.works_without]
    mended = [one for one in working if one.next_turn is not None and one.next_turn.is_reused]
    if not mended:
        return Needed(False, f"needed: {_on_others(working)}") if working else None
    path, without = mended[0].path, mended[0].without
    left = without.usage.reused or 0 if without is not None else 0
    text = f"partly: on {path} the server {repaired}, and reuses {left:,} tokens without the proxy"
    others = _on_others(working, path)
    return Needed(False, f"{text}. {others}" if others else text)


def _on_others(working: Sequence[Trial], but: str = "") -> str:
    parts = [
        f"on {trial.path} {trial.without.usage.reused or 0:,} of "
        f"{trial.without.usage.prompt or 0:,} tokens are reused without the proxy"
        for trial in working
        if trial.path != but and trial.without is not None
    ]
    return ", ".join(parts)


def conclude(facts: Examination, findings: Sequence[Finding]) -> Conclusion:
    """Return the verdict: what agents' requests showed comes before what ours did."""
    if facts.server is None:
        return Conclusion(Working.NOT_MEASURED, _sentence(facts.upstream.problem or ""))
    record, needed = facts.record, judge(facts)
    if record is not None and record.failing:
        failing = map(summary, record.failing.values())
        return Conclusion(Working.NO, _sentence(", and ".join(failing)))
    if needed is not None and needed.is_superfluous:
        return Conclusion(Working.NOT_NEEDED, _sentence(needed.text.partition(": ")[2]))
    if record is not None and (record.later or record.cut):
        return of_record(record)
    failed = {finding.name for finding in findings if finding.state is FindingState.FAIL}
    if facts.proxy.is_up and "traffic" in failed:
        return Conclusion(Working.NOT_MEASURED, "No agent request has come through the proxy yet.")
    for one in facts.checked:
        if facts.proxy.is_up and one.client.name in failed:
            text = f"{one.client.called} is set up to go past the proxy."
            return Conclusion(Working.NOT_MEASURED, text)
    return _of_trials(facts)


def of_record(record: Record) -> Conclusion:
    """Return the verdict by later turns: a session's first cannot reuse anything."""
    figures = f"{record.figures} were reused"
    if record.cut:
        cut, number = len(record.cut), len(record.turns)
        text = f"The server cut {cut} of {counted(number, 'turn')} to fit its context"
        answer = Working.NO if 2 * cut >= number else Working.MOSTLY
        return Conclusion(answer, f"{text}; {figures}." if record.measured else f"{text}.")
    lost = f"{len(record.breaks)} of {counted(len(record.later), 'follow-up turn')} lost the cache"
    answer = _BY_STATE[record.state]
    if answer is not Working.YES:
        return Conclusion(answer, f"{lost}; {figures}.")
    return Conclusion(answer, f"{figures}; {lost}." if record.breaks else f"{figures}.")


def _of_trials(facts: Examination) -> Conclusion:
    if not facts.trials:
        return Conclusion(Working.NOT_MEASURED, "No test prompt was sent.")
    first = min(facts.outcomes, key=[*TrialOutcome].index)
    works = [
        trial
        for trial, outcome in zip(facts.trials, facts.outcomes, strict=True)
        if outcome is TrialOutcome.WORKS
    ]
    if first is TrialOutcome.SEVERAL or not works:
        return Conclusion(Working.NO if first.is_loss else Working.NOT_MEASURED, first)
    best = works[0].second
    assert best is not None
    figures = f"{best.usage.reused or 0:,} of {best.usage.prompt or 0:,} tokens"
    if not facts.proxy.is_up:
        where = shown(facts.proxy.url)
        text = f"No proxy answers at {where}. With the rules a test prompt reused {figures}."
        return Conclusion(Working.NO, text)
    if first is not TrialOutcome.WORKS:
        broken = facts.trials[facts.outcomes.index(first)]
        return Conclusion(Working.NO, f"A test prompt was reused, but not on {broken.path}.")
    text = f"A test prompt reused {figures}; no agent's turns have been measured lately."
    return Conclusion(Working.YES, text)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
