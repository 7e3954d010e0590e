"""The messages of a conversation, and the system text, as chat messages.

Each message is translated by itself, from nothing but its own text and the spelling that the model
gave its tool calls: a message of an earlier request is translated to the same bytes again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cacheproxy.core.adapt.wording import text_of, worded
from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.pointer import Path
from cacheproxy.translate.reading import SEAM, Json, needed, raw_at, text_in, wrong

_SHOWN_BELOW = {"image_url": "[image: see below]", "file": "[document: see below]"}
_ENDS = ("_tool_use", "_tool_result")
"""Endings of the types of calls and results of the tools that Anthropic's own servers run
(``server_tool_use``, ``web_search_tool_result``)."""
_MODELS = frozenset({"tool_use", "thinking", "tool_result"})
"""Blocks that cannot be parts: they belong in an answer, or directly in a user's message."""


def chat_messages(body: Document, spellings: Spellings) -> list[Json]:
    """Return the chat messages of a Messages ``body``. Raises TranslationError naming the place.

    * All system blocks become one system message, its texts joined by a newline; system messages
      between the others stay where they are. ``cache_control`` is dropped.
    * Tool results become ``tool`` messages in their order, before the rest of the user's message.
      Most servers take only text in a tool message: images and documents of results follow in the
      user's message, with a mark in the text where they were. The result of a failed tool begins
      with "Error: ".
    * Thinking becomes ``reasoning_content``; an answer's texts are joined without a seam, as chat
      servers do. Tool calls follow, their arguments as the model spelled them if ``spellings``
      knows it, otherwise as the client did.
    * A message with an empty list of blocks is left out. A block that Chat Completions has no word
      for becomes a line of text that names it.
    """
    said: list[Json] = []
    system = body.value.get("system")
    if system:
        said.append({"role": "system", "content": _system_text(system, ("system",))})
    for index, message in enumerate(needed(list, body.value.get("messages"), ("messages",))):
        path: Path = ("messages", index)
        needed(dict, message, path)
        role, content = message.get("role"), message.get("content")
        inside = (*path, "content")
        if role == "user":
            said += _user_messages(content, inside)
        elif role == "assistant":
            said += _answer_messages(body, content, inside, spellings)
        elif role == "system":
            if content != []:
                said.append({"role": "system", "content": _system_text(content, inside)})
        else:
            raise wrong((*path, "role"), 'the role is one of "user", "assistant", "system"')
    return said


def _system_text(content: Any, path: Path) -> str:
    parts = parts_of(content, path)
    return SEAM.join(part["text"] if part["type"] == "text" else worded(part) for part in parts)


def _user_messages(content: Any, path: Path) -> list[Json]:
    """Return a user's tool results as tool messages, then the rest, if any, as one message."""
    if isinstance(content, str):
        return [{"role": "user", "content": content}]
    results: list[Json] = []
    shown: list[Json] = []
    rest: list[Json] = []
    for index, block in enumerate(needed(list, content, path)):
        place = (*path, index)
        if needed(dict, block, place).get("type") == "tool_result":
            results.append(_tool_message(block, place, shown))
        else:
            rest += part_of(block, place)
    parts = shown + rest
    return [*results, {"role": "user", "content": content_of(parts)}] if parts else results


def _tool_message(block: Json, path: Path, shown: list[Json]) -> Json:
    """Return the tool message for a result; its images and documents are added to ``shown``."""
    call = text_in(block, "tool_use_id", path)
    content = block.get("content")
    texts = []
    for part in parts_of(content, (*path, "content")) if content is not None else ():
        if part["type"] == "text":
            texts.append(part["text"])
        else:
            texts.append(_SHOWN_BELOW[part["type"]])
            shown.append(part)
    failed = "Error: " if block.get("is_error") is True else ""
    return {"role": "tool", "tool_call_id": call, "content": failed + SEAM.join(texts)}


def _answer_messages(body: Document, content: Any, path: Path, spellings: Spellings) -> list[Json]:
    """Return the one message of an answer, or [] if it has no text, thinking or call."""
    if isinstance(content, str):
        return [{"role": "assistant", "content": content}]
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[Json] = []
    for index, block in enumerate(needed(list, content, path)):
        place = (*path, index)
        kind = needed(dict, block, place).get("type")
        if kind == "text":
            texts.append(text_in(block, "text", place))
        elif kind == "thinking":
            thoughts.append(text_in(block, "thinking", place))
        elif kind == "tool_use":
            calls.append(_tool_call(body, block, place, spellings))
        elif not isinstance(kind, str) or kind == "tool_result":
            raise wrong((*place, "type"), "a block of this type cannot be said in an answer")
        elif kind not in ("redacted_thinking", "container_upload") and not kind.endswith(_ENDS):
            texts.append(f"{SEAM if texts else ''}{_text_of(block)}")
    text, thought = "".join(texts), "".join(thoughts)
    if not (text or thought or calls):
        return []
    message: Json = {"role": "assistant", "content": text}
    if thought:
        message["reasoning_content"] = thought
    if calls:
        message["tool_calls"] = calls
    return [message]


def _tool_call(body: Document, block: Json, path: Path, spellings: Spellings) -> Json:
    call = text_in(block, "id", path)
    name = text_in(block, "name", path)
    place = (*path, "input")
    value = needed(dict, block.get("input"), place)
    arguments = spellings.find(call, bytes(raw_at(body, place)).decode(), value)
    return {"id": call, "type": "function", "function": {"name": name, "arguments": arguments}}


def parts_of(content: Any, path: Path) -> list[Json]:
    """Return the chat parts for ``content``, a string or a list of blocks at ``path``.

    Parts: ``{"type": "text"}``, ``{"type": "image_url"}`` and ``{"type": "file"}`` as in OpenAI's
    API reference. Raises TranslationError for a block that cannot be a part.
    """
    if isinstance(content, str):
        return [_text_part(content)]
    parts: list[Json] = []
    for index, block in enumerate(needed(list, content, path)):
        parts += part_of(needed(dict, block, (*path, index)), (*path, index))
    return parts


def part_of(block: Json, path: Path) -> list[Json]:
    """Return the chat parts for one block; raises TranslationError as ``parts_of`` does."""
    kind = block.get("type")
    if kind == "text":  # by far the most frequent
        return [_text_part(text_in(block, "text", path))]
    if not isinstance(kind, str) or kind in _MODELS:
        raise wrong((*path, "type"), "a block of this type cannot be said in chat completions here")
    make = _BLOCKS.get(kind)
    return [_text_part(_text_of(block))] if make is None else make(block, path)


def content_of(parts: list[Json]) -> str | list[Json]:
    """Return a chat message's ``content``: one string if all parts are text, otherwise the parts.

    Many servers and templates take only strings; and the prompt must stay the same if a client
    sends a text first as a string and later as a block.
    """
    if all(part["type"] == "text" for part in parts):
        return SEAM.join(part["text"] for part in parts)
    return parts


def _text_of(block: Json) -> str:
    """Return the text of a block that has no chat part of its own, or a line that names it."""
    text = text_of(block)
    return worded(block) if text is None else text


def _text_part(text: str) -> Json:
    return {"type": "text", "text": text}


def _image_parts(block: Json, path: Path) -> list[Json]:
    path = (*path, "source")
    source = needed(dict, block.get("source"), path)
    if source.get("type") == "url":
        url = text_in(source, "url", path)
    elif source.get("type") == "base64":
        url = _data_url(source, path)
    else:  # an uploaded file
        return [_text_part(worded(block))]
    return [{"type": "image_url", "image_url": {"url": url}}]


def _document_parts(block: Json, path: Path) -> list[Json]:
    """Return a document's parts: text as text, a base64 PDF as a file, others as a line of text."""
    title, context = block.get("title"), block.get("context")
    path = (*path, "source")
    source = needed(dict, block.get("source"), path)
    kind = source.get("type")
    head = [_text_part(said) for said in (title, context) if isinstance(said, str) and said]
    if kind == "text":
        return [*head, _text_part(text_in(source, "data", path))]
    if kind == "content":
        return [*head, *parts_of(source.get("content"), (*path, "content"))]
    if kind == "base64" and source.get("media_type") == "application/pdf":
        name = title if isinstance(title, str) and title else "document.pdf"
        file = {"filename": name, "file_data": _data_url(source, path)}
        return [*head[1 if name is title else 0 :], {"type": "file", "file": file}]
    return [_text_part(worded(block))]


def _data_url(source: Json, path: Path) -> str:
    kind = text_in(source, "media_type", path)
    return f"data:{kind};base64,{text_in(source, 'data', path)}"


def _search_result_parts(block: Json, path: Path) -> list[Json]:
    head = [
        _text_part(said) for key in ("title", "source") if isinstance(said := block.get(key), str)
    ]
    return [*head, *parts_of(block.get("content"), (*path, "content"))]


def _tool_reference_parts(block: Json, path: Path) -> list[Json]:
    """Return the name of a tool that a search found, as text; its definition was sent before."""
    return [_text_part(text_in(block, "tool_name", path))]


_BLOCKS: dict[str, Callable[[Json, Path], list[Json]]] = {
    "image": _image_parts,
    "document": _document_parts,
    "search_result": _search_result_parts,
    "tool_reference": _tool_reference_parts,
}
