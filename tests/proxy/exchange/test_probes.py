"""Probes of a server that is slow to answer: they end, and others do not wait for it anew."""

from twisted.internet import defer
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from cacheproxy.core.adapt.adaptation import Need
from cacheproxy.core.kinds.belief import Beliefs
from cacheproxy.proxy.exchange.probes import Budget, Probes
from cacheproxy.testing import request

NEED = Need({"a": 1})


def probing(*numbers):
    for number in numbers:
        yield request({"n": number}, "/v1/messages")
    return NEED


def test_probes_take_a_minute_at_most_and_none_is_sent_in_the_minutes_after():
    clock, asked = Clock(), []
    probes = Probes(clock, Beliefs())

    def ask(probe):
        asked.append(probe)
        answer = Deferred()
        clock.callLater(25, lambda: answer.called or answer.callback(None))
        return answer

    def run():
        found = []
        probes.run(probing(1, 2, 3), ask, Budget(), threaded=False).addBoth(found.append)
        return found

    first, second = run(), run()
    clock.pump([5] * 11)
    assert (first, second, len(asked)) == ([], [], 3)
    clock.pump([5])
    assert [found[0].check(defer.TimeoutError) for found in (first, second)] == [
        defer.TimeoutError
    ] * 2
    assert run()[0].check(defer.TimeoutError) is defer.TimeoutError
    sent = len(asked)
    assert sent <= 4, "the second waited for the first, and knows what that was told"
    clock.advance(300)
    run()
    assert len(asked) == sent + 1, "what they said by then is forgotten, too"


def test_a_budget_that_is_spent_finds_nothing_and_what_is_known_costs_nothing():
    clock, asked, found = Clock(), [], []
    probes, budget = Probes(clock, Beliefs()), Budget()

    async def ask(probe):
        asked.append(probe)

    for numbers in (range(60), range(64), range(70)):
        probes.run(probing(*numbers), ask, budget, threaded=False).addBoth(found.append)
    assert (found, len(asked), budget.left) == ([NEED, NEED, None], 64, 0)
    clock.advance(301)
    probes.run(probing(1), ask, Budget(), threaded=False)
    assert len(asked) == 65
