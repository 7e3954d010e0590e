"""The sender of all probes to a server, with their schedule and limits.

Its callers: ``poller`` every few seconds, ``profiling`` once for each server and model, ``proving``
after a turn that lost the cache, ``translating`` and adaptations after a refusal.
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
"""Message about an upstream that hangs."""
_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")
_Result = TypeVar("_Result")
HEALTHY_EVERY = 5.0
"""Seconds between two health probes of one of several servers; its pages: see ``Poller``."""
ASK_AGAIN, ASK_SOON = 300.0, 10.0
"""Seconds until the next probe of a server that gave no result, or that was down or busy."""
COUNTED_AGAIN = 0.25
"""Seconds until counters are read again that do not show the answer yet."""
HEALTH_SECONDS = 4.0
"""Seconds for a health probe; a server that takes longer is busy, not down."""
PAGE_SECONDS = 5.0
"""Seconds for each status page, and for a probe of its API: a server busy with a large batch may
take two."""
WAITED_SECONDS = 2.0
"""Seconds for each page that a user or a request waits for, and for all probes of a rendering page,
which take milliseconds."""
LOOK_SECONDS = 4.0
"""Seconds for all status pages, while ``profiling`` waits for them."""
PROMPT_SECONDS = 30.0
"""Seconds for a short prompt, which has to wait for a slot like any request, or for a count of
tokens."""
PROOF_SECONDS = 3.0
"""Seconds for each page with a turn's prompts, twice that for all: many times as long as a server
takes to render 500 kB."""
_MOST_BYTES = 4 << 20
"""Bytes of an answer at most."""
_LOGGED_AGAIN = 3600.0
"""Seconds after which a trouble that comes with every turn is logged again."""
DOWN = (421, 502, 503, 504, 508)
"""Statuses of a server, or of a gateway before it, that loads its model or is gone. A proxy like
this one under another name sends 421 and 508."""
_HEALTH = Request("GET", HEALTH)
_ANY: Headers = ((b"Accept", b"*/*"),)
_JSON: Headers = ((b"Content-Type", b"application/json"),)


class ProbeAnswer(NamedTuple):
    """The upstream's answer to a probe."""

    status: int  #: the status code
    body: bytes  #: the whole body, b"" if it was too long or broke off
    software: str  #: value of the header Server, "" for none


class Asker:
    """The sender of probes to one ``upstream``.

    ``reactor``: an IReactorTime; for proofs and templates also one with threads. ``wall`` returns
    seconds since the epoch. ``via``: the proxy's mark in the header Via, against loops. ``known``:
    the status pages that need no second request.
    """

    def __init__(
        self, reactor: Any, upstream: Upstream, wall: Callable[[], float], via: bytes = b""
    ) -> None:
        self.reactor = reactor
        self.upstream = upstream
        self.wall = wall
        self._via = via
        self.known = KnownPages()
        self._troubles: dict[tuple[str, str], tuple[float, int]] = {}
        self._failed: Exception | None = None

    async def answer(
        self, request: Request, seconds: float, *, is_marked: bool = True
    ) -> ProbeAnswer:
        """Send ``request``; return the answer, or raise the failure, within ``seconds``.

        ``is_marked``: whether the header Via has the proxy's mark.
        """

        async def whole() -> ProbeAnswer:
            via = self._via if is_marked else b""
            response = await self.upstream.request(request, via=via)
            head = response.head
            software = b"".join(head.values(b"server")[:1])[:80].decode("latin-1")
            try:
                return ProbeAnswer(head.status, await collect(response, _MOST_BYTES), software)
            except ResponseError:  # too long, or broken off: treated as empty
                return ProbeAnswer(head.status, b"", software)

        return await self._within(whole(), seconds)

    async def ask(
        self, request: Request, seconds: float, *, is_marked: bool = True
    ) -> tuple[int, bytes]:
        """Send ``request`` as ``answer`` does; return status and body."""
        status, body, _ = await self.answer(request, seconds, is_marked=is_marked)
        return status, body

    async def get(self, path: str, seconds: float) -> tuple[int, bytes]:
        """GET the page at ``path``; return status and body."""
        return await self.ask(Request("GET", path, _ANY), seconds)

    async def post(
        self, path: str, body: bytes, seconds: float, like: Request | None = None
    ) -> tuple[int, bytes]:
        """POST the JSON ``body`` with the credentials of ``like``; return status and body."""
        headers = _JSON if like is None else (*_JSON, *credentials_in(like.headers))
        return await self.ask(Request("POST", path, headers, body), seconds)

    # Health.

    async def is_up(self, seconds: float = WAITED_SECONDS) -> bool:
        """Whether the server answers in time, with a status that is not in ``DOWN``."""
        try:
            status, _ = await self.ask(_HEALTH, seconds, is_marked=False)
        except Exception:  # no connection, or too slow
            return False
        return status not in DOWN

    async def trouble(self, seconds: float) -> str | None:
        """Return a message about an upstream that is down; None if it just does not listen.

        ``seconds``: time limit, longer than that of a connection.
        """
        try:
            await self.ask(_HEALTH, seconds, is_marked=False)
        except (ResponseError, DNSLookupError) as error:
            return explain(Failure(error), self.upstream.url.text)[1]
        except (defer.TimeoutError, UpstreamSilent):
            return SILENT
        except Exception:  # no connection, or too slow
            return None
        return None

    # Status pages.

    async def look(self, seconds: float = PAGE_SECONDS, known: KnownPages | None = None) -> Look:
        """Return a look by the status pages that are not ``known``; by all if the server changed.

        ``seconds``: time limit of each page. It never raises.
        """
        known = known or self.known
        look, again = known.settle(*await self._look(known, seconds))
        if again:
            look, _ = known.settle(*await self._look(known, seconds))
        return look

    async def _look(self, known: KnownPages, seconds: float) -> tuple[Look, str]:
        """Return a look, and the answers' header Server."""
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

    # The chat template.

    async def rendered(
        self, page: RenderingPage, like: Request | None, model: str, formats: Sequence[str] = ()
    ) -> TemplateAnswer | None:
        """Return what the rendering page ``page`` shows of the template, None if it is missing.

        ``like``: a request whose credentials are used. ``model``: the model to be named, if one has
        to be. ``formats``: the formats in which the template is known to print the time.
        """
        found: list[TemplateAnswer] = []
        now = datetime.fromtimestamp(self.wall())  # noqa: DTZ006 (the server's is likely ours)
        questions = learning(found, page, model, now, formats)
        rendering = _answered(
            questions, lambda body: self.post(page.path, body, WAITED_SECONDS, like)
        )
        await self.attempt(rendering, WAITED_SECONDS)
        return found[-1] if found else None  # results before a failure count

    # Failures.

    async def attempt(
        self,
        asking: Coroutine[Any, Any, _Result],
        seconds: float | None = None,
        trouble: str = "",
    ) -> _Result | None:
        """Return the result of ``asking``; None if it fails, or takes more than ``seconds``.

        Then ``trouble`` is logged: the server is down, slow, or sends nonsense. A cancellation of
        the caller is passed on.
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
        """Log ``trouble`` and its reason; at most once an hour, then with the number of times."""
        kind = type(error).__name__
        why = "it took too long" if kind == "TimeoutError" else kind
        now = self.reactor.seconds()
        at, times = self._troubles.get((trouble, why), (-math.inf, 0))
        if now - at < _LOGGED_AGAIN:
            self._troubles[trouble, why] = at, times + 1
            return
        self._troubles[trouble, why] = now, 0
        if times:
            why += f" ({times:,} times more since this was said)"
        _log.info("{trouble}: {why}", trouble=trouble, why=why)


async def _answered(
    questions: Generator[_Question, _Answer, _Result],
    ask: Callable[[_Question], Awaitable[_Answer]],
) -> _Result:
    """Return the result of the generator ``questions``, each answered by ``ask``."""
    question = next(questions)
    while True:
        try:
            question = questions.send(await ask(question))
        except StopIteration as end:
            found: _Result = end.value
            return found
