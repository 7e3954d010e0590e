"""A replacement that its own pattern finds again is refused where an example shows it."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import pkgutil
import re
import signal
from collections import deque
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cacheproxy.core
import cacheproxy.translate
from cacheproxy.core.document import search
from cacheproxy.core.rules.checks import RuleError, attacks, examples, is_settled, slow
from cacheproxy.core.rules.rule import Rule
from cacheproxy.plugin.packages import Packages

LONG = 1_000_000
OWN = 250_000
PATIENCE = 2.0
"""Seconds more than a pattern has: a busy machine takes several times as long for what is linear,
and what grows with the square takes hours."""
SECONDS = 1.0
"""Processor time for one regex of ours and one text of OWN characters: linear ones take 80 ms."""
ANCHORED = {"match", "fullmatch"}
LINES = ("cacheproxy.core.serverlog",)
"""They read a server's log in lines of 64 KB at most."""


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        ("a", "aa"),
        ("(?P<volatile>a)", "aa"),
        ("foo", "foo bar"),
        (r"\A", "x"),
        ("x*", "y"),
        ("(a)", r"\1\1"),
        (r"build (?P<volatile>\d+)", "12 of 3"),
        (r"id=(?P<volatile>\w{4})", "abcd0"),
        (r"at \d{2}:\d{2}", "at 00:00, not at 00:00"),
        ("[0-9]", "10"),
        # what only an alternative, a set or a repetition shows
        (r"id: (?:none|\d+)", "id: none, id: 1"),
        (r"stamp=[^;]+;", "stamp=0; stamp=1;"),
        (r"(?P<volatile>[\w.-]+)@here", "a@here, b"),
        (r"run id: (?P<volatile>[^\W_]+)", r"0\g<volatile>"),
        (r"run(?P<volatile>(?: \d)*)!", " 1 2! run"),
        (r"(?<=at )(?P<volatile>\d\d)", "00 at 0"),
        (r"(?P<q>['\"])(?P<volatile>\w+)(?P=q)", "a'b'"),
    ],
)
def test_what_grows_is_refused(pattern, replacement):
    """``a`` -> ``aa``: a second pass would make four of two."""
    with pytest.raises(RuleError, match=r"rule 'x': bad replacement: .* change it again"):
        Rule("x", "system", pattern, replacement)


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        ("a", ""),
        ("a", "a"),
        (r"\d+", "0"),
        (r"stamp=\w+", "stamp=0"),
        (r"id=(?P<volatile>\w+)", "0"),
        (r"(\w+)=\d+", r"\1=0"),
        (r"\[(?P<volatile>[^\]]*)\] ", "0 1"),
        (r"(?<=at )\d\d:\d\d", "00:00"),
        (r"[A-Z]\w*", "Name"),
    ],
)
def test_a_constant_is_taken(pattern, replacement):
    """It may look like what it replaces: it stays what it is."""
    assert Rule("x", "system", pattern, replacement)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\n2\. Date: (?P<volatile>\d{1,2}/\d{1,2}/\d{4})",
        r"(a|bb|ccc)x?",
        r"[^\"]+[\w-]",
        r"(?i)foo(?!bar)",
        r"\A(?:x{3,5})+?",
        r"(\w+)=\1",
        r"(<)?id(?(1)>|;)",
        r"(?m:^)date: (?P<volatile>.+)$",
    ],
)
def test_examples_are_matched_whole(pattern):
    """As few repetitions as it takes, and more; each alternative."""
    found = list(examples(pattern))
    assert all(re.search(pattern, text) for text in found)
    assert len(found) == len(set(found))


@given(st.from_regex(r"[a-c|()\[\]^*+?.\\dw{}1,2<=!:P$-]{0,20}", fullmatch=True))
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_any_pattern_has_examples_or_none(pattern):
    """Whatever Python reads as one."""
    with contextlib.suppress(re.error, RecursionError, OverflowError):
        re.compile(pattern)
        assert all(isinstance(text, str) for text in examples(pattern))


NOTE = r"Today's date is now \g<volatile>."


def test_repetitions_of_repetitions_are_cut_short():
    """Else the one example would fill the memory."""
    pattern = "a"
    for _ in range(9):
        pattern = f"(?:{pattern}){{50}}"
    assert max(map(len, examples(pattern))) <= 1001


@pytest.mark.parametrize("where", ["user", "/messages/*/content", ("system", "/input/*/content")])
def test_a_note_that_the_rule_itself_would_find_is_refused(where):
    """Where notes stand; a rule for other places never sees one."""
    pattern = r"(?P<volatile>\d{4}-\d\d-\d\d)"
    with pytest.raises(RuleError, match=r"the rule would find the note"):
        Rule("x", where, pattern, pin=True, note=NOTE)
    assert Rule("x", "system", pattern, pin=True, note=NOTE)
    assert Rule("x", where, rf"date: {pattern}", pin=True, note=NOTE)


@given(st.text("ab0-", min_size=1, max_size=4), st.text("ab0-", max_size=4))
def test_of_plain_words_what_holds_itself_is_refused(word, replacement):
    """And what is refused has an example that a second pass changes."""

    def apply(value: str) -> str:
        return re.sub(word, replacement, value)

    settled = is_settled(apply, word, [replacement])
    assert settled == all(apply(apply(one)) == apply(one) for one in (word, replacement))
    if word in replacement and word != replacement:
        assert not settled


@pytest.mark.parametrize(
    ("pattern", "length"),
    [
        (r"(?P<volatile>(\w|\s|\w\s)+)\$END", 100),
        ("(a|aa)+$", 100),
        ("(?:a.*?){10}z", 100),
        ("x(a)?(?(1)(?:a|a+)+|b)c$", 10_000),
        ("x(a)?(?(1)b|(?:a|aa)+)c$", 100),
        (r"(?P<volatile>(\w+\s?)+)\$END", 10_000),
        (r"\s+$", 10_000),
        (r"(\w+)*\d+!", 10_000),
        (r"[^\n]*x[^\n]*y", 10_000),
        ("(?s)foo.*?bar", 250_000),
    ],
)
def test_a_slow_pattern_is_found(pattern, length):
    """The worse it is, the shorter the text."""
    assert slow(pattern) == length


@pytest.mark.parametrize("pattern", [r"(?m)^Date: \d+$", r"stamp=\d+", r"\A(.*?)\n", "b", "(?!a)"])
def test_a_linear_pattern_is_not_slow(pattern):
    """Also one that is found in many places."""
    assert slow(pattern) is None


@pytest.mark.slow
@pytest.mark.parametrize("package", list(Packages.load()), ids=lambda package: package.name)
def test_shipped_rules_stay_linear(package, monkeypatch):
    """And the lines by which a client is told."""
    monkeypatch.setattr(search, "SECONDS", PATIENCE)
    patterns = [rule.pattern for rule in package.rules if type(rule) is Rule]
    lines = package.client.lines if package.client is not None else ()
    for pattern in (*patterns, *(rf"\A(?:{line})" for line in lines)):
        assert slow(pattern, (LONG,)) is None


def _compiled():
    """Every regex of the core, the translation and the clients, and how it is used."""
    modules = [entry.module for entry in _entry_points()]
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


def _entry_points():
    from importlib.metadata import entry_points

    return entry_points(group="cacheproxy")


def _late(*_):
    raise TimeoutError


@pytest.mark.slow
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
