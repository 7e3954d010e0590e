"""GET /_cacheproxy/health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.server.identify import Server


async def health(
    version: str,
    upstream: str,
    *,
    rules: list[str],
    clients: Mapping[str, str],
    failures: Failures,
    recent: Iterable[Exchange],
    probe: Callable[[], Awaitable[Server | None]],
    placement: Callable[[], Awaitable[Mapping[str, Any]]] | None,
    thinking: Callable[[], Awaitable[Mapping[str, Any]]] | None,
    profile: Callable[[], Awaitable[Mapping[str, Any]]] | None,
    upstreams: Callable[[], list[dict[str, Any]]] = list,
) -> Mapping[str, Any]:
    """Return the page: the upstream, the rules that are on, and how often each failed.

    ``clients``: for which client each rule is, ``*`` for all. ``probe`` returns what the
    upstream says of itself, or None while it is down. ``recent``: the last exchanges.
    ``placement``: returns what is known of where the upstream puts late system messages, which it
    is asked for; ``thinking``: likewise what is done with earlier reasoning; ``profile``: of its
    memory, its template and its reporting. ``upstreams`` returns what is known of each, where there
    are several: ``upstream`` is the first of them.
    """
    server = await probe()
    state: dict[str, Any] = {"url": upstream, "state": "down" if server is None else "up"}
    if server is not None:
        state["server"] = asdict(server)
    last = list(recent)
    failed = Counter(str(exchange.status) for exchange in last if exchange.has_failed)
    return {
        "version": version,
        "rules": rules,
        "clients": clients,
        "upstream": state,
        "upstreams": upstreams(),
        "placement": await _told(placement, server),
        "thinking": await _told(thinking, server),
        "profile": await _told(profile, server),
        "failures": failures.as_dict(),
        "requests": {"last": len(last), "failed": dict(sorted(failed.items()))},
    }


async def _told(
    asked: Callable[[], Awaitable[Mapping[str, Any]]] | None, server: Server | None
) -> Mapping[str, Any] | None:
    """Return what is known of the upstream; a server that is down is not asked."""
    return await asked() if asked is not None and server is not None else None
