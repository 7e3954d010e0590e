"""Anthropic's Messages API. Source: its API reference."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproxy.core.dialects.answer import ReadAnswer, Reading
from cacheproxy.core.dialects.content import NOT_JSON, calls_in
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling
from cacheproxy.core.dialects.errors import refusal, too_long
from cacheproxy.core.dialects.reasoning import is_signed
from cacheproxy.core.dialects.stream import CUT, Whole, event, is_error
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit, Raw, encode, splices_of
from cacheproxy.core.document.pointer import Path, to_pointer
from cacheproxy.core.document.reader import parsed

_Json = dict[str, Any]
_ERRORS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Error types by status, as in the API's SDKs ("Errors"). A 503 stays an ``api_error``: a loading
model is worth a retry, while clients react to ``overloaded_error`` with fewer requests or another
model."""
_LAST = frozenset({"message_stop"})
_ENDED = ("stop_reason", "stop_sequence", "stop_details", "container")
"""Members of a message that are known at its end alone, and come in a stream's last delta."""
_COUNTED = (
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "output_tokens_details",
    "server_tool_use",
)
"""Members of the usage that streams repeat at the end."""


def error_type(status: int) -> str:
    """Return the type of an error with ``status``."""
    return _ERRORS.get(status, "invalid_request_error" if status < 500 else "api_error")


def _error(status: int, message: str) -> _Json:
    return {"type": "error", "error": {"type": error_type(status), "message": message}}


def _read(answer: ReadAnswer, whole: _Json) -> None:
    content = whole.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict):
            _begin(answer, block)
    answer.calls += ((call.name, call.arguments) for call in calls_in(whole))


def _read_event(answer: ReadAnswer, event: _Json) -> None:
    kind, block, delta = event.get("type"), event.get("content_block"), event.get("delta")
    if kind == "content_block_start" and isinstance(block, dict):
        _begin(answer, block)
        if block.get("type") == "tool_use":
            given = block.get("input")  # as a rule {}: it comes in pieces
            answer.called(event.get("index"), block.get("name"), encode(given) if given else "")
    elif kind == "content_block_delta" and isinstance(delta, dict):
        _begin(answer, delta)
        if delta.get("type") == "input_json_delta":
            answer.called(event.get("index"), None, delta.get("partial_json"))


def _begin(answer: ReadAnswer, part: _Json) -> None:
    """Add the texts of a block, or of a delta, in which they have the same names."""
    if part.get("type") == "redacted_thinking" or is_signed(part):
        answer.hides = True
    for name, pieces in (("text", answer.text), ("thinking", answer.reasoning)):
        if isinstance(part.get(name), str):
            pieces.append(part[name])


def _put(
    document: Document, number: int, _: str, spelled: str, why: str
) -> tuple[Edit, list[Splice]] | None:
    """Put an unsigned ``thinking`` block before the others of a message (see ``Putting``)."""
    block = f'{{"type":"thinking","thinking":{spelled},"signature":""}}'
    path: Path = ("messages", number, "content")
    pointer, content = to_pointer(path), document.get(path[:2]).get("content")
    if not isinstance(content, str | list):
        return None
    if isinstance(content, list) and content:
        start = document.entry((*path, 0)).value_start
        edit = Edit(f"{pointer}/0", Raw(block), why, adds=True)
        return edit, [Splice(start, start, f"{block},".encode())]
    texts = f',{{"type":"text","text":{encode(content)}}}' if content else ""
    edit = Edit(pointer, Raw(f"[{block}{texts}]"), why)
    return edit, splices_of(document, [edit])


def _deferred_error(status: int, message: str, _: bool) -> bytes:
    told = too_long(status, {}, message)
    return event(_error(status, message) if told is None else _error(400, told))


def _whole() -> Whole:
    """Make a message out of its events (see ``Whole``)."""
    message: _Json = {}
    blocks: dict[Any, tuple[_Json, dict[str, list[str]]]] = {}
    is_over = False
    while (one := (yield)) is not None:
        kind, delta = one.get("type"), one.get("delta") or {}
        if is_error(one):
            raise ValueError(refusal(500, one))
        if kind == "message_start":
            message = dict(one["message"])
        elif kind == "content_block_start":
            blocks[one["index"]] = dict(one["content_block"]), {}
        elif kind == "content_block_delta":
            _take_delta(*blocks[one["index"]], delta)
        elif kind == "message_delta":
            more = {name: one[name] for name in one if name not in ("type", "delta", "usage")}
            usage = {**(message.get("usage") or {}), **_there(one.get("usage") or {})}
            message |= {**more, **delta, "usage": usage}
        elif kind in _LAST:
            is_over = True
    if not message or not is_over:
        raise ValueError(CUT)
    return message | {"content": [_block(*blocks[index]) for index in sorted(blocks)]}


def _take_delta(block: _Json, pieces: dict[str, list[str]], delta: _Json) -> None:
    """Add a delta to ``block``; its texts go to ``pieces`` by name, to be joined at the end."""
    for name, value in delta.items():
        if name == "citation":
            block["citations"] = [*(block.get("citations") or ()), value]
        elif name != "type" and isinstance(value, str):
            pieces.setdefault(name, []).append(value)
        elif name != "type":
            block[name] = value


def _block(block: _Json, pieces: dict[str, list[str]]) -> _Json:
    texts = {name: "".join(piece) for name, piece in pieces.items()}
    given = texts.pop("partial_json", "")
    if given.strip():
        value = parsed(given)
        block["input"] = value if isinstance(value, dict) else {NOT_JSON: given}
    return block | {name: (block.get(name) or "") + text for name, text in texts.items()}


def _there(usage: _Json) -> _Json:
    return {name: value for name, value in usage.items() if value is not None}


def _events(whole: _Json, _wanted: _Json | None) -> bytes:
    """Return a message as events, with one delta for each member of a block that has deltas."""
    content = whole.get("content")
    if whole.get("type") != "message" or not isinstance(content, list):
        raise ValueError("it is no message")
    usage = whole.get("usage") or {}
    ended = {name: whole.get(name) for name in _ENDED if name in whole or name in _ENDED[:2]}
    start = whole | dict.fromkeys(ended) | {"content": [], "usage": usage | {"output_tokens": 0}}
    found = [event({"type": "message_start", "message": start})]
    for index, block in enumerate(content):
        deltas = list(_deltas(block))
        first = block | {name: empty for name, empty, _ in deltas}
        found.append(event({"type": "content_block_start", "index": index, "content_block": first}))
        for _, _, delta in deltas:
            found.append(event({"type": "content_block_delta", "index": index, "delta": delta}))
        found.append(event({"type": "content_block_stop", "index": index}))
    used = {"output_tokens": 0} | {name: usage[name] for name in _COUNTED if name in usage}
    found.append(event({"type": "message_delta", "delta": ended, "usage": used}))
    return b"".join((*found, event({"type": "message_stop"})))


def _deltas(block: _Json) -> Iterator[tuple[str, Any, _Json]]:
    """Yield the deltas of a block, each with its member's name and value at the block's start."""
    kind = block["type"]
    if kind in ("tool_use", "server_tool_use"):
        given = encode(block.get("input", {}))
        yield "input", {}, {"type": "input_json_delta", "partial_json": given}
    elif kind in ("text", "thinking"):
        yield kind, "", {"type": f"{kind}_delta", kind: block.get(kind, "")}
    if kind == "thinking":
        signature = block.get("signature", "")
        yield "signature", "", {"type": "signature_delta", "signature": signature}
    for citation in block.get("citations") or ():
        yield "citations", [], {"type": "citations_delta", "citation": citation}


MESSAGES = Dialect(
    name="anthropic",
    path="/v1/messages",
    endpoints=(
        Endpoint("/messages", Purpose.CHAT, "anthropic"),
        Endpoint("/messages/count_tokens", Purpose.COUNT),
    ),
    head="system",
    head_in_blocks=True,
    leads=False,
    limits=("max_tokens",),
    key=b"x-api-key: ",
    version_header=b"anthropic-version",
    usage=(
        UsageSpelling(
            signs=("input_tokens", "output_tokens"),
            prompt=("input_tokens",),
            output=("output_tokens",),
            reused=("cache_read_input_tokens",),
            written=("cache_creation_input_tokens",),
            is_rest=True,
        ),
    ),
    end=EndMarks(lambda message: str(message.get("type")) in _LAST, _LAST),
    # "Streaming messages": any number of pings may come anywhere in a stream.
    sign=lambda _: b'event: ping\ndata: {"type": "ping"}\n\n',
    whole=_whole,
    events=_events,
    deferred_error=_deferred_error,
    error=_error,
    reading=Reading(_read, _read_event),
    reasoning=_put,
)
"""``/v1/messages``, ``/v1/messages/count_tokens``."""
