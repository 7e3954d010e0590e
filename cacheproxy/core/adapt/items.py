"""Items of the Responses API that a server may not know: another provider's, or odd spellings.

Calls and results of any kind of tool become function calls and their results, with all their
content; a compaction becomes words, since its history is gone; everything else (reasoning without
text, references, searches that another provider ran) is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from cacheproxy.core.adapt.blocks import is_content
from cacheproxy.core.adapt.wording import worded
from cacheproxy.core.document.edits import REMOVE, Edit, encode
from cacheproxy.core.document.pointer import to_pointer

_Json = dict[str, Any]
Key = tuple[str, ...]
_CALL, _OUTPUT = "function_call", "function_call_output"
_KNOWN = frozenset({"message", _CALL, _OUTPUT})
_COMPACTED = "earlier parts of this conversation were compacted by another provider"
_BESIDE = frozenset({"type", "id", "call_id", "status", "name", "namespace"})
_GONE = "item of another provider left out"
_AS_CALL = "item of another provider, sent as the call of a function"
_TYPED = "type of an item, as the server needs it"


class ForeignItem(NamedTuple):
    """An item that a server may refuse."""

    key: Key  #: key under which its refusal is remembered
    number: int  #: its index in the input
    value: _Json  #: its value in the request
    is_reasoning: bool  #: whether it is reasoning, for which llama.cpp has messages of its own


def items_in(items: list[_Json]) -> Iterator[ForeignItem]:
    """Yield the items that a server may refuse, in their order."""
    for number, item in enumerate(items):
        kind = item.get("type")
        if kind is None and item.get("role") == "assistant":
            yield ForeignItem(("item", ""), number, item, False)
        elif kind == "reasoning":
            content = item.get("content")
            if not isinstance(content, list) or not content:
                yield ForeignItem(("item", "reasoning"), number, item, True)
            elif not isinstance(item.get("summary"), list):
                yield ForeignItem(("item", "reasoning", "summary"), number, item, False)
        elif isinstance(kind, str) and (kind not in _KNOWN or _is_odd(item)):
            yield ForeignItem(("item", kind), number, item, False)


def _is_odd(item: _Json) -> bool:
    """Whether ``item`` is a function's result that is neither a text nor a list of blocks."""
    return item["type"] == _OUTPUT and not isinstance(item.get("output"), str | list)


def edits_of(item: ForeignItem, root: str) -> Iterator[Edit]:
    """Yield the edits that replace ``item``, or remove it."""
    pointer, value, kind = f"/{root}/{item.number}", item.value, str(item.value.get("type"))
    if item.key[-1] == "":
        yield Edit(f"{pointer}/type", "message", _TYPED, adds="type" not in value)
    elif item.key[-1] == "summary":
        yield Edit(f"{pointer}/summary", [], _TYPED, adds="summary" not in value)
    elif kind.endswith("_output") and isinstance(value.get("call_id"), str):
        yield Edit(f"{pointer}/type", _OUTPUT, _AS_CALL)
        output = value.get("output", _others(value))
        if not isinstance(output, str) and not is_content(output):
            yield Edit(f"{pointer}/output", encode(output), _AS_CALL, adds="output" not in value)
    elif kind.endswith("_call") and isinstance(value.get("call_id"), str):
        yield Edit(f"{pointer}/type", _CALL, _AS_CALL)
        if not isinstance(value.get("name"), str):
            name = value["type"][: -len("_call")]
            yield Edit(f"{pointer}/name", name, _AS_CALL, adds="name" not in value)
        given = value.get("arguments")
        if "arguments" not in value:
            given = _others(value)
            yield from [Edit(f"{pointer}{to_pointer((name,))}", REMOVE, _AS_CALL) for name in given]
        if not isinstance(given, str):
            adds = "arguments" not in value
            yield Edit(f"{pointer}/arguments", encode(given), _AS_CALL, adds=adds)
    elif "compaction" in kind and kind != "compaction_trigger":
        text = {"type": "input_text", "text": worded({"type": kind}, _COMPACTED)}
        yield Edit(pointer, {"type": "message", "role": "user", "content": [text]}, _GONE)
    else:
        yield Edit(pointer, REMOVE, _GONE)


def _others(value: _Json) -> _Json:
    """Return the members of an item beside its type, ids, status and names."""
    return {name: one for name, one in value.items() if name not in _BESIDE}


def remains(items: list[_Json], gone: list[ForeignItem]) -> bool:
    """Whether any of ``items`` remains after the edits of those in ``gone``."""
    removed = sum(edit.new is REMOVE for item in gone for edit in edits_of(item, ""))
    return removed < len(items)
