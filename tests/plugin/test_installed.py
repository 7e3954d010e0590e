"""Client packages: found by entry point, loaded in order; a broken one harms no other."""

from __future__ import annotations

import shutil

import pytest

from cacheproxy.core.rules.code_rule import is_quick
from cacheproxy.plugin.hooks import PluginError
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Plugins
from tests.plugin.installing import (
    NORMALIZE,
    RULE,
    SESSION,
    Watcher,
    distribution,
    imported,
    loaded,
    request_of,
    running,
)
from tests.turning import TurningReactor

HOOK = "@hookimpl\ndef cacheproxy_"


NO_HOOK = "PluginError: it implements no hook: mark its functions with @hookimpl"


NO_CLIENT = "PluginError: cacheproxy_client returns a cacheproxy.Client"


def test_packages_are_loaded_in_the_order_of_their_names(install):
    """Not in the order of the file system, and with name, distribution and version."""
    for name in ("zeta", "alpha", "mid"):
        install(name, RULE.format(name))
    plugins = loaded()
    assert [(p.name, p.distribution, p.version) for p in plugins] == [
        (name, f"dist-plugin_of_{name}", "1.0") for name in ("alpha", "mid", "zeta")
    ]
    assert [rule.name for rule in plugins.normalizers()] == ["alpha", "mid", "zeta"]
    assert all(p.error is None and not p.blocked for p in plugins)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("raise RuntimeError('first line\\nsecond line')", "RuntimeError: first line"),
        ("import no_such_module_anywhere", "ModuleNotFoundError"),
        ("this is no python", "SyntaxError"),
        ("import sys; sys.exit(3)", "SystemExit: 3"),
        (HOOK + "rules(): raise ValueError('x')", "ValueError: x"),
        (HOOK + "rules(): return 5", "TypeError"),
        (HOOK + "rules(): return [5]", "RuleError: broken returned int instead of a Rule"),
        (HOOK + "rules(): return [Rule('Bad Name', '/a', 'x')]", "RuleError: rule 'Bad Name'"),
        (HOOK + "rules(): return [Rule('a', '/a', '(')]", "RuleError: rule 'a'"),
        (HOOK + "nomralize(request): return []", "PluginError: unknown hook cacheproxy_nomralize"),
        (HOOK + "session(request, reactor): return ''", "PluginError: cacheproxy_session has no"),
        (
            HOOK + "session(nonsense): return ''",
            "PluginError: cacheproxy_session has no argument 'nonsense'",
        ),
        ("@hookimpl\ndef normalize(request): return []", "PluginError: unknown hook normalize"),
        (
            HOOK + "rules(): return [type('X', (), {'edits': print})()]",
            "RuleError: broken",
        ),
        (HOOK + "rules(): raise SystemExit", "SystemExit"),
        (HOOK + "rules(): raise GeneratorExit", "GeneratorExit"),
        (HOOK + "rules(): raise type('Of\\nmany', (BaseException,), {})", ""),
        (
            HOOK + "rules(): return iter(lambda: Rule('a', '/a', 'x', ''), 5)",
            "RuleError: broken",
        ),
        (HOOK + "rules(): return [CodeRule('a', 5, print)]", "RuleError: rule 'a'"),
        (HOOK + "rules(): return [CodeRule('a', '', print, 'yes')]", "RuleError: rule 'a'"),
        ("class Sly(Exception):\n    def __str__(self): raise SystemExit\nraise Sly", "Sly"),
        ("def cacheproxy_rules(): return []", NO_HOOK),
        ("", NO_HOOK),
        (HOOK + "client(): return 'mine'", NO_CLIENT),
        (HOOK + "client(): return [Client('mine')]", NO_CLIENT),
    ],
)
def test_a_package_that_cannot_be_loaded_stops_no_other(install, code, error):
    """It is recorded with one line of why, and nothing of it is called."""
    also = SESSION.format("broken") if HOOK + "rules" in code else ""
    install("broken", also + code)
    install("alpha", RULE.format("alpha"))
    install("zeta", SESSION.format("zeta"))
    plugins = loaded()
    assert [p.name for p in plugins] == ["alpha", "broken", "zeta"]
    assert [p.error is None for p in plugins] == [True, False, True]
    assert plugins[1].error.isprintable()
    assert plugins[1].error.startswith(error)
    assert [rule.name for rule in plugins.normalizers()] == ["alpha"]
    assert plugins.session(request_of()).name == "zeta/1"


def test_an_entry_point_name_used_twice_costs_the_second_only(install):
    """The first package goes on working, hooks and all."""
    install("same", SESSION.format("one") + RULE.format("one"), module="plugin_of_one")
    install("same", SESSION.format("two") + RULE.format("two"), module="plugin_of_two")
    plugins = loaded()
    first, second = plugins
    assert (first.error, second.error) == (None, "PluginError: the name 'same' is taken")
    client = plugins.session(request_of()).client
    assert [rule.name for rule in plugins.normalizers()] == [client]
    assert first.rules[0].name == client
    assert running(plugins).manager.get_plugin("same") is first.plugin


@pytest.mark.parametrize(
    ("name", "target", "error"),
    [
        ("My_Plugin", None, "RuleError: rule 'My_Plugin'"),
        ("gone", "plugin_of_gone:nothing", "AttributeError"),
        ("capture", None, "PluginError: the name 'capture' is taken"),
        ("recent", None, "PluginError: the name 'recent' is taken"),
        ("log-line", None, "PluginError: the name 'log-line' is taken"),
    ],
)
def test_what_an_entry_point_may_not_be(install, name, target, error):
    """No rule's name, though its normalize hook is one; nothing at all; an observer of ours."""
    install(name, "@hookimpl\ndef cacheproxy_normalize(request): return []", target=target)
    packages = loaded()
    assert packages[0].error.startswith(error)
    running(packages).register(Watcher(), name)


def test_an_object_is_as_good_as_a_module(install):
    """An entry point may name an object with hooks."""
    install(
        "thing",
        """
        class Thing:
            @hookimpl
            def cacheproxy_client(self):
                return Client("*")

            @hookimpl
            def cacheproxy_session(self, request):
                return "thing/1"

        thing = Thing()
        """,
        target="plugin_of_thing:thing",
    )
    assert loaded().session(request_of()).name == "thing/1"


def test_a_blocked_package_is_not_imported(install):
    """Blocking keeps its code from running at all."""
    install("bad", "raise SystemExit(3)")
    install("good", RULE.format("good"))
    plugins = loaded(block=("bad",))
    assert [(p.name, p.blocked, p.error) for p in plugins] == [
        ("bad", True, None),
        ("good", False, None),
    ]
    assert not imported("bad")
    assert imported("good")
    assert [rule.name for rule in plugins.normalizers()] == ["good"]


def test_blocking_a_package_that_is_not_there_is_an_error(install):
    """A misspelt name would block nothing."""
    install("good", RULE.format("good"))
    with pytest.raises(PluginError, match="block names no installed plugin: baad, wrong"):
        loaded(block=("wrong", "good", "baad"))


CODE = """
from cacheproxy import quick

{mark}
def find(request, previous):
    return []

@hookimpl
def cacheproxy_rules():
    return [CodeRule("code", "why", find)]
"""


@pytest.mark.parametrize("mark", ["@quick", "# not quick"])
def test_code_runs_without_a_guard_where_it_is_marked_as_quick(install, mark):
    """Whoever wrote it: rules, and both hooks."""
    hooks = SESSION.format("mine") + NORMALIZE.format(arguments="request", new="y")
    install("mine", CODE.format(mark=mark) + hooks.replace("@hookimpl", f"@hookimpl\n{mark}"))
    plugins, is_marked = loaded(), mark == "@quick"
    assert {rule.name: is_quick(rule) for rule in plugins.normalizers()} == {
        "code": is_marked,
        "mine": is_marked,
    }
    asks = {hook.plugin: getattr(hook.ask, "quick", False) for hook in plugins.plan().hooks}
    assert asks == {"mine": is_marked}


@pytest.mark.parametrize(
    "code", [RULE.format("a"), SESSION.format("a"), "@hookimpl\ndef cacheproxy_normalize(): ..."]
)
def test_a_package_that_does_not_say_whose_requests_it_is_for_is_not_loaded(install, code):
    """Else it would edit what other clients' users typed, and nobody would know."""
    install("alpha", code, client=False)
    (package,) = loaded()
    assert package.error.startswith("PluginError: the package does not name its client")
    assert loaded().normalizers() == []
    assert loaded().plan().hooks == []


def test_who_only_looks_needs_no_client(install):
    """An observer sees everybody's exchanges."""
    install("alpha", "@hookimpl\ndef cacheproxy_exchange_finished(exchanges): pass", client=False)
    (package,) = loaded()
    assert (package.error, package.client) == (None, None)


def test_what_was_installed_since_is_loaded_and_what_is_in_use_stays(install, tmp_path):
    """Python loads a module once: another version of it, or none, is for a restart."""
    for name in ("kept", "gone", "newer"):
        install(name, RULE.format(name))
    install("broken", "raise RuntimeError('not yet')")
    first = loaded()
    before = {package.name: package for package in first}
    for name in ("gone", "newer"):
        shutil.rmtree(tmp_path / f"dist_plugin_of_{name}-1.0.dist-info")
    distribution(tmp_path, "dist-plugin_of_newer", "plugin_of_newer", "newer", version="1.1")
    shutil.rmtree(tmp_path / "dist_plugin_of_broken-1.0.dist-info")
    install("broken", RULE.format("broken"))
    install("added", RULE.format("added"))
    found = loaded(earlier=first)
    assert [(package.name, package.outdated) for package in found] == [
        ("added", False),
        ("broken", False),
        ("gone", True),
        ("kept", False),
        ("newer", True),
    ]
    for package in found:
        assert package.error is None
        assert [rule.name for rule in package.rules] == [package.name]
        if package.name in ("gone", "kept", "newer"):
            assert package.plugin is before[package.name].plugin
    changed = Plugins(TurningReactor())
    changed.adopt(first)
    assert changed.adopt(found) == ["added", "broken"]


def test_who_takes_the_name_of_what_is_in_use_has_to_wait(install):
    """Wherever its distribution is found."""
    install("same", RULE.format("one"), module="plugin_of_one", own_name="z")
    first = loaded()
    install("same", RULE.format("two"), module="plugin_of_two", own_name="a")
    found = loaded(earlier=first)
    assert {package.distribution: package.error for package in found} == {
        "z": None,
        "a": "PluginError: the name 'same' is taken",
    }


def test_installed_packages_of_this_environment_do_not_clash():
    """Whatever is installed here loads side by side."""
    plugins = Packages.load()
    assert [package.error for package in plugins if package.error] == []
    names = [rule.name for rule in plugins.normalizers()]
    assert len(names) == len(set(names))
