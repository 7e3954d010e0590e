"""All checks, in order."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from cacheproxy.asking import Site
from cacheproxy.client_setup.checkup import Case
from cacheproxy.client_setup.finding import Finding, FindingState, ok, warn
from cacheproxy.config import Config
from cacheproxy.core.conversation.session import DOCTOR
from cacheproxy.core.http1.headers import PROBE
from cacheproxy.core.privacy.locality import is_local
from cacheproxy.core.servers.kinds import kind_called
from cacheproxy.core.servers.profile import Profile, Reporting
from cacheproxy.core.servers.profile_text import says
from cacheproxy.doctor import (
    clients,
    outcome,
    plugins,
    proxy,
    record,
    reuse,
    router,
    slots,
    template,
)
from cacheproxy.doctor import upstream as upstreams
from cacheproxy.doctor.clients import CheckedClient
from cacheproxy.doctor.conclusion import Examination, judge
from cacheproxy.doctor.prompt import PATHS
from cacheproxy.doctor.proxy import Proxy, TrafficLook
from cacheproxy.doctor.reuse import Trial
from cacheproxy.doctor.slots import Ask, Guard
from cacheproxy.doctor.upstream import Counters, SeenUpstream
from cacheproxy.plugin.packages import Configured, configured

OnStep = Callable[[str], None]
"""Called with what is being done."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is examined."""

    config: Config  #: the settings, as the proxy would have them
    proxy: str  #: its URL
    upstream: str | None  #: the server's URL; None: ask the proxy
    environ: Mapping[str, str]  #: of this shell
    home: Path  #: the user's folder
    headers: dict[str, str] = field(default_factory=dict)  #: to the server, with its key
    token: dict[str, str] = field(default_factory=dict)  #: headers to the proxy
    model: str | None = None  #: to ask for; None: the first that the server lists
    send: bool | None = None  #: test prompts; None: ask where they might push out a conversation
    ask: Ask = lambda _: False  #: people, where there are any
    watch: float = 0.0  #: seconds to wait for the agent's own requests


def examine(inputs: Inputs, on_step: OnStep) -> Examination:  # noqa: PLR0915 (a list)
    """Run all checks. Raises ConfigError or PluginError, as the proxy would."""
    found = configured(inputs.config)
    on_step("asking the proxy")
    running = proxy.look(inputs.proxy, inputs.token)
    url = inputs.upstream or running.upstream or inputs.config.upstream.rstrip("/")
    on_step("asking the model server")
    site = Site(url, inputs.headers)
    server = upstreams.look(site)
    before = TrafficLook(
        server.look, record.read(running.url, inputs.token) if running.is_up else None
    )
    after, watched = before, inputs.watch if running.is_up and server.server is not None else 0.0
    if watched:
        on_step(f"watching for {watched:.0f} s: use your agent now")
        time.sleep(watched)
        now = record.read(running.url, inputs.token) or before.record
        after = TrafficLook(upstreams.look(site).look, now)
    kept, is_own = after.record, running.sends_to(url)
    # the test prompt imitates a field that vendors' own APIs check
    edits = inputs.config.edit_remote or is_local(urlsplit(url).hostname or "")
    own = kept if is_own else None
    profile = _profile(inputs, server, running if is_own else None, on_step)
    seen = tuple(kept.clients()) if kept is not None else ()
    context = server.server.context if server.server is not None else None
    case = Case(inputs.environ, inputs.home, running.url, url, context)
    checked, known = clients.look(found.packages, case, seen), found.packages.clients
    tried = clients.volatile_of(checked)
    guard = Guard(site, profile, own, None if inputs.send else inputs.ask)
    may_send = inputs.send is not False and edits
    trials = _trials(inputs, server, running, found, guard, on_step, tried) if may_send else ()

    findings = [*proxy.check(running, url), *proxy.check_pool(running), *upstreams.check(server)]
    findings += proxy.check_upstream(running, url)
    kind = server.server.kind if server.server is not None else ""
    findings += record.check_requests(kept, time.time(), kind, known)
    findings += _on_trials(trials, running, found, kind, site, tried)
    if guard.finding is not None:
        findings.append(guard.finding)
    elif kind and not trials:
        findings.append(_not_tried(inputs, kind, edits=edits))
    if kind:
        memory = says(profile).get("memory")
        findings += [ok("memory", memory)] if memory else []
        findings += template.check(profile.placement, own, known)
        findings += slots.check(own, trials) if kind_called(kind).similarity else []
        findings += template.check_turns(profile, own, running.keeps if own is not None else "")
    rules = running.rules if running.is_up else tuple(rule.name for rule in found.on)
    needed = judge(trials, checked, rules, seen, profile.placement, known)
    findings += [] if needed is None else [ok("need", needed.text)]
    if is_own and kind:
        findings += proxy.check_traffic(running.url, url, before, after, watched, known)
    findings += record.check_agents(kept, time.time())
    findings += (finding for one in checked for finding in one.checkup.findings)
    findings += plugins.check(found, running.rules if running.is_up else None, edits=edits)
    if needed is not None and needed.is_superfluous:
        names = {"proxy", "traffic", *(one.client.name for one in checked)}
        findings = [_excused(finding) if finding.name in names else finding for finding in findings]
    return Examination(
        running, server, kept, trials, needed, profile, tuple(findings), tuple(checked)
    )


def _trials(  # noqa: PLR0917 (what is known so far, and whom to ask)
    inputs: Inputs,
    server: SeenUpstream,
    running: Proxy,
    found: Configured,
    guard: Guard,
    on_step: OnStep,
    tried: CheckedClient | None,
) -> tuple[Trial, ...]:
    """Send test prompts on each path; where one would be loaded for it, only if it was named."""
    model = inputs.model or server.model
    if server.server is None:
        return ()
    kind = kind_called(server.server.kind)
    if kind.loads_models and inputs.model is None:
        return ()
    headers = inputs.headers | inputs.token
    # It is kept out of the proxy's records.
    as_probe = {"User-Agent": f"{DOCTOR}/1", PROBE.decode().title(): running.probe}
    through = Site(running.url, headers | as_probe) if running.sends_to(server.url) else None
    site = Site(server.url, inputs.headers)
    trials: list[Trial] = []
    one_slot = kind.similarity > 0 and server.server.slots == 1
    for api, path in PATHS.items():
        on_step(f"sending a short prompt to {path}")
        mark = secrets.token_hex(8)
        trial = reuse.measure(
            api,
            site,
            through,
            found.on,
            model or outcome.NO_MODEL,
            mark,
            may_send=guard.allows,
            has_one_slot=one_slot and not any(one.again for one in trials),
            counters=Counters(site, has_them=kind.reporting is Reporting.FLAGGED),
            memory=guard.profile.memory,
            volatile=tried.checkup.volatile if tried is not None else None,
        )
        if trial is not None and (trial.second is not None or not trial.held_back):
            trials.append(trial)
        if trial is not None and trial.held_back:
            break
    return tuple(trials)


def _on_trials(  # noqa: PLR0917 (what is known of them)
    trials: Sequence[Trial],
    running: Proxy,
    found: Configured,
    kind: str,
    site: Site,
    tried: CheckedClient | None,
) -> list[Finding]:
    here = tuple(rule.name for rule in found.on)
    findings = []
    cure = router.cure_of(site) if any(trial.has_several for trial in trials) else ""
    for trial in trials:
        on = running.rules if trial.through_proxy else here
        findings.append(outcome.check(trial, on, kind, tried, cure))
    return findings + outcome.unreported(trials, kind)


def _not_tried(inputs: Inputs, kind: str, *, edits: bool) -> Finding:
    if inputs.send is False:
        return warn("reuse", "not tried, since --no-send was given")
    if not edits:
        text = "not tried: the server is not on your own network, and the proxy edits nothing there"
        return warn("reuse", text, "set edit_remote if the server is yours")
    if kind_called(kind).loads_models:
        text = f"not tried: {kind} would load a model for the test, and perhaps unload another one"
        return warn("reuse", text, "name a model with --model")
    text = f"not tried: the server serves neither {' nor '.join(PATHS.values())}"
    state = FindingState.WARN if kind_called(kind).similarity else FindingState.FAIL
    return Finding("reuse", state, text, "name the model server's root URL with --upstream")


def _profile(
    inputs: Inputs, server: SeenUpstream, running: Proxy | None, on_step: OnStep
) -> Profile:
    """Return what is known of the server: by its own proxy, else by asking it in the same way."""
    known = running.profile if running is not None else None
    if server.look is None:
        return known or server.profile
    profile = replace(known, server=server.server) if known is not None else server.profile
    if profile.page:
        return profile
    on_step("asking the server to render a test conversation")
    site, model = Site(server.url, inputs.headers), inputs.model or server.model
    profile = template.learned(site, profile, server.look.formats, model)
    return profile if known is None else replace(profile, placement=known.placement)


def _excused(finding: Finding) -> Finding:
    """Where the proxy is not needed, that nothing goes through it is no fault."""
    if finding.state is FindingState.FAIL:
        return replace(finding, state=FindingState.WARN)
    return finding
