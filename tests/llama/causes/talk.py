"""One conversation of an agent with its tools, long enough that a part of it can be lost.

Chat completions bodies, of meaningless words: about 2,500 tokens in the end.
"""

from __future__ import annotations

import copy
import json
import random
from typing import Any

Json = dict[str, Any]

_TEXT = """
the quick brown fox jumps over a lazy dog and waits outside while rain falls on old roofs near every
river where small boats carry wood to towns that burn it through long winters
"""
_WORDS = _TEXT.split()


def words(count: int, seed: int) -> str:
    """Return ``count`` words, others for another seed."""
    return " ".join(random.Random(seed).choices(_WORDS, k=count))


SYSTEM = f"You are a helper. {words(500, 1)}"
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": words(90, 10 + number),
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for number, name in enumerate(("look", "read", "write"))
]
LATE = "1000 tokens are left"


def call(number: int) -> Json:
    """What an agent says to use a tool."""
    function = {"name": "look", "arguments": json.dumps({"path": f"boat{number}"})}
    called = [{"id": f"call0000{number}", "type": "function", "function": function}]
    return {"role": "assistant", "content": "", "tool_calls": called}


def result(number: int, text: str) -> Json:
    """What the tool returned."""
    return {"role": "tool", "tool_call_id": f"call0000{number}", "content": text}


def user(text: str) -> Json:
    """What the user says."""
    return {"role": "user", "content": text}


def assistant(text: str) -> Json:
    """What the model said."""
    return {"role": "assistant", "content": text}


MESSAGES = (
    {"role": "system", "content": SYSTEM},
    user(words(100, 21)),
    assistant(words(60, 22)),
    user(words(120, 23)),
    call(1),
    result(1, words(350, 24)),
    call(2),
    result(2, words(350, 25)),
    assistant(words(40, 26)),
    user(words(60, 27)),
)
ENDS = (4, 6, 8, 10)
"""How many messages each turn has."""


class Talk:
    """A conversation that grows turn by turn; what it is made of may be changed meanwhile.

    ``name``: no other conversation begins with it. ``fields``: what its bodies have beside
    messages and tools.
    """

    def __init__(self, name: str, model: str, **fields: Any) -> None:
        self.messages: list[Json] = copy.deepcopy(list(MESSAGES))
        self.system = f"{name}: {SYSTEM}"
        self.tools: list[Json] = copy.deepcopy(TOOLS)
        self.fields: Json = {"model": model, "max_tokens": 4, "temperature": 0, **fields}

    @property
    def system(self) -> str:
        """The system text."""
        text: str = self.messages[0]["content"]
        return text

    @system.setter
    def system(self, text: str) -> None:
        self.messages[0]["content"] = text

    def body(self, end: int) -> Json:
        """The request whose last message is number ``end``."""
        tools = {"tools": self.tools} if self.tools else {}  # vLLM refuses an empty list
        return {**self.fields, "messages": self.messages[:end], **tools}

    def think(self) -> None:
        """Have the model reason before all that it says, and send that back."""
        for number, message in enumerate(self.messages):
            if message["role"] == "assistant":
                message["reasoning_content"] = words(50, 40 + number)


CORPUS = "\n".join(
    [
        json.dumps(TOOLS),
        *(message["content"] for message in MESSAGES),
        "It is 12:00:00 on 2026-11-21. <|im_start|>developer tools system user assistant",
    ]
)
"""What a model should learn its vocabulary from, for a word to be about a token."""
