"""The server's own template and tokenizer, where it lends them: llama-server does.

Source: llama.cpp, ``tools/server/README.md``: ``POST /apply-template``, ``POST /tokenize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cacheproxy.asking import Site
from cacheproxy.core.prompt.prompt import Order
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.template.questions import FIRST, turn
from cacheproxy.core.template.traits import order_of
from cacheproxy.replay.shape import chat_shape


class Counter:
    """Counts prompts with the server at ``site``."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def order(self) -> Order | None:
        """Return what the server's template prints first, or None if it does not tell."""
        return order_of(self._render(turn()[FIRST]) or "")

    def tokens(self, request: Request) -> Sequence[int] | None:
        """Return the prompt of ``request`` in tokens, or None if the server does not tell."""
        shape = chat_shape(request)
        text = None if shape is None else self._render(shape)
        if text is None:
            return None
        body = {"content": text, "add_special": True, "parse_special": True}
        answer = self._site.tell("/tokenize", body)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return tokens if isinstance(tokens, list) else None

    def _render(self, shape: dict[str, Any]) -> str | None:
        answer = self._site.tell("/apply-template", shape)
        text = answer.get("prompt") if isinstance(answer, dict) else None
        return text if isinstance(text, str) else None
