"""The tables of the config file: upstreams, routes and alarms."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from cacheproxy.core.kinds.base_url import host_of, origin_of
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.route.facts import RequestKind
from cacheproxy.core.route.route import Preference, Price, Route, Target
from cacheproxy.record.alarms import AlarmLimits

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,31}")
_LONGEST = 64  #: characters of a route's name, at most
_VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
"""Pattern of most names of environment variables, which keys do not match."""
_Cost = Annotated[float, Meta(ge=0)]
_Tokens = Annotated[int, Meta(ge=1)]


class TableError(ValueError):
    """A contradiction in the tables; the message names the table and the remedy."""


class UpstreamTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An ``[[upstream]]``: one model server."""

    name: str  #: its name in routes, logs and pages
    url: str  #: its URL, with or without /v1 at its end
    key_env: str = ""  #: environment variable with the key, sent instead of the client's
    models: tuple[str, ...] = ()  #: names of its models, with ``*`` and ``?``; (): all
    model: str = ""  #: model name to put into requests; "": the client's stays
    max_context: _Tokens | None = None  #: tokens of a prompt, at most; None: as the server reports
    remote: bool = False  #: prompts may leave this network for it, unedited
    forward_credentials: bool = False
    """Clients' own keys are sent to it, even though it is remote and one of several."""
    fallback: bool = False  #: it is used only while all others are down
    cost_in: _Cost = 0.0  #: price of a million prompt tokens
    cost_out: _Cost = 0.0  #: price of a million tokens of an answer
    cost_cached: _Cost | None = None  #: price of a million cached tokens; None: as ``cost_in``

    @property
    def price(self) -> Price:
        """The server's prices for a million tokens."""
        return Price(self.cost_in, self.cost_out, self.cost_cached)

    @property
    def target(self) -> Target:
        """The server's properties for the choice among upstreams."""
        return Target(self.name, self.models, self.price, self.fallback, self.remote)

    def key(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return the server's key, "" for none; raises TableError if the variable is not set."""
        return _variable(f"upstream {self.name!r}", "key_env", self.key_env, environ)


class RouteTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A ``[[route]]``: a request takes the first route all of whose conditions it meets."""

    to: tuple[str, ...]  #: names of upstreams
    name: str = ""  #: its name in logs and pages
    client: str = "*"  #: pattern of the client's name, with ``*`` and ``?``
    model: str = "*"  #: pattern of the requested model, with ``*`` and ``?``
    tools: bool | None = None  #: whether the request has tools; None: either
    min_tokens: Annotated[int, Meta(ge=0)] = 0  #: estimated tokens of the prompt, at least
    max_tokens: _Tokens | None = None  #: estimated tokens of the prompt, at most; None: any
    kind: RequestKind | tuple[RequestKind, ...] = ()  #: kinds of requests; (): all
    prefer: Preference = ""
    """Preference among several upstreams for a new conversation: the fastest (latency), or the
    cheapest (cost); "": each gets its share."""
    max_cost: _Cost | None = None  #: price of a prompt, beyond which an upstream is left out

    def route(self, number: int) -> Route:
        """Return the table as a Route, called ``route NUMBER`` (its place, from 1) for no name."""
        name = self.name or f"route {number}"
        fits = self.to, self.client, self.model, self.tools, self.min_tokens, self.max_tokens
        kinds = frozenset((self.kind,) if isinstance(self.kind, RequestKind) else self.kind)
        return Route(name, *fits, kinds, self.prefer, self.max_cost)


class AlarmTable(AlarmLimits, frozen=True, forbid_unknown_fields=True):
    """The ``[alarm]`` table: the limits at which alarms are raised, and the ways to send them."""

    bell: bool = True  #: ring the terminal's bell, if there is one
    desktop: bool = False  #: show a desktop notification
    webhook: str = ""  #: URL to POST alarms to; "" for none
    secret_env: str = ""  #: environment variable with the secret that signs such a POST

    def secret(self, environ: Mapping[str, str] = os.environ) -> str:
        """Return the secret, "" for none; raises TableError if the variable is not set."""
        return _variable("[alarm]", "secret_env", self.secret_env, environ)

    def check(self) -> None:
        """Raise TableError if ``webhook`` cannot be used. It may have keys in it: never shown."""
        if self.secret_env and not self.webhook:
            raise TableError("[alarm]: secret_env needs a webhook: it signs what the webhook gets")
        if not self.webhook:
            return
        try:
            parts = urlsplit(self.webhook)
            is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_url = False
        plain = self.webhook.isascii() and self.webhook.isprintable() and " " not in self.webhook
        if not is_url or not plain or "@" in parts.netloc:
            raise TableError(
                "[alarm]: webhook is not a URL: write it like https://example.org/hook"
            )
        if parts.scheme == "http" and not is_local(parts.hostname or ""):
            raise TableError("[alarm]: webhook is not on this network: use https for it")


def _variable(what: str, field: str, name: str, environ: Mapping[str, str]) -> str:
    """Return the secret in the variable ``name``, "" for none; raises TableError.

    ``field`` of the table ``what`` is the setting with that name.
    """
    secret = environ.get(name, "") if name else ""
    if name and not secret:
        if _VARIABLE.fullmatch(name):
            raise TableError(f"{what}: the variable {name} is not set: export it")
        raise TableError(  # the name is not shown: it may be the secret itself
            f"{what}: {field} does not name a variable that is set. Export the "
            f"{field.removesuffix('_env')} in a variable, and write the variable's name there"
        )
    if not secret.isascii() or not secret.isprintable():
        raise TableError(
            f"{what}: the value of {name} is not a {field.removesuffix('_env')}: use plain ASCII"
        )
    return secret


def check(upstreams: Sequence[UpstreamTable], routes: Sequence[RouteTable]) -> None:
    """Raise TableError if the tables contradict themselves."""
    _check_upstreams(upstreams)
    names = {one.name for one in upstreams}
    for number, route in enumerate(routes, 1):
        what = f"route {route.name!r}" if route.name else f"[[route]] number {number}"
        if not upstreams:
            raise TableError(f"{what}: a route needs [[upstream]] tables to lead to")
        if len(route.name) > _LONGEST or not route.name.isprintable():
            raise TableError(f"{what}: a name has up to {_LONGEST} printable characters")
        if not route.to:
            raise TableError(f"{what} leads nowhere: to = [{_listed(names)}]")
        for name in route.to:
            if name not in names:
                raise TableError(f"{what} leads to {name!r}, but there is only {_listed(names)}")
        if route.max_tokens is not None and route.max_tokens < route.min_tokens:
            raise TableError(
                f"{what}: max_tokens is less than min_tokens, so no request takes this route"
            )
    twice = _twice(route.name for route in routes if route.name)
    if twice:
        raise TableError(f"two routes are called {twice!r}")


def _check_upstreams(upstreams: Sequence[UpstreamTable]) -> None:
    """Raise TableError for names or URLs that come twice, and for settings that contradict."""
    twice = _twice(one.name for one in upstreams)
    if twice:
        raise TableError(f"two upstreams are called {twice!r}: give each a name of its own")
    same = _twice(origin_of(one.url) for one in upstreams)
    if same:
        names = [one.name for one in upstreams if origin_of(one.url) == same]
        raise TableError(f"upstreams {_listed(names)} have the same url: remove one of them")
    for one in upstreams:
        if not _NAME.fullmatch(one.name):
            raise TableError(
                f"upstream {one.name!r}: a name has up to 32 letters, digits, dots and dashes"
            )
        host = host_of(one.url)
        if host and not is_local(host) and not one.remote:
            raise TableError(
                f"upstream {one.name!r} is not on this network: set remote = true if prompts may "
                "go there"
            )
        if one.remote and len(upstreams) > 1 and not (one.key_env or one.forward_credentials):
            raise TableError(
                f"upstream {one.name!r} is remote, and clients' keys are for the others: name the "
                "variable with its own key (key_env), or set forward_credentials = true"
            )
        if one.key_env and one.forward_credentials:
            raise TableError(
                f"upstream {one.name!r} has a key_env, which is sent instead of clients' own keys: "
                "remove it or forward_credentials"
            )
    if upstreams and all(one.fallback for one in upstreams):
        raise TableError("all upstreams are fallbacks: at least one must not be a fallback")


def _twice(names: Iterable[str]) -> str:
    """Return the first of ``names`` that comes again, "" if none does."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return ""


def _listed(names: Iterable[str]) -> str:
    """Return ``names`` sorted, quoted and joined by commas."""
    return ", ".join(f'"{name}"' for name in sorted(names))
