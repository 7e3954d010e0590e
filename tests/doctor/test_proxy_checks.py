"""Is the proxy up, does the agent really go through it, and which rules does it have."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy import Rule
from cacheproxy.asking import HEALTH
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.config import Config
from cacheproxy.core.servers.status import Slot
from cacheproxy.doctor import facts as asking
from cacheproxy.doctor import proxy_checks, record
from cacheproxy.doctor.facts import SeenUpstream
from cacheproxy.plugin.package import Package, PluginError
from cacheproxy.plugin.packages import Configured, configured
from tests.doctor.builders import NOW, RUNS, facts, recorded, seen, server_look
from tests.proxy.harness import Proxy

SERVER = "http://localhost:8080"


def check(url, token=()):
    (finding,) = proxy_checks.listening(facts(proxy=asking.look_at_proxy(url, dict(token))))
    return finding


@pytest.mark.llama
def test_the_real_proxy(proxy, llama):
    """Its version, upstream and rules, and that only this machine reaches it."""
    seen = asking.look_at_proxy(proxy.url, {})
    assert seen.is_up
    assert seen.upstream == llama.url
    assert "claude-billing-header" in seen.rules
    finding = check(proxy.url)
    assert finding.state is FindingState.OK
    assert finding.text.endswith(", this machine only")


def test_nobody_there(nobody):
    """With the command that starts it."""
    finding = check(nobody)
    assert finding.state is FindingState.FAIL
    assert finding.fix == "cacheproxy serve --upstream http://localhost:8080 --port 9"
    (usual,) = proxy_checks.listening(facts(proxy=asking.Proxy(PROXY, problem="no")))
    assert usual.fix == "cacheproxy serve --upstream http://localhost:8080"


@pytest.mark.parametrize("page", [(404, {}), {}, [], "x", {"version": 5, "upstream": {}}])
def test_another_server_is_told_apart(peer, page):
    finding = check(peer({HEALTH: page}).url)
    assert finding.state is FindingState.FAIL
    assert "is not a cacheproxy" in finding.text


@pytest.mark.parametrize("url", [5, "ftp://x", "http://[", None])
def test_a_health_page_that_names_no_upstream(peer, url):
    """Then the configuration's is taken."""
    page = {"version": "9", "upstream": {"url": url}, "rules": ["a", 5]}
    seen = asking.look_at_proxy(peer({HEALTH: page}).url, {})
    assert (seen.version, seen.upstream, seen.rules) == ("9", None, ("a",))


def test_a_proxy_that_asks_for_a_token(tmp_path):
    """Without it there is one thing to do; with it all is as ever."""
    arguments = ("--upstream", SERVER, "--interface", "0.0.0.0")
    with Proxy(tmp_path, *arguments, CACHEPROXY_TOKEN="a-secret") as proxy:
        url = f"http://127.0.0.1:{proxy.address[1]}"
        without = check(url)
        assert without.state is FindingState.FAIL
        assert "CACHEPROXY_TOKEN" in without.fix
        found = check(url, {"X-Cacheproxy-Token": "a-secret"})
        assert found.state is FindingState.OK
        assert record.read(url, {"X-Cacheproxy-Token": "a-secret"}, NOW).rows == ()
        assert record.read(url, {}, NOW) is record.NO_RECORD


@pytest.mark.parametrize(
    ("states", "state", "fix"),
    [
        ({}, None, None),
        ({"a": True, "b": True}, FindingState.OK, None),
        ({"a": True, "b": False}, FindingState.WARN, "start the model server b"),
        ({"a": False, "b": False}, FindingState.FAIL, "start the model servers a, b"),
    ],
)
def test_several_upstreams_are_named(states, state, fix):
    """With those that are down."""
    found = list(proxy_checks.pool(facts(proxy=replace(RUNS, pool=tuple(states.items())))))
    assert [(one.state, one.fix) for one in found] == ([(state, fix)] if state else [])
    assert all(name in found[0].text for name in states)


def test_of_several_upstreams_the_first_that_is_up_is_looked_at(peer):
    """What the page tells of the first is not told of another."""
    known = {"profile": {"says": {}}, "placement": {"where": "inline"}, "thinking": {"says": "x"}}
    both = [
        {"name": name, "url": f"http://localhost:{port}", "state": state}
        for name, port, state in (("a", 1, "down"), ("b", 2, "up"))
    ]
    page = known | {"version": "9", "upstream": {"url": "http://localhost:1"}, "upstreams": both}
    seen = asking.look_at_proxy(peer({HEALTH: page}).url, {})
    assert (seen.upstream, seen.at, seen.profile) == ("http://localhost:2", "b", None)
    assert (seen.placement, seen.keeps) == (None, "")
    both[0]["state"] = "up"
    seen = asking.look_at_proxy(peer({HEALTH: page}).url, {})
    assert (seen.upstream, seen.at, seen.keeps) == ("http://localhost:1", "a", "x")


PROXY = "http://127.0.0.1:8081"


def did(tokens):
    return server_look(evaluated=tokens)


def held(task, tokens=0):
    return server_look(slots=[Slot(0, 65_536, tokens, busy=False, task=task)])


def traffic(before, after=None, watched=0.0, proxy=PROXY):
    """The finding on two looks at server and record, so many seconds apart."""
    look, kept = after or before
    known = facts(
        proxy=replace(RUNS, url=proxy),
        upstream=SeenUpstream(SERVER, look),
        record=kept,
        before=before,
        watched=watched,
    )
    (finding,) = proxy_checks.traffic(known)
    return finding


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (did(214_300), "214,300 prompt tokens since it started, but no agent request"),
        (held(7, 18_904), "slots hold a prompt of 18,904 tokens"),
        (did(1_900), "no agent request has come through this proxy yet"),
    ],
)
def test_a_server_that_worked_for_others(load, words):
    """Before the proxy or past it: suspicious, not proven."""
    finding = traffic((load, recorded()))
    assert finding.state is FindingState.WARN
    assert words in finding.text


def test_the_command_that_watches_names_another_proxy():
    """So that it can be copied."""
    finding = traffic((did(214_300), recorded()), proxy="http://127.0.0.1:9000")
    assert finding.text.endswith("cacheproxy doctor --watch 60 --proxy http://127.0.0.1:9000")


NEW = recorded(seen(2), seen(3))


@pytest.mark.parametrize(
    ("before", "after", "new", "state", "words"),
    [
        (
            *(did(1_000), did(215_300), recorded(), FindingState.FAIL),
            "within 60 s the server evaluated 214,300 prompt tokens, but no request",
        ),
        (
            *(held(7), held(12), recorded(), FindingState.FAIL),
            "within 60 s the server worked on requests, but no request",
        ),
        (
            did(0),
            did(38_000),
            NEW,
            FindingState.OK,
            "2 requests came through this proxy within 60 s",
        ),
        (
            did(0),
            did(90_000),
            NEW,
            FindingState.WARN,
            ", 54,000 of them for requests from elsewhere",
        ),
        (
            did(9_000),
            did(9_000),
            recorded(),
            FindingState.WARN,
            "no request came through this proxy",
        ),
        (None, server_look(), recorded(), FindingState.WARN, "as far as the server tells"),
    ],
)
def test_what_is_seen_while_it_is_watched(before, after, new, state, words):
    """What came through, and what the server did besides: by counters, else by its slots."""
    finding = traffic(
        (before, recorded(seen(1))),
        (after, recorded(seen(1), *new.rows)),
        60,
    )
    assert finding.state is state
    assert words in finding.text
    if state is FindingState.FAIL:
        assert "ANTHROPIC_BASE_URL=http://127.0.0.1:8081 claude" in finding.fix


RULE = Rule("good-stamp", "system", "stamp", "", why="a stamp changes")
NAMES = frozenset({RULE.name})
GOOD = Package("good", "good-plugin", "1.2", (RULE,))
BROKEN = Package("broken", "broken-plugin", "0.1", error="ImportError: no")


def found(packages, rules, running=None, *, edits=True):
    runs = RUNS if running is not None else asking.Proxy(RUNS.url)
    known = facts(
        found=Configured(packages, (), rules, NAMES),
        proxy=replace(runs, rules=running or ()),
        edits=edits,
    )
    return [(one.name, one.state, one.text) for one in proxy_checks.plugins(known)]


@pytest.mark.parametrize(
    ("packages", "rules", "findings"),
    [
        ((GOOD,), (RULE,), [(FindingState.OK, "1 loaded: good-plugin 1.2; 1 rule on: good-stamp")]),
        (
            (BROKEN, GOOD),
            (RULE,),
            [(FindingState.FAIL, "broken-plugin could"), (FindingState.OK, "1 loaded")],
        ),
        ((), (), [(FindingState.WARN, "no client package is installed")]),
        (
            (GOOD,),
            (),
            [(FindingState.WARN, "good-plugin 1.2 loaded, but none of their rules is on")],
        ),
    ],
)
def test_packages_and_rules(packages, rules, findings):
    """A package that cannot be loaded is a problem, even beside one that can."""
    shown = found(packages, rules)
    assert {name for name, _, _ in shown} == {"plugins"}
    for (_, state, text), (wanted, words) in zip(shown, findings, strict=True):
        assert state is wanted
        assert text.startswith(words)


def test_many_are_counted_and_only_the_first_named():
    """The line stays one that is read."""
    rules = tuple(replace(RULE, name=f"rule-{number}") for number in range(25))
    packages = tuple(replace(GOOD, name=f"p{number}") for number in range(12))
    names = frozenset(rule.name for rule in rules)
    known = facts(found=Configured(packages, (), rules, names), proxy=asking.Proxy(RUNS.url))
    (finding,) = proxy_checks.plugins(known)
    assert finding.text == (
        "12 loaded: good-plugin 1.2, good-plugin 1.2, good-plugin 1.2, good-plugin 1.2, …; 25 "
        "rules on: rule-0, rule-1, rule-2, rule-3, …; cacheproxy plugins lists them"
    )


def test_a_proxy_that_runs_with_other_rules():
    """It was started before."""
    assert len(found((GOOD,), (RULE,), ("good-stamp",))) == 1
    _, (name, state, text) = found((GOOD,), (RULE,), ("old-one",))
    assert (name, state) == ("rules", FindingState.WARN)
    assert "lacks good-stamp and also has old-one" in text
    _, (_, _, text) = found((GOOD,), (RULE,), (), edits=False)
    assert "edits nothing" in text


def test_what_the_proxy_would_refuse():
    """The same error as there."""
    with pytest.raises(PluginError, match="nobody"):
        configured(Config(enable=("nobody",)))
