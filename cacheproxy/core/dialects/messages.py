"""Anthropic's Messages API. Source: its API reference."""

from __future__ import annotations

from typing import Any

from cacheproxy.core.dialects.content import calls_in
from cacheproxy.core.dialects.dialect import Dialect, EndMarks, Endpoint, Purpose, UsageSpelling
from cacheproxy.core.dialects.reasoning import ReadAnswer, Reasoning, is_signed
from cacheproxy.core.document.document import Document, Splice
from cacheproxy.core.document.edits import Edit, Raw, encode, splices_of
from cacheproxy.core.document.pointer import Path, to_pointer

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
"""The types that its SDKs know by status ("Errors"). A 503 stays an ``api_error``: a model that is
loading is worth a retry later, while clients meet ``overloaded_error`` by asking less or another
model."""
_LAST = frozenset({"message_stop"})


def error_type(status: int) -> str:
    """Return the type of an error that has ``status``."""
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
    """Take a block, or a piece of one: their texts have the same names."""
    if part.get("type") == "redacted_thinking" or is_signed(part):
        raise ValueError("the reasoning is hidden or signed")
    for name, pieces in (("text", answer.text), ("thinking", answer.reasoning)):
        if isinstance(part.get(name), str):
            pieces.append(part[name])


def _put(
    document: Document, number: int, _: str, spelled: str, why: str
) -> tuple[Edit, list[Splice]] | None:
    """Put an unsigned block of thinking before a message's others."""
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
    # "Streaming messages": any number of these may come anywhere.
    ping=b'event: ping\ndata: {"type": "ping"}\n\n',
    error=_error,
    reasoning=Reasoning(_read, _read_event, _put),
)
"""``/v1/messages``, ``/v1/messages/count_tokens``."""
