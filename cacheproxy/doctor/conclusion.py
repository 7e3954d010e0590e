"""The verdict on the cache as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from cacheproxy.asking import shown
from cacheproxy.doctor import failing as failures
from cacheproxy.doctor.finding import Finding, FindingState
from cacheproxy.doctor.need import Superfluous
from cacheproxy.doctor.proxy import Proxy
from cacheproxy.doctor.record import Record
from cacheproxy.doctor.reuse import Trial
from cacheproxy.doctor.upstream import SeenUpstream
from cacheproxy.words import counted


class Working(StrEnum):
    """The answer to the question whether the cache is working."""

    YES = "YES"
    NO = "NO"
    NOT_MEASURED = "NOT MEASURED"
    NOT_NEEDED = "NOT NEEDED"


@dataclass(frozen=True, slots=True)
class Conclusion:
    """The answer, and the sentence that says why."""

    answer: Working
    text: str


@dataclass(frozen=True, slots=True)
class Observed:
    """What the verdict is made of."""

    proxy: Proxy
    upstream: SeenUpstream
    record: Record | None
    trials: Sequence[Trial]
    need: Superfluous | None


def conclude(known: Observed, findings: Sequence[Finding]) -> Conclusion:
    """Return the verdict: what agents' requests showed comes before what ours did."""
    if known.upstream.server is None:
        return Conclusion(Working.NOT_MEASURED, _sentence(known.upstream.problem or ""))
    if known.record is not None and known.record.failing:
        failing = map(failures.summary, known.record.failing.values())
        return Conclusion(Working.NO, _sentence(", and ".join(failing)))
    if known.need is not None and known.need.is_superfluous:
        return Conclusion(Working.NOT_NEEDED, _sentence(known.need.text.partition(": ")[2]))
    if known.record is not None and known.record.later:
        return _of_record(known.record)
    failed = {finding.name for finding in findings if finding.state is FindingState.FAIL}
    if known.proxy.is_up and "traffic" in failed:
        return Conclusion(Working.NOT_MEASURED, "No agent request has come through the proxy yet.")
    if known.proxy.is_up and "claude" in failed:
        return Conclusion(Working.NOT_MEASURED, "Claude Code is set up to go past the proxy.")
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


def _of_trials(known: Observed) -> Conclusion:
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


def _has_no_rule(trial: Trial, known: Observed) -> bool:
    if trial.edited is not None:
        return not trial.edited
    return not any("billing-header" in name for name in known.proxy.rules)


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."
