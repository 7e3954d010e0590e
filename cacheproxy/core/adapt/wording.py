"""Words in place of a part that a server cannot take: what it was, and why it is gone.

Equal parts have equal words in every turn. Of the data they name only type and size.
"""

from __future__ import annotations

from typing import Any

_Json = dict[str, Any]
_KINDS = {
    **dict.fromkeys(("image", "image_url", "input_image"), "image"),
    **dict.fromkeys(("input_audio", "audio", "audio_url"), "audio"),
    **dict.fromkeys(("video", "video_url", "input_video"), "video"),
    **dict.fromkeys(("file", "input_file", "document", "container_upload"), "file"),
}
"""Kinds of media by the type of a block, in any API."""
_WHY = {
    "image": "the model server takes no images",
    "audio": "the model server takes no audio",
    "video": "the model server takes no video",
    "file": "the model server takes no files",
}
_UPLOADED = "the model server does not have what was uploaded elsewhere"
_UNKNOWN = "the model server does not know this type of content"
_HOLDERS = ("source", "image_url", "input_audio", "audio_url", "video_url", "file")
"""Members of a block that may contain its data, one level deeper."""
_DATA = ("data", "url", "file_data", "file_url", "image_url", "base64")
_NAMES = ("filename", "title", "name")
_ONE_TEXT = {"refusal": "refusal", "compaction": "content", "tool_reference": "tool_name"}
"""Types of blocks that are a text under another name, each with the member of that text."""
_LONGEST = 200
_REMOTE = ("http://", "https://", "file:")


def kind_of(block: Any) -> str:
    """Return ``image``, ``audio``, ``video`` or ``file``; "" for a block of any other type."""
    kind = block.get("type") if isinstance(block, dict) else None
    return _KINDS.get(kind, "") if isinstance(kind, str) else ""


def worded(block: _Json, why: str = "") -> str:
    """Return one line in place of ``block``; ``why``: the reason, "" for the usual one."""
    kind = kind_of(block)
    what = kind or _short(block.get("type")) or "content"
    told = [f'"{name}"'] if (name := _name(block)) else []
    media, size = media_of(block)
    told += [media] if media else []
    told += [f"{size} bytes"] if size else []
    told = [", ".join(told)] if told else []
    usual = _UPLOADED if _is_uploaded(block) else _WHY.get(kind, _UNKNOWN)
    return f"[{what} not shown: {'; '.join([*told, why or usual])}]"


def text_of(block: _Json) -> str | None:
    """Return the text of a block that is only text in another spelling, None for others.

    Such are a refusal, a compaction's summary, a tool's name, and a document or a search result
    whose source is text: its title and origin come first.
    """
    kind, source = block.get("type"), block.get("source")
    member = _ONE_TEXT.get(kind) if isinstance(kind, str) else None
    if member is not None:
        return block[member] if isinstance(block.get(member), str) else None
    if kind == "search_result":
        return _joined(block.get("title"), source, *_texts(block.get("content")))
    if kind == "document" and isinstance(source, dict):
        inner = source.get("data") if source.get("type") == "text" else None
        texts = [inner] if isinstance(inner, str) else _texts(source.get("content"))
        return _joined(block.get("title"), block.get("context"), *texts) if texts else None
    return None


def _texts(content: Any) -> list[str]:
    """Return the texts of ``content``, [] if it contains anything else."""
    if isinstance(content, str):
        return [content]
    blocks = content if isinstance(content, list) else []
    texts = [block.get("text") for block in blocks if isinstance(block, dict)]
    found = [text for text in texts if isinstance(text, str)]
    return found if len(found) == len(blocks) else []


def _joined(*texts: Any) -> str | None:
    return "\n".join(text for text in texts if isinstance(text, str) and text) or None


def _name(block: _Json) -> str:
    """Return the name or title of a file in ``block``, as one short line; "" for none."""
    inner = block.get("file")
    for holder in (block, inner if isinstance(inner, dict) else {}):
        for member in _NAMES:
            if name := _short(holder.get(member)):
                return name
    return ""


def media_of(block: _Json) -> tuple[str, int]:
    """Return the media type of a block's data and its size in bytes; "" and 0 if not known."""
    for holder in reversed(_holders(block)):
        media = _short(holder.get("media_type") or holder.get("format"))
        for member in _DATA:
            data = holder.get(member)
            if isinstance(data, str) and data:
                named, size = _data(data)
                return named or media, size
    return "", 0


def is_remote(block: _Json) -> bool:
    """Whether the data of ``block`` is elsewhere, at a URL."""
    found = [holder.get(member) for holder in _holders(block) for member in _DATA]
    return any(isinstance(data, str) and data.startswith(_REMOTE) for data in found)


def _is_uploaded(block: _Json) -> bool:
    """Whether a block has only the id of a file that was uploaded to a vendor."""
    return any(isinstance(holder.get("file_id"), str) for holder in _holders(block))


def _holders(block: _Json) -> list[_Json]:
    return [block, *(block[name] for name in _HOLDERS if isinstance(block.get(name), dict))]


def _data(data: str) -> tuple[str, int]:
    """Return media type and size of a data URL (RFC 2397) or a base64 text (RFC 4648)."""
    if data.startswith(_REMOTE):
        return "", 0
    media = ""
    if data.startswith("data:"):
        head, comma, data = data.partition(",")
        media = _short(head[5:].partition(";")[0])
        if not comma or not head.endswith(";base64"):
            return media, 0
    return media, len(data) * 3 // 4 - data[-2:].count("=")


def _short(value: Any) -> str:
    """Return the first 200 characters of a string, as one line; "" for another value."""
    return " ".join(value[:_LONGEST].split()) if isinstance(value, str) else ""
