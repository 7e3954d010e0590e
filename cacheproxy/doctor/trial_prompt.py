"""The prompt of a trial: made up, about 600 tokens long; it asks for one token."""

from __future__ import annotations

import json

from cacheproxy.core.dialects.dialect import Dialect

QUESTION = "Answer with one word: how many people can sit at the table?"
_SENTENCES = (
    "The garden behind the old house is long and narrow, with a wall of grey stone on each side.",
    "In the spring the first flowers come up near the gate, where the sun stays until the evening.",
    "A small river runs past the end of it, and the children used to build boats there from bark.",
    "The table under the apple tree is made of oak, and four people can sit around it with ease.",
    "When the rain comes from the west, the water collects in a barrel and is used in dry weeks.",
    "Every tool has its place in the shed: the rake, the two spades, the ladder and the lamp.",
)
_ROUNDS = 5
_ROUND = 120  #: tokens of six sentences of English, about
_LONGEST = 2600  #: tokens of a test prompt, at most


def rounds_for(block: int) -> int:
    """Return the repetitions of the sentences that fill two blocks of ``block`` tokens.

    If the prompt would be too long: the usual number.
    """
    tokens = 2 * block + 2 * _ROUND
    return max(_ROUNDS, -(-tokens // _ROUND)) if tokens <= _LONGEST else _ROUNDS


def text(mark: str, rounds: int = _ROUNDS) -> str:
    """Return the sentences, ``rounds`` times; ``mark`` makes the text unlike all earlier ones."""
    return f"[cacheproxy doctor {mark}]\n" + "\n".join(_SENTENCES * rounds)


def body(api: Dialect, model: str, head: str, mark: str, rounds: int = _ROUNDS) -> bytes:
    """Return a JSON body that asks for one token; ``head``, if any, comes before the prompt."""
    parts = [part for part in (head, text(mark, rounds)) if part]
    prompt = api.body(parts, [{"role": "user", "content": QUESTION}])
    request = {"model": model, "stream": False} | api.limited({}, 1) | prompt
    return json.dumps(request, separators=(",", ":")).encode()
