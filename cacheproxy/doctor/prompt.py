"""The prompt that doctor sends: made up, about 600 tokens, behind a client's volatile head."""

from __future__ import annotations

import json
from typing import Any, Literal

Api = Literal["chat", "messages"]
PATHS: dict[Api, str] = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}

_SENTENCES = (
    "The garden behind the old house is long and narrow, with a wall of grey stone on each side.",
    "In the spring the first flowers come up near the gate, where the sun stays until the evening.",
    "A small river runs past the end of it, and the children used to build boats there from bark.",
    "The table under the apple tree is made of oak, and four people can sit around it with ease.",
    "When the rain comes from the west, the water collects in a barrel and is used in dry weeks.",
    "Every tool has its place in the shed: the rake, the two spades, the ladder and the lamp.",
)
_ROUNDS = 5
_ROUND = 120
"""Tokens: what six sentences of English are, about."""
_LONGEST = 2600
"""Tokens that a test prompt has at most."""
QUESTION = "Answer with one word: how many people can sit at the table?"


def rounds_for(block: int) -> int:
    """Return how often to say the sentences, so that two blocks of ``block`` tokens are filled.

    Where that would be too long, as often as usual.
    """
    tokens = 2 * block + 2 * _ROUND
    return max(_ROUNDS, -(-tokens // _ROUND)) if tokens <= _LONGEST else _ROUNDS


def text(mark: str, rounds: int = _ROUNDS) -> str:
    """Return the prompt's own text; ``mark`` makes it unlike all that came before."""
    return f"[cacheproxy doctor {mark}]\n" + "\n".join(_SENTENCES * rounds)


def body(api: Api, model: str, head: str, mark: str, rounds: int = _ROUNDS) -> bytes:
    """Return a request body that asks for one token; ``head`` stands before the prompt, if any."""
    request: dict[str, Any] = {"model": model, "max_tokens": 1, "stream": False}
    question = {"role": "user", "content": QUESTION}
    parts = [part for part in (head, text(mark, rounds)) if part]
    if api == "messages":
        blocks = [{"type": "text", "text": part} for part in parts]
        request |= {"system": blocks, "messages": [question]}
    else:
        system = {"role": "system", "content": "\n".join(parts)}
        request |= {"messages": [system, question]}
    return json.dumps(request, separators=(",", ":")).encode()
