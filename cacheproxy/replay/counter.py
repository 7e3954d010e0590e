"""The server's own template and tokenizer, where it lends them: llama-server does.

Source: llama.cpp, ``tools/server/README.md``: ``POST /apply-template``, ``POST /tokenize``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cacheproxy.core.prompt.prompt import Order
from cacheproxy.core.prompt.request import Request
from cacheproxy.replay.shape import chat_shape
from cacheproxy.replay.wire import ask

_SYSTEM, _TOOL = "cacheproxy-marks-system", "cacheproxy-marks-tools"


class Counter:
    """Counts prompts with the server at ``url``; ``headers`` go with every question."""

    def __init__(self, url: str, headers: Mapping[str, str]) -> None:
        self._url = url
        self._headers = headers

    def order(self) -> Order | None:
        """Return what the server's template prints first, or None if it does not tell."""
        function = {"name": "t", "description": _TOOL, "parameters": {"type": "object"}}
        text = self._render(
            {
                "messages": [
                    {"role": "system", "content": _SYSTEM},
                    {"role": "user", "content": "?"},
                ],
                "tools": [{"type": "function", "function": function}],
            }
        )
        if text is None or _SYSTEM not in text or _TOOL not in text:
            return None
        system_first = text.index(_SYSTEM) < text.index(_TOOL)
        return Order.SYSTEM_FIRST if system_first else Order.TOOLS_FIRST

    def tokens(self, request: Request) -> Sequence[int] | None:
        """Return the prompt of ``request`` in tokens, or None if the server does not tell."""
        shape = chat_shape(request)
        text = None if shape is None else self._render(shape)
        if text is None:
            return None
        body = {"content": text, "add_special": True, "parse_special": True}
        answer = ask(self._url, "/tokenize", body, self._headers)
        tokens = answer.get("tokens") if isinstance(answer, dict) else None
        return tokens if isinstance(tokens, list) else None

    def _render(self, shape: dict[str, Any]) -> str | None:
        answer = ask(self._url, "/apply-template", shape, self._headers)
        text = answer.get("prompt") if isinstance(answer, dict) else None
        return text if isinstance(text, str) else None
