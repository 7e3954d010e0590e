"""The one who asks a server what is asked of it beside its clients' requests.

The schedule and the limits of all these questions stand here. Who has it ask: ``poller`` every few
seconds, ``profiling`` once for each server and model, ``proving`` after a turn that lost the cache.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import DNSLookupError
from twisted.logger import Logger
from twisted.python.failure import Failure

from cacheproxy.core.http1.headers import credentials_in
from cacheproxy.core.http1.response_reader import ResponseError
from cacheproxy.core.kinds.kind import RenderingPage
from cacheproxy.core.kinds.looking import KnownPages, asking, look_of
from cacheproxy.core.kinds.status import HEALTH, Look, UpstreamState
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.template.traits import TemplateAnswer, learning
from cacheproxy.proxy.upstream.body import collect
from cacheproxy.proxy.upstream.failures import UpstreamSilent, explain
from cacheproxy.proxy.upstream.upstream import Upstream

_log = Logger()
SILENT = "it takes connections, and answers none"
"""What is wrong with an upstream that hangs."""
_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")
HEALTHY_EVERY = 5.0
"""Seconds between two questions whether one of several is there; see ``poll`` for its pages."""
ASK_AGAIN, ASK_SOON = 300.0, 10.0
"""Seconds after which a server is asked again that did not tell, or that was down or busy."""
COUNTED_AGAIN = 0.25
"""Seconds after which counters are read once more that do not show the answer yet."""
HEALTH_SECONDS = 4.0
"""For a word that it is there. A server that is slow to tell is busy, not down."""
PAGE_SECONDS = 5.0
"""For each status page, and for which API it speaks: a server busy with a large batch may take
two."""
WAITED_SECONDS = 2.0
"""For each page, where somebody waits for it; for all questions to a page that renders: it takes
milliseconds for them."""
LOOK_SECONDS = 4.0
"""For all status pages, where learning waits for them."""
PROMPT_SECONDS = 30.0
"""For a short prompt, which waits for a slot as the request does that it is asked for; for a count
of tokens."""
PROOF_SECONDS = 3.0
"""For each page with a turn's prompts, and twice that for all: many times what a server takes to
render 500 kB."""
_MOST_BYTES = 4 << 20
"""Of an answer."""
_SAID_AGAIN = 3600.0
"""Seconds after which a trouble that comes with every turn is said once more."""
DOWN = (421, 502, 503, 504, 508)
"""What a server says, or a gateway before it, while it loads its model or is gone. It is ourselves,
by some other name, that say 421 and 508."""
_HEALTH = Request("GET", HEALTH)
_ANY: Headers = ((b"Accept", b"*/*"),)
_JSON: Headers = ((b"Content-Type", b"application/json"),)


class ProbeAnswer(NamedTuple):
    """What the upstream answered to a request of our own."""

    status: int  #: of the answer
    body: bytes  #: the whole of it, or "" where it was endless or broken off
    software: str  #: what its header Server says, "" for nothing


class Asker:
    """Asks one ``upstream``. ``reactor``: an IReactorTime, and with threads where proofs are read.

    ``wall``: returns seconds since the epoch. ``via``: our mark, against loops. ``known``: which of
    its status pages need no second request.
    """

    def __init__(
        self, reactor: Any, upstream: Upstream, wall: Callable[[], float], via: bytes = b""
    ) -> None:
        self.reactor = reactor
        self.upstream = upstream
        self.wall = wall
        self._via = via
        self.known = KnownPages()
        self._said: dict[tuple[str, str], tuple[float, int]] = {}
        self._failed: Exception | None = None

    async def answer(
        self, request: Request, seconds: float, *, is_marked: bool = True
    ) -> ProbeAnswer:
        """Send ``request``; return the answer within ``seconds``, or raise what failed.

        ``is_marked``: with our mark.
        """

        async def whole() -> ProbeAnswer:
            via = self._via if is_marked else b""
            response = await self.upstream.request(request, via=via)
            head = response.head
            software = b"".join(head.values(b"server")[:1])[:80].decode("latin-1")
            try:
                return ProbeAnswer(head.status, await collect(response, _MOST_BYTES), software)
            except ResponseError:  # endless, or broken off: as good as empty
                return ProbeAnswer(head.status, b"", software)

        return await self._within(whole(), seconds)

    async def ask(
        self, request: Request, seconds: float, *, is_marked: bool = True
    ) -> tuple[int, bytes]:
        """Do the same; return status and body."""
        status, body, _ = await self.answer(request, seconds, is_marked=is_marked)
        return status, body

    async def get(self, path: str, seconds: float) -> tuple[int, bytes]:
        """Do the same with a page."""
        return await self.ask(Request("GET", path, _ANY), seconds)

    async def post(
        self, path: str, body: bytes, seconds: float, like: Request | None = None
    ) -> tuple[int, bytes]:
        """Do the same with JSON, and the credentials of ``like``."""
        headers = _JSON if like is None else (*_JSON, *credentials_in(like.headers))
        return await self.ask(Request("POST", path, headers, body), seconds)

    # Whether it is there.

    async def is_up(self, seconds: float = WAITED_SECONDS) -> bool:
        """Whether it answers in time; a server may say 503 while it loads a model."""
        try:
            status, _ = await self.ask(_HEALTH, seconds, is_marked=False)
        except Exception:  # nobody is there, or it is slow
            return False
        return status not in DOWN

    async def trouble(self, seconds: float) -> str | None:
        """Return what is wrong with an upstream that is down; None if it just does not listen.

        ``seconds``: to wait for it, more than a connection may take.
        """
        try:
            await self.ask(_HEALTH, seconds, is_marked=False)
        except (ResponseError, DNSLookupError) as error:
            return explain(Failure(error), self.upstream.url.text)[1]
        except (defer.TimeoutError, UpstreamSilent):
            return SILENT
        except Exception:  # nobody is there, or it is slow
            return None
        return None

    # What it is.

    async def look(self, seconds: float = PAGE_SECONDS, known: KnownPages | None = None) -> Look:
        """Ask for the status pages that are not ``known``, or where another is seen, for all.

        ``seconds``: for each. It never fails.
        """
        known = known or self.known
        look, again = known.settle(*await self._look(known, seconds))
        if again:
            look, _ = known.settle(*await self._look(known, seconds))
        return look

    async def _look(self, known: KnownPages, seconds: float) -> tuple[Look, str]:
        """Return a look, and what the answers' header Server says."""
        questions = asking(known.begin())
        answers = await _answered(questions, lambda path: self.attempt(self._page(path, seconds)))
        url, wall, moment = self.upstream.url.text, self.wall(), self.reactor.seconds()
        if answers is None:
            silent = isinstance(self._failed, defer.TimeoutError | UpstreamSilent)
            return Look(url, wall, moment, UpstreamState.DOWN, is_silent=silent), ""
        for path, status in answers.statuses.items():
            known.take(path, status, answers.pages.get(path))
        return look_of(url, wall, moment, answers), answers.software

    async def _page(self, path: str, seconds: float) -> ProbeAnswer:
        try:
            return await self.answer(Request("GET", path, _ANY), seconds, is_marked=False)
        except Exception as error:
            self._failed = error
            raise

    # What its template does.

    async def rendered(
        self, page: RenderingPage, like: Request | None, model: str, formats: Sequence[str] = ()
    ) -> TemplateAnswer | None:
        """Return what ``page`` tells, None where there is none.

        ``like``: a request whose credentials are used. ``model``: named where one has to be.
        ``formats``: in which the template prints the time, as far as is known.
        """
        found: list[TemplateAnswer] = []
        now = datetime.fromtimestamp(self.wall())  # noqa: DTZ006 (the server's is likely ours)
        questions = learning(found, page, model, now, formats)
        rendering = _answered(
            questions, lambda body: self.post(page.path, body, WAITED_SECONDS, like)
        )
        await self.attempt(rendering, WAITED_SECONDS)
        return found[-1] if found else None  # what was told before it failed counts

    # What went wrong.

    async def attempt(
        self,
        asking: Coroutine[Any, Any, _Result],
        seconds: float | None = None,
        trouble: str = "",
    ) -> _Result | None:
        """Return what ``asking`` comes to; None where it fails, or takes more than ``seconds``.

        Then the server is down, slow, or talks nonsense; ``trouble`` is logged. It is only
        cancelled with whoever asks.
        """
        try:
            return await (asking if seconds is None else self._within(asking, seconds))
        except CancelledError:
            raise
        except Exception as error:
            if trouble:
                self.tell(trouble, error)
            return None

    def _within(self, asking: Coroutine[Any, Any, _Result], seconds: float) -> Deferred[_Result]:
        return Deferred.fromCoroutine(asking).addTimeout(seconds, self.reactor)

    def tell(self, trouble: str, error: Exception) -> None:
        """Log ``trouble`` with why; after that at most once an hour, with how often it came."""
        kind = type(error).__name__
        why = "it took too long" if kind == "TimeoutError" else kind
        now = self.reactor.seconds()
        at, times = self._said.get((trouble, why), (-math.inf, 0))
        if now - at < _SAID_AGAIN:
            self._said[trouble, why] = at, times + 1
            return
        self._said[trouble, why] = now, 0
        if times:
            why += f" ({times:,} times more since this was said)"
        _log.info("{trouble}: {why}", trouble=trouble, why=why)


async def _answered(
    questions: Generator[_Question, _Answer, _Result],
    ask: Callable[[_Question], Awaitable[_Answer]],
) -> _Result:
    """Return what ``questions`` come to when each is answered by ``ask``."""
    question = next(questions)
    while True:
        try:
            question = questions.send(await ask(question))
        except StopIteration as end:
            found: _Result = end.value
            return found
