"""Ask a chat template what it does with late system messages.

A server that renders a conversation without evaluating it is sent a dozen words of our own, once
for each question; marks in the rendered text tell the answer. Sources: llama-server's POST
``/apply-template`` (its tools/server/README.md), vLLM's POST ``/tokenize`` with ``messages``.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from cacheproxy.core.placement import ROLES, Late, Placement, Treatment

_HEAD, _ONE, _LATE, _TWO, _THREE = (
    f"cacheproxy-{word}" for word in ("head", "one", "late", "two", "three")
)
_TOOL, _RESULT, _CALL_ID = "cacheproxy_tool", "cacheproxy-result", "cachepr0x"
"""A call's id is nine letters or digits in Mistral's templates."""
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": "a tool",
            "parameters": {"type": "object", "properties": {}},
        },
    }
]
PLAIN = "plain"
"""The question that comes first: a conversation without late messages."""
Json = dict[str, Any]
Rendered = Mapping[str, str | None]
"""The rendered text by question; None where the template refused."""
Asking = Generator[bytes, tuple[int, bytes], Placement | None]
LLAMA, VLLM = "/apply-template", "/tokenize"
PAGES: Mapping[str, Json] = {LLAMA: {}, VLLM: {"return_token_strs": True}}
"""Where servers render a conversation, and what they are asked for besides."""
_NO_PAGE = frozenset({401, 403, 404, 405, 410, 429, 501, 502, 503, 504, 508})
_LARGEST = 64 << 10
"""Bytes of a rendered dozen of words; what is larger is none."""


class NoPageError(Exception):
    """The server has no such page, or not for us, or not now."""


def first_questions() -> dict[str, Json]:
    """Return conversations to be rendered, as chat bodies without a model, by name."""
    head, one, two, three = (
        _said("system", _HEAD),
        _said("user", _ONE),
        _said("assistant", _TWO),
        _said("user", _THREE),
    )
    asked = {PLAIN: [head, one, two, three]}
    for role in ROLES:
        asked[f"late {role}"] = [head, one, _said(role, _LATE), two, three]
        asked[f"second {role}"] = [head, _said(role, _LATE), one]
    asked["late user"] = [head, one, _said("user", _LATE), two, three]
    return {name: {"messages": messages} for name, messages in asked.items()}


def tool_questions() -> dict[str, Json]:
    """Return what is asked besides where late messages have to be the user's."""
    call = {"id": _CALL_ID, "type": "function", "function": {"name": _TOOL, "arguments": "{}"}}
    called = [
        _said("system", _HEAD),
        _said("user", _ONE),
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": _CALL_ID, "content": _RESULT},
    ]
    return {
        "tool": {"messages": called, "tools": _TOOLS},
        "tool user": {"messages": [*called, _said("user", _LATE)], "tools": _TOOLS},
    }


def placement_of(rendered: Rendered, told_by: str) -> Placement | None:
    """Return what the answers say; None where they are not those of a chat template."""
    plain = rendered.get(PLAIN)
    if plain is None or not _in_order(plain, (_ONE, _TWO, _THREE)) or _LATE in plain:
        return None
    as_user = rendered.get("late user")
    treatments = [
        Treatment(
            _late(rendered, f"late {role}", (_ONE, _TWO), as_user),
            _late(rendered, f"second {role}", ("", _ONE), None),
        )
        for role in ROLES
    ]
    has_tools = rendered.get("tool") is not None
    return Placement(
        system=treatments[0],
        developer=treatments[1],
        joins_user="late user" in rendered and as_user is None,
        joins_tool=has_tools and "tool user" in rendered and rendered["tool user"] is None,
        told_by=told_by,
    )


def asking(path: str, model: str = "") -> Asking:
    """Ask the page ``path``, whoever sends the bodies that this yields.

    It takes the status and the body of each answer, and returns what is known then: None where
    not even a plain conversation is rendered, as by a server that wants to know the ``model``.
    Raises NoPageError.
    """
    rendered: dict[str, str | None] = {}
    placement = None
    for questions in (first_questions(), tool_questions()):
        for name, question in questions.items():
            rendered[name] = yield from render(path, question, model)
            if rendered[name] is None and name == PLAIN:
                return None
        placement = placement_of(rendered, path)
        if placement is None or not placement.places:
            break
    return placement


def render(
    path: str, question: Json, model: str = ""
) -> Generator[bytes, tuple[int, bytes], str | None]:
    """Ask for one conversation; return its text, None where the template refuses it.

    Raises NoPageError.
    """
    more = {**PAGES[path], "model": model} if model else PAGES[path]
    status, body = yield body_of(question, **more)
    text = _text(body) if status == 200 else None
    if text is None and (status in _NO_PAGE or status == 200):
        raise NoPageError
    return text


def wants_model(status: int) -> bool:
    """Whether the ``status`` of the first answer may be for want of a model's name."""
    return status != 200 and status not in _NO_PAGE


def text_of(answer: Any) -> str | None:
    """Return the rendered text in the JSON answer of either server, None if there is none."""
    if not isinstance(answer, dict):
        return None
    text = answer.get("prompt")
    if isinstance(text, str):
        return text
    pieces = answer.get("token_strs")
    if isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    return None


def body_of(question: Json, **more: Any) -> bytes:
    """Return the JSON body to send for a question."""
    return json.dumps(question | more).encode()


def _text(body: bytes) -> str | None:
    try:
        return text_of(json.loads(body)) if len(body) <= _LARGEST else None
    except (ValueError, RecursionError):
        return None


def _late(rendered: Rendered, name: str, around: tuple[str, str], as_user: str | None) -> Late:
    """Return what became of the late message that should stand between two marks."""
    if name not in rendered:
        return Late.UNKNOWN
    text = rendered[name]
    if text is None:
        return Late.REFUSED
    if _LATE not in text:
        return Late.DROPPED
    before, after = around
    if not text.find(before) <= text.find(_LATE) < text.find(after):
        return Late.HOISTED
    return Late.USER if text == as_user else Late.INLINE


def _in_order(text: str, marks: tuple[str, ...]) -> bool:
    places = [text.find(mark) for mark in marks]
    return places == sorted(places) and places[0] >= 0


def _said(role: str, text: str) -> Json:
    return {"role": role, "content": text}
