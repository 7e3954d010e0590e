"""Checks of the proxy: its reachability, its traffic, and its packages and rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from cacheproxy.client_setup.finding import Finding, fail, note, ok, warn
from cacheproxy.core.judge.advice import setup_command, waiting
from cacheproxy.core.judge.explain import share_in_words
from cacheproxy.core.kinds.status import Look
from cacheproxy.core.rules.built_in import NAMES
from cacheproxy.doctor.facts import Examination
from cacheproxy.http_client import is_loopback, is_same, proxy_option, shown
from cacheproxy.observe import failures
from cacheproxy.observe.failures import Fault
from cacheproxy.plugin.package import INSTALL
from cacheproxy.record.exchange import Exchange, Outcome
from cacheproxy.words import ago, clients, counted

_NOISE = 5000
"""Prompt tokens up to which a server's work is none of an agent's, but of doctor or of curl."""
_MOST = 4  #: packages, or rules, named one by one at most


def listening(facts: Examination) -> Iterator[Finding]:
    """Check that the proxy runs, and report who can reach it."""
    proxy = facts.proxy
    where = urlsplit(proxy.url)
    if not proxy.is_up:
        port = f" --port {where.port}" if proxy_option(proxy.url) and where.port else ""
        start = f"cacheproxy serve --upstream {shown(facts.upstream.url)}{port}"
        yield fail("proxy", proxy.problem or "", proxy.fix or start)
        return
    text = f"cacheproxy {proxy.version} listens on {where.hostname}:{where.port}"
    if proxy.reachable is None:
        yield ok("proxy", text + (", this machine only" * is_loopback(proxy.url)))
        return
    text += f", and on {proxy.reachable}"
    if proxy.has_token:
        yield ok("proxy", text + ", where clients need the token")
        return
    text += ", so others on your network can also use it"
    yield warn("proxy", text, "start the proxy with --interface 127.0.0.1")


def pool(facts: Examination) -> Iterator[Finding]:
    """Report all upstreams, if there are several."""
    proxy = facts.proxy
    if not proxy.pool:
        return
    down = [name for name, is_up in proxy.pool if not is_up]
    names = ", ".join(f"{name} {'up' if is_up else 'DOWN'}" for name, is_up in proxy.pool)
    text = f"{len(proxy.pool)} upstreams: {names}; the checks below are of {proxy.at}"
    state = warn if len(down) < len(proxy.pool) else fail
    servers = "the model server" if len(down) == 1 else "the model servers"
    start = f"start {servers} {', '.join(down)}"
    yield state("upstreams", text, start) if down else ok("upstreams", text)


def other_upstream(facts: Examination) -> Iterator[Finding]:
    """Check that the proxy sends to the server that was examined."""
    sends_to, checked = facts.proxy.upstream, facts.upstream.url
    if sends_to is not None and not is_same(sends_to, checked):
        text = f"the proxy sends to {shown(sends_to)}, but doctor checked {shown(checked)}"
        yield warn("upstream", text, "leave out --upstream, or restart the proxy")


def requests(facts: Examination) -> Iterator[Finding]:
    """Report the last hour's failed requests: of each client that fails, and of all others."""
    record = facts.record
    for mine in record.failing.values():
        latest = next(one for one in reversed(mine) if one.went_wrong)
        last = "" if len(mine) == 1 else ", the last"
        text = f"{failures.summary(mine)}{last} {failures.failure(latest, record.now)}"
        yield fail("requests", text, failures.mend_of(latest) or larger_context(facts, latest))
    rest = [one for one in record.lately if one.client not in record.failing]
    failed = [one for one in rest if one.went_wrong]
    if failed:
        last = "failed" if len(rest) == 1 else "failed, the last"
        text = f"{len(failed)} of the last {counted(len(rest), 'request')} {last} "
        text += failures.failure(failed[-1], record.now)
        is_ours = any(failures.fault_of(one) is not Fault.REQUEST for one in failed)
        mend = failures.mend_of(failed[-1]) or larger_context(facts, failed[-1])
        yield warn("requests", text, mend) if is_ours else note("requests", text)


def empty(facts: Examination) -> Iterator[Finding]:
    """Report empty answers of the last hour; after a tool's result one may be intended."""
    turns = facts.record.turns
    found = [one for one in turns if one.outcome is Outcome.EMPTY]
    if found:
        text = f"{len(found)} of the last hour's {counted(len(turns), 'turn')} got an answer that "
        text += f"says nothing, the last {ago(facts.record.now - found[-1].wall)}"
        yield warn("answers", text, Fault.EMPTY)


def larger_context(facts: Examination, one: Exchange) -> str:
    """Return the advice for a prompt of this exchange's client that does not fit."""
    kind, client = facts.kind, facts.found.packages.clients.named(one.client)
    flag = kind.settings.context
    larger = f"{flag} larger for {kind.called}, or " if flag else ""
    return f"{larger}a smaller window for the client: {setup_command(client)}"


def impatient(facts: Examination) -> Iterator[Finding]:
    """Report clients that left before the answer began: their retries are read anew."""
    for name, turns in facts.record.given_up.items():
        last, the_last = turns[-1], ", the last" * (len(turns) > 1)
        text = f"{name} left {counted(len(turns), 'turn')} before the answer began{the_last} "
        text += f"{ago(facts.record.now - last.ended)}, {last.waited}: unless "
        text += "somebody stopped it, it gave up by itself"
        fix = waiting(facts.found.packages.clients.named(name))
        yield warn("patience", text, fix or "raise the time-out in the client's own settings")


def cut(facts: Examination) -> Iterator[Finding]:
    """Report prompts that the server cut without a word."""
    record = facts.record
    if not record.cut:
        return
    last = record.cut[-1]
    text = f"the server cut {len(record.cut)} of the last hour's "
    text += f"{counted(len(record.turns), 'turn')} to fit its context, without a word to the "
    text += f"client; the last time it read {last.usage.prompt or 0:,} tokens"
    yield fail("context", text, larger_context(facts, last))


def traffic(facts: Examination) -> Iterator[Finding]:
    """Check that agents use the proxy, and do not go past it."""
    if not (facts.is_own and facts.server):
        return
    record = facts.record
    if not record.remembers:
        text = "this proxy keeps no record of its requests, so doctor cannot tell whether your "
        text += "agent uses the proxy. Look in the proxy's log: each request has a line"
        yield warn("traffic", text)
    elif record.rows:
        text = f"{counted(len(record.rows), 'request')} with a prompt came through this proxy"
        yield ok("traffic", text)
    elif (work := _work(facts.upstream.look)) is None:
        url = shown(facts.proxy.url)
        text = f"no agent request has come through this proxy yet (OpenAI's clients: {url}/v1)"
        yield warn("traffic", text, _through(facts))
    else:
        text = f"{work}, but no agent request has come through this proxy. If you used your agent "
        text += f"since then, it talks to {shown(facts.upstream.url)} directly"
        yield warn("traffic", text, _through(facts))


def _work(look: Look | None) -> str | None:
    """Return the server's work since its start, for people; None if it is noise, or unknown."""
    if look is None:
        return None
    tokens = look.sample.figures.evaluated if look.sample is not None else None
    text = "the server has evaluated {:,} prompt tokens since it started"
    if tokens is None:
        tokens = max((slot.used for slot in look.slots), default=0)
        text = "the server's slots hold a prompt of {:,} tokens"
    return text.format(int(tokens)) if int(tokens) > _NOISE else None


def _through(facts: Examination) -> str:
    """Return how to start a client behind the proxy: the first known client's line, or the URL."""
    url, option = shown(facts.proxy.url), proxy_option(facts.proxy.url)
    known = facts.found.packages.clients
    return next(iter(known.starts(url, option).values()), f"base URL {url}")


def agents(facts: Examination) -> Iterator[Finding]:
    """Report the clients, and their turns of the last hour that lost the cache."""
    record = facts.record
    if not record.rows:
        return
    came = ((one.client, one.session.id if one.session else "", one.wall) for one in record.rows)
    yield ok("agents", f"seen: {clients(came, record.now)}")
    if not record.breaks:
        return
    reasons = Counter(one.reason or "unknown" for one in record.breaks)
    why = ", ".join(f"{reason} {number}" for reason, number in reasons.most_common())
    text = f"{len(record.breaks)} of the last hour's {counted(len(record.later), 'follow-up turn')}"
    text += f" lost the cache: {why}; {share_in_words(record.lost_share)} of their tokens were "
    text += "evaluated again"
    yield record.state("turns", text, f"cacheproxy diagnose {record.breaks[-1].number}")


def settings(facts: Examination) -> Iterator[Finding]:
    """Report client packages' findings in their clients' own settings."""
    for one in facts.checked:
        yield from one.checkup.findings


def plugins(facts: Examination) -> Iterator[Finding]:
    """Report the client packages and rules, here and in the running proxy."""
    found = facts.found
    broken = [package for package in found.packages if package.error is not None]
    for package in broken:
        text = f"{package.distribution} could not be loaded: {package.error}"
        yield fail("plugins", text, f"pip install --upgrade {package.distribution}")
    for package in found.packages:
        if package.warning is not None:
            yield warn("plugins", package.warning, f"chmod o-w {package.file}")
    loaded = [package for package in found.packages if not package.error and not package.blocked]
    names = _some([package.title for package in loaded])
    on = [rule.name for rule in found.on]
    if not NAMES.issuperset(on):
        which = f"{len(loaded)} loaded: {names}" if loaded else "only the config file's own rules"
        listed = "; cacheproxy plugins lists them" if len(on) > _MOST else ""
        yield ok("plugins", f"{which}; {counted(len(on), 'rule')} on: {_some(on)}{listed}")
    elif loaded:
        text = f"{names} loaded, but none of their rules is on"
        yield warn("plugins", text, "cacheproxy plugins")
    elif not broken:
        text = "no client package is installed, so the proxy makes no volatile field constant"
        yield warn("plugins", text, INSTALL)
    if facts.proxy.is_up:
        yield from _running(set(on), set(facts.proxy.rules), edits=facts.edits)


def _some(names: Sequence[str]) -> str:
    """Return the first four of ``names``, joined by commas."""
    return ", ".join(names[:_MOST]) + ", …" * (len(names) > _MOST)


def _running(here: set[str], running: set[str], *, edits: bool) -> Iterator[Finding]:
    """Warn if the rules that are on ``here``, by name, are not those of the running proxy."""
    if running == here:
        return
    if not running and not edits:
        text = "the upstream is not on your own network, so the running proxy edits nothing"
        yield warn("rules", text, "start the proxy with --edit-remote")
        return
    differ = (("lacks", sorted(here - running)), ("also has", sorted(running - here)))
    parts = " and ".join(f"{how} {', '.join(names)}" for how, names in differ if names)
    text = f"the running proxy {parts}: it was started before that, or with other settings"
    fix = "reload the proxy (SIGHUP) or restart it, or run doctor with the proxy's own --config "
    yield warn("rules", text, f"{fix}and --plugin")
