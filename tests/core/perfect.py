"""Requests as the proxy takes them, and a server that only counts: what their turns come to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from cacheproxy.core.conversation.divergence import parting
from cacheproxy.core.conversation.prepare import prepare
from cacheproxy.core.conversation.store import Store
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.document.memo import Memo
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder, prompt_of
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.rules.fold import run
from cacheproxy.observe.verdicts import Verdicts
from cacheproxy.plugin.packages import Configured
from cacheproxy.record.exchange import Exchange, Outcome

CHARS_PER_TOKEN = 4
SPEED = 500.0
"""Tokens evaluated a second."""


class Server:
    """Reuses the longest beginning that an earlier prompt shares.

    ``order``: of its template. ``room``: prompts that it keeps. ``rendered``: what its template
    makes of a request before.
    """

    def __init__(
        self,
        order: PromptOrder = PromptOrder.TOOLS_FIRST,
        room: int | None = None,
        rendered: Callable[[Request], Request] = lambda request: request,
    ) -> None:
        self._order = order
        self._rendered = rendered
        self._known: deque[Prompt] = deque(maxlen=room)

    def usage(self, request: Request) -> Usage:
        """Return what it counts of ``request``."""
        prompt = prompt_of(self._rendered(request), self._order)
        assert prompt is not None
        alike = (one for one in self._known if one.model == prompt.model)
        shared = max((parting(one, prompt).shared for one in alike), default=0)
        self._known.append(prompt)
        count, reused = prompt.chars // CHARS_PER_TOKEN, shared // CHARS_PER_TOKEN
        return Usage(count, reused, 100, (count - reused) / SPEED)


def exchanges(requests: Iterable[Request], server: Server, known: Configured) -> Iterator[Exchange]:
    """Yield each prompt's exchange, with its verdict; ``known``: the rules."""
    plan, store, memo = known.packages.plan(known.on), Store(), Memo()
    verdicts = Verdicts(store)
    for number, request in enumerate(requests, 1):
        came = Request(request.method, request.target, request.headers, request.body, memo)
        prepared = run(prepare(plan.clients.introduce(came), plan, store))
        turn, sent = prepared.turn, prepared.request
        if turn is None or turn.prompt is None or request.path.endswith("count_tokens"):
            continue
        exchange = Exchange(
            received=came,
            sent=sent,
            reports=prepared.reports,
            session=turn.session,
            turn=1,
            upstream="http://localhost:8080",
            status=200,
            outcome=Outcome.COMPLETE,
            usage=server.usage(sent),
            wall=1_700_000_000.0 + 10 * number,
            first_byte=1.0,
            seconds=5.0,
            bytes_down=100,
            number=number,
            place=store.begin(turn, sent),
        )
        verdicts.judge(exchange)
        yield exchange
