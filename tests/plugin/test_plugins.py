"""Who looks at finished exchanges: observers of packages, and our own."""

import sys
import threading
from dataclasses import replace

import pytest

from cacheproxy import hookimpl
from cacheproxy.config import Config
from cacheproxy.core.conversation.lanes import Pair, Place
from cacheproxy.core.prompt.request import Request
from cacheproxy.daemon.process_parts import ProcessParts
from cacheproxy.plugin.package import TAKEN, PluginError
from cacheproxy.plugin.packages import Packages
from cacheproxy.plugin.plugins import Observer, Plugins
from cacheproxy.proxy.exchange.workers import Workers
from tests.observe.exchanges import exchange as exchange_of
from tests.plugin.installing import Watcher, loaded, running, stop
from tests.turning import TurningReactor

SECONDS = 120
NAME = "slow: cacheproxy_exchange_finished"


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
    plugins = ProcessParts(TurningReactor(), Config(capture=folder, state_dir=folder)).plugins
    others = {package.name for package in plugins.packages}
    ours = {name for name, _ in plugins.manager.list_name_plugin()} - others
    assert ours | {"spans", "unkept"} == TAKEN


def exchange(number=1, body=b"{}"):
    request = Request("POST", "/v1/messages", (), body)
    return replace(exchange_of({}), number=number, received=request, sent=request)


class Unit:
    """An observer, what it saw, and the counts; ``gate`` lets its function go on."""

    def __init__(self, *, error=None, **most):
        self.seen = []
        self.batches = []
        self.threads = set()
        self.gate = threading.Event()
        self.entered = threading.Semaphore(0)
        self.error = error
        self.reactor = TurningReactor()
        self.workers = Workers(self.reactor)
        self.failures = self.workers.failures
        self.observer = Observer(NAME, self.see, self.workers, **most)

    def see(self, exchanges):
        self.threads.add(threading.get_ident())
        self.entered.release()
        assert self.gate.wait(SECONDS)
        self.batches.append(len(exchanges))
        self.seen += exchanges
        if self.error is not None:
            raise self.error

    def put(self, *exchanges):
        """One batch after the other."""
        for each in exchanges:
            self.observer.put([each])

    def wait(self):
        """Until it has begun with the next exchange."""
        assert self.entered.acquire(timeout=SECONDS)

    def finish(self):
        found = []
        self.observer.finish().addBoth(found.append)
        self.reactor.turn_until(lambda: found)
        assert found == [None]

    @property
    def count(self):
        return self.failures.of(NAME)


@pytest.fixture
def make():
    made = []

    def make(*, hangs=False, **keywords):
        unit = Unit(**keywords)
        if not hangs:
            unit.gate.set()
        made.append(unit)
        return unit

    yield make
    for unit in made:
        unit.gate.set()


def test_exchanges_are_seen_in_order_in_a_thread_that_is_not_ours(make):
    """As many together as wait, up to a limit, and all of them before it stops."""
    unit = make(hangs=True)
    unit.put(*map(exchange, range(100)))
    unit.gate.set()
    unit.finish()
    assert unit.batches == [1, 32, 32, 32, 3]
    assert [each.number for each in unit.seen] == list(range(100))
    assert len(unit.threads) == 1
    assert threading.get_ident() not in unit.threads
    assert unit.failures.as_dict() == {}
    assert unit.reactor.getDelayedCalls() == []


def test_it_sees_a_copy(make):
    unit = make()
    shown = exchange(body=b'{"a":[1]}')
    before = exchange(body=b"{}").received
    pair = Pair(before, shown.received)  # of one that failed, and so was not judged
    unit.put(replace(shown, place=Place(0, 2, is_side=False, pair=pair)))
    unit.finish()
    (seen,) = unit.seen
    seen.received.json["a"].clear()
    assert seen.received is seen.sent
    assert shown.received.json == {"a": [1]}
    assert seen.place == Place(0, 2, is_side=False)
    assert replace(seen, received=shown.received, sent=shown.sent, place=None) == shown


@pytest.mark.parametrize("most", [{"most": 3}, {"most_bytes": 800}])
def test_when_too_much_waits_more_is_dropped_counted_and_told_once(make, log, most):
    """By their number or by their bytes, of which the one under way is still held."""
    unit = make(**most, hangs=True)
    unit.put(*(exchange(number, b"x" * 200) for number in range(11)))
    assert unit.count.dropped == 7
    (line,) = log
    assert line.startswith(f"plugin {NAME} is too slow: it gets no more exchanges")
    unit.gate.set()
    unit.finish()
    assert [each.number for each in unit.seen] == [0, 1, 2, 3]


def test_it_is_told_again_when_it_had_caught_up_in_between(make, log):
    """An episode is over when nothing waits any more."""
    unit = make(most=1, hangs=True)
    for expected in (1, 2):
        unit.gate.clear()
        unit.put(*[exchange()] * 4)
        assert len(log) == expected
        unit.gate.set()
        unit.reactor.turn_until(lambda expected=expected: len(unit.seen) == 2 * expected)
        unit.reactor.turn_until(lambda: not unit.observer.is_busy)
    assert unit.count.dropped == 4


def test_what_has_been_seen_waits_no_more(make):
    unit = make(most_bytes=800)
    for _ in range(3):
        unit.put(*[exchange(body=b"x" * 200)] * 4)
        unit.reactor.turn_until(lambda: not unit.observer.is_busy)
    assert (len(unit.seen), unit.count.dropped) == (12, 0)


def test_one_that_is_larger_than_all_that_may_wait_is_seen(make, log):
    unit = make(most_bytes=10)
    unit.put(exchange(body=b"x" * 20))
    unit.finish()
    assert len(unit.seen) == 1
    assert log == []


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_what_it_raises_is_counted_and_named_and_it_goes_on(make, log, error):
    """Whatever it is; the text is not told."""
    unit = make(error=error("SECRET"))
    unit.put(*map(exchange, range(3)))
    unit.finish()
    assert len(unit.seen) == 3
    assert unit.batches == [1, 2]
    assert unit.count.failed == 2
    assert log == [f"plugin {NAME} raised {error.__name__}"] * 2


def test_one_that_always_hangs_sees_nothing_any_more(make, log):
    """What waits is let go, and nothing more is kept for it."""
    unit = make(hangs=True)
    unit.put(*map(exchange, range(1000)))
    for _ in range(3):
        unit.wait()
        unit.reactor.advance(10)
    assert unit.count.left_out
    assert not unit.observer.waiting
    unit.put(exchange())
    assert not unit.observer.waiting
    unit.workers.forgive()
    unit.gate.set()
    unit.put(exchange(5))
    unit.finish()
    assert 5 in [each.number for each in unit.seen]
    assert [line for line in log if "switched off" in line] == [
        f"{NAME} is switched off until the next reload: it was too slow 3 times"
    ]


def test_what_it_has_not_seen_when_it_is_given_up_is_counted_and_told(make, log):
    """And nothing more is taken."""
    unit = make(hangs=True)
    unit.put(*map(exchange, range(5)))
    unit.wait()
    done = unit.observer.finish()
    done.addErrback(lambda _: None)
    done.cancel()
    assert unit.count.dropped == 4
    assert log == [f"plugin {NAME} was too slow: it did not get 4 exchanges"]
    unit.put(exchange())
    assert not unit.observer.waiting


def test_one_that_never_saw_anything_is_finished_at_once(make):
    unit = make()
    unit.finish()
    unit.put(exchange())
    assert not unit.observer.is_busy
    assert not unit.observer.waiting
