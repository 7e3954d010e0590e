"""The reasoning in an answer, read once it has ended: whole or streamed, in the client's API."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cacheproxy.core.conversation.thoughts import Thought
from cacheproxy.core.document.edits import encode
from cacheproxy.core.http1.sse import EventReader
from cacheproxy.core.prompt.dialect import ANTHROPIC, CHAT
from cacheproxy.core.prompt.messages import texts_in
from cacheproxy.core.thinking.said import Called, called_in, said

Json = dict[str, Any]
NAMES = ("reasoning_content", "reasoning")
"""Members that hold an assistant's reasoning: llama.cpp's, SGLang's, DeepSeek's; vLLM's."""
_SIGNED = 64
"""Characters from which a signature is a vendor's: local servers leave it empty, or count."""


@dataclass(slots=True)
class _Answer:
    """An answer as far as it was read."""

    name: str = ""  #: of the member that the reasoning came as
    text: list[str] = field(default_factory=list)  #: pieces of what it says
    reasoning: list[str] = field(default_factory=list)  #: pieces of its reasoning
    calls: dict[str, list[str]] = field(default_factory=dict)
    """name and arguments of each tool call, by its index."""

    def called(self, index: Any, name: Any, arguments: Any) -> None:
        """Take a piece of a call: its name comes once, its arguments bit by bit."""
        call = self.calls.setdefault(str(index), ["", ""])
        for place, piece in enumerate((name, arguments)):
            if isinstance(piece, str):
                call[place] += piece

    def read(self, *calls: Called) -> tuple[int, Thought] | None:
        """Return it as ``read`` does; ``calls``: those that came whole."""
        reasoning, text = "".join(self.reasoning), "".join(self.text)
        calls += tuple((name, arguments) for name, arguments in self.calls.values())
        if not reasoning or not (text.strip() or calls):
            return None
        return said(text, calls), Thought(self.name, encode(reasoning))


class _UnreadableError(ValueError):
    """A part that says we know not what: then nothing is known of the whole."""


def read(dialect: str | None, content_type: str, body: bytes) -> tuple[int, Thought] | None:
    """Return what an answer says (``said``) and the reasoning before it; None for none.

    None, too, where a vendor signed or hid the reasoning, where there are several answers, and
    where it cannot be read. Never raises. ``body``: without any content coding.
    """
    reader = {CHAT: _chat, ANTHROPIC: _messages}.get(dialect or "")
    if reader is None:
        return None
    try:
        if "event-stream" in content_type.lower():
            return reader(_events(body), None)
        return reader((), _object(body))
    except (ValueError, RecursionError):
        return None


def is_signed(block: Json) -> bool:
    """Whether a vendor signed this ``thinking`` block: nobody else can make one like it."""
    signature = block.get("signature")
    return isinstance(signature, str) and len(signature) >= _SIGNED


def _chat(events: Any, whole: Json | None) -> tuple[int, Thought] | None:
    answer = _Answer()
    if whole is not None:
        message = _choice(whole).get("message")
        if not isinstance(message, dict):
            return None
        _take(answer, message)
        return answer.read(*called_in(message))
    for event in events:
        if "error" in event:
            break
        delta = _choice(event).get("delta")
        if isinstance(delta, dict):
            _take(answer, delta)
            calls = delta.get("tool_calls")
            for call in calls if isinstance(calls, list) else ():
                function = call.get("function") if isinstance(call, dict) else None
                if isinstance(function, dict):
                    answer.called(
                        call.get("index"), function.get("name"), function.get("arguments")
                    )
    return answer.read()


def _choice(value: Json) -> Json:
    """Return the one choice of a completion or chunk; {} where it has none."""
    choices = value.get("choices")
    found = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
    if len(found) > 1 or any(one.get("index") not in (None, 0) for one in found):
        raise _UnreadableError
    return found[0] if found else {}


def _take(answer: _Answer, message: Json) -> None:
    """Take the text and the reasoning of a message or delta; some servers give it twice."""
    answer.text += texts_in(message.get("content"))
    for name in NAMES:
        piece = message.get(name)
        if isinstance(piece, str) and piece and answer.name in ("", name):
            answer.name = name
            answer.reasoning.append(piece)
            return


def _messages(events: Any, whole: Json | None) -> tuple[int, Thought] | None:
    answer = _Answer()
    if whole is not None:
        content = whole.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict):
                _begin(answer, block)
        return answer.read(*called_in(whole))
    for event in events:
        kind = event.get("type")
        if kind == "error":
            break
        block, delta = event.get("content_block"), event.get("delta")
        if kind == "content_block_start" and isinstance(block, dict):
            _begin(answer, block)
            if block.get("type") == "tool_use":
                given = block.get("input")  # as a rule {}: it comes in pieces
                answer.called(event.get("index"), block.get("name"), encode(given) if given else "")
        elif kind == "content_block_delta" and isinstance(delta, dict):
            _begin(answer, delta)
            if delta.get("type") == "input_json_delta":
                answer.called(event.get("index"), None, delta.get("partial_json"))
    return answer.read()


def _begin(answer: _Answer, part: Json) -> None:
    """Take a block, or a piece of one: their texts have the same names."""
    if part.get("type") == "redacted_thinking" or is_signed(part):
        raise _UnreadableError
    for name, pieces in (("text", answer.text), ("thinking", answer.reasoning)):
        if isinstance(part.get(name), str):
            pieces.append(part[name])


def _events(body: bytes) -> Iterator[Json]:
    reader = EventReader()
    for event in reader.feed(body + b"\n\n"):
        if event.data.strip() and event.data != b"[DONE]":
            yield _object(event.data)


def _object(data: bytes) -> Json:
    """Return a JSON object. Raises _UnreadableError."""
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError):  # a lone surrogate, or no JSON
        try:
            value = json.loads(data)
        except ValueError:
            raise _UnreadableError from None
    if not isinstance(value, dict):
        raise _UnreadableError
    return value
