"""The server's own template and tokenizer, where it lends them: llama-server does.

Source: llama.cpp, ``tools/server/README.md``: ``POST /apply-template``, ``POST /tokenize``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cacheproxy.asking import Site
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.prompt.prompt import PromptOrder
from cacheproxy.core.prompt.request import Request
from cacheproxy.core.servers.llama_cpp import CCH, LLAMA_CPP
from cacheproxy.core.template.rendering import FIRST, text_of, turn
from cacheproxy.core.template.traits import order_of
from cacheproxy.translate.counting import TOKENIZE
from cacheproxy.translate.translation import chat_of

assert LLAMA_CPP.rendering is not None
_PAGE = LLAMA_CPP.rendering


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
