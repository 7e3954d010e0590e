"""What a server tells of its prompts: how it counts them, and which earlier ones it still has.

llama-server lends its template and tokenizer (``tools/server/README.md``: ``POST /apply-template``,
``POST /tokenize``). It has slots, and may keep prompts beside them (``--cache-ram``, on by
default). It does not say whether it does, so it is asked: a short prompt, as many others as there
are slots, and the first one again. Source of the way slots are chosen: llama.cpp,
``tools/server/server-context.cpp`` (``get_available_slot``): the one that shares the most with the
prompt, if that is more than a tenth of the prompt (``--slot-prompt-similarity``), else the one not
used for longest.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from cacheproxy.asking import Site
from cacheproxy.core.conversation.usage import usage_of
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.llama_cpp import CCH, LLAMA_CPP
from cacheproxy.core.servers.profile import ServerFacts
from cacheproxy.core.template.rendering import FIRST, text_of, turn
from cacheproxy.core.template.traits import order_of
from cacheproxy.translate.counting import TOKENIZE
from cacheproxy.translate.translation import chat_of

_WORDS = 24
_MOST_SLOTS = 8
"""With more, a conversation is hardly ever driven out: no need to ask."""

Tokens = Sequence[int]
assert LLAMA_CPP.rendering is not None
_PAGE = LLAMA_CPP.rendering


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
    words = ([secrets.token_hex(4) for _ in range(_WORDS)] for _ in range(count + 1))
    first, *others = map(" ".join, words)
    for text in (first, *others):
        _evaluate(site, model, text)
    share = _evaluate(site, model, first)
    return None if share is None or share > 0.5 else count


def _evaluate(site: Site, model: str, text: str) -> float | None:
    """Send a prompt of one message; return the reused part of it."""
    body = {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": text}]}
    usage = usage_of(site.tell("/v1/chat/completions", body))
    return usage.reused / usage.prompt if usage.prompt and usage.reused is not None else None


class Counter:
    """Counts prompts with the server at ``site``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def order(self) -> PromptOrder | None:
        """Return what the server's template prints first, or None if it does not tell."""
        return order_of(self._render(turn()[FIRST]) or "")

    def tokens(self, request: Request) -> Sequence[int] | None:
        """Return the prompt of ``request`` in tokens, or None if the server does not tell."""
        chat = chat_of(request)
        text = None if chat is None else self._render(chat)
        if text is None:
            return None
        if request.dialect is MESSAGES:
            text = CCH.text.sub(CCH.becomes, text, count=1)
        body = {"content": text, "add_special": True, "parse_special": True}
        answer = self._site.tell(TOKENIZE, body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return tokens if isinstance(tokens, list) else None

    def _render(self, chat: dict[str, Any]) -> str | None:
        return text_of(self._site.tell(_PAGE.path, chat))
