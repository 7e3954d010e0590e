"""The probe of a chat template's placement of late system messages.

A server that can render a conversation without evaluating it gets short ones of our own, a dozen
words each, as chat bodies. The places of the marks in the rendered text show the placement.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from typing import Any, TypeVar

from cacheproxy.core.document.compare import common_prefix
from cacheproxy.core.document.reader import parsed
from cacheproxy.core.kinds.kind import RenderingPage
from cacheproxy.core.kinds.placement import ROLES, Late, Placement, Treatment

Result = TypeVar("Result")
Rendered = Mapping[str, str | None]
"""Rendered texts by the name of the question; None: the template refused it."""
Asking = Generator[bytes, tuple[int, bytes], Result]
"""A probe: it yields bodies to POST, and takes the status and the body of each answer."""
_NO_PAGE = frozenset({401, 403, 404, 405, 410, 429, 501, 502, 503, 504, 508})
_LARGEST = 64 << 10
"""Bytes of a rendered question, at most; a larger answer renders something else."""
_BYTES_IN_HEX = re.compile(r"(?:<0x[0-9A-F]{2}>)+")
_SPACE, _BYTE_SPACE, _BYTE_LINE = "\u2581", "\u0120", "\u010a"
Json = dict[str, Any]
HEAD, ONE, LATE, TWO, THREE = (
    f"cacheproxy-{word}" for word in ("head", "one", "late", "two", "three")
)
THOUGHT, CALL, RESULT, SPEECH = (
    f"cacheproxy-{word}" for word in ("thought", "call", "result", "says")
)
"""Marks of an assistant's reasoning, a tool's call and its result, and the tool's description."""
_TOOL, _CALL_ID = "cacheproxy_tool", "cachepr0x"
"""Name of the tool, and an id of a call: nine letters or digits, as Mistral's templates need."""
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": SPEECH,
            "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
        },
    }
]
PLAIN = "plain"
"""Name of the first question: a conversation without late messages."""
TOOL, JOINED, LONG_IDS = "tool", "tool joined", "tool long ids"
"""Names of questions: a running turn; with a late message joined to its result; with long ids, as
of most clients."""
_CALLS = (
    (TOOL, "calls of tools and their results"),
    (f"{TOOL} user", "a user's message right behind a tool's result"),
)
"""Questions that a template may refuse in any form, and their subjects."""
FIRST, OPEN, ENDED = "first", "open", "ended"
"""Names of a conversation's requests: the first, one with a tool's result, one with a new user
message."""
BARE_OPEN, BARE_ENDED = "bare open", "bare ended"
"""Names of the last two from a client that sends no reasoning back."""
KEEPERS: tuple[tuple[str, bool], ...] = (
    ("preserve_reasoning", True),
    ("preserve_thinking", True),
    ("clear_thinking", False),
    ("truncate_history_thinking", False),
)
"""Members of ``chat_template_kwargs`` that make templates keep the reasoning of turns that have
ended: llama.cpp's name for all of them, Qwen's, GLM's, Nemotron's."""


class NoPageError(Exception):
    """A server without such a page, or one that does not serve it to us, or not now."""


def placement_of(rendered: Rendered, told_by: str) -> Placement | None:
    """Return the placement that the answers show; None if no chat template rendered them."""
    plain = rendered.get(PLAIN)
    if plain is None or not _in_order(plain, (ONE, TWO, THREE)) or LATE in plain:
        return None
    as_user = rendered.get("late user")
    as_users, joined = _kept(rendered, f"{TOOL} user"), _kept(rendered, JOINED)
    treatments = []
    for role in ROLES:
        late = _late(rendered, f"late {role}", (ONE, TWO), as_user)
        lead = _late(rendered, f"second {role}", ("", ONE), None)
        sent = _kept(rendered, f"{TOOL} {role}", joined)
        costs = not late.harms and sent < max(joined, as_users)
        treatments.append(Treatment(late, lead, costs))
    return Placement(
        system=treatments[0],
        developer=treatments[1],
        joins_user="late user" in rendered and as_user is None,
        joins_tool=_is_refused(rendered, f"{TOOL} user") or 0 <= as_users < joined,
        told_by=told_by,
        short_ids=_is_refused(rendered, LONG_IDS),
        refuses=tuple([what for name, what in _CALLS if _is_refused(rendered, name)]),
    )


def _kept(rendered: Rendered, name: str, unasked: int = -1) -> int:
    """Return the prefix that a late message behind a turn leaves of the turn's rendered text.

    In characters, up to the end of the tool's result: all of it if the answer ``name`` only adds
    to it. -1 if the message is refused or dropped; ``unasked`` if the question was not put.
    """
    before, text = rendered.get(TOOL), rendered.get(name)
    if before is None or name not in rendered:
        return unasked
    if text is None or LATE not in text:
        return -1
    at = before.find(RESULT)
    return common_prefix(before[: at + len(RESULT)] if at >= 0 else "", text)


def _is_refused(rendered: Rendered, name: str) -> bool:
    """Whether the question ``name`` was refused; a variant of TOOL, only if TOOL was rendered."""
    is_base = name == TOOL or rendered.get(TOOL) is not None
    return is_base and name in rendered and rendered[name] is None


def asking(page: RenderingPage, model: str = "") -> Asking[Placement | None]:
    """Probe ``page`` for the placement: the caller sends the bodies that this yields.

    It takes the status and the body of each answer. Return the placement, None if a plain
    conversation is refused, as by a server that needs the ``model``.
    Raises NoPageError, also for a page that renders something else.
    """
    rendered: dict[str, str | None] = {}
    placement = None
    for questions in (first_questions(), tool_questions()):
        for name, question in questions.items():
            if name != TOOL and rendered.get(TOOL, "") is None:
                break
            rendered[name] = yield from render(page, question, model)
            if rendered[name] is None and name == PLAIN:
                return None
        placement = placement_of(rendered, page.path)
        if placement is None:
            raise NoPageError
    return placement


def render(page: RenderingPage, question: Json, model: str = "") -> Asking[str | None]:
    """Probe ``page`` with one conversation; return its text, None if the template refuses it.

    Raises NoPageError.
    """
    more = {**page.also, "model": model} if model else page.also
    status, body = yield body_of(question, **more)
    text = read(body) if status == 200 else None
    if text is None and (status in _NO_PAGE or status == 200):
        raise NoPageError
    return text


def _late(rendered: Rendered, name: str, around: tuple[str, str], as_user: str | None) -> Late:
    """Return the treatment of the late message that belongs between the marks ``around`` it."""
    if name not in rendered:
        return Late.UNKNOWN
    text = rendered[name]
    if text is None:
        return Late.REFUSED
    if LATE not in text:
        return Late.DROPPED
    before, after = around
    if not text.find(before) <= text.find(LATE) < text.find(after):
        return Late.HOISTED
    if HEAD in (rendered.get(PLAIN) or "") and HEAD not in text:
        return Late.DROPPED  # the head is dropped, replaced by it
    return Late.USER if text == as_user else Late.INLINE


def _in_order(text: str, marks: tuple[str, ...]) -> bool:
    places = [text.find(mark) for mark in marks]
    return places == sorted(places) and places[0] >= 0


def text_of(answer: Any) -> str | None:
    """Return the rendered text in a JSON answer, None if there is none.

    The answer has a text (``prompt``), or tokens (``token_strs``) as in a vocabulary: byte-level
    BPE spells each byte as a character of its own (``Ġ`` a space, ``Ċ`` a line's end: GPT-2's
    ``bytes_to_unicode``), SentencePiece a space as ``▁`` and odd bytes as ``<0x0A>``.
    """
    if not isinstance(answer, dict):
        return None
    text = answer.get("prompt")
    if isinstance(text, str):
        return text
    pieces = answer.get("token_strs")
    if isinstance(pieces, list) and all(isinstance(piece, str) for piece in pieces):
        text = "".join(pieces)
        # The more frequent sign for a space decides the spelling: DeepSeek's special tokens, in
        # byte-level BPE, have the other sign in their names.
        in_bytes = text.count(_BYTE_SPACE) + text.count(_BYTE_LINE)
        if text.count(_SPACE) > in_bytes:
            return _BYTES_IN_HEX.sub(_of_hex, text.replace(_SPACE, " "))
        if not in_bytes:
            return text
        spelled = bytearray()
        for character in text:
            byte = _BYTES.get(character)
            spelled += character.encode("utf-8", "replace") if byte is None else bytes((byte,))
        return spelled.decode("utf-8", "replace")
    return None


def read(body: bytes, largest: int = _LARGEST) -> str | None:
    """Return the rendered text in an answer's ``body``, None if it has none or is too large."""
    return text_of(parsed(body)) if len(body) <= largest else None


def _of_hex(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("<0x", "").replace(">", "")).decode("utf-8", "replace")


def _spell_bytes() -> tuple[str, ...]:
    """Return a character for each byte: a printable one itself, others from U+0100 on."""
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(0x100) if byte not in seen]
    moved = {byte: 0x100 + number for number, byte in enumerate(others)}
    return tuple(chr(moved.get(byte, byte)) for byte in range(0x100))


BYTE_SPELLING = _spell_bytes()
"""GPT-2's printable characters, one for each byte."""
_BYTES = {character: byte for byte, character in enumerate(BYTE_SPELLING)}


def first_questions() -> dict[str, Json]:
    """Return the questions on placement at the head: chat bodies without a model, by name."""
    head, one, two, three = (
        _said("system", HEAD),
        _said("user", ONE),
        _said("assistant", TWO),
        _said("user", THREE),
    )
    asked = {PLAIN: [head, one, two, three]}
    for role in ROLES:
        asked[f"late {role}"] = [head, one, _said(role, LATE), two, three]
        asked[f"second {role}"] = [head, _said(role, LATE), one]
    asked["late user"] = [head, one, _said("user", LATE), two, three]
    return {name: {"messages": messages} for name, messages in asked.items()}


def tool_questions() -> dict[str, Json]:
    """Return the questions on late messages behind a tool's result, and on tool calls at all.

    The turn has reasoning, by whose rendering the ways to place the message can be told apart.
    """
    called = turn(THOUGHT)[OPEN]["messages"]
    result = called[-1]
    asked = {TOOL: called}
    for role in ("user", *ROLES):
        asked[f"{TOOL} {role}"] = [*called, _said(role, LATE)]
    asked[JOINED] = [*called[:-1], result | {"content": f"{result['content']}\n\n{LATE}"}]
    asked[LONG_IDS] = turn(call_id=f"call_{_CALL_ID * 3}")[OPEN]["messages"]
    return {name: {"messages": messages, "tools": _TOOLS} for name, messages in asked.items()}


def turn(thought: str = "", call_id: str = _CALL_ID) -> dict[str, Json]:
    """Return one conversation in three stages: FIRST, OPEN, ENDED.

    ``thought``: the reasoning before the tool's call, if the client sends it back. It is sent under
    both its names, of which servers read one.
    """
    function = {"name": _TOOL, "arguments": json.dumps({"what": CALL})}
    call = {"id": call_id, "type": "function", "function": function}
    calling: Json = {"role": "assistant", "content": "", "tool_calls": [call]}
    if thought:
        calling |= {"reasoning_content": thought, "reasoning": thought}
    result = {"role": "tool", "tool_call_id": call_id, "content": RESULT}
    first = [_said("system", HEAD), _said("user", ONE)]
    called = [*first, calling, result]
    ended = [*called, _said("assistant", TWO), _said("user", THREE)]
    grown = {FIRST: first, OPEN: called, ENDED: ended}
    return {name: {"messages": messages, "tools": _TOOLS} for name, messages in grown.items()}


def body_of(question: Json, **more: Any) -> bytes:
    """Return the JSON body of a question."""
    return json.dumps(question | more).encode()


def _said(role: str, text: str) -> Json:
    return {"role": role, "content": text}
