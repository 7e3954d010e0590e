"""A property found once: a plain attribute from then on, and no lock."""

import threading

from cacheproxy.core.once import once


class Thing:
    def __init__(self):
        self.looked = 0

    @once
    def value(self):
        """What it is worth."""
        self.looked += 1
        return [self.looked]


def test_it_is_looked_for_once_for_each_object():
    one, other = Thing(), Thing()
    assert one.value is one.value
    assert other.value is not one.value
    assert (one.looked, other.looked) == (1, 1)
    assert Thing.value.__doc__ == "What it is worth."


def test_one_object_does_not_wait_for_another():
    waits, goes_on = threading.Event(), threading.Event()

    class Slow:
        def __init__(self, slow):
            self.slow = slow

        @once
        def value(self):
            if self.slow:
                waits.set()
                assert goes_on.wait(5)
            return 1

    thread = threading.Thread(target=lambda: Slow(True).value)
    thread.start()
    assert waits.wait(5)
    assert Slow(False).value == 1
    goes_on.set()
    thread.join(5)
