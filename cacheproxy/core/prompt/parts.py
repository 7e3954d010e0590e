"""How many tokens of a prompt each of its parts takes: estimated by the length of the texts."""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from cacheproxy.core.dialects.content import Part
from cacheproxy.core.prompt.prompt import Prompt, PromptOrder
from cacheproxy.core.prompt.segments import Piece


class Parts(NamedTuple):
    """Tokens of each part; together they are all of the prompt."""

    tools: int  #: their definitions
    system: int  #: system text
    history: int  #: earlier messages without the reasoning in them
    thinking: int  #: the reasoning in earlier messages
    newest: int
    """What stands behind the model's last words: the user's message, or results of tools."""
    order: PromptOrder  #: as it is rendered


def parts_of(
    prompt: Prompt, tokens: int, *, drops_thinking: bool = False, hides_thinking: bool = False
) -> Parts:
    """Return what the ``tokens`` of ``prompt``, as the server counted them, are made of.

    ``drops_thinking``: whether the template leaves out the reasoning before the last message of
    the user, ``hides_thinking``: whether it leaves out all of it.
    """
    tools = system = 0
    for piece in prompt.pieces:
        if piece.part is Part.MESSAGES:
            break
        if piece.part is Part.TOOLS:
            tools += piece.chars
        else:
            system += piece.chars
    newest = sum(piece.chars for piece in takewhile(_is_new, reversed(prompt.pieces)))
    history = prompt.chars - tools - system - newest - prompt.thinking
    thinking = 0 if hides_thinking else prompt.thinking
    if drops_thinking:
        thinking = _last_thinking(prompt)
    sizes = (tools, system, history, thinking, newest)
    return Parts(*_shared_out(tokens, sizes), prompt.order)


def _is_new(piece: Piece) -> bool:
    is_models = bool(piece.segments) and piece.segments[-1].source == "model"
    return piece.part is Part.MESSAGES and not is_models


def _last_thinking(prompt: Prompt) -> int:
    """Return the characters of reasoning behind the last message of the user."""
    last = takewhile(lambda piece: not _is_users(piece), reversed(prompt.pieces))
    return sum(piece.thinking for piece in last)


def _is_users(piece: Piece) -> bool:
    return any(segment.source == "user" for segment in piece.segments)


def _shared_out(tokens: int, sizes: tuple[int, ...]) -> tuple[int, int, int, int, int]:
    """Return whole numbers in the proportion of ``sizes`` that add up to ``tokens``."""
    total, upto, given = sum(sizes) or 1, 0, 0
    shares: list[int] = []
    for size in sizes:
        upto += size
        share = round(tokens * upto / total) - given
        given += share
        shares.append(share)
    shares[-1] += tokens - given
    tools, system, history, thinking, newest = shares
    return tools, system, history, thinking, newest
