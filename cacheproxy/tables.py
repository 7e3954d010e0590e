"""The tables of the config file that say which upstreams there are, and what goes where."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.route.choose import Target
from cacheproxy.core.route.facts import Kind
from cacheproxy.core.route.price import Price
from cacheproxy.core.route.route import Preference, Route
from cacheproxy.core.server.base_url import host_of, origin_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_LONGEST = 64
"""Characters of a route's name."""
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
"""What names of environment variables mostly look like, and keys do not."""
_Cost = Annotated[float, Meta(ge=0)]
_Tokens = Annotated[int, Meta(ge=1)]

_Table = TypeVar("_Table", "UpstreamTable", "RouteTable")


class TableError(ValueError):
    """Tables that contradict themselves; the message says which, and how to mend it."""


class UpstreamTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An ``[[upstream]]``: one model server.

    ``name``: as routes, logs and pages call it. ``key_env``: the environment variable with the key
    that is sent to it instead of the client's. ``models``: those it serves, with ``*`` and ``?``;
    all, if none is named. ``model``: the name to ask it for instead of the client's.
    ``max_context``: tokens of a prompt; else what the server says. ``remote``: prompts may leave
    this network for it, unedited. ``fallback``: it is used only while all others are down.
    ``cost_in``, ``cost_out``, ``cost_cached``: for a million tokens of prompt, answer, and prompt
    that it has cached.
    """

    name: str
    url: str
    key_env: str = ""
    models: tuple[str, ...] = ()
    model: str = ""
    max_context: _Tokens | None = None
    remote: bool = False
    fallback: bool = False
    cost_in: _Cost = 0.0
    cost_out: _Cost = 0.0
    cost_cached: _Cost | None = None

    @property
    def price(self) -> Price:
        """What it charges."""
        return Price(self.cost_in, self.cost_out, self.cost_cached)

    @property
    def target(self) -> Target:
        """What a choice looks at."""
        return Target(self.name, self.models, self.price, self.fallback, self.remote)

    def key(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return its key, "" for none; raises TableError where the variable is not set."""
        key = environ.get(self.key_env, "") if self.key_env else ""
        what = f"upstream {self.name!r}"
        if self.key_env and not key:
            if _VARIABLE.fullmatch(self.key_env):
                raise TableError(f"{what}: {self.key_env} is not set: export it")
            raise TableError(  # not shown: it may be the key itself
                f"{what}: there is no variable of the name that key_env has: export it, and write "
                "its name there, not the key"
            )
        if not key.isascii() or not key.isprintable():
            raise TableError(f"{what}: {self.key_env} is no key: only plain ASCII")
        return key


class RouteTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ``[[route]]``: what is said has to match, and the first route that does is taken.

    ``to``: names of upstreams. ``client``, ``model``: as the client names itself, and what it asks
    for, with ``*`` and ``?``. ``tools``: whether there are any. ``min_tokens``, ``max_tokens``: of
    the prompt, estimated. ``kind``: what it is for. ``prefer``: among several upstreams, the one
    that answers soonest (latency) or for the least (cost) gets a new conversation; else each gets
    its share. ``max_cost``: of a prompt; an upstream that asks for more is left out. ``name``: for
    logs and pages.
    """

    to: tuple[str, ...]
    name: str = ""
    client: str = "*"
    model: str = "*"
    tools: bool | None = None
    min_tokens: Annotated[int, Meta(ge=0)] = 0
    max_tokens: _Tokens | None = None
    kind: Kind | tuple[Kind, ...] = ()
    prefer: Preference = ""
    max_cost: _Cost | None = None

    def route(self, number: int) -> Route:
        """Return it as a Route; ``number``: from 1."""
        return Route(
            self.name or f"route {number}",
            self.to,
            self.client,
            self.model,
            self.tools,
            self.min_tokens,
            self.max_tokens,
            frozenset((self.kind,) if isinstance(self.kind, Kind) else self.kind),
            self.prefer,
            self.max_cost,
        )


def converted(tables: Sequence[Any], kind: type[_Table]) -> tuple[_Table, ...]:
    """Return ``tables`` as they were read from a file, each of ``kind``; raises TableError."""
    word = "upstream" if kind is UpstreamTable else "route"
    found = []
    for number, table in enumerate(tables, 1):
        try:
            found.append(msgspec.convert(table, kind))
        except msgspec.ValidationError as error:
            wrong, _, place = str(error).partition(" - at `$.")
            where = place.rstrip("`").partition("[")[0]
            if where == "kind":
                wrong = f"Expected one of {', '.join(Kind)}"
            what = f"[[{word}]] number {number}"
            raise TableError(f"{what}: {where + ': ' if where else ''}{wrong}") from None
    return tuple(found)


def check(upstreams: Sequence[UpstreamTable], routes: Sequence[RouteTable]) -> None:
    """Raise TableError if the tables contradict themselves."""
    _check_upstreams(upstreams)
    names = {one.name for one in upstreams}
    for number, route in enumerate(routes, 1):
        what = f"route {route.name!r}" if route.name else f"[[route]] number {number}"
        if not upstreams:
            raise TableError(f"{what}: there are no [[upstream]] tables that it could lead to")
        if len(route.name) > _LONGEST or not route.name.isprintable():
            raise TableError(f"{what}: a name is up to {_LONGEST} characters that can be printed")
        if not route.to:
            raise TableError(f"{what} leads nowhere: to = [{_listed(names)}]")
        for name in route.to:
            if name not in names:
                raise TableError(f"{what} leads to {name!r}, but there is only {_listed(names)}")
        if route.max_tokens is not None and route.max_tokens < route.min_tokens:
            raise TableError(f"{what}: max_tokens is less than min_tokens, so nothing takes it")
    twice = _twice(route.name for route in routes if route.name)
    if twice:
        raise TableError(f"two routes are called {twice!r}")


def _check_upstreams(upstreams: Sequence[UpstreamTable]) -> None:
    twice = _twice(one.name for one in upstreams)
    if twice:
        raise TableError(f"two upstreams are called {twice!r}: give each a name of its own")
    same = _twice(origin_of(one.url) for one in upstreams)
    if same:
        names = [one.name for one in upstreams if origin_of(one.url) == same]
        raise TableError(f"upstreams {_listed(names)} have one url: take one of them out")
    for one in upstreams:
        if not _NAME.fullmatch(one.name):
            raise TableError(
                f"upstream {one.name!r}: a name is up to 32 letters, digits, dots and dashes"
            )
        host = host_of(one.url)
        if host and not is_local(host) and not one.remote:
            raise TableError(
                f"upstream {one.name!r} is not on this network: remote = true if prompts may go "
                "there"
            )
    if upstreams and all(one.fallback for one in upstreams):
        raise TableError("all upstreams are fallbacks: at least one has to be none")


def _twice(names: Iterable[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))
