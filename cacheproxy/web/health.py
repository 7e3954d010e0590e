"""GET /_cacheproxy/health."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any

from cacheproxy.core.conversation.exchange import Exchange
from cacheproxy.core.rules.failures import Failures
from cacheproxy.core.server.identify import Server

PATH = b"/_cacheproxy/health"


class Health:
    """The page: our version, the upstream, the rules that are on, and how often each failed.

    ``clients``: for which client each rule is, ``*`` for all. ``probe`` returns what the
    upstream says of itself, or None while it is down. ``recent``: the last exchanges.
    ``placement``: returns what is known of where the upstream puts late system messages, which it
    is asked for; ``profile``: likewise of its memory, its template and its reporting.
    """

    def __init__(
        self,
        version: str,
        upstream: str,
        rules: list[str],
        probe: Callable[[], Awaitable[Server | None]],
        failures: Failures,
        *,
        clients: Mapping[str, str] | None = None,
        recent: Iterable[Exchange] = (),
        placement: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
        profile: Callable[[], Awaitable[Mapping[str, Any]]] | None = None,
    ) -> None:
        self._fixed = {"version": version, "rules": rules, "clients": dict(clients or {})}
        self._upstream = upstream
        self._probe = probe
        self._failures = failures
        self._recent = recent
        self._placement = placement
        self._profile = profile

    async def __call__(self) -> Mapping[str, Any]:
        """Return the page's JSON object."""
        server = await self._probe()
        state: dict[str, Any] = {"url": self._upstream, "state": "down" if server is None else "up"}
        if server is not None:
            state["server"] = asdict(server)
        return {
            **self._fixed,
            "upstream": state,
            "placement": await _told(self._placement, server),
            "profile": await _told(self._profile, server),
            "failures": self._failures.as_dict(),
            "requests": _requests(self._recent),
        }


async def _told(
    asked: Callable[[], Awaitable[Mapping[str, Any]]] | None, server: Server | None
) -> Mapping[str, Any] | None:
    """Return what is known of the upstream; a server that is down is not asked."""
    return await asked() if asked is not None and server is not None else None


def _requests(recent: Iterable[Exchange]) -> dict[str, Any]:
    """How many of the last exchanges there are, and how many failed with which status."""
    last = list(recent)
    failed = Counter(str(exchange.status) for exchange in last if exchange.has_failed)
    return {"last": len(last), "failed": dict(sorted(failed.items()))}
