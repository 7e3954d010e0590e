"""A trial of the cache: one prompt behind two volatile heads, with the rules and without."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from msgspec import structs

from cacheproxy.client_setup.checkup import Volatile
from cacheproxy.core.conversation.usage import Usage, usage_of
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.kinds.metrics_page import sample_of
from cacheproxy.core.kinds.profile import Memory
from cacheproxy.core.kinds.status import METRICS, NOTHING, ServerFigures
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.code_rule import Normalizer
from cacheproxy.core.rules.fold import normalize
from cacheproxy.doctor.trial_prompt import body, rounds_for
from cacheproxy.http_client import NoAnswerError, Site

APIS = (CHAT, MESSAGES)  #: APIs that a server may serve by itself
NO_MODEL = "default"  #: model in the test prompts if the server lists none
GOOD = 0.8
"""Share of a prompt's whole blocks from which it counts as reused: templates vary its end."""
ANY = Memory()  #: a memory of which nothing is known: the server can go back to any token

_ANSWER_SECONDS = 300.0
"""Seconds before an answer is given up: a busy server answers when a slot is free."""
_FEW, _MOST_SERVERS = 2, 5
"""Repetitions that look for another server behind the address: if there is but one, each costs a
token, or the whole prompt if it keeps nothing."""
_TRIES, _PAUSE = 10, 0.05
"""Looks, and seconds between them: the counters may lag behind the answer."""
_CONSTANT = Volatile("", (), ("", "", ""))
"""Heads if no client with a volatile head is known: one prompt is sent again."""


@dataclass(frozen=True, slots=True)
class Shot:
    """An answered request of a trial, with its cost."""

    usage: Usage  #: usage by the answer
    wall: float  #: seconds until the whole answer
    memory: Memory = ANY  #: the server's memory
    is_counted: bool = False  #: whether the reuse comes from the counters, not from the answer

    @property
    def figures(self) -> str:
        """Number of the prompt's tokens that were reused: ``500 of 600``."""
        return f"{self.usage.reused or 0:,} of {self.usage.prompt or 0:,}"

    @property
    def is_known(self) -> bool:
        """Whether the number of reused tokens is known."""
        return self.usage.reused is not None and bool(self.usage.prompt)

    @property
    def whole(self) -> int:
        """Tokens of the prompt that a server can reuse, in whole blocks; 0: none, or unknown."""
        return self.memory.whole(self.usage.prompt or 0)

    @property
    def is_reused(self) -> bool:
        """Whether so much of the prompt was reused as ``GOOD`` asks for; not if none is known."""
        return bool(self.whole) and (self.usage.reused or 0) >= GOOD * self.whole


class TrialOutcome(StrEnum):
    """A trial's outcome, for people. Of several trials, the verdict is the first listed here."""

    SEVERAL = "Several servers take turns to answer, and none has the cache of another."
    KEEPS_NOTHING = "The server reused nothing, not even when the same prompt was sent again."
    NOT_REUSED = "A prompt sent twice with different headers was not reused."
    NO_RULE = (
        "No rule for the test prompt's header is on, so the test says nothing about your agents."
    )
    WORKS = "A test prompt was reused."
    SHORT = "The test prompt is shorter than the blocks of tokens that the server keeps."
    UNTOLD = "The server does not say what it reused."
    FAILED = "The test requests failed."


@dataclass(slots=True)
class Trial:
    """The requests on one path, in their order; None: not sent, or without an answer."""

    api: Dialect  #: the API of the path
    through_proxy: bool  #: whether through the running proxy, else through the rules here
    mark: str = ""  #: text that no earlier prompt has
    first: Shot | None = None  #: sent through the rules, like ``second``, behind different heads
    second: Shot | None = None  #: see ``first``
    without: Shot | None = None  #: sent with a third head, without the rules
    same: Shot | None = None  #: the last request again: does the server reuse anything at all
    again: Shot | None = None  #: the first again, after others: has a single slot a RAM cache
    repeated: Shot | None = None
    """``second``, if it was reused, else ``same``, repeated until the result differs."""
    error: str | None = None  #: why the trial ended early, on one line
    has_yielded: bool = False  #: whether it ended lest the next prompt push out another one
    is_off: bool = False  #: whether the server itself reports that it keeps nothing
    translated: bool = False
    """Whether the proxy translates the path, which the server does not serve itself: no request was
    sent without the rules."""

    @property
    def path(self) -> str:
        """The API's path."""
        return self.api.path

    @property
    def is_measured(self) -> bool:
        """Whether the second request's reuse is known; not if it is too short, or ``is_frozen``."""
        is_known = self.second is not None and self.second.is_known and not self.is_short
        return is_known and not self.is_frozen

    @property
    def is_frozen(self) -> bool:
        """Whether the reuse is known only from a counter that never moved: some servers' never do.

        A server that itself reports that it keeps nothing is believed.
        """
        shots = [self.first, self.second, self.without, self.same, self.again, self.repeated]
        sent = [shot for shot in shots if shot is not None]
        is_still = not any(shot.usage.reused or not shot.is_counted for shot in sent)
        return is_still and bool(sent) and not self.is_off

    @property
    def is_short(self) -> bool:
        """Whether the prompt is too short to show anything with the server's blocks."""
        return self.second is not None and bool(self.second.usage.prompt) and not self.second.whole

    def outcome(self, *, has_rule: bool) -> TrialOutcome:
        """Return the trial's outcome; ``has_rule``: whether a rule for the prompt's head is on."""
        if self.error is not None:
            return TrialOutcome.FAILED
        if not self.is_measured:
            return TrialOutcome.SHORT if self.is_short else TrialOutcome.UNTOLD
        if self.has_several:
            return TrialOutcome.SEVERAL
        if self.works:
            return TrialOutcome.WORKS
        if self.same is not None and not self.same.is_reused:
            return TrialOutcome.KEEPS_NOTHING
        is_ruled = has_rule or self.same is None
        return TrialOutcome.NOT_REUSED if is_ruled else TrialOutcome.NO_RULE

    @property
    def has_several(self) -> bool:
        """Whether several servers answer there: one has a prompt that another does not have."""
        before = self.second if self.works else self.same
        if before is None or self.repeated is None:
            return False
        return before.is_reused is not self.repeated.is_reused

    @property
    def works(self) -> bool:
        """Whether the prompt was reused with the rules."""
        return self.second is not None and self.second.is_reused


class _EndedError(Exception):
    """The trial is over; the message says why: "" if it is held back or has no such path."""


@dataclass(slots=True, kw_only=True)
class PromptSender:
    """Sends the prompts of a trial. ``memory``: the server's; ``model``: named in the prompts."""

    upstream: Site  #: the model server
    proxy: Site | None = None  #: the running proxy, None if there is none
    rules: Sequence[Normalizer] = ()  #: the rules to use without a running proxy
    model: str = NO_MODEL  #: model to name in the prompts
    may_send: Callable[[int], bool] = lambda _: True
    """Called before each prompt unlike those before; its argument is ``ours``."""
    has_one_slot: bool = False  #: whether ``again`` shows anything
    counts: bool = False
    """Whether the server's counters are read if its answers do not report the reuse."""
    is_off: bool = False  #: whether the server itself reports that it keeps nothing
    memory: Memory = ANY  #: the server's memory
    heads: Volatile | None = None
    """Heads before the prompt; None for none: then the trial shows nothing about the rules."""
    ours: int = 0  #: tokens of the longest prompt sent so far

    def measure(self, api: Dialect, mark: str) -> Trial | None:
        """Send the requests; return the trial, None if the server does not serve the API.

        Three prompts have about 600 tokens, of which one or two are computed, and a few are
        repeated; they are longer where the server has large blocks. ``mark``: text that no earlier
        prompt has, so that the first is cold. Never raises.
        """
        trial = Trial(api, self.proxy is not None, mark, is_off=self.is_off)
        try:
            self._send_all(trial)
        except _EndedError as ended:
            is_unknown = not str(ended) and not trial.has_yielded
            if is_unknown and trial.first is None:
                return None
            again = f"{trial.path} answered once, and then no more"
            trial.error = again if is_unknown else str(ended) or None
        return trial

    def figures(self) -> ServerFigures:
        """Return the current figures of the server's counters. Never raises."""
        try:
            answer = self.upstream.get(METRICS) if self.counts else None
        except NoAnswerError:
            return NOTHING
        page = answer.body if answer is not None and answer.status == 200 else b""
        sample = sample_of(page.decode("utf-8", "replace"))
        return sample.figures if sample is not None else NOTHING

    def with_reuse(self, usage: Usage, before: ServerFigures) -> tuple[Usage, bool]:
        """Return ``usage``, and whether its reuse was filled in from the counters.

        vLLM's answers report it only with a flag; its counters always do. If they have risen since
        ``before`` by exactly the request's prompt tokens, no other request ran meanwhile. Never
        raises.
        """
        if not self.counts or usage.reused is not None or not usage.prompt:
            return usage, False
        for _ in range(_TRIES):
            now = self.figures()
            if None in (now.prompt, now.reused, before.prompt, before.reused):
                break
            worked = (now.prompt or 0) - (before.prompt or 0)
            if worked == usage.prompt:
                reused = int((now.reused or 0) - (before.reused or 0))
                return structs.replace(usage, reused=reused), True
            if worked > usage.prompt:
                break
            time.sleep(_PAUSE)
        return usage, False

    def _prompt(self, trial: Trial, head: str) -> bytes:
        """Return the request body of the trial's prompt behind ``head``."""
        return body(trial.api, self.model, head, trial.mark, rounds_for(self.memory.block or 1))

    def _edited(self, trial: Trial, head: str) -> bytes:
        """Return the body of the prompt behind ``head`` as the rules of this process change it."""
        request = Request("POST", trial.path, (), self._prompt(trial, head))
        return normalize(request, self.rules).request.body

    def _send_all(self, trial: Trial) -> None:
        """Send the requests in order and store their shots in ``trial``; raises _EndedError."""
        proxy, heads = self.proxy, self.heads or _CONSTANT
        first, other, third = heads.texts
        self._send(trial, "first", first, with_rules=True, is_new=True)
        is_new = proxy is None and self._edited(trial, first) != self._edited(trial, other)
        second = self._send(trial, "second", other, with_rules=True, is_new=is_new)
        is_lost = not second.is_reused and second.is_known
        if second.is_reused:
            self._repeat(trial, second, other, _FEW, with_rules=True)
        if first == other:
            if is_lost:
                self._send_same(trial, other, with_rules=True)
            return
        try:
            without = self._send(trial, "without", third, with_rules=False, is_new=True)
        except _EndedError as ended:
            if proxy is None or str(ended) or trial.has_yielded:
                raise
            if is_lost:
                self._send_same(trial, other, with_rules=True)
            trial.translated = True
            return
        if is_lost:
            self._send_same(trial, third, with_rules=False)
        if self.has_one_slot and second.is_reused and not without.is_reused:
            self._send(trial, "again", first, with_rules=True)

    def _send_same(self, trial: Trial, head: str, *, with_rules: bool) -> None:
        """Send the last request again, and repeat it: a single server has it now, if at all."""
        same = self._send(trial, "same", head, with_rules=with_rules)
        if same.is_known:
            self._repeat(trial, same, head, _MOST_SERVERS, with_rules=with_rules)

    def _repeat(self, trial: Trial, shot: Shot, head: str, most: int, *, with_rules: bool) -> None:
        """Repeat a request up to ``most`` times, until its result differs from that of ``shot``."""
        for _ in range(most):
            is_new = not shot.is_reused
            again = self._send(trial, "repeated", head, with_rules=with_rules, is_new=is_new)
            if again.is_reused is not shot.is_reused:
                break

    def _send(
        self, trial: Trial, name: str, head: str, *, with_rules: bool, is_new: bool = False
    ) -> Shot:
        """Send a prompt, store its shot as ``name``; ``is_new``: ask first. Raises _EndedError."""
        trial.has_yielded = is_new and not self.may_send(self.ours)
        if trial.has_yielded:
            raise _EndedError
        site = self.proxy if with_rules and self.proxy is not None else self.upstream
        is_ours = with_rules and self.proxy is None
        data = self._edited(trial, head) if is_ours else self._prompt(trial, head)
        before = self.figures()
        path = trial.path
        try:
            answer = site.post(path, data, _ANSWER_SECONDS)
        except NoAnswerError as error:
            raise _EndedError(f"no answer to a request on {path}: {error}") from None
        said = answer.said()
        if answer.status in (404, 405, 501) and "model" not in said.lower():
            raise _EndedError
        if answer.status != 200:
            raise _EndedError(f"{path} answered {answer.status}{f' ({said})' if said else ''}")
        usage, is_counted = self.with_reuse(usage_of(answer.json()), before)
        shot = Shot(usage, answer.seconds, self.memory, is_counted)
        setattr(trial, name, shot)
        self.ours = max(self.ours, usage.prompt or 0)
        return shot
