"""Which slot each conversation keeps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cacheproxy.core.affinity import Slots, pieces_of, share
from cacheproxy.core.prompt import prompt_of
from tests.core.planting import chat, requests

HEAD = ((1, 17_000),)
TITLE = ((2, 300), (3, 200))


def turn(number, seed=0):
    """The prompt of a turn: each adds a question and an answer."""
    return HEAD + tuple((1000 * seed + n + 10, 400) for n in range(2 * number))


def test_a_conversation_keeps_its_slot_whatever_comes_in_between():
    """Titles and forks of the same session go elsewhere."""
    slots = Slots(2)
    assert slots.assign("a", TITLE) == 0
    given = []
    for number in range(1, 6):
        given.append(slots.assign("a", turn(number)))
        assert slots.assign("a", TITLE) != given[-1]
        assert slots.assign("a", (*turn(number)[:2], (99, 800))) != given[-1] or number == 1
    assert set(given) == {1}


def test_a_request_that_goes_on_from_the_conversation_may_use_its_slot():
    """It costs the conversation nothing: all of it is still there, and goes on from there."""
    slots = Slots(2)
    slots.assign("a", turn(3))
    for number in range(3, 8):
        assert slots.assign("a", turn(number)) == 0
        assert slots.assign("a", (*turn(number), (77, 900))) == 0


def test_the_least_recently_used_session_loses_first():
    """And what came beside a conversation before any conversation."""
    slots = Slots(3)
    assert [slots.assign(s, turn(1, seed=i)) for i, s in enumerate("abc")] == [0, 1, 2]
    assert slots.assign("a", turn(2, seed=0)) == 0
    assert slots.assign("d", turn(1, seed=9)) == 1
    assert slots.assign("a", TITLE) == 2
    assert slots.assign("e", turn(1, seed=8)) == 2


def test_one_session_holds_two_slots_at_most():
    """Its side requests share the second one."""
    slots = Slots(4)
    slots.assign("a", turn(2))
    slots.assign("b", turn(1, seed=1))
    slots.assign("c", turn(1, seed=2))
    beside = {slots.assign("a", ((n, 5000),)) for n in range(100, 110)}
    assert len(beside) == 1
    assert slots.assign("a", turn(3)) == 0
    assert slots.assign("b", turn(2, seed=1)) == 1


def test_a_server_with_one_slot_leaves_no_choice():
    """Nor one that does not say how many it has."""
    assert Slots(1).assign("a", HEAD) is None
    assert Slots(0).assign("a", HEAD) is None


@given(
    st.integers(2, 5),
    st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 6), st.integers(0, 2))),
)
def test_every_request_gets_a_slot_there_is(count, requests):
    """Whatever comes, in whatever order."""
    slots = Slots(count)
    for session, number, seed in requests:
        assert slots.assign(session, turn(number, seed)) in range(count)


@given(st.integers(1, 30), st.integers(0, 3))
def test_a_growing_conversation_never_moves(turns, others):
    """With a slot for each session."""
    slots = Slots(others + 2)
    given = set()
    for number in range(1, turns + 1):
        given.add(slots.assign("a", turn(number)))
        for other in range(others):
            slots.assign(f"o{other}", turn(number, seed=other + 1))
    assert given == {0}


def test_share():
    """Of the prompt known, in characters."""
    assert share(((1, 10), (2, 30)), ((1, 10), (3, 30))) == 0.25
    assert share(((1, 10),), ((1, 10), (2, 5))) == 1
    assert share((), ((1, 10),)) == 0


def test_pieces_of_a_prompt():
    """One for each segment; equal texts have equal pieces."""
    one, two, *_ = (pieces_of(prompt_of(request)) for request in requests(chat()))
    assert one == two[: len(one)]
    assert len(two) > len(one)
