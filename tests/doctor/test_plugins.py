"""Which packages and rules there are, here and in the running proxy."""

from __future__ import annotations

import pytest

from cacheproxy import Rule
from cacheproxy.config import Config
from cacheproxy.doctor import plugins
from cacheproxy.doctor.finding import State
from cacheproxy.doctor.plugins import Installed
from cacheproxy.plugin.errors import PluginError
from cacheproxy.plugin.package import Package

RULE = Rule("good-stamp", "system", "stamp", "", why="a stamp changes")
GOOD = Package("good", "good-plugin", "1.2", (RULE,))
BROKEN = Package("broken", "broken-plugin", "0.1", error="ImportError: no")


def found(packages, rules, running=None, *, edits=True):
    findings = plugins.check(Installed(packages, rules), running, edits=edits)
    return [(finding.name, finding.state, finding.text) for finding in findings]


def test_packages_and_rules():
    """Versions, and what is on."""
    text = "1 loaded: good-plugin 1.2; rules on: good-stamp"
    assert found((GOOD,), (RULE,)) == [("plugins", State.OK, text)]


def test_a_package_that_cannot_be_loaded():
    """A problem, even beside one that can."""
    states = [state for _, state, _ in found((BROKEN, GOOD), (RULE,))]
    assert states == [State.FAIL, State.OK]


def test_nothing_to_do():
    """No package, or no rule on."""
    ((_, state, text),) = found((), ())
    assert state is State.WARN
    assert "no client package is installed" in text
    ((_, state, text),) = found((GOOD,), ())
    assert state is State.WARN
    assert "no rule is on" in text


def test_a_proxy_that_runs_with_other_rules():
    """It was started before."""
    assert len(found((GOOD,), (RULE,), ("good-stamp",))) == 1
    _, (name, state, text) = found((GOOD,), (RULE,), ("old-one",))
    assert (name, state) == ("rules", State.WARN)
    assert "lacks good-stamp and has old-one besides" in text
    _, (_, _, text) = found((GOOD,), (RULE,), (), edits=False)
    assert "edits nothing" in text


def test_what_the_proxy_would_refuse():
    """The same error as there."""
    with pytest.raises(PluginError, match="nobody"):
        plugins.installed(Config(enable=("nobody",)))
