"""Is the proxy up, and who can reach it."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
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
    shown,
)
from cacheproxy.core.placement.placement import Late, Placement, alike
from cacheproxy.core.server.profile import Profile
from cacheproxy.core.server.profile_text import profile_in
from cacheproxy.doctor.finding import Finding, FindingState

_DOCUMENTATION = ("192.0.2.1", 9)
"""RFC 5737: nobody is there, and connecting a datagram socket sends nothing."""
_UNTOLD = alike(Late.UNKNOWN, "")


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy as its health page tells; None where there is none, or it does not say.

    ``problem``: why ``version`` is None. ``reachable``: an address of this machine at which
    others can reach it, too; ``has_token``: they need a token then. ``profile``: what the proxy
    knows of the server and its template; ``placement``: the page's own words on the latter.
    ``keeps``: what it does with earlier reasoning there, "" for nothing. ``pool``: names of all its
    upstreams and whether they are up, where there are several; ``upstream`` is the first that is
    up, and called ``at``. ``probe``: what marks a request as ours.
    """

    url: str
    version: str | None = None
    upstream: str | None = None
    rules: tuple[str, ...] = ()
    problem: str | None = None
    profile: Profile | None = None
    placement: Any = None
    keeps: str = ""
    reachable: str | None = None
    has_token: bool = False
    pool: tuple[tuple[str, bool], ...] = ()
    at: str = ""
    probe: str = ""

    @property
    def is_up(self) -> bool:
        """Whether a cacheproxy answers there."""
        return self.version is not None


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
        return [Finding("upstreams", FindingState.OK, text)]
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
        return [Finding("proxy", FindingState.FAIL, proxy.problem or "", start)]
    where = urlsplit(proxy.url)
    text = f"cacheproxy {proxy.version} listens on {where.hostname}:{where.port}"
    if proxy.reachable is not None:
        text += f", and on {proxy.reachable}"
        if proxy.has_token:
            return [Finding("proxy", FindingState.OK, text + ", where clients need the token")]
        text += ", so others on your network can also use it"
        return [
            Finding("proxy", FindingState.WARN, text, "start the proxy with --interface 127.0.0.1")
        ]
    return [
        Finding("proxy", FindingState.OK, text + (", this machine only" * is_loopback(proxy.url)))
    ]


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
