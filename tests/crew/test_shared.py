"""What the keeper remembers for its workers, in bounded memory."""

from __future__ import annotations

from cacheproxy.core.prompt.request import Request
from cacheproxy.crew.shared import Known, LastRequests, Turns


def known(version, size=0):
    return Known(version, Request("POST", "/", (), b"x" * size))


def test_turns_are_counted_by_lane():
    """From 1; the least recently used go first."""
    turns = Turns(most=2)
    assert [turns.next((b"a",)) for _ in range(3)] == [1, 2, 3]
    assert turns.next((b"b",)) == 1
    assert turns.next((b"a",)) == 4
    assert turns.next((b"c",)) == 1
    assert [turns.next((b"a",)), turns.next((b"b",))] == [5, 1]


def test_the_last_request_of_a_lane():
    """A later one takes its place; of others nothing is known."""
    last = LastRequests()
    last.put((b"a",), known("1.1"))
    last.put((b"a",), known("2.1"))
    assert last.of((b"a",)).version == "2.1"
    assert last.of((b"b",)) == Known()


def test_by_count_the_least_recently_used_goes_first():
    """Looking is use."""
    last = LastRequests(most=2)
    last.put((b"a",), known("a"))
    last.put((b"b",), known("b"))
    last.of((b"a",))
    last.put((b"c",), known("c"))
    assert [last.of((name,)).version for name in (b"a", b"b", b"c")] == ["a", "", "c"]


def test_by_bytes_as_well():
    """One alone is kept, however large; what was replaced does not count."""
    last = LastRequests(most_bytes=10_000)
    for _ in range(5):
        last.put((b"a",), known("a", 6000))
    last.put((b"b",), known("b", 1000))
    assert last.of((b"a",)).version == "a"
    last.put((b"c",), known("c", 20_000))
    assert [last.of((name,)).version for name in (b"a", b"b", b"c")] == ["", "", "c"]
