"""Proofs from the server, after a turn: its prompts as the server renders them, its counters.

This is off the request path: the client has its answer already. Large texts are read in a thread;
an answer that is too slow or too large proves nothing.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import Deferred, DeferredLock
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThreadPool

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.judge.evidence import Evidence, Proof
from cacheproxy.core.judge.proof import Rendered, clock_at, proof_of
from cacheproxy.core.kinds.belief import MOVES, Beliefs
from cacheproxy.core.kinds.kind import RenderingPage, Repair
from cacheproxy.core.kinds.known import all_kinds, kind_of, page_at
from cacheproxy.core.kinds.metrics_page import sample_of
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.kinds.status import METRICS, NOTHING, Look, Sample
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.template.rendering import text_of
from cacheproxy.proxy.probing.asker import COUNTED_AGAIN, PROOF_SECONDS, Asker
from cacheproxy.translate.translation import chat_of

_Value = TypeVar("_Value")
_LARGEST = 4 << 20
"""Bytes of a request at most that is rendered."""
_MOST_COUNTED = 8
"""Number of requests at most that wait for the counters: more have run at the same time."""

_MOST_MARKS = 4


class NotShownError(Exception):
    """The server does not show the rendered prompt, or it is too large."""


class _Mark(NamedTuple):
    """An earlier reading of the counters."""

    read: Sample  #: the page of metrics
    owed: int = 0  #: tokens of prompts that have ended since, without a result


class Proving:
    """The proofs of one upstream, by probes of ``asker``. ``beliefs``: those about it."""

    def __init__(self, asker: Asker, beliefs: Beliefs) -> None:
        self._asker = asker
        self.beliefs = beliefs
        self._counter = Sample(NOTHING)
        self._marks: list[_Mark] = []
        self._counting = DeferredLock()

    @property
    def profile(self) -> Profile:
        """The upstream's profile."""
        return self.beliefs.profile

    async def prove(self, turn: Evidence) -> Proof | None:
        """Return the proof by the rendered prompts, None if the server shows none. Never raises."""
        page, before = page_at(self.profile.page), turn.before and turn.before.request
        counted = turn.had and turn.usage.prompt
        if page is None or before is None or turn.request is None or not counted:
            return None
        proof = self._proof(before, turn.request, turn, page)
        trouble = "the upstream did not render a turn's prompts"
        return await self._asker.attempt(proof, 2 * PROOF_SECONDS, trouble)

    async def tokens(self, request: Request) -> array[int] | None:
        """Return the tokens of a prompt, None if the server shows none. Never raises."""
        page = page_at(self.profile.page)
        if page is None:
            return None
        rendered = await self._asker.attempt(self._rendered(request, page))
        return None if rendered is None else rendered.tokens

    async def started(self) -> str | None:
        """Return the server's present mark of its start, None if it has none. Never raises.

        The mark changes with every restart.
        """
        return await self._asker.attempt(self._started())

    async def _started(self) -> str | None:
        sample = await self._sample() if self.profile.counts_reuse else None
        if sample is not None and sample.start is not None:
            return sample.start
        for kind in all_kinds():
            if kind.reading.start is not None:
                path, read = kind.reading.start
                status, page = await self._asker.get(path, PROOF_SECONDS)
                if status == 200:
                    return await self._in_thread(_read_start, read, page)
        return None

    def looked(self, look: Look) -> None:
        """Take the counters of ``look`` for a first reading, if there is none."""
        self._watch(look.sample)
        if look.sample is not None and not self._marks and not self._counting.locked:
            self._marks = [_Mark(look.sample)]

    async def counted(self, usage: Usage) -> int | None:
        """Return the reused tokens of the request that has just ended, by the server's counters.

        None if another request ran beside it: the counters must have gained exactly its prompt.
        """
        if len(self._counting.waiting) >= _MOST_COUNTED:
            return None
        async with self._counting:  # else two prompts of one length would both match the gain
            return await self._counted(usage.prompt or 0)

    async def _counted(self, prompt: int) -> int | None:
        """Read the counters, and compare them with earlier readings.

        If the client is faster than this, the counters already have its next prompt, too. Then a
        later reading shows the gain of both: it proves something if nothing of them was reused.
        """
        marks, self._marks = self._marks, []
        now = await self._asker.attempt(self._gained(marks, prompt))
        if now is None:
            return None
        fitting = [mark for mark in marks if _gain(mark, now) == mark.owed + prompt > 0]
        if not fitting:
            ahead = [mark for mark in marks if _gain(mark, now) > mark.owed + prompt]
            marks = [mark._replace(owed=mark.owed + prompt) for mark in ahead]
            self._marks = [*marks, _Mark(now)][-_MOST_MARKS:]
            return None
        self._marks = [_Mark(now)]
        mark = min(fitting, key=lambda mark: mark.owed)
        was, reused = mark.read.figures.reused, now.figures.reused
        if was is None or reused is None or not 0 <= reused - was <= prompt:
            return None
        if not self.beliefs.find(MOVES):  # some servers' counters never move
            return None
        return round(reused - was) if not mark.owed or reused == was else None

    def _watch(self, sample: Sample | None) -> None:
        """Note as evidence if the counter of reused tokens has risen since it was read last."""
        if sample is None:
            return
        before, self._counter = self._counter, sample
        was, now = before.figures.reused, sample.figures.reused
        if was is not None and now is not None and now > was and before.start == sample.start:
            self.beliefs.saw(MOVES, True)

    async def _gained(self, marks: Sequence[_Mark], prompt: int) -> Sample | None:
        """Return the counters, read again if they do not show the prompt yet."""
        now = await self._sample()
        if marks and not any(_gain(mark, now) >= mark.owed + prompt for mark in marks):
            await deferLater(self._asker.reactor, COUNTED_AGAIN)
            now = await self._sample()
        return now

    async def _proof(
        self, before: Request, after: Request, turn: Evidence, page: RenderingPage
    ) -> Proof | None:
        was = await self._rendered(before, page)
        now = await self._rendered(after, page)
        other = turn.with_its_parameters()
        alike = None if other is None else await self._rendered(other, page)
        at = clock_at(now, turn) if page.tokenizer else None
        head = None
        if at is not None:
            shown = json.dumps({"prompt": now.text[:at]}).encode()
            head = await self._tokenized(shown, after, page)
        return await self._in_thread(proof_of, was, now, turn, alike, head)

    async def _rendered(self, request: Request, page: RenderingPage) -> Rendered:
        if len(request.body) > _LARGEST:
            raise NotShownError
        body = await self._in_thread(_question, request, page)
        return await self._tokenized(await self._post(page.path, request, body), request, page)

    async def _tokenized(self, shown: bytes, request: Request, page: RenderingPage) -> Rendered:
        """Return the prompt in ``shown``, the JSON that ``page`` answers, with its tokens."""
        tokens = shown
        if page.tokenizer:
            repair = kind_of(self.profile).repair_of(request.dialect)
            asked = await self._in_thread(_to_tokenize, shown, repair)
            tokens = await self._post(page.tokenizer, request, asked)
        return await self._in_thread(_read, shown, tokens)

    async def _post(self, path: str, like: Request, body: bytes) -> bytes:
        status, answer = await self._asker.post(path, body, PROOF_SECONDS, like)
        if status != 200:
            raise NotShownError
        return answer

    async def _sample(self) -> Sample | None:
        status, page = await self._asker.get(METRICS, PROOF_SECONDS)
        if status != 200:
            return None
        sample = await self._in_thread(lambda: sample_of(page.decode("utf-8", "replace")))
        self._watch(sample)
        return sample

    async def look(self) -> Look | None:
        """Return a new look, None if it failed. Never raises."""
        return await self._asker.attempt(self._asker.look(PROOF_SECONDS), PROOF_SECONDS)

    def _in_thread(self, work: Callable[..., _Value], *arguments: Any) -> Deferred[_Value]:
        reactor = self._asker.reactor
        return deferToThreadPool(reactor, reactor.getThreadPool(), work, *arguments)


def _gain(mark: _Mark, now: Sample | None) -> float:
    """Return the prompt tokens counted since ``mark``; -1 if restarted since, or not reported."""
    was = mark.read.figures.prompt
    if now is None or mark.read.start != now.start or was is None or now.figures.prompt is None:
        return -1.0
    return now.figures.prompt - was


def _question(request: Request, page: RenderingPage) -> bytes:
    chat = chat_of(request)
    if chat is None:
        raise NotShownError
    return json.dumps({**page.spelled(chat), **page.also}).encode()


def _read_start(read: Callable[[Any], str | None], page: bytes) -> str | None:
    return read(json.loads(page))


def _to_tokenize(shown: bytes, repair: Repair | None) -> bytes:
    text = json.loads(shown)["prompt"]
    if not isinstance(text, str):
        raise NotShownError
    if repair is not None:  # a change that the server makes to the prompt
        text = repair.text.sub(repair.becomes, text, count=1)
    return json.dumps({"content": text, "add_special": True, "parse_special": True}).encode()


def _read(shown: bytes, counted: bytes) -> Rendered:
    """Return the text in the answer ``shown`` with the tokens in ``counted``, which may be it."""
    text, tokens = text_of(json.loads(shown)), array("q", json.loads(counted)["tokens"])
    if text is None or min(tokens, default=0) < 0:
        raise NotShownError
    return Rendered(text, tokens)
