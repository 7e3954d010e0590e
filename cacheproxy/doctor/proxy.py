"""Is the proxy up, who can reach it, and does the agent really go through it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import msgspec

from cacheproxy.asking import (
    HEALTH,
    CommandError,
    NoAnswerError,
    Site,
    checked_url,
    is_loopback,
    is_same,
    proxy_option,
    shown,
)
from cacheproxy.client_setup.finding import Finding, FindingState, fail, ok, warn
from cacheproxy.core.placement.placement import Late, Placement, alike
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.servers import status
from cacheproxy.core.servers.profile import Profile
from cacheproxy.core.servers.profile_text import profile_in
from cacheproxy.doctor.record import Record
from cacheproxy.words import counted

_DOCUMENTATION = ("192.0.2.1", 9)
"""RFC 5737: nobody is there, and connecting a datagram socket sends nothing."""
_UNTOLD = alike(Late.UNKNOWN, "")
_NOISE = 5000
"""Prompt tokens: earlier runs of doctor, and tries with curl, are no agent."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy as its health page tells; None where there is none, or it does not say."""

    url: str  #: where it was looked for
    version: str | None = None  #: None: no cacheproxy answers
    upstream: str | None = None  #: URL of the first that is up
    rules: tuple[str, ...] = ()  #: names of those that are on
    problem: str | None = None  #: why ``version`` is None
    profile: Profile | None = None  #: what it knows of the server and its template
    placement: Any = None  #: the page's own words on where late messages stand
    keeps: str = ""  #: what it does with earlier reasoning there; "" for nothing
    reachable: str | None = None  #: an address of this machine at which others can reach it, too
    has_token: bool = False  #: whether they need a token then
    pool: tuple[tuple[str, bool], ...] = ()  #: names of several upstreams, and whether they are up
    at: str = ""  #: the name of ``upstream`` among several
    probe: str = ""  #: what marks a request as ours

    @property
    def is_up(self) -> bool:
        """Whether a cacheproxy answers there."""
        return self.version is not None

    def sends_to(self, url: str) -> bool:
        """Whether it runs, and sends to the server at ``url``."""
        return self.is_up and self.upstream is not None and is_same(self.upstream, url)


def look(url: str, headers: Mapping[str, str]) -> Proxy:
    """Ask the proxy at ``url`` for its health page. Never raises.

    ``headers``: the proxy's token, if it has one.
    """
    site = Site(url, dict(headers))
    try:
        answer = site.get(HEALTH)
    except NoAnswerError as error:
        return Proxy(url, problem=f"no proxy answers at {shown(url)}: {error}")
    if answer.status == 401:
        return Proxy(url, problem=f"{shown(url)} asks for its token: set CACHEPROXY_TOKEN")
    page: Any = answer.json() if answer.status == 200 else None
    if not is_health(page):
        return Proxy(url, problem=f"the server at {shown(url)} is not a cacheproxy")
    pool = _pool(page.get("upstreams"))
    number = next((at for at, (_, is_up) in enumerate(pool) if is_up), 0)
    is_first = number == 0  # of which the page tells more
    return Proxy(
        url,
        version=page["version"],
        upstream=_upstream(page.get("upstream") if is_first else page["upstreams"][number]),
        rules=tuple(name for name in page.get("rules") or () if isinstance(name, str)),
        profile=_profile(page) if is_first else None,
        placement=page.get("placement") if is_first else None,
        keeps=_keeps(page.get("thinking")) if is_first else "",
        reachable=_reachable(site),
        has_token=bool(headers),
        pool=pool,
        at=pool[number][0] if pool else "",
        probe=str(page.get("probe", "")),
    )


def is_health(page: Any) -> bool:
    """Whether a JSON value is the health page of a cacheproxy."""
    return isinstance(page, dict) and isinstance(page.get("version"), str) and "upstream" in page


def check_pool(proxy: Proxy) -> list[Finding]:
    """Return a finding on all upstreams, where there are several."""
    if not proxy.pool:
        return []
    down = [name for name, is_up in proxy.pool if not is_up]
    names = ", ".join(f"{name} {'up' if is_up else 'DOWN'}" for name, is_up in proxy.pool)
    text = f"{len(proxy.pool)} upstreams: {names}; the checks below are of {proxy.at}"
    if not down:
        return [ok("upstreams", text)]
    state = FindingState.WARN if len(down) < len(proxy.pool) else FindingState.FAIL
    return [Finding("upstreams", state, text, f"start {', '.join(down)}")]


def check(proxy: Proxy, upstream: str) -> list[Finding]:
    """Return the findings; ``upstream``: the model server's URL, for the command that starts it."""
    if not proxy.is_up:
        start = f"cacheproxy serve --upstream {shown(upstream)}"
        if "token" in (proxy.problem or ""):
            start = "run this command with the same CACHEPROXY_TOKEN as the proxy"
        elif "not a cacheproxy" in (proxy.problem or ""):
            start = "name the proxy's own URL with --proxy"
        return [fail("proxy", proxy.problem or "", start)]
    where = urlsplit(proxy.url)
    text = f"cacheproxy {proxy.version} listens on {where.hostname}:{where.port}"
    if proxy.reachable is not None:
        text += f", and on {proxy.reachable}"
        if proxy.has_token:
            return [ok("proxy", text + ", where clients need the token")]
        text += ", so others on your network can also use it"
        return [warn("proxy", text, "start the proxy with --interface 127.0.0.1")]
    return [ok("proxy", text + (", this machine only" * is_loopback(proxy.url)))]


def check_upstream(proxy: Proxy, upstream: str) -> list[Finding]:
    """Return a finding if it sends to another server than ``upstream``, which was looked at."""
    if proxy.upstream is None or is_same(proxy.upstream, upstream):
        return []
    text = f"the proxy sends to {shown(proxy.upstream)}, but doctor checked {shown(upstream)}"
    return [warn("upstream", text, "leave out --upstream, or restart the proxy")]


def _profile(page: dict[str, Any]) -> Profile | None:
    """Return what the page tells of the first server; where late messages stand is told beside."""
    found = profile_in(page.get("profile"))
    try:
        placement = msgspec.convert(page.get("placement"), Placement)
    except msgspec.ValidationError:
        placement = _UNTOLD
    return found and replace(found, placement=placement)


def _pool(page: Any) -> tuple[tuple[str, bool], ...]:
    if not isinstance(page, list) or not all(isinstance(each, dict) for each in page):
        return ()
    return tuple((str(each.get("name"))[:32], each.get("state") == "up") for each in page)


def _keeps(page: Any) -> str:
    says = page.get("says") if isinstance(page, dict) else None
    return says if isinstance(says, str) else ""


def _upstream(page: Any) -> str | None:
    url = page.get("url") if isinstance(page, dict) else None
    try:
        return checked_url(url) if isinstance(url, str) else None
    except CommandError:
        return None


def _reachable(site: Site) -> str | None:
    """Return the address, not of the loopback interface, where the same proxy answers."""
    port = urlsplit(site.url).port
    if not is_loopback(site.url) or port is None:
        return None
    with contextlib.suppress(OSError, NoAnswerError):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_DOCUMENTATION)
            address = str(probe.getsockname()[0])
        if not address.startswith("127."):
            page = Site(f"http://{address}:{port}", site.headers).page(HEALTH)
            return f"{address}:{port}" if is_health(page) else None
    return None


@dataclass(frozen=True, slots=True)
class TrafficLook:
    """The server and the proxy's record at one moment."""

    server: status.Look | None  #: None: it did not answer
    record: Record | None  #: None: the proxy keeps none

    @property
    def evaluated(self) -> int | None:
        """Prompt tokens since the server started, if its counters tell."""
        sample = self.server.sample if self.server is not None else None
        tokens = sample.figures.evaluated if sample is not None else None
        return None if tokens is None else int(tokens)

    @property
    def tasks(self) -> int | None:
        """The number of the server's last request, if its slots tell."""
        return self.server.tasks if self.server is not None else None

    @property
    def held(self) -> int:
        """Tokens that the fullest slot holds."""
        return max((slot.used for slot in self.server.slots), default=0) if self.server else 0

    def since(self, before: TrafficLook) -> int | None:
        """Return the prompt tokens that were evaluated since ``before``."""
        if self.evaluated is None or before.evaluated is None:
            return None
        return max(0, self.evaluated - before.evaluated)

    def worked_since(self, before: TrafficLook) -> bool:
        """Return whether any request is known to have been worked on since ``before``."""
        tokens = self.since(before)
        return tokens > 0 if tokens is not None else self.tasks != before.tasks


def check_traffic(  # noqa: PLR0917 (two places, two looks)
    proxy: str,
    upstream: str,
    before: TrafficLook,
    after: TrafficLook,
    watched: float,
    clients: Iterable[Client] = (),
) -> list[Finding]:
    """Return the findings.

    ``proxy``, ``upstream``: URLs. ``before``, ``after``: looks ``watched`` seconds apart; with 0
    they are the same. ``clients``: those whose packages are installed.
    """
    through = _through(proxy, clients)
    if after.record is None:
        text = (
            "this proxy keeps no record of its requests, so doctor cannot tell whether your "
            "agent uses the proxy. Look in the proxy's log: each request has a line"
        )
        return [warn("traffic", text)]
    if watched:
        return [_watched(through, upstream, before, after, watched)]
    seen = len(after.record.seen)
    if seen:
        text = f"{counted(seen, 'request')} with a prompt came through this proxy"
        return [ok("traffic", text)]
    work = _work(after)
    if work is None:
        text = "no agent request has come through this proxy yet"
        return [warn("traffic", text, through)]
    text = (
        f"{work}, but no agent request has come through this proxy. If you used your agent since "
        f"then, it talks to {shown(upstream)} directly. To be sure, use your agent during: "
        f"cacheproxy doctor --watch 60{proxy_option(proxy)}"
    )
    return [warn("traffic", text, through)]


def _watched(
    through: str, upstream: str, before: TrafficLook, after: TrafficLook, watched: float
) -> Finding:
    assert after.record is not None
    new = after.record.after(before.record) if before.record is not None else after.record.seen
    tokens = after.since(before)
    did = f"evaluated {tokens:,} prompt tokens" if tokens is not None else "worked on requests"
    when = f"within {watched:.0f} s"
    if new:
        evaluated = sum((one.prompt or 0) - (one.reused or 0) for one in new)
        text = f"{counted(len(new), 'request')} came through this proxy {when}"
        if tokens is not None and tokens > evaluated + _NOISE:
            text += (
                f", but the server {did}, {tokens - evaluated:,} of them for requests from "
                "elsewhere"
            )
            return warn("traffic", text, through)
        return ok("traffic", text)
    if not after.worked_since(before):
        text = (
            f"{when} no request came through this proxy, and none to the server, as far as the "
            "server tells"
        )
        return warn("traffic", text, "use your agent while doctor watches")
    text = (
        f"{when} the server {did}, but no request came through this proxy: your agent still talks "
        f"to {shown(upstream)} directly"
    )
    return fail("traffic", text, through)


def _work(look: TrafficLook) -> str | None:
    """Say what the server has worked on since its start, if it was more than noise."""
    if look.evaluated is not None:
        if look.evaluated <= _NOISE:
            return None
        return f"the server has evaluated {look.evaluated:,} prompt tokens since it started"
    if look.held <= _NOISE:
        return None
    return f"the server's slots hold a prompt of {look.held:,} tokens"


def _through(proxy: str, clients: Iterable[Client]) -> str:
    """Return how clients come to use the proxy."""
    url, option = shown(proxy), proxy_option(proxy)
    start = next((one.starting(url, option) for one in clients if one.start), f"base URL {url}")
    return f"{start}   (OpenAI clients: {url}/v1)"
