"""Which earlier prompts a server still has when the next one comes.

llama-server has slots, and may keep prompts beside them (``--cache-ram``, on by default). It does
not say whether it does, so it is asked: a short prompt, as many others as there are slots, and the
first one again. Source of the way slots are chosen: llama.cpp, ``tools/server/server-context.cpp``
(``get_available_slot``): the one that shares the most with the prompt, if that is more than a
tenth of the prompt (``--slot-prompt-similarity``), else the one not used for longest.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from cacheproxy.asking import Site
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.servers.llama_cpp import LLAMA_CPP
from cacheproxy.core.servers.profile import ServerFacts

_WORDS = 24
_MOST_SLOTS = 8
"""With more, a conversation is hardly ever driven out: no need to ask."""

Tokens = Sequence[int]


class Everything:
    """A server that forgets nothing; a new one for each pass, as Slots."""

    def __init__(self) -> None:
        self._known: list[Tokens] = []

    def reuse(self, tokens: Tokens) -> int | None:
        """Return how many of ``tokens`` it has, None for its first prompt; then keep them."""
        best = max((shared_tokens(known, tokens) for known in self._known), default=None)
        self._known.append(tokens)
        return best


class Slots:
    """A server that has a prompt in each of its ``count`` slots, and nothing beside them."""

    def __init__(self, count: int) -> None:
        self._slots: list[Tokens] = [()] * count
        """The one used last stands last."""
        self._used = False

    def reuse(self, tokens: Tokens) -> int | None:
        """Return what the slot that would be chosen has of ``tokens``; see ``Everything``."""
        shares = [shared_tokens(held, tokens) for held in self._slots]
        best = max(range(len(shares)), key=lambda index: (shares[index], -index))
        chosen = best if shares[best] > LLAMA_CPP.similarity * len(tokens) else 0
        del self._slots[chosen]
        self._slots.append(tokens)
        first, self._used = not self._used, True
        return None if first else shares[chosen]


KeptPrompts = Everything | Slots


def shared_tokens(one: Tokens, other: Tokens) -> int:
    """Return how many tokens two prompts share from the start."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))


def slots_without_ram(site: Site, server: ServerFacts, model: str) -> int | None:
    """Return the number of slots of the ``server`` at ``site`` if it has nothing beside them."""
    count = server.slots
    if count is None or count > _MOST_SLOTS:
        return None
    first, *others = (_text() for _ in range(count + 1))
    for text in (first, *others):
        _evaluate(site, model, text)
    share = _evaluate(site, model, first)
    return None if share is None or share > 0.5 else count


def _evaluate(site: Site, model: str, text: str) -> float | None:
    """Send a prompt of one message; return the reused part of it."""
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    usage = usage_of(site.tell("/v1/chat/completions", body))
    return usage.reused / usage.prompt if usage.prompt and usage.reused is not None else None


def _text() -> str:
    return " ".join(secrets.token_hex(4) for _ in range(_WORDS))
