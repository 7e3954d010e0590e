"""The requests to the server: captured ones again, and those about its prompts and cache.

The generated text of an answer is read in any dialect and form. Sources: the API references of
OpenAI Chat Completions and Responses, Anthropic Messages, Ollama's ``docs/api.md``. Text, reasoning
and tool calls all count as generated.

For a count of prompts llama-server offers its template and tokenizer (``tools/server/README.md``:
``POST /apply-template``, ``POST /tokenize``). It has slots, and may cache prompts beside them
(``--cache-ram``, on by default). No page reports that, so it is tried: a short prompt is sent, as
many others as there are slots, and the first one again. The choice of a slot is that of llama.cpp,
``tools/server/server-context.cpp`` (``get_available_slot``): the slot that shares the most with the
prompt, if that is more than a tenth of the prompt (``--slot-prompt-similarity``), else the one not
used for longest.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from http.client import HTTPException, HTTPResponse, IncompleteRead
from typing import Any

from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.conversation.usage_reader import UsageReader
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.http1.headers import values
from cacheproxy.core.http1.sse import EventReader
from cacheproxy.core.kinds.llama_cpp import CCH, LLAMA_CPP
from cacheproxy.core.kinds.profile import ServerFacts
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.template.rendering import FIRST, turn
from cacheproxy.core.template.rendering import text_of as rendered_text
from cacheproxy.core.template.traits import order_of
from cacheproxy.http_client import CommandError, NoAnswerError, Site, SiteAnswer, explain, reason_of
from cacheproxy.record.exchange import Exchange
from cacheproxy.translate.counting import TOKENIZE
from cacheproxy.translate.translation import chat_of

_DELTAS = ("content", "reasoning_content", "reasoning", "text", "thinking", "partial_json")
_LONGEST_ERROR = 1 << 16
"""Bytes read, at most, of an answer that is not 200: its error text is near the start."""
_WORDS = 24
_MOST_SLOTS = 8
"""Slots, at most, for the trial: with more, a conversation is hardly ever evicted."""

Tokens = Sequence[int]
assert LLAMA_CPP.serving.rendering is not None
_PAGE = LLAMA_CPP.serving.rendering


class AnswerReader:
    """The reader of the generated text in a body: ``feed(bytes)``, ``text``, ``close()``.

    It never raises; parts that it cannot read are ignored. ``content_type`` is the response's.
    """

    def __init__(self, content_type: str) -> None:
        self._events = EventReader() if "event-stream" in content_type.lower() else None
        self._lines = "ndjson" in content_type.lower()
        self._rest = b""
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        """The text generated so far."""
        return "".join(self._pieces)

    def feed(self, data: bytes) -> None:
        """Read the next bytes of the body."""
        if self._events is not None:
            for event in self._events.feed(data):
                self._read(event.data)
            return
        self._rest += data
        if self._lines:
            *lines, self._rest = self._rest.split(b"\n")
            for line in lines:
                self._read(line)

    def close(self) -> str:
        """Return the whole text; call it at the end of the body."""
        self._read(self._rest)
        self._rest = b""
        return self.text

    def _read(self, data: bytes) -> None:
        """Add the texts of one JSON object; anything else is ignored."""
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            return
        if isinstance(message, dict):
            self._pieces.extend(_texts(message))


def text_of(exchange: Exchange) -> str:
    """Return the generated text of an answer."""
    kind = b"".join(values(exchange.response_headers, b"content-type")[:1])
    reader = AnswerReader(kind.decode("latin-1"))
    reader.feed(exchange.response_body or b"")
    return reader.close()


def _texts(message: dict[str, Any]) -> Iterator[str]:
    """Yield the texts in one event, or in a whole answer."""
    kind = message.get("type")
    delta = message.get("delta")
    if isinstance(kind, str) and kind.startswith("response."):
        if kind.endswith(".delta") and isinstance(delta, str):  # ".done" repeats the text
            yield delta
        return
    choices = message.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            yield from _said(choice.get("delta") or choice.get("message") or choice)
    if kind == "content_block_start":
        yield from _said(message.get("content_block"))
    yield from _said(delta)
    if kind == "message":
        yield from _said(message)
    if message.get("object") == "response":
        for item in message.get("output") or ():
            yield from _said(item)
    yield from _said(message.get("message") if "choices" not in message else None)
    for key in ("response", "content"):  # Ollama's /api/generate, llama-server's /completion
        if kind is None and isinstance(message.get(key), str):
            yield message[key]


def _said(value: Any) -> Iterator[str]:
    """Yield the texts of a delta, a message, or a block."""
    if not isinstance(value, dict):
        return
    for key in _DELTAS:
        inner = value.get(key)
        if isinstance(inner, str):
            yield inner
        for block in inner if isinstance(inner, list) else ():
            yield from _said(block)
    calls = value.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        yield from _called(call.get("function") if isinstance(call, dict) else None)
    if value.get("type") in ("tool_use", "function_call"):
        yield from _called(value)


def _called(function: Any) -> Iterator[str]:
    """Yield the name of a call, and its arguments as text."""
    if not isinstance(function, dict):
        return
    for key in ("name", "arguments", "input"):
        inner = function.get(key)
        if isinstance(inner, str):
            yield inner
        elif inner:
            yield json.dumps(inner, ensure_ascii=False)


def send(site: Site, request: Request, record: Exchange) -> None:
    """POST ``request`` to the server at ``site``; fill in ``record`` as the answer comes.

    ``first_byte`` is the time of the first generated text, or of the end if there is none. Raises
    CommandError if no connection can be made.
    """
    try:
        connection = site.connect()
    except NoAnswerError as error:
        raise nobody_at(site, error) from None
    start = time.perf_counter()
    with closing(connection):
        try:
            response = site.begin(connection, "POST", request.target, request.body)
            record.status = response.status
            if response.status == 200:
                _read(response, start, record)
            else:
                said = SiteAnswer(response.status, response.read(_LONGEST_ERROR))
                model = str((request.json or {}).get("model"))
                record.error = explain(said, site.url + request.path, model, "--against")
        except (HTTPException, OSError) as error:
            record.status = None
            record.error = f"{site.url} broke off its answer ({reason_of(error)})."
        record.seconds = time.perf_counter() - start


def nobody_at(site: Site, error: NoAnswerError) -> CommandError:
    """Return the error, for people, that no connection to ``site`` can be made."""
    mend = "start the model server there, or correct --against."
    return CommandError(f"No answer from {site.url} ({error}): {mend}")


def _read(response: HTTPResponse, start: float, record: Exchange) -> None:
    """Read an answer into ``record``: usage, time of the first text, body, content type."""
    content_type = response.headers.get("Content-Type", "")
    usage, answer, body = UsageReader(content_type), AnswerReader(content_type), b""
    first = None
    while data := response.read1(1 << 16):
        body += data
        usage.feed(data)
        answer.feed(data)
        if first is None and answer.text:
            first = time.perf_counter() - start
    end = time.perf_counter() - start
    if response.length:  # read1 does not raise for a body that was cut short
        raise IncompleteRead(b"", response.length)
    record.usage, record.first_byte = usage.close(), end if first is None else first
    record.response_headers = ((b"Content-Type", content_type.encode("latin-1")),)
    record.response_body = body


class Everything:
    """The model of a server that caches all prompts; like Slots, a new one for each pass."""

    def __init__(self) -> None:
        self._known: list[Tokens] = []

    def reuse(self, tokens: Tokens) -> int | None:
        """Return the number of ``tokens`` in its cache, None for its first prompt; add them."""
        best = max((shared_tokens(known, tokens) for known in self._known), default=None)
        self._known.append(tokens)
        return best


class Slots:
    """The model of a server that caches one prompt in each of its ``count`` slots, and no more."""

    def __init__(self, count: int) -> None:
        self._slots: list[Tokens] = [()] * count
        """Prompts in the slots, the one used last at the end."""
        self._used = False

    def reuse(self, tokens: Tokens) -> int | None:
        """Return the number of ``tokens`` in the slot that is chosen; see ``Everything``."""
        shares = [shared_tokens(held, tokens) for held in self._slots]
        best = max(range(len(shares)), key=lambda index: (shares[index], -index))
        chosen = best if shares[best] > LLAMA_CPP.reuse.similarity * len(tokens) else 0
        del self._slots[chosen]
        self._slots.append(tokens)
        first, self._used = not self._used, True
        return None if first else shares[chosen]


KeptPrompts = Everything | Slots


def shared_tokens(one: Tokens, other: Tokens) -> int:
    """Return the number of tokens that two prompts share from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))


def slots_without_ram(site: Site, server: ServerFacts, model: str) -> int | None:
    """Return the number of slots of the server at ``site``, None if it may cache more prompts."""
    count = server.slots
    if count is None or count > _MOST_SLOTS:
        return None
    words = ([secrets.token_hex(4) for _ in range(_WORDS)] for _ in range(count + 1))
    first, *others = map(" ".join, words)
    for text in (first, *others):
        _evaluate(site, model, text)
    share = _evaluate(site, model, first)
    return None if share is None or share > 0.5 else count


def _evaluate(site: Site, model: str, text: str) -> float | None:
    """Send a prompt of one message; return its reused part, None if not known."""
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    usage = usage_of(site.tell("/v1/chat/completions", body))
    return usage.reused / usage.prompt if usage.prompt and usage.reused is not None else None


class Counter:
    """The counter of prompts' tokens, with the template and tokenizer of the server at ``site``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def order(self) -> PromptOrder | None:
        """Return the order of the server's template, None if the server does not reveal it."""
        return order_of(self._render(turn()[FIRST]) or "")

    def tokens(self, request: Request) -> Sequence[int] | None:
        """Return the prompt of ``request`` in tokens, None if the server has no such pages."""
        chat = chat_of(request)
        text = None if chat is None else self._render(chat)
        if text is None:
            return None
        if request.dialect is MESSAGES:
            text = CCH.text.sub(CCH.becomes, text, count=1)
        body = {"content": text, "add_special": True, "parse_special": True}
        answer = self._site.tell(TOKENIZE, body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return tokens if isinstance(tokens, list) else None

    def _render(self, chat: dict[str, Any]) -> str | None:
        """Return the prompt that the server renders for ``chat``, None if it has no such page."""
        return rendered_text(self._site.tell(_PAGE.path, chat))
