"""Which router stands before several servers, and the lines by which it keeps a conversation."""

from __future__ import annotations

from dataclasses import dataclass

from cacheproxy.asking import Answer, NoAnswerError, Site

_PAGE = "docs/fleet.md"


@dataclass(frozen=True, slots=True)
class Router:
    """A router: the ``header`` it reads, ``where`` it is told, the ``line`` that tells it.

    It shows itself by ``software``, how its header Server begins; or by a ``member``, or word, of a
    page, as (path, name), and by ``owner`` of the models that it lists. ``more``: options of the
    proxy before it.
    """

    name: str
    header: str
    where: str
    line: str
    software: str = ""
    member: tuple[str, str] = ("", "")
    owner: str = ""
    more: str = ""

    @property
    def cure(self) -> str:
        """What mends it, for people."""
        options = f"--session-header {self.header}{self.more}"
        return f"start cacheproxy with {options}, and {self.where}: {self.line}  ({_PAGE})"

    def is_at(self, site: Site, models: Answer) -> bool:
        """Whether it answers at ``site``, where ``models`` are listed."""
        if self.software:
            return models.software.lower().startswith(self.software)
        path, name = self.member
        page = site.tell(path) if self.owner in models.body.decode("latin-1") else None
        return isinstance(page, dict | str) and name in page


def cure_of(site: Site) -> str:
    """Return what makes the router at ``site`` keep a conversation at one server. Never raises."""
    try:
        models = site.get("/v1/models")
    except NoAnswerError:
        models = Answer(0, b"")
    for router in ROUTERS:
        if router.is_at(site, models):
            return router.cure
    return (
        "start cacheproxy with --session-header X-Conversation-Key, and have the router keep each "
        f"value of that header at one server: {_PAGE} has the lines for each router"
    )


_KEY = "X-Conversation-Key"
_TRANSLATED = " --dialect openai"
ROUTERS = (
    Router(
        "nginx",
        _KEY,
        "in the block upstream of nginx.conf",
        "hash $http_x_conversation_key consistent;",
        software="nginx",
    ),
    Router(
        "Caddy",
        _KEY,
        "in the block reverse_proxy of the Caddyfile",
        f"lb_policy header {_KEY}",
        software="caddy",
    ),
    Router(
        "Envoy",
        _KEY,
        "in envoy.yaml give the cluster lb_policy: RING_HASH and the route a hash_policy",
        "- header: {header_name: x-conversation-key}",
        software="envoy",
    ),
    Router(
        "vllm-router",
        "X-Session-ID",
        "vllm-router with",
        "--policy consistent_hash",
        member=("/list_workers", "urls"),
        more=_TRANSLATED,
    ),
    Router(
        "SMG",
        "X-SMG-Routing-Key",
        "smg launch with",
        "--policy consistent_hashing",
        member=("/workers", "workers"),
        owner="self_hosted",
        more=_TRANSLATED,
    ),
    Router(
        "sglang-router",
        "X-SMG-Routing-Key",
        "sglang-router launch with",
        "--policy manual",
        member=("/workers", "workers"),
        more=_TRANSLATED,
    ),
    Router(
        "LiteLLM",
        "X-Session-ID",
        "in router_settings of litellm.yaml",
        'optional_pre_call_checks: ["session_affinity"]',
        member=("/health/liveliness", "alive"),
        more=_TRANSLATED,
    ),
)
"""Those that can be told. HAProxy shows itself nowhere."""
