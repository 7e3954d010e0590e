"""What a client has to know of the proxy and of the server behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

PLACEHOLDER = "YOUR-MODEL"
"""For the name of a model that nobody told."""
_NO_KEY = "cacheproxy"
"""Clients insist on some key; a server without one does not look at it."""
_SMALL_OUTPUT = 8192
"""Tokens of an answer that every model can give, if its context is large enough."""
_TAKEN = ("inline", "user")
_UNKNOWN = "unknown"
_EXPANDED = re.compile(r"\$\{|\{(?:env|file):|\{\{|\A[!-]")
"""What some clients expand in their files, or run, wherever it stands: no model has such a name."""


@dataclass(frozen=True, slots=True)
class Need:
    """``url``: the proxy's, without a slash at its end. ``context``: the server's, in tokens.

    ``token``: the proxy's own. ``api_key``: the one the model server asks for. ``late``: what the
    server does with a system message late in the list, in the words of the health page.
    ``responses``: whether it serves the Responses API. None: not known.
    """

    url: str
    token: str = ""
    api_key: str = ""
    model: str | None = None
    context: int | None = None
    late: str | None = None
    responses: bool | None = None

    @property
    def takes_late(self) -> bool | None:
        """Whether a late system message stays where it is; None if no server was asked."""
        return None if self.late is None else self.late in _TAKEN

    @property
    def openai(self) -> str:
        """The base URL of the OpenAI APIs."""
        return f"{self.url}/v1"

    @property
    def key(self) -> str:
        """What the client sends as its API key: the proxy takes its token from there."""
        return self.api_key or self.token or _NO_KEY

    @property
    def key_variable(self) -> str | None:
        """The variable that a configuration file names instead of the key; None if none is asked.

        A file that holds no secret can be shown and shared.
        """
        return "OPENAI_API_KEY" if self.api_key else "CACHEPROXY_TOKEN" if self.token else None

    @property
    def needs_header(self) -> bool:
        """Whether the token needs a header of its own, beside the server's key."""
        return bool(self.token and self.api_key)

    @property
    def model_name(self) -> str:
        """The model's name, or a placeholder."""
        return self.model or PLACEHOLDER

    @property
    def output(self) -> int | None:
        """Tokens to leave for an answer; None where the context is not known."""
        return None if self.context is None else min(_SMALL_OUTPUT, self.context // 4)


def told(page: Any) -> tuple[str | None, int | None]:
    """Return model and context in tokens from the health page, None for what it does not tell."""
    server = _server(page)
    if server is None:
        return None, None
    model, context = server.get("model"), server.get("context")
    sane = isinstance(model, str) and model.isprintable() and 0 < len(model) <= 200
    if isinstance(model, str) and _EXPANDED.search(model):
        sane = False
    positive = isinstance(context, int) and not isinstance(context, bool) and context > 0
    return model if sane else None, context if positive else None


def late(page: Any) -> str | None:
    """Return what the health page says the server does with late system messages.

    ``unknown`` where it does not say, None where no server answers the proxy.
    """
    if _server(page) is None:
        return None
    placement = page.get("placement")
    found = placement.get("late") if isinstance(placement, dict) else None
    return found if isinstance(found, str) else _UNKNOWN


def _server(page: Any) -> dict[str, Any] | None:
    upstream = page.get("upstream") if isinstance(page, dict) else None
    server = upstream.get("server") if isinstance(upstream, dict) else None
    return server if isinstance(server, dict) else None
