"""Which packages and rules there are, here and in the running proxy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cacheproxy import Rule
from cacheproxy.client_setup.finding import FindingState
from cacheproxy.config import Config
from cacheproxy.doctor import proxy_checks
from cacheproxy.doctor.facts import Proxy
from cacheproxy.plugin.package import Package, PluginError
from cacheproxy.plugin.packages import Configured, configured
from tests.doctor.builders import RUNS, facts

RULE = Rule("good-stamp", "system", "stamp", "", why="a stamp changes")
NAMES = frozenset({RULE.name})
GOOD = Package("good", "good-plugin", "1.2", (RULE,))
BROKEN = Package("broken", "broken-plugin", "0.1", error="ImportError: no")


def found(packages, rules, running=None, *, edits=True):
    runs = RUNS if running is not None else Proxy(RUNS.url)
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
    known = facts(found=Configured(packages, (), rules, names), proxy=Proxy(RUNS.url))
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
