"""OpenAI's Chat Completions API, and llama-server's ``/apply-template``.

Sources: OpenAI's API reference; DeepSeek's and Kimi's for usage, vLLM's ``PromptTokenUsageInfo``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from cacheproxy.core.dialects.answer import ReadAnswer, Reading
from cacheproxy.core.dialects.content import calls_in, texts_in
from cacheproxy.core.dialects.dialect import (
    Dialect,
    EndMarks,
    Endpoint,
    Purpose,
    UsageSpelling,
    same_stream_options,
)
from cacheproxy.core.dialects.errors import refusal
from cacheproxy.core.dialects.reasoning import REASONING
from cacheproxy.core.dialects.stream import CUT, Whole, event, is_error
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit, Raw, splices_of
from cacheproxy.core.document.reader import parsed

_Json = dict[str, Any]
_CHUNK = "chat.completion.chunk"
_CHUNKS_ONLY = frozenset({"object", "choices", "obfuscation", "prompt_progress"})
_NO_USAGE = re.compile(rb',\s*"usage"\s*:\s*null')
_SILENT: _Json = {"role": "assistant", "content": None}
"""A message without content as yet."""
_EACH = ("id", "created", "model", "system_fingerprint", "service_tier")
"""Members of a completion that each of its chunks repeats."""


def has_finished(message: _Json) -> bool:
    """Whether a choice in ``message`` has a reason for its end."""
    choices = message.get("choices")
    return isinstance(choices, list) and any(
        isinstance(choice, dict) and choice.get("finish_reason") for choice in choices
    )


def _read(answer: ReadAnswer, whole: _Json) -> None:
    message = _choice(whole).get("message")
    if isinstance(message, dict):
        _take(answer, message)
        answer.calls += ((call.name, call.arguments) for call in calls_in(message))


def _read_event(answer: ReadAnswer, event: _Json) -> None:
    delta = _choice(event).get("delta")
    if not isinstance(delta, dict):
        return
    _take(answer, delta)
    calls = delta.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            answer.called(call.get("index"), function.get("name"), function.get("arguments"))


def _choice(value: _Json) -> _Json:
    """Return the one choice of a completion or chunk, {} if it has none."""
    choices = value.get("choices")
    found = [one for one in choices if isinstance(one, dict)] if isinstance(choices, list) else []
    if len(found) > 1 or any(one.get("index") not in (None, 0) for one in found):
        raise ValueError("there are several answers")
    return found[0] if found else {}


def _take(answer: ReadAnswer, message: _Json) -> None:
    """Add the text and reasoning of a message or delta; some servers send reasoning twice."""
    answer.text += texts_in(message.get("content"))
    for name in REASONING:
        piece = message.get(name)
        if isinstance(piece, str) and piece and answer.name in ("", name):
            answer.name = name
            answer.reasoning.append(piece)
            return


def _put(
    document: Document, number: int, name: str, spelled: str, why: str
) -> tuple[Edit, list[Splice]]:
    """Put reasoning behind a message's other members (see ``Putting``)."""
    name = name or REASONING[0]
    pointer = f"/messages/{number}/{name}"
    entry = document.entry(("messages", number))
    if name in entry.value:  # null or empty
        edit = Edit(pointer, Raw(spelled), why)
        return edit, splices_of(document, [edit])
    # Not through splices_of, which parses the members of each message: there may be hundreds.
    at = entry.end - 1
    new = f',"{name}":{spelled}'.encode()
    return Edit(pointer, Raw(spelled), why, adds=True), [Splice(at, at, new)]


def _sign(first: bytes) -> bytes:
    """Return a chunk without content, of the answer that begins with ``first``.

    Before the answer its id is empty: an invented one would be the same for all answers, and
    LangChain and others store messages by it. OpenAI's Python helper alone keeps the first chunk's.
    """
    known: _Json = {}
    for line in first.splitlines():
        value = parsed(line.removeprefix(b"data:")) if line.startswith(b"data:") else None
        if isinstance(value, dict) and value.get("id"):
            known = value
            break
    chunk = {"id": "", "object": _CHUNK, "created": 0, "model": ""}
    chunk |= {name: known[name] for name in chunk if type(known.get(name)) is type(chunk[name])}
    return _event(chunk | {"choices": [{"index": 0, "delta": {}, "finish_reason": None}]})


def _whole() -> Whole:
    """Make a chat completion out of its chunks (see ``Whole``)."""
    answer: _Json = {}
    choices: dict[int, _Choice] = {}
    while (chunk := (yield)) is not None:
        if is_error(chunk):
            raise ValueError(refusal(500, chunk))
        for name, value in chunk.items():
            if name not in _CHUNKS_ONLY and (value is not None or name not in answer):
                answer[name] = value
        given = chunk.get("choices")
        for choice in given if isinstance(given, list) else ():
            index = choice.get("index", 0)
            if index not in choices:
                choices[index] = _Choice()
            choices[index].take(choice)
    if not choices or not all(choice.more.get("finish_reason") for choice in choices.values()):
        raise ValueError(CUT)
    found = [{"index": index, **choices[index].whole()} for index in sorted(choices)]
    if "usage" not in answer:
        answer |= _counted(answer.get("timings"))
    return {"object": "chat.completion", **answer, "choices": found}


def _counted(timings: Any) -> _Json:
    """Return usage made from llama.cpp's ``timings``: a stream has it only on request."""
    known: _Json = timings if isinstance(timings, dict) else {}
    cached, read, made = (known.get(name, "") for name in ("cache_n", "prompt_n", "predicted_n"))
    if not type(cached) is type(read) is type(made) is int:
        return {}
    usage = {"prompt_tokens": cached + read, "completion_tokens": made}
    more = {
        "total_tokens": cached + read + made,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    return {"usage": usage | more}


class _Choice:
    """One choice of a completion, made from the chunks so far."""

    def __init__(self) -> None:
        self.more: _Json = {}  #: members of the choice beside the message
        self._message = _SILENT.copy()
        self._texts: dict[str, list[str]] = {}  #: members of the message that come in pieces
        self._calls: list[tuple[Any, _Json, list[str]]] = []
        """Tool calls: of each its index, its object, and the pieces of its arguments."""

    def take(self, choice: _Json) -> None:
        """Add the choice of one chunk."""
        for name, value in choice.items():
            if name == "logprobs" and isinstance(value, dict):
                self.more[name] = _added(self.more.get(name), value)
            elif name != "delta" and (value is not None or name not in self.more):
                self.more[name] = value
        for name, value in (choice.get("delta") or {}).items():
            if name == "tool_calls":
                for call in value or ():
                    self._take_call(call)
            elif name == "role":
                self._message[name] = value or self._message[name]
            elif isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            elif value is not None or name not in self._message:
                self._message[name] = _added(self._message.get(name), value)

    def whole(self) -> _Json:
        """Return the choice of the whole completion."""
        message = self._message | {name: "".join(said) for name, said in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [call for _, call, _ in self._calls]
        elif message["content"] is None and len(message.keys() - REASONING) == len(_SILENT):
            message["content"] = ""  # as servers send it if there is nothing else
        for _, call, said in self._calls:
            call["function"] = call.get("function", {}) | {"arguments": "".join(said)}
        return {"message": message, **self.more}

    def _take_call(self, delta: _Json) -> None:
        """Add a piece of a tool call. Some servers give all calls the same index, or none."""
        index, given, function = delta.get("index"), delta.get("id"), delta.get("function") or {}
        found = next((one for one in reversed(self._calls) if one[0] == index), None)
        if found is None or (given and function.get("name") and found[1].get("id", given) != given):
            found = (index, dict[str, Any](type="function"), [])
            self._calls.append(found)
        _, call, arguments = found
        call |= {name: delta[name] for name in delta if name in ("id", "type") and delta[name]}
        if function.get("name"):
            call["function"] = {"name": function["name"]}
        if isinstance(function.get("arguments"), str):
            arguments.append(function["arguments"])


def _added(known: Any, value: Any) -> Any:
    """Return ``known`` with ``value`` added: texts and lists are joined, the rest is replaced."""
    if isinstance(known, dict) and isinstance(value, dict):
        return known | {name: _added(known.get(name), value[name]) for name in value}
    if isinstance(known, str) and isinstance(value, str):
        return known + value
    if isinstance(known, list) and isinstance(value, list):
        known += value
        return known
    return known if value is None else value


def _events(whole: _Json, wanted: _Json | None) -> bytes:
    """Return a chat completion as chunks: one for each member of a message, one for its end.

    ``wanted``: body of the request. Without it, usage is in the last chunk; otherwise it is in one
    more chunk without choices, if the request asks for it.
    """
    choices = whole.get("choices")
    if not isinstance(choices, list) or not choices:
        raise ValueError("it has no choices")
    chunk = {name: whole[name] for name in _EACH if name in whole} | {"object": _CHUNK}
    found: list[bytes] = []
    for choice in choices:
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            raise ValueError("a choice has no message")  # noqa: TRY004
        index = choice.get("index", 0)
        for delta in _deltas(choice["message"]):
            one = {"index": index, "delta": delta, "finish_reason": None}
            found.append(_event(chunk | {"choices": [one]}))
        more = {name: choice[name] for name in choice if name != "message"}
        if choice is choices[-1]:
            apart = ("choices", "object", "usage" if wanted is not None else "")
            chunk |= {name: whole[name] for name in whole if name not in apart}
        found.append(_event(chunk | {"choices": [{"index": index, "delta": {}, **more}]}))
    if wanted is not None and asks_for_usage(wanted) and "usage" in whole:
        found.append(_event(chunk | {"choices": [], "usage": whole["usage"]}))
    return b"".join((*found, b"data: [DONE]\n\n"))


def _deltas(message: _Json) -> Iterator[_Json]:
    """Yield a message as deltas, its reasoning first."""
    yield {"role": message.get("role", "assistant")}
    for name in sorted(message, key=lambda name: name not in REASONING):
        value = message[name]
        if name == "tool_calls":
            for index, call in enumerate(value or ()):
                yield {name: [{"index": index, **call}]}
        elif name != "role" and value is not None:
            yield {name: value}


def asks_for_usage(body: _Json) -> bool:
    """Whether the stream that answers ``body`` is to end with a chunk that has the usage."""
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _can_regive(first: _Json, second: _Json, counts: bool) -> bool:
    """Whether the requests differ at most in usage, and the answer has it or can do without.

    ``counts``: whether the server's streams have usage unasked (see ``Dialect.can_regive``).
    """
    was_stream, has_usage = first.get("stream") is True, asks_for_usage(first)
    if second.get("stream") is not True:
        return not was_stream or has_usage or counts
    if was_stream and same_stream_options(first, second, counts):
        return True
    known, others = (
        [name for name in body.get("stream_options") or () if name != "include_usage"]
        for body in (first, second)
    )
    return not others and (
        not was_stream or (not known and (has_usage or not asks_for_usage(second)))
    )


def _unasked(body: _Json, event: bytes) -> bytes:
    if b'"usage"' not in event or asks_for_usage(body):
        return event
    value = parsed(event.strip().removeprefix(b"data:"))
    if isinstance(value, dict) and value.get("choices") == [] and value.get("usage"):
        return b""
    return _NO_USAGE.sub(b"", event, 1)


def _event(chunk: _Json) -> bytes:
    return event(chunk, named=False)


CHAT = Dialect(
    name="openai-chat",
    path="/v1/chat/completions",
    endpoints=(
        Endpoint("/chat/completions", Purpose.CHAT),
        Endpoint("/apply-template", Purpose.RENDER),
        Endpoint("/embeddings", Purpose.EMBEDDINGS),
    ),
    as_chat=lambda body: body,
    is_rendered=True,
    usage=(
        UsageSpelling(
            signs=("prompt_tokens",),
            prompt=("prompt_tokens",),
            output=("completion_tokens",),
            # Members of DeepSeek and Kimi, beside OpenAI's own.
            reused=(
                "prompt_tokens_details.cached_tokens",
                "prompt_cache_hit_tokens",
                "cached_tokens",
            ),
            # vLLM's name for it, or OpenRouter's.
            written=(
                "prompt_tokens_details.created_cache_tokens",
                "prompt_tokens_details.cache_write_tokens",
            ),
        ),
    ),
    end=EndMarks(has_finished, done=b"[DONE]", keys=((b'"finish_reason"', b"null"),)),
    sign=_sign,
    whole=_whole,
    events=_events,
    can_regive=_can_regive,
    unasked=_unasked,
    reading=Reading(_read, _read_event),
    reasoning=_put,
)
"""``/v1/chat/completions``, ``/apply-template``."""
