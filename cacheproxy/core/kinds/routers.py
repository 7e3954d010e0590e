"""Routers before several servers, and the settings that make a conversation stay at one server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

_PAGE = "docs/fleet.md"


@dataclass(frozen=True, slots=True)
class Router:
    """A router, the marks by which it is recognised, and its setting."""

    name: str  #: its name; without a ``page``, its header Server begins so
    header: str  #: request header by which it chooses a server
    where: str  #: place of the setting, for people
    line: str  #: the setting, as it is written there
    page: str = ""  #: path of a page that only it has; "": none
    word: str = ""  #: a member of that page, or a word on it
    owner: str = ""  #: owner of the models in its list

    @property
    def more(self) -> str:
        """Further options of cacheproxy: routers of model servers speak OpenAI's dialect."""
        return " --dialect openai" if self.page else ""

    @property
    def cure(self) -> str:
        """The settings of cacheproxy and of the router, for people."""
        options = f"--session-header {self.header}{self.more}"
        return f"start cacheproxy with {options}, and {self.where}: {self.line}  ({_PAGE})"

    def is_at(self, software: str, models: str, tell: Callable[[str], Any]) -> bool:
        """Whether this router answers; arguments as for ``cure_of``."""
        if not self.page:
            return software.lower().startswith(self.name.lower())
        page = tell(self.page) if self.owner in models else None
        return isinstance(page, dict | str) and self.word in page


_KEY = "X-Conversation-Key"
ROUTERS = (
    Router(
        "nginx",
        _KEY,
        "in the block upstream of nginx.conf",
        "hash $http_x_conversation_key consistent;",
    ),
    Router(
        "Caddy", _KEY, "in the block reverse_proxy of the Caddyfile", f"lb_policy header {_KEY}"
    ),
    Router(
        "Envoy",
        _KEY,
        "in envoy.yaml give the cluster lb_policy: RING_HASH and the route a hash_policy",
        "- header: {header_name: x-conversation-key}",
    ),
    Router(
        "vllm-router",
        "X-Session-ID",
        "vllm-router with",
        "--policy consistent_hash",
        "/list_workers",
        "urls",
    ),
    Router(
        "SMG",
        "X-SMG-Routing-Key",
        "smg launch with",
        "--policy consistent_hashing",
        "/workers",
        "workers",
        "self_hosted",
    ),
    Router(
        "sglang-router",
        "X-SMG-Routing-Key",
        "sglang-router launch with",
        "--policy manual",
        "/workers",
        "workers",
    ),
    Router(
        "LiteLLM",
        "X-Session-ID",
        "in router_settings of litellm.yaml",
        'optional_pre_call_checks: ["session_affinity"]',
        "/health/liveliness",
        "alive",
    ),
)
"""The routers that can be recognised. HAProxy cannot."""


def cure_of(software: str, models: str, tell: Callable[[str], Any]) -> str:
    """Return the settings with which a router sends a conversation to one server, for people.

    ``software``: its header Server; ``models``: its list of models, as text; ``tell``: returns the
    JSON value of a page, None if there is none.
    """
    for router in ROUTERS:
        if router.is_at(software, models, tell):
            return router.cure
    return (
        "start cacheproxy with --session-header X-Conversation-Key, and have the router keep each "
        f"value of that header at one server: {_PAGE} has the lines for each router"
    )
