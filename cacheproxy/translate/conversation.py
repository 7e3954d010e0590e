"""The messages of a conversation, and the system text, as chat messages.

Each message is translated by itself, from nothing but its own text and what the model wrote in its
tool calls: what stood in an earlier request comes out as it did then, byte for byte.
"""

from __future__ import annotations

from typing import Any

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.document.pointer import Path
from cacheproxy.translate.body import Body, list_of, object_of, text_in, wrong
from cacheproxy.translate.media import content_of, part_of, parts_of
from cacheproxy.translate.reading import SEAM, Json

_SHOWN_BELOW = {"image_url": "[image: see below]", "file": "[document: see below]"}
_FAILED = "Error: "
_LEFT_OUT = ("redacted_thinking", "server_tool_use", "container_upload")
"""Blocks of an answer that only Anthropic's own servers understand; so are the results of its
server-run tools (``web_search_tool_result`` and the like, by their ending)."""


def chat_messages(body: Body, spellings: Spellings) -> list[Json]:
    """Return the chat messages of a Messages ``body``. Raises TranslationError naming the place.

    * All system blocks are one system message, its texts joined by a newline; system messages
      between the others stay where they are. ``cache_control`` is nowhere seen.
    * Tool results are ``tool`` messages in their order, before what else the user's message
      holds. A tool message takes text only with most servers: images and documents in results
      follow in the user's message, marked in the text where they stood. A result that is an error
      begins with "Error: ".
    * Thinking is ``reasoning_content``, joined; what an answer said is joined without a seam, as
      chat servers do. Its tool calls follow, their arguments as the model wrote them if
      ``spellings`` knows it, else as the client did.
    * What says nothing (an empty list of blocks) is left out.
    """
    said: list[Json] = []
    system = body.value.get("system")
    if system:
        said.append({"role": "system", "content": _system_text(system, ("system",))})
    for index, message in enumerate(list_of(body.value.get("messages"), ("messages",))):
        path: Path = ("messages", index)
        object_of(message, path)
        role, content = message.get("role"), message.get("content")
        inside = (*path, "content")
        if role == "user":
            said += _user(content, inside)
        elif role == "assistant":
            said += _assistant(body, content, inside, spellings)
        elif role == "system":
            if content != []:
                said.append({"role": "system", "content": _system_text(content, inside)})
        else:
            raise wrong((*path, "role"), 'the role is one of "user", "assistant", "system"')
    return said


def _system_text(content: Any, path: Path) -> str:
    parts = parts_of(content, path)
    for index, part in enumerate(parts):
        if part["type"] != "text":
            raise wrong((*path, index), "a system text holds text only")
    return SEAM.join(part["text"] for part in parts)


def _user(content: Any, path: Path) -> list[Json]:
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    results: list[Json] = []
    shown: list[Json] = []
    rest: list[Json] = []
    for index, block in enumerate(list_of(content, path)):
        place = (*path, index)
        if object_of(block, place).get("type") == "tool_result":
            results.append(_result(block, place, shown))
        else:
            rest += part_of(block, place)
    parts = shown + rest
    return [*results, {"role": "user", "content": content_of(parts)}] if parts else results


def _result(block: Json, path: Path, shown: list[Json]) -> Json:
    """Return the tool message for a result; what is no text is added to ``shown``."""
    call = text_in(block, "tool_use_id", path)
    content = block.get("content")
    texts = []
    for part in parts_of(content, (*path, "content")) if content is not None else ():
        if part["type"] == "text":
            texts.append(part["text"])
        else:
            texts.append(_SHOWN_BELOW[part["type"]])
            shown.append(part)
    failed = _FAILED if block.get("is_error") is True else ""
    return {"role": "tool", "tool_call_id": call, "content": failed + SEAM.join(texts)}


def _assistant(body: Body, content: Any, path: Path, spellings: Spellings) -> list[Json]:
    if isinstance(content, str):
        return [{"role": "assistant", "content": content}]
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for index, block in enumerate(list_of(content, path)):
        place = (*path, index)
        kind = object_of(block, place).get("type")
        if kind == "text":
            texts.append(text_in(block, "text", place))
        elif kind == "thinking":
            thoughts.append(text_in(block, "thinking", place))
        elif kind == "tool_use":
            calls.append(_call(body, block, place, spellings))
        elif not isinstance(kind, str) or not (kind in _LEFT_OUT or kind.endswith("_tool_result")):
            raise wrong((*place, "type"), "a block of this type cannot be said in an answer")
    text, thought = "".join(texts), "".join(thoughts)
    if not (text or thought or calls):
        return []
    message: Json = {"role": "assistant", "content": text}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return [message]


def _call(body: Body, block: Json, path: Path, spellings: Spellings) -> Json:
    call = text_in(block, "id", path)
    name = text_in(block, "name", path)
    place = (*path, "input")
    value = object_of(block.get("input"), place)
    arguments = spellings.find(call, body.text_at(place), value)
    return {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}
