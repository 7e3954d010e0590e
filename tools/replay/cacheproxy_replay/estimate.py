"""The tokens that each turn of a pass could reuse, since an earlier prompt begins with them.

They are counted with the server's own template and tokenizer, if it offers these and the count
agrees with its own; else they are estimated from the characters, by the turn's tokens per
character, against all earlier prompts of the pass. Also the sums of the passes, over the server's
figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import median
from typing import Any

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.lanes import Before
from cacheproxy.core.conversation.usage import Usage, summed
from cacheproxy.core.conversation.verdict import Judgement, Reason, Verdict
from cacheproxy.core.judge.evidence import Evidence, Meanwhile
from cacheproxy.core.judge.judge import judge, tokens_of
from cacheproxy.core.prompt.prompt import PromptOrder, prompt_of
from cacheproxy.record.exchange import Exchange
from cacheproxy_replay.run import OnStep
from cacheproxy_replay.server import Counter, KeptPrompts

_WARM_TOKENS = 128
_WARM = 0.05
"""Part of a prompt that, if reused unexplained by the pass's own prompts, was cached before it."""
_NOT_OURS = (Reason.EVICTED, Reason.UNKNOWN, Reason.CHECKPOINT, Reason.NOT_CACHED, Reason.CUT)
"""Reasons that lie in the server, not in a request: shared tokens do not predict its reuse."""
_AGREES = 0.005
"""Part of a prompt by which our count may differ from the server's and still be called exact."""
_AGREES_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Expected:
    """The reuse of a turn that is possible at best."""

    tokens: int  #: reusable tokens of its prompt
    exact: bool  #: counted by the server's tokenizer; else estimated, written with ``~``


@dataclass(frozen=True, slots=True)
class Assessed:
    """A turn with the reuse expected of it, and the verdict."""

    turn: Exchange  #: request and answer
    expected: Expected | None  #: None for the first turn of a pass, and if it was not answered
    verdict: Verdict | None  #: None if the turn failed or has no prompt

    @property
    def number(self) -> int:
        """The request's number."""
        return self.turn.number

    @property
    def usage(self) -> Usage:
        """The server's own figures."""
        return self.turn.usage

    @property
    def failed(self) -> bool:
        """Whether the server gave no good answer."""
        return self.turn.error is not None

    @property
    def error(self) -> float | None:
        """The error of our estimate, as a part of the tokens that the server reused.

        None for cold turns, for breaks with a reason in the server, and if either is not known.
        """
        if self.verdict is None or self.verdict.judgement is Judgement.COLD:
            return None
        reused = self.usage.reused
        if self.expected is None or reused is None or self.verdict.reason in _NOT_OURS:
            return None
        return (self.expected.tokens - reused) / max(1, reused)

    @property
    def is_warm(self) -> bool:
        """Whether it reused tokens that no request of its pass had sent before."""
        prompt, reused = self.usage.prompt, self.usage.reused
        if reused is None or prompt is None:
            return False
        explained = self.expected.tokens if self.expected is not None else 0
        return reused - explained > max(_WARM_TOKENS, _WARM * prompt)


def assess(
    turns: Sequence[Exchange],
    counter: Counter | None,
    memory: KeptPrompts,
    order: PromptOrder,
    progress: OnStep,
) -> list[Assessed]:
    """Return the turns of one pass, each with the estimate and the verdict.

    ``memory``: model of the server's cache, new for this pass; no other client must use the server.
    """
    known: list[Before] = []
    last: dict[Any, Before] = {}  # the previous prompt by session and lane
    since: dict[Any, set[Any]] = {}
    assessed: list[Assessed] = []
    for turn in turns:
        progress(f"comparing request {turn.number}", 0)
        usage, sent = turn.usage, turn.sent or turn.received
        prompt = prompt_of(sent, order)
        if turn.status != 200 or prompt is None:
            assessed.append(Assessed(turn, None, None))
            continue
        unedited = prompt_of(turn.received, order) or prompt
        now = Before(prompt, unedited, usage.prompt)
        expected = _counted(turn, counter, memory)
        if expected is None and known:
            expected = max((_shared(one, now) for one in known), key=attrgetter("tokens"))
        known.append(now)
        key = turn.session, turn.place and turn.place.lane
        before, meanwhile = last.get(key), Meanwhile(others=len(since.get(key, ())))
        is_first = before is None
        evidence = Evidence(
            before, prompt, unedited, usage, request=sent, meanwhile=meanwhile, is_first=is_first
        )
        verdict = judge(evidence)
        last[key] = now._replace(was_ok=verdict.judgement is Judgement.OK)
        for others in since.values():
            others.add(key)
        since[key] = set()
        assessed.append(Assessed(turn, expected, verdict))
    return assessed


def _counted(turn: Exchange, counter: Counter | None, memory: KeptPrompts) -> Expected | None:
    """Return the counted tokens, None if our count of the prompt differs from the server's."""
    tokens = counter.tokens(turn.sent or turn.received) if counter is not None else None
    counted = turn.usage.prompt
    if tokens is None or counted is None:
        return None
    if abs(len(tokens) - counted) > max(_AGREES_TOKENS, _AGREES * counted):
        return None
    reuse = memory.reuse(tokens)
    # The last token of a prompt is always evaluated: the answer follows from it.
    return None if reuse is None else Expected(min(reuse, len(tokens) - 1), exact=True)


def _shared(before: Before, now: Before) -> Expected:
    """Return the tokens estimated to be shared by two prompts from the start."""
    left = parting(before.sent, now.sent)
    if left.was is None and before.tokens is not None:
        tokens = before.tokens
    else:
        tokens = tokens_of(left.shared, now.sent, now.tokens).tokens
    most = tokens if now.tokens is None else max(0, now.tokens - 1)
    return Expected(min(tokens, most), exact=False)


@dataclass(frozen=True, slots=True)
class Total:
    """The sums of several turns; None if one of them lacks the figure."""

    prompt: int | None  #: prompt tokens
    reused: int | None  #: reused prompt tokens
    evaluated: int | None  #: evaluated prompt tokens
    expected: int  #: prompt tokens that could be reused at best
    seconds: float  #: prefill by the server's clock, or time to the first token by ours
    median: float | None  #: median of these seconds; None without a turn
    slowest: Assessed | None  #: the turn with the most of these seconds

    @property
    def share(self) -> float | None:
        """The reused part of the prompt tokens, 0 to 1."""
        return None if self.reused is None or not self.prompt else self.reused / self.prompt


@dataclass(frozen=True, slots=True)
class ReplayFigures:
    """Both passes, and their sums over the turns that both have."""

    captured: tuple[Assessed, ...]  #: all turns of the first pass
    through: tuple[Assessed, ...]  #: turns of the second pass, which may be cut short
    server_time: bool  #: whether the sums have the server's own prefill times, else ours
    totals: tuple[Total, Total]  #: sums of the first pass and of the second
    compared: int  #: number of requests in each of these sums

    @property
    def both(self) -> tuple[Assessed, ...]:
        """The turns of both passes."""
        return (*self.captured, *self.through)

    @property
    def faster(self) -> float | None:
        """Ratio of the prompts' seconds as captured to those through the rules."""
        before, after = self.totals
        return before.seconds / after.seconds if before.seconds and after.seconds else None

    @property
    def fewer(self) -> float | None:
        """Ratio of the evaluated tokens as captured to those through the rules."""
        before, after = self.totals
        return before.evaluated / after.evaluated if before.evaluated and after.evaluated else None

    @property
    def warm(self) -> list[int]:
        """Numbers of turns that reused tokens that no request of their pass had sent before."""
        return sorted({one.number for one in self.both if one.is_warm})

    @property
    def exact(self) -> bool | None:
        """Whether all estimates were counted; None if there are none."""
        known = [one.expected.exact for one in self.both if one.expected is not None]
        return all(known) if known else None


def figures(captured: Sequence[Assessed], through: Sequence[Assessed]) -> ReplayFigures:
    """Return the figures of both passes, of which the second may be cut short."""
    good = [{one.number for one in turns if not one.failed} for turns in (captured, through)]
    common = good[0] & good[1] if through else good[0]
    kept = [[one for one in turns if one.number in common] for turns in (captured, through)]
    server_time = all(one.usage.prompt_seconds is not None for turns in kept for one in turns)
    before, after = (_total(turns, server_time=server_time) for turns in kept)
    return ReplayFigures(tuple(captured), tuple(through), server_time, (before, after), len(common))


def _total(turns: Sequence[Assessed], *, server_time: bool) -> Total:
    """Return the sums of ``turns``; ``server_time``: seconds of prefill, else to the first byte."""

    def seconds_of(one: Assessed) -> float:
        return (one.usage.prompt_seconds if server_time else one.turn.first_byte) or 0.0

    return Total(
        summed(one.usage.prompt for one in turns),
        summed(one.usage.reused for one in turns),
        summed(one.usage.evaluated for one in turns),
        sum(one.expected.tokens for one in turns if one.expected is not None),
        sum(map(seconds_of, turns)),
        median(map(seconds_of, turns)) if turns else None,
        max(turns, key=seconds_of, default=None),
    )
