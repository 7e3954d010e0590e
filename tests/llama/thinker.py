"""Conversations with a model that thinks before each of its answers, as a real server counts them.

The random model would never think by itself, so the server's grammar (SETTINGS) has it do so. That
leaves no room for tool calls: they are plain text here, and what comes back is a tool's result all
the same. Used by the tests here and by ``benchmarks/thinking.py``.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from cacheproxy.core.http1.sse import EventReader
from cacheproxy.http_client import Site

from .causes.talk import SYSTEM, Json, user, words

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}
RESULT, ASKED = 350, 60
"""Words that a tool returns, and that the user says at the second message."""
_WORDS = " | ".join(f'"{word}"' for word in ("river", "burn", "old", "dog", "small", "roofs"))
_GRAMMAR = (
    'root ::= <think> "\\n" (" " word){40} "\\n" </think> "\\n" "\\n" (" " word){12}\n'
    f"word ::= {_WORDS}"
)
SETTINGS = {"sampling__grammar__grammar": _GRAMMAR, "sampling__grammar__type": 1}
"""Of the server; the type is that of a user's own grammar."""


class Counted(NamedTuple):
    """Tokens of one turn, as the server says."""

    reused: int
    evaluated: int


class Thinker:
    """One conversation. ``sends``: whether the client sends reasoning back.

    ``name``: no other conversation begins with it. ``more``: what its bodies have besides.
    """

    def __init__(
        self, url: str, name: str, *, sends: bool, api: str = "chat", stream: bool = False
    ) -> None:
        self.messages: list[Json] = []
        self.more: Json = {}
        self._site = Site(url, {"X-Session-Id": name, "User-Agent": "lab/1.0"})
        self._name, self._api, self._sends, self._stream = name, api, sends, stream
        self._results = 0

    def ask(self, text: str) -> Counted:
        """Have the user say ``text``, and the model answer."""
        self.messages.append(user(text))
        return self._answered()

    def return_result(self, text: str) -> Counted:
        """Have a tool return ``text``, and the model go on."""
        self._results += 1
        call = f"call0000{self._results}"
        if self._api == "chat":
            self.messages.append({"role": "tool", "tool_call_id": call, "content": text})
        else:
            block = {"type": "tool_result", "tool_use_id": call, "content": text}
            self.messages.append({"role": "user", "content": [block]})
        return self._answered()

    def turn(self, text: str, seed: int = 0) -> Counted:
        """Have the user say ``text``, and tools return something twice; return the first count."""
        first = self.ask(text)
        for number in (1, 2):
            self.return_result(words(RESULT, seed + number))
        return first

    def body(self) -> Json:
        """The next request."""
        system = f"{self._name}: {SYSTEM}"
        head, messages = {}, self.messages
        if self._api == "chat":
            messages = [{"role": "system", "content": system}, *messages]
        else:
            head = {"system": system}
        fixed = {"model": "random", "max_tokens": 200, "temperature": 0}
        streamed = {"stream": True} if self._stream else {}
        if self._stream and self._api == "chat":
            streamed["stream_options"] = {"include_usage": True}  # type: ignore[assignment]
        return {**fixed, **streamed, **head, "messages": messages, **self.more}

    def _answered(self) -> Counted:
        answer = self._site.post(PATHS[self._api], json.dumps(self.body()).encode(), 300.0)
        if answer.status != 200:
            raise RuntimeError(f"HTTP {answer.status}: {answer.body[:500]!r}")
        value = _whole(self._api, answer.body) if self._stream else json.loads(answer.body)
        if self._api == "chat":
            said = value["choices"][0]["message"]
            assert said["reasoning_content"].strip()
            if not self._sends:
                said = {"role": "assistant", "content": said["content"]}
        else:
            kinds = ("thinking", "text") if self._sends else ("text",)
            assert value["content"][0]["type"] == "thinking"
            blocks = [block for block in value["content"] if block["type"] in kinds]
            said = {"role": "assistant", "content": blocks}
        self.messages.append(said)
        usage = value["usage"]
        if self._api == "messages":
            return Counted(usage["cache_read_input_tokens"], usage["input_tokens"])
        reused = usage["prompt_tokens_details"]["cached_tokens"]
        return Counted(reused, usage["prompt_tokens"] - reused)


def new_tokens(url: str, text: str) -> int:
    """How many tokens are new where the user says ``text`` behind an answer."""
    end = f"<|im_end|>\n<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
    body = json.dumps({"content": end, "parse_special": True}).encode()
    return len(json.loads(Site(url).post("/tokenize", body).body)["tokens"])


def _whole(api: str, body: bytes) -> Json:
    """Put a streamed answer together."""
    events = [
        json.loads(event.data) for event in EventReader().feed(body) if event.data != b"[DONE]"
    ]
    if api == "chat":
        said = {"role": "assistant", "content": "", "reasoning_content": ""}
        for event in events:
            for choice in event["choices"]:
                for name in ("content", "reasoning_content"):
                    said[name] += choice["delta"].get(name) or ""
        return {"choices": [{"message": said}], "usage": events[-1]["usage"]}
    blocks: list[Any] = []
    usage: Json = {}
    for event in events:
        if event["type"] == "message_start":
            usage |= event["message"]["usage"]
        elif event["type"] == "message_delta":
            usage |= event.get("usage") or {}
        elif event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            for name in ("text", "thinking"):
                if name in event["delta"]:
                    blocks[-1][name] += event["delta"][name]
    return {"content": blocks, "usage": usage}
