"""Questions to a chat template: short conversations of our own, with marks in them.

A server that can render a conversation without evaluating it gets each as a chat body. The places
of the marks in the rendered text give the answer (see ``rendering`` and ``traits``).
"""

from __future__ import annotations

import json
from typing import Any

from cacheproxy.core.placement.placement import ROLES

Json = dict[str, Any]
HEAD, ONE, LATE, TWO, THREE = (
    f"cacheproxy-{word}" for word in ("head", "one", "late", "two", "three")
)
THOUGHT, CALL, RESULT, SAYS = (
    f"cacheproxy-{word}" for word in ("thought", "call", "result", "says")
)
"""Of an assistant's reasoning, a tool's call and its result, and of the tool's own description."""
_TOOL, _CALL_ID = "cacheproxy_tool", "cachepr0x"
"""A call's id is nine letters or digits in Mistral's templates."""
_TOOLS = [
    {
        "type": "function",
        "function": {
            "name": _TOOL,
            "description": SAYS,
            "parameters": {"type": "object", "properties": {"what": {"type": "string"}}},
        },
    }
]
PLAIN = "plain"
"""The question that comes first: a conversation without late messages."""
TOOL, JOINED, LONG_IDS = "tool", "tool joined", "tool long ids"
"""A running turn; the same with a late message added to its result; with ids as most clients have.
"""
FIRST, OPEN, ENDED = "first", "open", "ended"
"""A conversation's first request, the same behind a tool's result, and when the user has answered.
"""
BARE_OPEN, BARE_ENDED = "bare open", "bare ended"
"""The last two of a client that sends no reasoning back."""
KEEPERS: tuple[tuple[str, bool], ...] = (
    ("preserve_reasoning", True),
    ("preserve_thinking", True),
    ("clear_thinking", False),
    ("truncate_history_thinking", False),
)
"""Members of ``chat_template_kwargs`` that make templates keep the reasoning of turns that have
ended: llama.cpp's name for all of them, Qwen's, GLM's, Nemotron's."""


def first_questions() -> dict[str, Json]:
    """Return conversations to be rendered, as chat bodies without a model, by name."""
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
    """Return what is asked of a late message behind a tool's result, and of calls at all.

    The turn has reasoning: what becomes of it tells the ways to place the message apart.
    """
    called = turn(THOUGHT)[OPEN]["messages"]
    result = called[-1]
    asked = {TOOL: called}
    for role in ("user", *ROLES):
        asked[f"{TOOL} {role}"] = [*called, _said(role, LATE)]
    asked[JOINED] = [*called[:-1], result | {"content": f"{result['content']}\n\n{LATE}"}]
    asked[LONG_IDS] = turn(call_id=f"call_{_CALL_ID * 3}")[OPEN]["messages"]
    return {name: {"messages": messages, "tools": _TOOLS} for name, messages in asked.items()}


def turn_questions() -> dict[str, Json]:
    """Return what tells how a turn fares when the next one begins: its thinking, its tools."""
    sent_back, bare = turn(THOUGHT), turn()
    return {
        ENDED: sent_back[ENDED],
        BARE_OPEN: bare[OPEN],
        BARE_ENDED: bare[ENDED],
        OPEN: sent_back[OPEN],
    }


def turn(thought: str = "", call_id: str = _CALL_ID) -> dict[str, Json]:
    """Return one conversation as it grows: FIRST, OPEN, ENDED.

    ``thought``: the reasoning before the tool's call, if the client sends it back. It stands under
    both its names; servers read one of them.
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
    """Return the JSON body to send for a question."""
    return json.dumps(question | more).encode()


def _said(role: str, text: str) -> Json:
    return {"role": role, "content": text}
