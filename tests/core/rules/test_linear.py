"""The regexes of the rules that we ship, and our own, stay linear on texts made against them."""

import importlib
import inspect
import pkgutil
import re
import signal
from collections import deque
from importlib.metadata import entry_points
from itertools import islice

import pytest

import cacheproxy.core
import cacheproxy.translate
from cacheproxy.core.document import search
from cacheproxy.core.rules.checks import attacks, slow
from cacheproxy.core.rules.rule import Rule
from cacheproxy.plugin.packages import Packages

pytestmark = pytest.mark.slow

LONG = 250_000
OWN = 30_000
PATIENCE = 2.0
"""Seconds more than a pattern has: a busy machine takes several times as long for what is linear,
and what grows with the square takes minutes."""
SECONDS = 0.25
"""Processor time for one regex of ours and one text of OWN characters: linear ones take 15 ms."""
ANCHORED = {"match", "fullmatch"}
LINES = ("cacheproxy.core.serverlog",)
"""They read a server's log in lines of 64 KB at most."""


@pytest.mark.parametrize("package", list(Packages().load()), ids=lambda package: package.name)
def test_shipped_rules_stay_linear(package, monkeypatch):
    """And the lines by which a client is told."""
    monkeypatch.setattr(search, "SECONDS", PATIENCE)
    patterns = [rule.pattern for rule in package.rules if type(rule) is Rule]
    lines = package.client.lines if package.client is not None else ()
    for pattern in (*patterns, *(rf"\A(?:{line})" for line in lines)):
        assert slow(pattern, (LONG,)) is None


def _compiled():
    """Every regex of the core, the translation and the clients, and how it is used."""
    modules = [entry.module for entry in entry_points(group="cacheproxy")]
    found = {}
    for package in (cacheproxy.core, cacheproxy.translate, *map(importlib.import_module, modules)):
        names = [package.__name__]
        if hasattr(package, "__path__"):
            inside = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
            names += [module.name for module in inside]
        for module in map(importlib.import_module, names):
            if not module.__name__.startswith(LINES):
                for name, value in vars(module).items():
                    for pattern in _patterns(value):
                        _, ways = found.setdefault(pattern, (f"{module.__name__}.{name}", set()))
                        ways |= _ways(module, name)
    for pattern, (name, ways) in found.items():
        yield pytest.param(pattern, sorted(ways), id=name)


def _patterns(value):
    """The regexes that ``value`` is or holds."""
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(getattr(value, "__self__", None), re.Pattern):  # its method
        yield value.__self__
    elif isinstance(value, dict | tuple | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _patterns(one)


def _ways(module, name):
    """By which methods the module calls its regex: if it does more with it, it may search."""
    source = re.sub("(?m)^from .*", "", inspect.getsource(module))
    called = {found[1] for found in re.finditer(rf"\b{name}\.(\w+)\(", source)}
    mentions = len(re.findall(rf"\b{name}\b(?! = )(?!\.\w+\()", source))
    return called if called <= ANCHORED and not mentions else {"finditer"}


def _late(*_):
    raise TimeoutError


@pytest.mark.parametrize(("pattern", "ways"), list(_compiled()))
def test_our_own_regexes_stay_linear(pattern, ways):
    """Those that ``re`` runs, which nothing can stop but a signal."""
    is_text = isinstance(pattern.pattern, str)
    before = signal.signal(signal.SIGPROF, _late)
    try:
        for text in attacks(pattern.pattern, OWN):
            attack = text if is_text else text.encode("latin-1", "replace")
            for way in ways:
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                found = getattr(pattern, way)(attack)
                if way == "finditer":
                    deque(islice(found, 1000), 0)
                signal.setitimer(signal.ITIMER_PROF, 0)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
