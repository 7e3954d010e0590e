"""Content blocks of a user's message or a tool's result as parts of a chat message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cacheproxy.core.document.pointer import Path
from cacheproxy.translate.body import list_of, object_of, text_in, wrong
from cacheproxy.translate.reading import SEAM, Json

_PDF = "application/pdf"


def parts_of(content: Any, path: Path) -> list[Json]:
    """Return the chat parts for ``content``, a string or a list of blocks at ``path``.

    Parts: ``{"type": "text"}``, ``{"type": "image_url"}`` and ``{"type": "file"}`` as in OpenAI's
    API reference. Raises TranslationError for a block that cannot be said so.
    """
    if isinstance(content, str):
        return [_text(content)]
    parts: list[Json] = []
    for index, block in enumerate(list_of(content, path)):
        parts += part_of(object_of(block, (*path, index)), (*path, index))
    return parts


def part_of(block: Json, path: Path) -> list[Json]:
    """Return the chat parts for one block."""
    kind = block.get("type")
    if kind == "text":  # by far the most of them
        return [_text(text_in(block, "text", path))]
    make = _BLOCKS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise wrong((*path, "type"), "a block of this type cannot be said in chat completions here")
    return make(block, path)


def content_of(parts: list[Json]) -> str | list[Json]:
    """Return a chat message's ``content``: one string where all parts are text.

    Many servers and templates take nothing else; and a client that writes a text now as a string
    and then as a block must not change the prompt.
    """
    if all(part["type"] == "text" for part in parts):
        return SEAM.join(part["text"] for part in parts)
    return parts


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


def _image(block: Json, path: Path) -> list[Json]:
    path = (*path, "source")
    source = object_of(block.get("source"), path)
    if source.get("type") == "url":
        url = text_in(source, "url", path)
    elif source.get("type") == "base64":
        url = _data_url(source, path)
    else:
        raise wrong((*path, "type"), "an image is either base64 or a URL in chat completions")
    return [{"type": "image_url", "image_url": {"url": url}}]


def _document(block: Json, path: Path) -> list[Json]:
    """A text as text; a base64 PDF as a file; a URL or an uploaded file chat has no word for."""
    title, context = block.get("title"), block.get("context")
    path = (*path, "source")
    source = object_of(block.get("source"), path)
    kind = source.get("type")
    head = [_text(said) for said in (title, context) if isinstance(said, str) and said]
    if kind == "text":
        return [*head, _text(text_in(source, "data", path))]
    if kind == "content":
        return [*head, *parts_of(source.get("content"), (*path, "content"))]
    if kind == "base64" and source.get("media_type") == _PDF:
        name = title if isinstance(title, str) and title else "document.pdf"
        file = {"filename": name, "file_data": _data_url(source, path)}
        return [*head[1 if name is title else 0 :], {"type": "file", "file": file}]
    raise wrong((*path, "type"), "chat completions take documents as text or as base64 PDF only")


def _data_url(source: Json, path: Path) -> str:
    kind = text_in(source, "media_type", path)
    return f"data:{kind};base64,{text_in(source, 'data', path)}"


def _search_result(block: Json, path: Path) -> list[Json]:
    head = [_text(said) for key in ("title", "source") if isinstance(said := block.get(key), str)]
    return [*head, *parts_of(block.get("content"), (*path, "content"))]


def _tool_reference(block: Json, path: Path) -> list[Json]:
    """What a tool search found. The tool itself is among the definitions from the start."""
    return [_text(text_in(block, "tool_name", path))]


_BLOCKS: dict[str, Callable[[Json, Path], list[Json]]] = {
    "image": _image,
    "document": _document,
    "search_result": _search_result,
    "tool_reference": _tool_reference,
}
