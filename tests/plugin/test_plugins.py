"""Who looks at finished exchanges: observers of packages, and our own."""

from __future__ import annotations

import sys

import pytest

from cacheproxy import hookimpl
from cacheproxy.plugin.errors import PluginError
from cacheproxy.plugin.plugins import Plugins
from tests.observe.exchanges import exchange as exchange_of
from tests.plugin.installing import (
    Watcher,
    loaded,
    running,
    stop,
)


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
