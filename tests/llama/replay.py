"""Recorded sessions sent to a real server, turn by turn, and what each turn reused.

Shared by the tests here and by ``benchmarks/reuse.py``.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheproxy_demo.client import DemoClient
from cacheproxy_demo.embedded import LlamaServer, write_model
from cacheproxy_demo.embedded.model import PLAIN_WORDS
from cacheproxy_demo.run import to_chat

from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.dialect import Dialect
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.dialects.responses import RESPONSES
from cacheproxy.core.prompt.request import Request
from cacheproxy.http_client import Site
from cacheproxy.plugin.packages import Packages
from cacheproxy.testing import capture_name, load_capture
from cacheproxy.translate.translation import MessagesToChat

Json = dict[str, Any]

TOLERANCE = 8
"""Tokens at the end of a prompt that the next one may spell otherwise.

A prompt ends with the head of the answer to come (``<|im_start|>assistant`` and a newline), which
the next prompt repeats before the recorded answer: as a rule all of it is reused. The newline may
melt into the first token of the answer, and a server evaluates at least one token again.
"""

PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
APIS: dict[Dialect | None, tuple[str, ...]] = {
    MESSAGES: ("messages", "chat"),
    CHAT: ("chat",),
    RESPONSES: ("responses",),
}
"""The APIs a recorded request is sent to: gateways turn Anthropic bodies into chat ones."""

_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "stream_options")
_OF_THE_CONNECTION = {
    "accept-encoding", "connection", "content-length", "content-type", "host", "transfer-encoding",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Turn:
    """One request of a session; ``number`` counts the capture's POST requests from 1."""

    number: int
    request: Request


@dataclass(frozen=True, slots=True)
class Session:
    """Two turns or more of one conversation, without the side requests between them."""

    capture: str
    turns: tuple[Turn, ...]

    @property
    def apis(self) -> tuple[str, ...]:
        """The APIs it can be sent to; none for a dialect the server does not speak."""
        return APIS.get(self.turns[0].request.dialect, ())


@dataclass(frozen=True, slots=True)
class Measured:
    """What the server said of one turn: prompt tokens, those reused, and seconds it took."""

    number: int
    prompt: int
    reused: int
    seconds: float

    @property
    def share(self) -> float:
        """The reused part of the prompt."""
        return self.reused / self.prompt


def sessions(capture: str, requests: Iterable[Request]) -> list[Session]:
    """Return the sessions of two turns or more, told apart as the proxy tells them.

    Requests with tools and requests without do not extend each other.
    """
    plugins = Packages().load()
    found: dict[tuple[str, str, bool], list[Turn]] = {}
    posts = [request for request in requests if request.method == "POST"]
    for number, request in enumerate(posts, start=1):
        session = plugins.session(request)
        key = (session.client, session.id, bool((request.json or {}).get("tools")))
        found.setdefault(key, []).append(Turn(number, request))
    return [Session(capture, tuple(turns)) for turns in found.values() if len(turns) > 1]


def load_sessions(file: Path) -> list[Session]:
    """Return the sessions of a capture file."""
    return sessions(capture_name(file), load_capture(file))


def body_for(api: str, request: Request) -> Json:
    """Return the request's body for ``api``, asking for one token and no stream."""
    body = dict(request.json or {})
    if api == "chat" and request.dialect is MESSAGES:
        tools = [{"description": "", **tool} for tool in body.get("tools", [])]
        body = to_chat({"system": "", "max_tokens": 1, "stream": False, **body, "tools": tools})
    for name in _LIMITS:
        body.pop(name, None)
    body |= {"stream": False, "max_output_tokens" if api == "responses" else "max_tokens": 1}
    if api == "chat":
        body["messages"] = [_with_json_arguments(message) for message in body["messages"]]
    return body


def headers_of(request: Request) -> dict[str, str]:
    """Return the headers that say who is speaking; nothing about the connection."""
    pairs = {name.decode("latin-1"): value.decode("latin-1") for name, value in request.headers}
    return {name: text for name, text in pairs.items() if name.lower() not in _OF_THE_CONNECTION}


def text_of(turns: Iterable[Turn]) -> str:
    """Return about what a model will read of ``turns``, to learn its vocabulary from."""
    lines: list[str] = []
    for turn in turns:
        body = turn.request.json or {}
        lines += (json.dumps(tool, ensure_ascii=False) for tool in body.get("tools") or [])
        lines += (text for key, value in body.items() if key != "tools" for text in _texts(value))
    return "\n".join(lines)


def write_model_for(path: Path, found: Iterable[Session], **options: Any) -> Path:
    """Write a tiny model whose vocabulary is learnt from ``found``; see ``write_model``."""
    text = text_of(session.turns[-1] for session in found)
    return write_model(path, text=text or PLAIN_WORDS, **options)


def start_server(model: Path, slots: Path, **settings: Any) -> LlamaServer:
    """Start the embedded server so that its slot can be emptied between passes."""
    return LlamaServer(model, slot_save_path=f"{slots}{os.sep}", **settings)


def erase(server: str) -> None:
    """Empty the server's slot, so that what follows starts cold."""
    DemoClient(server).post("/slots/0?action=erase", {"model": ""})


def end_of_a_prompt(server: str) -> int:
    """Return how many tokens a prompt ends with that the next one may not repeat.

    They are the end of a turn, which another tool result goes on with, and the head of an answer,
    which only an answer's turn repeats; and one token is always evaluated again.
    """
    asked = {"content": "<|im_end|>\n<|im_start|>assistant\n", "parse_special": True}
    return len(Site(server).tell("/tokenize", asked)["tokens"]) + 1


def post(url: str, path: str, body: bytes) -> tuple[int, bytes]:
    """Return status and body of the answer to a POST."""
    answer = Site(url).post(path, body)
    return answer.status, answer.body


def by_way_of(url: str, exchange: MessagesToChat, extra: bytes = b"") -> tuple[int, bytes]:
    """Return status and body for the client of ``exchange``, translated there and back.

    ``extra``: members for the end of what is sent.
    """
    sent = exchange.sent
    status, answer = post(url, sent.target, sent.body[:-1] + extra + b"}")
    if status == 200 and (sent.json or {}).get("stream"):
        stream = exchange.stream()
        pieces = [answer[at : at + 97] for at in range(0, len(answer), 97)]
        return status, b"".join([*map(stream.feed, pieces), stream.close()])
    given = exchange.answer(status, answer)
    return given.status, given.body


def replay(url: str, api: str, turns: Sequence[Turn]) -> list[Measured]:
    """Send ``turns`` to ``url`` one after another and return what each reused."""
    measured = []
    for turn in turns:
        request = turn.request
        target = PATHS[api]
        if request.path.endswith(target):
            target = request.target  # with its query
        cost = DemoClient(url, headers_of(request)).post(target, body_for(api, request))
        prompt, reused = cost.usage.prompt, cost.usage.reused
        assert prompt is not None, "the server did not count the prompt"
        assert reused is not None, "the server did not say what it reused"
        measured.append(Measured(turn.number, prompt, reused, cost.wall))
    return measured


def converse(url: str, turns: Sequence[Turn]) -> list[Measured]:
    """Send a conversation of Chat Completions with the server's own answers in its history.

    The recorded ones came from another server; and what a proxy may put back into a conversation
    without an id, it knows by the answers that went through it.
    """
    answers: list[Json] = []
    measured = []
    for turn in turns:
        body = body_for("chat", turn.request)
        heard = iter(answers)
        body["messages"] = [
            next(heard, message) if message["role"] == "assistant" else message
            for message in body["messages"]
        ]
        answer = Site(url, headers_of(turn.request)).post(PATHS["chat"], json.dumps(body).encode())
        assert answer.status == 200, answer.body
        usage = usage_of(answer.json())
        assert usage.prompt is not None, usage
        assert usage.reused is not None, usage
        measured.append(Measured(turn.number, usage.prompt, usage.reused, answer.seconds))
        answers.append(answer.json()["choices"][0]["message"])
    return measured


def breaks(measured: Sequence[Measured]) -> Iterator[Measured]:
    """Yield the turns after the first that do not reuse the whole prompt before them."""
    for before, now in itertools.pairwise(measured):
        if now.reused < before.prompt - TOLERANCE:
            yield now


def _with_json_arguments(message: Json) -> Json:
    """Quote the arguments of tool calls that are no JSON since their words were scrambled."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        arguments = call["function"]["arguments"]
        try:
            json.loads(arguments)
        except ValueError:
            arguments = json.dumps({"text": arguments})
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    return {**message, "tool_calls": calls}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else ():
        yield from _texts(inner)
    for inner in value if isinstance(value, list) else ():
        yield from _texts(inner)
