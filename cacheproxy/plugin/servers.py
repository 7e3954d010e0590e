"""The kinds of servers that plugins bring (cacheproxy_server), each under a guard."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import wraps
from typing import Any

from cacheproxy.core.rules.fold import kind_of
from cacheproxy.core.servers import kinds
from cacheproxy.core.servers.kind import ServerKind
from cacheproxy.core.servers.profile import Memory, ServerFacts
from cacheproxy.core.servers.status import CacheConfig, Look
from cacheproxy.plugin.package import SERVER_HOOK, Package

Failed = Callable[[str, BaseException | str], object]
"""Takes the name of what failed, and what was raised, or is wrong."""


def put_in_force(packages: Iterable[Package], failed: Failed) -> None:
    """Have the kinds of ``packages`` recognised; one whose function raises is left out, by name."""
    kinds.put_in_force(
        _guarded(server, f"{package.name}: {SERVER_HOOK}", failed)
        for package in packages
        for server in package.servers
    )


def _guarded(server: ServerKind, name: str, failed: Failed) -> ServerKind:
    """Return ``server``, whose functions raise nothing, and return what they should."""

    def guard(function: Any, kind: type, otherwise: Callable[..., Any]) -> Any:
        @wraps(function)
        def call(*values: Any, **named: Any) -> Any:
            try:
                found = function(*values, **named)
                found = tuple(found) if kind is tuple else found
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # whatever its class
                problem: BaseException | str = error
            else:
                if isinstance(found, kind):
                    return found
                problem = f"returned {kind_of(found)} instead of {getattr(kind, '__name__', kind)}"
            kinds.leave_out(server.name)
            failed(name, problem)
            return otherwise(*values, **named)

        return call if function is not None else None

    counters, page = server.counters, server.rendering
    if counters is not None:
        read = guard(counters.read_config, CacheConfig, lambda _: CacheConfig())
        counters = counters._replace(read_config=read)
    if page is not None:
        page = page._replace(spelled=guard(page.spelled, dict, lambda chat: chat))
    start = server.start
    if start is not None:
        start = start[0], guard(start[1], str | None, lambda _: None)  # type: ignore[arg-type]
    return replace(
        server,
        is_at=guard(server.is_at, bool, lambda _: False),
        facts=guard(server.facts, ServerFacts, lambda _: ServerFacts()),
        may_be=guard(server.may_be, bool, lambda _: False),
        look=guard(server.look, Look, lambda look, _: look),
        memory=guard(server.memory, Memory, lambda _, before: before),
        room_for=guard(server.room_for, tuple, lambda **_: ()),
        start=start,
        counters=counters,
        rendering=page,
    )
