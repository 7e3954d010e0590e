"""What passed at an upstream is found again by its time, and by where it was."""

from dataclasses import replace

import pytest

from cacheproxy.core.kinds.status import Look, Slot, UpstreamState
from cacheproxy.observe.verdicts import Passed, PassedTurns
from tests.observe.exchanges import body, exchange

HERE, ELSEWHERE = "http://localhost:8080", "http://elsewhere"
OURS = ("agent", "s", 1)


def turn(*, session="t", lane=1, upstream=HERE, begun=20.0, ended=21.0):
    return Passed(("agent", session, lane), upstream, begun, ended, 100)


def passed(*turns):
    found = PassedTurns()
    for each in turns:
        found.turns.append(each)
    return found


def look(wall, *used, state=UpstreamState.UP, busy=False):
    slots = tuple(Slot(number, 4096, each, busy) for number, each in enumerate(used))
    return Look(HERE, wall, wall, state, slots=slots)


def looked(*looks):
    found = PassedTurns()
    for each in looks:
        found.looked(each)
    return found


AFTER = exchange(body("a"), wall=30.0, first_byte=2.0, seconds=9.0)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (turn(), True),
        (turn(session="s", lane=2), True),
        (turn(session="s"), False),
        (turn(upstream=ELSEWHERE), False),
        (turn(begun=5.0, ended=9.0), False),
        (turn(begun=5.0, ended=11.0), True),
        (turn(begun=31.0, ended=50.0), True),
        (turn(begun=33.0, ended=34.0), False),
    ],
    ids=[
        "another session",
        "another lane of the session",
        "the lane itself",
        "at another upstream",
        "over before",
        "over since",
        "began beside it",
        "began when it had been read",
    ],
)
def test_a_turn_counts_from_the_end_of_the_last_to_the_end_of_the_prefill(other, counts):
    assert passed(other).since(10.0, AFTER, OURS) == ([other] if counts else [])


def test_an_answer_without_a_first_byte_counts_to_its_end():
    late = turn(begun=38.0, ended=40.0)
    assert passed(late).since(10.0, AFTER, OURS) == []
    assert passed(late).since(10.0, replace(AFTER, first_byte=None), OURS) == [late]


def test_turns_are_told_in_the_order_in_which_they_ended():
    """The last one is the one that has the place."""
    turns = [turn(session=str(number)) for number in range(5)]
    assert passed(*turns).since(10.0, AFTER, OURS) == turns


def test_the_oldest_turns_and_looks_go_first():
    many = passed(*(turn(session=str(number)) for number in range(2000)))
    found = many.since(10.0, AFTER, OURS)
    assert 100 < len(found) < 1000
    assert found[-1].lane == ("agent", "1999", 1)
    for number in range(2000):
        many.looked(look(float(number), state=UpstreamState.DOWN))
    assert not many.was_down(HERE, 0.0, 1000.0)
    assert many.was_down(HERE, 1998.5, 2000.0)


def test_a_server_was_down_if_it_was_seen_down_in_between():
    found = looked(
        look(5.0, state=UpstreamState.DOWN), look(20.0), look(40.0, state=UpstreamState.DOWN)
    )
    assert not found.was_down(HERE, 10.0, 30.0)
    assert not found.was_down(HERE, 5.0, 40.0)
    assert found.was_down(HERE, 4.0, 30.0)
    assert found.was_down(HERE, 10.0, 41.0)


def test_a_server_that_loads_a_model_is_not_down():
    assert not looked(look(20.0, state=UpstreamState.LOADING)).was_down(HERE, 10.0, 30.0)


@pytest.mark.parametrize(
    ("seen", "is_empty"),
    [
        (look(20.0, 0, 0), True),
        (look(20.0, 100, 899), True),
        (look(20.0, 100, 900), False),
        (look(20.0, 0, busy=True), False),
        (look(20.0), False),
        (look(5.0, 0), False),
        (look(30.0, 0), False),
    ],
    ids=["cleared", "too little", "enough", "busy", "no slots told", "before", "after"],
)
def test_slots_are_empty_if_none_that_idles_holds_most_of_the_prompt(seen, is_empty):
    """A busy slot is filling up; one that was not told may hold anything."""
    assert looked(seen).was_empty(HERE, 10.0, 30.0, 1000) is is_empty


def test_one_empty_look_is_enough():
    """The slot may have been filled by another since."""
    assert looked(look(15.0, 1000), look(20.0, 0), look(25.0, 1000)).was_empty(
        HERE, 10.0, 30.0, 1000
    )
