"""An asker whose server is pages in memory, and turns of which they show what they rendered."""

import json
import re
import time
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.python.failure import Failure

from cacheproxy.core.prompt.request import Request
from cacheproxy.proxy.probing.asker import COUNTED_AGAIN, Asker, ProbeAnswer
from cacheproxy.proxy.probing.proving import Proving
from tests.core.templates import thinking
from tests.turning import TurningReactor

from .turned import Told, chat, compared

LLAMA, VLLM, METRICS = "/apply-template", "/tokenize", "/metrics"
CANARY = "kanarienvogel"
WORD = re.compile(r"\w+|\W")
_seen: dict[str, int] = {}

Page = tuple[int, bytes]


class Shown(Asker):
    """Asks ``pages``: status and body, or what makes them, at once or later, of the request.

    ``asked``: what came.
    """

    def __init__(self, reactor: TurningReactor, pages: dict[str, Any]) -> None:
        super().__init__(reactor, None, time.time)
        self.pages = pages
        self.asked: list[Request] = []

    async def answer(
        self, request: Request, seconds: float, *, is_marked: bool = True
    ) -> ProbeAnswer:
        self.asked.append(request)
        page = self.pages.get(request.path, (404, b'{"error":"no such page"}'))
        found = page(request) if callable(page) else page
        waiting = found if isinstance(found, Deferred) else succeed(found)
        status, body = await waiting.addTimeout(seconds, self.reactor)
        return ProbeAnswer(status, body, "")

    @property
    def paths(self) -> list[str]:
        """What was asked, in order."""
        return [request.path for request in self.asked]


def run(proving: Proving, *asking: Any) -> list[Any]:
    """Do all of ``asking`` at once; a short pause in it is over at once."""
    reactor, results = proving.reactor, {}
    for number, coroutine in enumerate(asking):
        begun = Deferred.fromCoroutine(coroutine)
        begun.addBoth(lambda found, number=number: results.update({number: found}))

    def all_done() -> bool:
        calls = reactor.getDelayedCalls()
        if any(call.getTime() - reactor.seconds() <= COUNTED_AGAIN for call in calls):
            reactor.advance(COUNTED_AGAIN)
        return len(results) == len(asking)

    reactor.turn_until(all_done)
    for found in results.values():
        if isinstance(found, Failure):
            found.raiseException()
    return [results[number] for number in range(len(asking))]


def proving_of(reactor: TurningReactor, pages: dict[str, Any], **profile: Any) -> Proving:
    """Who asks ``pages``, of whose server ``profile`` is known."""
    proving = Proving(asker := Shown(reactor, pages), Told(**profile))
    proving.reactor, proving.asker = reactor, asker
    return proving


def says(made: Callable[[Any], Any]) -> Callable[[Request], Page]:
    """A page that answers with what ``made`` makes of the body."""
    return lambda request: (200, json.dumps(made(request.json)).encode())


def tokens_of(text: str) -> list[int]:
    """A number for each word: what a tokenizer does."""
    return [_seen.setdefault(word, len(_seen)) for word in WORD.findall(text)]


def llama(template: Callable[..., str] = thinking, **pages: Any) -> dict[str, Any]:
    """The two pages of a llama-server."""
    rendering = says(lambda body: {"prompt": template(body["messages"], body.get("tools"))})
    tokenizing = says(lambda body: {"tokens": tokens_of(body["content"])})
    named = {f"/{name.replace('_', '-')}": page for name, page in pages.items()}
    return {LLAMA: rendering, VLLM: tokenizing} | named


USER = {"role": "user", "content": f"Look at the {CANARY}."}
SYSTEM = {"role": "system", "content": "Be brief. " * 20}
THOUGHT = {"role": "assistant", "content": "", "reasoning_content": "Let me think. " * 10}
BEFORE = (SYSTEM, USER, THOUGHT)
AFTER = (*BEFORE, {"role": "user", "content": "What now?"})


def turn(template=thinking, before=BEFORE, after=AFTER, headers=(), **fields):
    """Two requests and what is known of them: counted as ``template`` renders them."""
    one, other = chat(*before, headers=headers, **fields), chat(*after, headers=headers, **fields)
    counts = [len(tokens_of(template(list(each), fields.get("tools")))) for each in (before, after)]
    return compared(one, other, *counts)


def counters(prompt: Any = 0, reused: Any = 0, start: float | None = 1.5) -> Page:
    """A page of vLLM's counters."""
    lines = [f'vllm:prompt_tokens_total{{engine="0"}} {prompt}']
    if reused is not None:
        lines.append(f'vllm:prompt_tokens_cached_total{{engine="0"}} {reused}')
    if start is not None:
        lines.append(f"process_start_time_seconds {start}")
    return 200, "\n".join([*lines, ""]).encode()
