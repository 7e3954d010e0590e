"""Who looks at finished exchanges: observers of packages, and our own."""

from __future__ import annotations

import sys

import pytest

from cacheproxy import hookimpl
from cacheproxy.config import Config
from cacheproxy.plugin.hooks import PluginError
from cacheproxy.plugin.package import TAKEN
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Plugins
from cacheproxy.tap import make_lasting
from tests.observe.exchanges import exchange as exchange_of
from tests.plugin.installing import (
    Watcher,
    loaded,
    running,
    stop,
)
from tests.turning import TurningReactor


def test_a_packages_observer_sees_in_a_thread_and_ours_at_once(install):
    """In order; one that raises is counted, and none of ours waits for it."""
    install(
        "slow",
        """
        import threading
        gate = threading.Event()
        seen = []

        @hookimpl
        def cacheproxy_exchange_finished(exchanges):
            assert gate.wait(10)
            seen.append([exchange.number for exchange in exchanges])
            if len(seen) == 1:
                raise SystemExit
        """,
    )
    plugins = running(loaded())
    watcher, failing = Watcher(), Watcher(ValueError("SECRET"))
    plugins.register(watcher, "watcher")
    plugins.register(failing, "failing")
    plugins.finished([exchange_of({}, number=number) for number in (0, 1)])
    plugins.finished([exchange_of({}, number=2)])
    module = sys.modules["plugin_of_slow"]
    assert [each.number for each in watcher.seen] == [0, 1, 2]
    assert module.seen == []
    module.gate.set()
    stop(plugins)
    assert module.seen == [[0, 1], [2]]
    failed = {name: count["failed"] for name, count in plugins.failures.as_dict().items()}
    hook = "cacheproxy_exchange_finished"
    assert failed == {f"failing: {hook}": 2, f"slow: {hook}": 1}


def test_stopping_does_not_wait_for_an_observer_that_hangs(install):
    """Three seconds, and what it has not seen is counted; without observers no time at all."""
    install(
        "slow",
        """
        import threading
        gate = threading.Event()

        @hookimpl
        def cacheproxy_exchange_finished(exchanges):
            gate.wait(10)
        """,
    )
    plugins, found = running(loaded()), []
    plugins.finished([exchange_of({}, number=0)])
    plugins.finished([exchange_of({}, number=number) for number in (1, 2)])
    plugins.finish().addBoth(found.append)
    plugins.reactor.advance(2.9)
    assert found == []
    plugins.reactor.advance(0.2)
    assert found == [None]
    assert plugins.failures.of("slow: cacheproxy_exchange_finished").dropped == 2
    sys.modules["plugin_of_slow"].gate.set()
    stop(running())


@pytest.mark.parametrize(
    ("hook", "arguments", "words"),
    [("exchange_finnished", "exchanges", "unknown hook"), ("session", "nonsense", "nonsense")],
)
def test_registering_a_hook_that_cannot_work_registers_nothing(hook, arguments, words):
    """Ours are checked as packages' are; what was registered before goes on."""
    namespace = {"hookimpl": hookimpl}
    exec(f"@hookimpl\ndef cacheproxy_{hook}(self, {arguments}): ...", namespace)
    odd = type("Odd", (), namespace)()
    plugins, watcher = Plugins(), Watcher()
    plugins.register(watcher, "watcher")
    with pytest.raises(PluginError, match=words):
        plugins.register(odd, "odd")
    with pytest.raises(PluginError, match="the name 'watcher' is taken"):
        plugins.register(Watcher(), "watcher")
    plugins.finished(["exchange"])
    assert watcher.seen == ["exchange"]


SEEING = """
seen = []
@hookimpl
{mark}
def cacheproxy_exchange_finished(exchanges):
    seen.extend(exchange.number for exchange in exchanges)
"""


def test_an_observer_that_is_quick_sees_at_once(install):
    """Whose it is makes no difference: ours are called so because they are marked, too."""
    install("eager", "from cacheproxy import quick\n" + SEEING.format(mark="@quick"))
    plugins = running(loaded())
    plugins.finished([exchange_of({}, number=number) for number in (1, 2)])
    assert sys.modules["plugin_of_eager"].seen == [1, 2]


def test_what_is_gone_is_unregistered_and_sees_what_waits(install):
    """And nothing that finishes later; what is in force stays in its place."""
    install("gone", SEEING.format(mark=""))
    plugins, watcher = running(loaded()), Watcher()
    plugins.register(watcher, "watcher")
    plugins.finished([exchange_of({}, number=1)])
    plugins.finished([exchange_of({}, number=2)])
    observer = plugins._observers["gone"]
    assert plugins.adopt(Packages()) == ["gone"]
    assert [name for name, _ in plugins.manager.list_name_plugin()] == ["watcher"]
    plugins.finished([exchange_of({}, number=3)])
    plugins.reactor.turn_until(lambda: not observer.is_busy)
    assert sys.modules["plugin_of_gone"].seen == [1, 2]
    assert [each.number for each in watcher.seen] == [1, 2, 3]


def test_our_own_are_in_the_manager_like_others_and_their_names_are_taken(tmp_path):
    """No entry point and no file may have one of them."""
    folder = str(tmp_path)
    plugins = make_lasting(TurningReactor(), Config(capture=folder, state_dir=folder)).plugins
    others = {package.name for package in plugins.packages}
    ours = {name for name, _ in plugins.manager.list_name_plugin()} - others
    assert ours | {"spans", "unkept"} == TAKEN
