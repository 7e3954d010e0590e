"""Packed bodies are unpacked one after another: nobody knows how large they become."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from cacheproxy.proxy.exchange.unpacking import Unpacking


def test_packed_ones_wait_for_each_other():
    """And for nobody who has left: the next one has its turn."""
    unpacking = Unpacking(None, 1 << 20, edits=True)
    order, works = [], [Deferred(), Deferred(), Deferred()]

    def doing(number):
        async def work():
            order.append(number)
            return await works[number]

        return Deferred.fromCoroutine(unpacking.in_turn(work))

    done = [doing(number) for number in range(3)]
    assert order == [0]
    done[1].addErrback(lambda _: None)
    done[1].cancel()
    works[0].callback("first")
    assert order[-1] == 2
    works[2].callback("third")
    assert (done[0].result, done[2].result) == ("first", "third")
