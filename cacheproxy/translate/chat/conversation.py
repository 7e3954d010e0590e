"""The messages of a conversation, and its system text, as Anthropic's API has them.

Each message is translated by itself, from nothing but its own text and its place: what stood in an
earlier request comes out as it did then. Only tool results that follow each other share a message;
a later one adds a block at its end. So the text of the messages, without the brackets that close
it, is the beginning of the next turn's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cacheproxy.core.document.pointer import Path
from cacheproxy.translate.chat.parts import blocks_of, text_block, texts_of
from cacheproxy.translate.common.body import Body, list_of, object_of, text_of, wrong
from cacheproxy.translate.common.reading import NOT_JSON, SEAM, Json, is_object, thinking_of
from cacheproxy.translate.common.writing import raw

_SYSTEM = frozenset({"system", "developer"})
_LATE = "<system-reminder>\n{}\n</system-reminder>"


def system_and_messages(body: Body) -> tuple[str | list[Json], list[Json]]:
    """Return Anthropic's ``system`` and ``messages`` for a chat ``body``.

    * System and developer messages at the head are the system text, joined by a newline: one
      string, since servers join several blocks without a seam; blocks only where the client set
      cache breakpoints. Alone, without another message, they are the user's: the API needs one.
    * Such messages further on are the user's, in ``<system-reminder>`` tags, as Anthropic's own
      client writes them. Few servers take the role "system" there, and moving it to the head
      would change the whole prompt.
    * Tool results in a row are one message of the user, as the API demands. What the user says
      then is a message of its own: the API joins them, and llama.cpp would put the text of a
      shared message before its results. So are messages of one role in a row.
    * ``reasoning_content`` (vLLM and OpenRouter: ``reasoning``) is a thinking block without a
      signature. Arguments of calls are the ``input`` exactly as they stand; arguments that are no
      JSON object, as of an answer cut short, are a string under "INVALID_JSON", and none at all
      an empty object.
    * Ids of calls stay as they are. ``function_call``, the older form, has none: the message's
      place makes one. Messages that say nothing are left out.

    Raises TranslationError naming the place.
    """
    given = list_of(body.value.get("messages"), ("messages",))
    heads = 0
    for message in given:
        if not isinstance(message, dict) or not _is_system(message):
            break
        heads += 1
    system = _system(given[:heads])
    rest = _Messages(body)
    for index in range(heads, len(given)):
        rest.add(given[index], index)
    if system and heads == len(given):
        blocks = [text_block(system)] if isinstance(system, str) else system
        return "", [{"role": "user", "content": blocks}]
    return system, rest.said


def _is_system(message: Json) -> bool:
    role = message.get("role")
    return isinstance(role, str) and role in _SYSTEM


def _system(heads: list[Json]) -> str | list[Json]:
    texts: list[str] = []
    blocks: list[Json] = []
    for index, message in enumerate(heads):
        path = ("messages", index, "content")
        content = message.get("content")
        text = texts_of(content, path)
        if text:
            texts.append(text)
            blocks += blocks_of(content, path)
    if not any("cache_control" in block for block in blocks):
        return SEAM.join(texts)
    for block in blocks[1:]:
        block["text"] = SEAM + block["text"]
    return blocks


class _Messages:
    """Takes chat messages one by one; ``said`` is what they are in Anthropic's API."""

    def __init__(self, body: Body) -> None:
        self.said: list[Json] = []
        self._body = body
        self._results: list[Json] | None = None
        """The content of the last message, if it holds tool results and may take more."""
        self._function = ""
        """The id of the last ``function_call``."""

    def add(self, message: Any, index: int) -> None:
        """Take the message number ``index``."""
        if not isinstance(message, dict):
            object_of(message, ("messages", index))
        role, content = message.get("role"), message.get("content")
        inside = ("messages", index, "content")
        if role == "user":
            self._say("user", blocks_of(content, inside))
        elif role == "assistant":
            self._say("assistant", self._assistant(message, index))
        elif role == "tool":
            call = text_of(message.get("tool_call_id"), ("messages", index, "tool_call_id"))
            self._result(call, _result(content, inside))
        elif role == "function":
            if not self._function:
                raise wrong(("messages", index), "no function call precedes this result")
            self._result(self._function, _result(content, inside))
        elif _is_system(message):
            text = texts_of(content, inside)
            self._say("user", [text_block(_LATE.format(text))] if text else [])
        else:
            raise wrong(("messages", index, "role"), "no role of a chat message")

    def _say(self, role: str, blocks: list[Json]) -> None:
        if blocks:
            self.said.append({"role": role, "content": blocks})
            self._results = None

    def _result(self, call: str, content: str | list[Json]) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        if self._results is None:
            self._results = []
            self.said.append({"role": "user", "content": self._results})
        self._results.append(block)

    def _assistant(self, message: Json, index: int) -> list[Json]:
        blocks: list[Json] = []
        thought = thinking_of(message)
        if thought:
            blocks.append({"type": "thinking", "thinking": thought, "signature": ""})
        content = message.get("content")
        if content is not None:
            blocks += blocks_of(content, ("messages", index, "content"))
        refusal = message.get("refusal")
        if isinstance(refusal, str) and refusal:
            blocks.append(text_block(refusal))
        calls = message.get("tool_calls")
        if calls is not None:
            place: Path = ("messages", index, "tool_calls")
            for number, call in enumerate(list_of(calls, place)):
                blocks.append(self._call(call, (*place, number), f"call_{index}_{number}"))
        if message.get("function_call") is not None:
            place = ("messages", index, "function_call")
            self._function = f"call_{index}"
            function = object_of(message["function_call"], place)
            blocks.append(self._tool_use(self._function, function, place))
        return blocks

    def _call(self, call: Any, path: Path, otherwise: str) -> Json:
        object_of(call, path)
        if call.get("type", "function") != "function":
            raise wrong((*path, "type"), "only calls of functions can be said in Anthropic's API")
        given = call.get("id")
        name = text_of(given, (*path, "id")) if given is not None else ""
        inside = (*path, "function")
        return self._tool_use(name or otherwise, object_of(call.get("function"), inside), inside)

    def _tool_use(self, call: str, function: Json, path: Path) -> Json:
        name = text_of(function.get("name"), (*path, "name"))
        return {"type": "tool_use", "id": call, "name": name, "input": self._input(function, path)}

    def _input(self, function: Json, path: Path) -> msgspec.Raw | Json:
        arguments = function.get("arguments")
        if isinstance(arguments, dict):  # some clients do not quote them
            return raw(self._body.text_at((*path, "arguments")))
        if arguments is None or not text_of(arguments, (*path, "arguments")).strip():
            return {}
        return raw(arguments) if is_object(arguments) else {NOT_JSON: arguments}


def _result(content: Any, path: Path) -> str | list[Json]:
    """Return a tool's result: its text, or its blocks where some of them are no text."""
    if content is None or isinstance(content, str):
        return content or ""
    blocks = blocks_of(content, path)
    if all(block["type"] == "text" and "cache_control" not in block for block in blocks):
        return SEAM.join(block["text"] for block in blocks)
    return blocks
