"""A clean conversation of any length, and volatile fields planted in it.

A conversation is a list of bodies, each the one before and more. ``plant`` puts something
into every turn, other in each, and leaves the rest as it was.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterable

from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange
from tests.record.recorded import recorded

Body = dict
_WORDS = (
    "the agent reads a file and then writes what it found into another one so that later "
    "somebody may look for it again under its name in the folder of the project"
)
WORDS = _WORDS.split()
TURNS = 4
SESSION = {"x-session-id": "planted"}


def prose(seed: str, words: int = 40) -> str:
    """Sentences without any number, the same for the same seed."""
    chosen = random.Random(seed)
    lines = [" ".join(chosen.choice(WORDS) for _ in range(8)) for _ in range(words // 8)]
    return "\n".join(lines)


def tool(name: str) -> Body:
    return {
        "name": name,
        "description": prose(name),
        "input_schema": {
            "type": "object",
            "properties": {
                key: {"type": "string", "description": prose(name + key, 8)}
                for key in ("path", "text", "mode")
            },
            "required": ["path", "text"],
        },
    }


def _said(role: str, *blocks: Body) -> Body:
    return {"role": role, "content": list(blocks)}


def _text(seed: str, words: int = 40) -> Body:
    return {"type": "text", "text": prose(seed, words)}


def anthropic(turns: int = TURNS) -> list[Body]:
    """Bodies of a conversation with tools, a system text in two blocks, and tool calls."""
    messages: list[Body] = []
    shown = []
    for turn in range(turns):
        messages.append(_said("user", _text(f"user {'x' * turn}")))
        shown.append(copy.deepcopy(messages))
        call = {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}}
        result = {"type": "tool_result", "tool_use_id": "a", "content": prose("r" * turn)}
        messages += [_said("assistant", _text(f"model {'x' * turn}", 16), call)]
        messages += [_said("user", result)]
    head = {
        "model": "m",
        "tools": [tool(name) for name in ("bash", "edit", "read", "write")],
        "system": [_text("head"), _text("tail", 160)],
    }
    return [copy.deepcopy(head) | {"messages": one} for one in shown]


def chat(turns: int = TURNS) -> list[Body]:
    """The same as a chat completion, all contents strings."""
    result = []
    for body in anthropic(turns):
        messages = [{"role": "system", "content": prose("tail", 160)}]
        for message in body["messages"]:
            block = message["content"][0]
            if block["type"] == "tool_result":
                messages.append({"role": "tool", "tool_call_id": "a", "content": block["content"]})
            else:
                messages.append({"role": message["role"], "content": block["text"]})
        tools = [{"type": "function", "function": entry} for entry in body["tools"]]
        result.append({"model": "m", "tools": tools, "messages": messages})
    return result


def plant(bodies: list[Body], change: Callable[[Body, int], None]) -> list[Body]:
    """Return copies, each changed in place by ``change(body, turn)``."""
    planted = copy.deepcopy(bodies)
    for turn, body in enumerate(planted):
        change(body, turn)
    return planted


def insert(text: str, at: int, what: str) -> str:
    """Put ``what`` between two words of ``text``, near the share ``at`` of a thousand."""
    places = [i for i, character in enumerate(text) if character == " "]
    place = places[at * len(places) // 1000]
    return f"{text[:place]} {what}{text[place:]}"


def request(body: Body, path: str | None = None) -> Request:
    spoken = path or ("/v1/messages" if "system" in body else "/v1/chat/completions")
    headers = tuple((name.encode(), value.encode()) for name, value in SESSION.items())
    return Request("POST", spoken, headers, json.dumps(body).encode())


def requests(bodies: Iterable[Body]) -> list[Request]:
    return [request(body) for body in bodies]


def captured(bodies: Iterable[Body]) -> list[Exchange]:
    return [
        recorded(one.method, one.target, one.headers, one.body, wall=100.0 + second)
        for second, one in enumerate(requests(bodies))
    ]


def jsonl(bodies: Iterable[Body]) -> str:
    """A capture file in the plainest form."""
    lines = [
        {"method": one.method, "path": one.target, "headers": SESSION, "body": one.body.decode()}
        for one in requests(bodies)
    ]
    return "".join(f"{json.dumps(one | {'t': float(n)})}\n" for n, one in enumerate(lines))


def numbered(kind: str, turn: int, seed: int = 0) -> str:
    """A token of ``kind``, another in each turn."""
    chosen = random.Random(f"{kind} {turn} {seed}")
    if kind == "uuid":
        digits = f"{chosen.getrandbits(128):032x}"
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    if kind == "clock":
        return f"2026-02-18T{9 + turn:02}:{chosen.randrange(60):02}"
    if kind == "date":
        return f"2026-02-{10 + turn}"
    if kind == "counter":
        return str(95 + seed % 7 + 3 * turn)
    return f"{'abcdef'[turn % 6]}{chosen.getrandbits(28):07x}"
