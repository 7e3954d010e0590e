"""Doctor's facts before it judges: the running proxy's own pages, and the model server's."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import msgspec

from cacheproxy.client_setup.checkup import Case, Checkup, Volatile
from cacheproxy.client_setup.finding import fail
from cacheproxy.core.conversation.verdict import Reason
from cacheproxy.core.kinds import looking, routers
from cacheproxy.core.kinds.kind import ServerKind
from cacheproxy.core.kinds.known import all_kinds, kind_of
from cacheproxy.core.kinds.placement import Late, Placement, alike
from cacheproxy.core.kinds.profile import UNKNOWN, Profile, ServerFacts, profile_in, with_template
from cacheproxy.core.kinds.status import Look
from cacheproxy.core.prompt.client import Client
from cacheproxy.core.template import rendering
from cacheproxy.core.template.traits import TemplateAnswer, learning
from cacheproxy.doctor.record import NO_RECORD, Record
from cacheproxy.doctor.trial import Trial, TrialOutcome
from cacheproxy.http_client import (
    HEALTH,
    CommandError,
    NoAnswerError,
    Site,
    SiteAnswer,
    checked_url,
    have_answered,
    is_health,
    is_loopback,
    is_same,
    shown,
)
from cacheproxy.plugin.package import Package, PluginError
from cacheproxy.plugin.packages import Configured

_DOCUMENTATION = ("192.0.2.1", 9)
"""RFC 5737: an address without a host; connecting a datagram socket sends nothing."""
_DATA = "/_cacheproxy/data"  #: the dashboard's figures, of the last hour
_UNTOLD = alike(Late.UNKNOWN, "")
_RENDER_SECONDS = 2.0
"""Seconds before a rendering is given up: a dozen words take a server milliseconds."""


@dataclass(frozen=True, slots=True)
class Proxy:
    """The proxy by its health page; None: there is no proxy, or it does not report the field."""

    url: str  #: URL of the proxy
    version: str | None = None  #: version; None if no cacheproxy answers
    upstream: str | None = None  #: URL of the first that is up
    rules: tuple[str, ...] = ()  #: names of the rules that are on
    problem: str | None = None  #: reason why ``version`` is None
    fix: str = ""  #: cure of the problem; "": to start the proxy
    profile: Profile | None = None  #: the proxy's knowledge of the server and its template
    placement: Any = None  #: the page's own words on the place of late messages
    keeps: str = ""  #: the page's words on earlier reasoning; "" for none
    reachable: str | None = None
    """An address of this machine at which others can reach the proxy, too."""
    has_token: bool = False  #: whether others need a token
    pool: tuple[tuple[str, bool], ...] = ()  #: names of several upstreams, and whether each is up
    at: str = ""  #: name of ``upstream`` among several
    probe: str = ""  #: value of the header that marks a request as doctor's
    evicted: tuple[tuple[str, str], ...] = ()
    """Titles and advice in the proxy's To do on prompts that the server had dropped."""

    @property
    def is_up(self) -> bool:
        """Whether a cacheproxy answers there."""
        return self.version is not None


@dataclass(frozen=True, slots=True)
class SeenUpstream:
    """The model server by its own pages."""

    url: str  #: URL of the server
    look: Look | None = None  #: the look at it; None if there is a ``problem``
    profile: Profile = UNKNOWN  #: the profile by its own pages
    model: str | None = None  #: its first model's full name
    seconds: float = 0.0  #: seconds until its first answer
    problem: str | None = None  #: reason why it cannot be examined
    fix: str | None = None  #: cure of the problem

    @property
    def server(self) -> ServerFacts | None:
        """The server's kind, version and the like; None if it cannot be examined."""
        return self.look.server if self.look is not None else None


@dataclass(frozen=True, slots=True)
class CheckedClient:
    """A client, and its package's findings in its settings (cacheproxy_checkup)."""

    client: Client  #: the client as its package declares it
    checkup: Checkup  #: the package's findings


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """All facts that the checks judge."""

    proxy: Proxy  #: the running proxy
    upstream: SeenUpstream  #: the model server
    found: Configured  #: client packages and rules, as they would be on here
    edits: bool = True  #: whether requests to the upstream are edited (law 5)
    record: Record = NO_RECORD  #: the requests that came through the proxy
    profile: Profile = UNKNOWN  #: the knowledge of the server
    checked: tuple[CheckedClient, ...] = ()  #: the clients whose packages were asked
    trials: tuple[Trial, ...] = ()  #: trials with test prompts, one on each path
    not_sent: str = ""  #: why test prompts were not sent for the slots' sake; "" if they could be
    send: bool | None = None  #: whether to send test prompts, by the user's wish
    is_named: bool = False  #: whether the user named the model for them
    router_cure: str = ""  #: the cure of a router before several servers

    @property
    def server(self) -> ServerFacts | None:
        """The server's facts; None if it cannot be examined."""
        return self.upstream.server

    @property
    def kind(self) -> ServerKind:
        """The kind of the examined server."""
        return kind_of(self.profile)

    @property
    def is_own(self) -> bool:
        """Whether the proxy sends to the server that is examined."""
        sends_to = self.proxy.upstream
        return sends_to is not None and is_same(sends_to, self.upstream.url)

    @property
    def own(self) -> Record:
        """The record, if the proxy sends to the examined server, else an empty one."""
        return self.record if self.is_own else NO_RECORD

    @property
    def rules(self) -> tuple[str, ...]:
        """Names of the rules that are on: in the running proxy, else here."""
        return self.proxy.rules if self.proxy.is_up else tuple(rule.name for rule in self.found.on)

    @property
    def tried(self) -> CheckedClient | None:
        """The first client with volatile heads, which test prompts begin with; None without."""
        return next((one for one in self.checked if one.checkup.volatile is not None), None)

    @property
    def heads(self) -> Volatile | None:
        """The volatile heads of the client ``tried``, None without one."""
        return self.tried.checkup.volatile if self.tried is not None else None

    @property
    def outcomes(self) -> list[TrialOutcome]:
        """The outcome of each trial."""
        has_rule = self.heads is None or not {*self.heads.rules}.isdisjoint(self.rules)
        return [trial.outcome(has_rule=has_rule) for trial in self.trials]


def look_at_proxy(url: str, headers: Mapping[str, str]) -> Proxy:
    """Return the proxy at ``url`` by its own pages; ``headers``: with its token. Never raises."""
    site = Site(url, headers)
    try:
        answer = site.get(HEALTH)
    except NoAnswerError as error:
        return Proxy(url, problem=f"no proxy answers at {shown(url)}: {error}")
    if answer.status == 401:
        fix = "run this command with the same CACHEPROXY_TOKEN as the proxy"
        return Proxy(url, problem=f"{shown(url)} asks for its token: set CACHEPROXY_TOKEN", fix=fix)
    page: Any = answer.json() if answer.status == 200 else None
    if not is_health(page):
        problem = f"the server at {shown(url)} is not a cacheproxy"
        return Proxy(url, problem=problem, fix="name the proxy's own URL with --proxy")
    upstreams = page.get("upstreams") or ()
    pool = tuple((str(each["name"])[:32], each["state"] == "up") for each in upstreams)
    number = next((at for at, (_, is_up) in enumerate(pool) if is_up), 0)
    upstream = None
    with contextlib.suppress(CommandError):
        upstream = checked_url(str((upstreams[number] if number else page["upstream"]).get("url")))
    seen = Proxy(
        url,
        version=page["version"],
        upstream=upstream,
        rules=tuple(name for name in page.get("rules") or () if isinstance(name, str)),
        reachable=_reachable(site),
        has_token=bool(headers),
        pool=pool,
        at=pool[number][0] if pool else "",
        probe=str(page.get("probe", "")),
    )
    if number:  # the page has more on the first server
        return seen
    found, placement = profile_in(page.get("profile")), _UNTOLD
    with contextlib.suppress(msgspec.ValidationError):
        placement = msgspec.convert(page.get("placement"), Placement)
    return replace(
        seen,
        evicted=tuple(
            (card["title"], card["why"])
            for card in (site.tell(_DATA) or {}).get("todo", ())
            if card["id"] in (Reason.EVICTED, "crowd")
        ),
        profile=(found and replace(found, placement=placement)),
        placement=page.get("placement"),
        keeps=(page.get("thinking") or {}).get("says", ""),
    )


def _reachable(site: Site) -> str | None:
    """Return ``ADDRESS:PORT``, not loopback, at which the same proxy answers, too; or None."""
    port = urlsplit(site.url).port
    if not is_loopback(site.url) or port is None:
        return None
    with contextlib.suppress(OSError):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(_DOCUMENTATION)
            address = str(probe.getsockname()[0])
        if not address.startswith("127."):
            there = Site(f"http://{address}:{port}", site.headers)
            return f"{address}:{port}" if there.health() else None
    return None


def look_at_server(site: Site) -> SeenUpstream:
    """Return the server at ``site`` by its status pages, or the problem with it. Never raises."""
    url = shown(site.url)
    said: dict[str, SiteAnswer] = {}
    why: list[str] = []

    def get(path: str) -> tuple[int, bytes, str] | None:
        try:
            one = said[path] = site.get(path)
        except NoAnswerError as error:
            why.append(str(error))
            return None
        return one.status, one.body, one.software

    answers = have_answered(looking.asking({}), get)
    if answers is None:
        problem = f"no model server answers at {url}: {why[0]}"
        fix = "start the model server, or name it with --upstream URL"
        if why[0].startswith("no answer"):
            fix = "restart the model server: it takes connections, and answers none"
        return SeenUpstream(site.url, problem=problem, fix=fix)
    if refusal := _refusal(site, said, answers.pages):
        problem, fix = refusal
        return SeenUpstream(site.url, problem=f"the server at {url} {problem}", fix=fix)
    seen = looking.look_of(site.url, time.time(), time.monotonic(), answers)
    model, seconds = answers.model.get("id"), next(iter(said.values())).seconds
    return SeenUpstream(site.url, seen, looking.profile_from_look(seen), model, seconds)


def _refusal(
    site: Site, said: Mapping[str, SiteAnswer], pages: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Return what is wrong with the server, by its answers, and the cure; None if nothing is."""
    # through a proxy every server seems to need no key
    if site.health():
        problem = "is a cacheproxy, not the model server behind it"
        return problem, "name the model server with --upstream URL"
    marks = looking.marks()
    # llama-server lists its models to anybody, but returns its properties only with the key.
    if any(path in said and said[path].status in (401, 403) for path in [*marks][:2]):
        return "asks for a key", "give the key with --api-key KEY"
    if any(key in page for path, key in marks.items() if isinstance(page := pages.get(path), dict)):
        return None
    for path in marks:
        if path in said and said[path].status == 503:
            return f"is not ready: {said[path].said() or 'it answers 503'}", "wait for it"
    text = f"is not a model server: it has none of {', '.join(marks)}"
    return text, "name the model server's root URL with --upstream"


def look_at_clients(
    packages: Iterable[Package], case: Case, seen: Collection[str]
) -> list[CheckedClient]:
    """Return clients with their packages' findings; ``seen``: names of those used. Never raises."""
    found = []
    for package in packages:
        client = package.client
        if client is None or "cacheproxy_checkup" not in package.hooks:
            continue
        mine = replace(case, seen=client.name in seen)
        try:
            checkup = package.ask("cacheproxy_checkup", Checkup, mine)
        except PluginError as error:
            checkup = Checkup((fail("plugins", str(error)),))
        found.append(CheckedClient(client, checkup))
    return found


def learned(
    site: Site, profile: Profile, formats: tuple[str, ...] = (), model: str | None = None
) -> Profile:
    """Return ``profile`` with the template's behaviour at the server at ``site``. Never raises.

    The proxy learns it in the same way: the server renders a few dozen words, and evaluates
    nothing. ``formats``: see ``Look``. ``model``: for servers that need its name.
    """
    found: list[TemplateAnswer] = []

    def render(path: str, body: bytes) -> tuple[int, bytes]:
        answer = site.post(path, body, _RENDER_SECONDS)
        return answer.status, answer.body

    with contextlib.suppress(NoAnswerError):
        pages = (kind.serving.rendering for kind in all_kinds())
        for page in filter(None, pages):
            questions = learning(found, page, model or "", datetime.now(UTC), formats)
            with contextlib.suppress(rendering.NoPageError):
                have_answered(questions, partial(render, page.path))
            if found:
                break
    return with_template(profile, [found[-1].profile]) if found else profile


def router_cure(site: Site) -> str:
    """Return the setting that makes the router at ``site`` sticky, a sentence. Never raises."""
    try:
        models = site.get("/v1/models")
    except NoAnswerError:
        models = SiteAnswer(0, b"")
    return routers.cure_of(models.software, models.body.decode("latin-1"), site.tell)
