"""Google's Gemini API: requests are relayed, and edited by rules that name their paths.

They are read as turns of conversations in captures alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproxy.core.dialects.content import Part, Segment, compact, source_of
from cacheproxy.core.dialects.dialect import Dialect, Endpoint


def _segments(body: dict[str, Any]) -> list[Segment]:
    texts = _parts("/systemInstruction", body.get("systemInstruction"), Part.SYSTEM, "")
    return [*_tools(body), *texts, *_messages(body)]


def _tools(body: dict[str, Any]) -> Iterator[Segment]:
    for index, tool in enumerate(_list(body.get("tools"))):
        declared = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        for number, function in enumerate(_list(declared)):
            path = f"/tools/{index}/functionDeclarations/{number}"
            yield Segment(Part.TOOLS, path, compact(function))


def _messages(body: dict[str, Any]) -> Iterator[Segment]:
    for index, item in enumerate(_list(body.get("contents"))):
        role = item.get("role") if isinstance(item, dict) else None
        role = role if isinstance(role, str) else ""
        yield Segment(Part.MESSAGES, f"/contents/{index}/role", f"\n<{role}>\n", role)
        yield from _parts(f"/contents/{index}", item, Part.MESSAGES, role)


def _parts(path: str, holder: Any, part: Part, role: str) -> Iterator[Segment]:
    parts = holder.get("parts") if isinstance(holder, dict) else None
    for index, block in enumerate(_list(parts)):
        where = f"{path}/parts/{index}"
        if isinstance(block, dict) and isinstance(block.get("text"), str):
            yield Segment(part, f"{where}/text", block["text"], role, source_of(role))
        elif isinstance(block, dict):
            # The signature differs in each answer.
            shown = {key: value for key, value in block.items() if key != "thoughtSignature"}
            source = "tool" if "functionResponse" in block else source_of(role)
            yield Segment(part, where, compact(shown), role, source)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


GOOGLE = Dialect(
    name="google",
    endpoints=(
        Endpoint(":generateContent"),
        Endpoint(":streamGenerateContent"),
    ),
    is_proxied=False,
    items="contents",
    head="systemInstruction",
    as_segments=_segments,
)
"""``/v1beta/models/…:generateContent``."""
