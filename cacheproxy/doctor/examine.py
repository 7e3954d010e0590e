"""The examination: all requests to proxy and server, and all checks in order."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from cacheproxy.client_setup.checkup import Case
from cacheproxy.client_setup.finding import Finding
from cacheproxy.config import Config
from cacheproxy.core.conversation.session import DOCTOR
from cacheproxy.core.http1.headers import PROBE
from cacheproxy.core.kinds.known import kind_of
from cacheproxy.core.kinds.profile import Profile, Reporting
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.doctor import proxy_checks, record, server_checks
from cacheproxy.doctor.facts import (
    Examination,
    Proxy,
    SeenUpstream,
    learned,
    look_at_clients,
    look_at_proxy,
    look_at_server,
    router_cure,
)
from cacheproxy.doctor.guard import Ask, Guard
from cacheproxy.doctor.trial import APIS, NO_MODEL, PromptSender, Trial
from cacheproxy.http_client import Site
from cacheproxy.plugin.packages import configured

OnStep = Callable[[str], None]  #: a callback for each step; its argument names the step
CHECKS: tuple[Callable[[Examination], Iterator[Finding]], ...] = (
    proxy_checks.listening,
    proxy_checks.pool,
    server_checks.answering,
    proxy_checks.other_upstream,
    proxy_checks.requests,
    proxy_checks.empty,
    proxy_checks.impatient,
    proxy_checks.cut,
    server_checks.reuse,
    server_checks.memory,
    server_checks.late_messages,
    server_checks.next_turns,
    proxy_checks.traffic,
    proxy_checks.agents,
    proxy_checks.settings,
    proxy_checks.plugins,
)
"""All checks, in the report's order."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The inputs of an examination."""

    config: Config  #: the settings, as the proxy would use them
    proxy: str  #: the proxy's URL
    upstream: str | None  #: the server's URL; None to ask the proxy
    environ: Mapping[str, str]  #: this shell's environment variables
    home: Path  #: the user's home folder
    headers: dict[str, str] = field(default_factory=dict)  #: headers for the server, with its key
    token: dict[str, str] = field(default_factory=dict)  #: headers for the proxy, with its token
    model: str | None = None  #: the model for test prompts; None for the server's first
    send: bool | None = None
    """Whether to send test prompts; None to ask if they might push out a conversation."""
    ask: Ask = lambda _: False  #: asks people, if there are any
    clock: Callable[[], float] = time.time  #: returns seconds since the epoch


def examine(inputs: Inputs, on_step: OnStep) -> tuple[Examination, list[Finding]]:
    """Return the examination's facts and its findings. Raises ConfigError or PluginError."""
    facts = _ask(inputs, on_step)
    return facts, [finding for check in CHECKS for finding in check(facts)]


def _ask(inputs: Inputs, on_step: OnStep) -> Examination:
    """Return all facts: of proxy, server, packages and test prompts. Raises as ``examine`` does."""
    found = configured(inputs.config)
    known = frozenset(client.name for client in found.packages.clients)
    on_step("asking the proxy")
    running = look_at_proxy(inputs.proxy, inputs.token)
    url = inputs.upstream or running.upstream or inputs.config.upstream.rstrip("/")
    on_step("asking the model server")
    site = Site(url, inputs.headers)
    upstream = look_at_server(site)
    kept = record.NO_RECORD
    if running.is_up:
        kept = record.read(running.url, inputs.token, inputs.clock(), known)
    context = upstream.server.context if upstream.server is not None else None
    case = Case(inputs.environ, inputs.home, running.url, url, context)
    facts = Examination(
        proxy=running,
        upstream=upstream,
        found=found,
        # the test prompt imitates a field that vendors' own APIs check
        edits=inputs.config.edit_remote or is_local(urlsplit(url).hostname or ""),
        record=kept,
        checked=tuple(look_at_clients(found.packages, case, kept.clients())),
        send=inputs.send,
        is_named=inputs.model is not None,
    )
    profile = _profile(inputs, upstream, running if facts.is_own else None, on_step)
    guard = Guard(site, profile, facts.own, None if inputs.send else inputs.ask)
    trials = tuple(_trials(inputs, facts, guard, on_step))
    cure = router_cure(site) if any(trial.has_several for trial in trials) else ""
    return replace(facts, profile=profile, trials=trials, not_sent=guard.why_not, router_cure=cure)


def _trials(inputs: Inputs, facts: Examination, guard: Guard, on_step: OnStep) -> Iterator[Trial]:
    """Send each API test prompts and yield its trial; none without leave, or to load a model."""
    server, running = facts.server, facts.proxy
    if server is None or inputs.send is False or not facts.edits:
        return
    kind = kind_of(guard.profile)
    if kind.serving.loads_models and not facts.is_named:
        return
    # The header keeps it out of the proxy's records.
    as_probe = {"User-Agent": f"{DOCTOR}/1", PROBE.decode().title(): running.probe}
    headers = inputs.headers | inputs.token | as_probe
    sender = PromptSender(
        upstream=Site(facts.upstream.url, inputs.headers),
        proxy=Site(running.url, headers) if facts.is_own else None,
        rules=facts.found.on,
        model=inputs.model or facts.upstream.model or NO_MODEL,
        may_send=guard.allows,
        has_one_slot=kind.reuse.similarity > 0 and server.slots == 1,
        counts=kind.reuse.reporting is Reporting.FLAGGED,
        is_off=guard.profile.reuses is False,
        memory=guard.profile.memory,
        heads=facts.heads,
    )
    for api in APIS:
        on_step(f"sending a short prompt to {api.path}")
        trial = sender.measure(api, secrets.token_hex(8))
        if trial is None:
            continue
        if trial.second is not None or not trial.has_yielded:
            yield trial
        if trial.has_yielded:
            return
        sender.has_one_slot &= trial.again is None


def _profile(
    inputs: Inputs, upstream: SeenUpstream, running: Proxy | None, on_step: OnStep
) -> Profile:
    """Return the server's profile: from its proxy, else by the questions that a proxy asks."""
    known = running.profile if running is not None else None
    if upstream.look is None:
        return known or upstream.profile
    profile = replace(known, server=upstream.server) if known is not None else upstream.profile
    if profile.page:
        return profile
    on_step("asking the server to render a test conversation")
    site, model = Site(upstream.url, inputs.headers), inputs.model or upstream.model
    profile = learned(site, profile, upstream.look.formats, model)
    return profile if known is None else replace(profile, placement=known.placement)
