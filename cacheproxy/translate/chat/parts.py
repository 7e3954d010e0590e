"""The parts of a chat message as content blocks."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator
from typing import Any

from cacheproxy.core.document.pointer import Path
from cacheproxy.translate.common.body import list_of, object_of, text_of, wrong
from cacheproxy.translate.common.reading import SEAM, Json

_DATA = re.compile(r"data:(?P<type>[^;,]*)(?:;[^;,]+)*;base64,", re.IGNORECASE)
_LINK = re.compile(r"https?:", re.IGNORECASE)
_PDF = "application/pdf"


def texts_of(content: Any, path: Path) -> str:
    """Return the text of ``content``, a string or a list of text parts, joined by ``SEAM``."""
    if isinstance(content, str):
        return content
    texts = []
    for part, place in _each(content, path):
        if part.get("type") != "text":
            raise wrong((*place, "type"), "text only is understood here")
        texts.append(text_of(part.get("text"), (*place, "text")))
    return SEAM.join(texts)


def blocks_of(content: Any, path: Path) -> list[Json]:
    """Return the content blocks for ``content``, a string or a list of parts at ``path``.

    An empty text is no block: the API refuses those. A ``cache_control`` that the
    client gave a part stays with it. Raises TranslationError for what cannot be said so: audio,
    uploaded files, links that are neither ``http`` nor ``data``.
    """
    if isinstance(content, str):
        return [text_block(content)] if content else []
    blocks = []
    for part, place in _each(content, path):
        kind = part.get("type")
        make = _PARTS.get(kind) if isinstance(kind, str) else None
        if make is None:
            raise wrong((*place, "type"), "a part of this type cannot be said in Anthropic's API")
        block = make(part, place)
        if block is not None:
            blocks.append(block | cache_control(part))
    return blocks


def text_block(text: str) -> Json:
    """Return the block that says ``text``."""
    return {"type": "text", "text": text}


def cache_control(holder: Json) -> Json:
    """Return the cache breakpoint that clients of Anthropic's models put into chat bodies."""
    given = holder.get("cache_control")
    if not isinstance(given, dict) or not isinstance(given.get("type"), str):
        return {}
    ttl = given.get("ttl")
    mark = {"type": given["type"]} | ({"ttl": ttl} if isinstance(ttl, str) else {})
    return {"cache_control": mark}


def _each(content: Any, path: Path) -> Iterator[tuple[Json, Path]]:
    for index, part in enumerate(list_of(content, path)):
        place = (*path, index)
        yield object_of(part, place), place


def _text(part: Json, path: Path) -> Json | None:
    text = text_of(part.get("text"), (*path, "text"))
    return text_block(text) if text else None


def _refusal(part: Json, path: Path) -> Json | None:
    text = text_of(part.get("refusal"), (*path, "refusal"))
    return text_block(text) if text else None


def _image(part: Json, path: Path) -> Json:
    path = (*path, "image_url")
    given = part.get("image_url")
    if isinstance(given, dict):  # some clients give the URL itself
        path = (*path, "url")
        given = given.get("url")
    url = text_of(given, path)
    data = _DATA.match(url)
    if data is not None:
        source = _base64(data["type"].lower(), url[data.end() :])
    elif _LINK.match(url):
        source = {"type": "url", "url": url}
    else:
        raise wrong(path, "an image is an http or a base64 data URL here")
    return {"type": "image", "source": source}


def _file(part: Json, path: Path) -> Json:
    """A PDF as it is, a text as text; of others Anthropic's API knows nothing."""
    path = (*path, "file")
    file = object_of(part.get("file"), path)
    if file.get("file_data") is None and file.get("file_id") is not None:
        raise wrong((*path, "file_id"), "a file uploaded to another server cannot be read here")
    path = (*path, "file_data")
    url = text_of(file.get("file_data"), path)
    data = _DATA.match(url)
    kind = data["type"].lower() if data is not None else _PDF
    rest = url[data.end() :] if data is not None else url
    if kind == _PDF:
        source = _base64(kind, rest)
    elif kind.startswith("text/"):
        source = {"type": "text", "media_type": "text/plain", "data": _decoded(rest, path)}
    else:
        raise wrong(path, "documents are PDF or text in Anthropic's API")
    block = {"type": "document", "source": source}
    name = file.get("filename")
    return block | ({"title": name} if isinstance(name, str) and name else {})


def _base64(kind: str, data: str) -> Json:
    return {"type": "base64", "media_type": kind, "data": data}


def _decoded(data: str, path: Path) -> str:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        raise wrong(path, "this is no UTF-8 text in base64") from None


_PARTS: dict[str, Callable[[Json, Path], Json | None]] = {
    "text": _text,
    "refusal": _refusal,
    "image_url": _image,
    "file": _file,
}
