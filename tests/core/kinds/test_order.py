"""Who waits for whom at one server, in tables."""

from __future__ import annotations

import pytest

from cacheproxy.core.kinds.ask import Ask
from cacheproxy.core.kinds.order import Busy, Order, Terms
from cacheproxy.core.kinds.profile import Shares

MOST = 20.0
SHARES, MOVES, ENOUGH = Terms(shares=True), Terms(moves=True), Terms()


def ask(name="b", **more):
    known = {"owner": b"me", "head": "h", "head_seconds": 3.0, "seconds": 4.0, "label": name}
    return Ask(**{**known, "conversation": name, "names_agents": True, **more})


def reads(left=3.5, **more):
    return Busy(ask("a", **more), is_reading=True, left=left)


def writes(said=0.0, name="a", **more):
    return Busy(ask(name, **more), False, left=0.0, said=said)


HEADS = {
    "its head is being read": (SHARES, [reads()], ask(), True),
    "by one of several": (SHARES, [reads(9.0), reads(5.9)], ask(), True),
    "for longer than it saves": (SHARES, [reads(6.1)], ask(), False),
    "its head has been read": (SHARES, [reads(), writes()], ask(), False),
    "another's last byte differs": (SHARES, [reads(head="h.")], ask(), False),
    "another owner's": (SHARES, [reads(owner=b"you")], ask(), False),
    "its speed is not known": (SHARES, [reads(None)], ask(head_seconds=None), False),
    "that one's is not": (SHARES, [reads(None)], ask(), False),
    "nobody knows the head": (SHARES, [reads(head=None)], ask(head=None), False),
    "nobody else is there": (SHARES, [], ask(), False),
    "the server shares none": (ENOUGH, [reads()], ask(), False),
    "however long it is still read": (MOVES, [reads(15.0)], ask(), True),
    "nobody knows when, and it has just begun": (MOVES, [writes()], ask(), True),
    "nor is it a third of the head": (MOVES, [writes(0.9)], ask(), True),
    "it is": (MOVES, [writes(1.1)], ask(), False),
    "or another one is": (MOVES, [reads(), writes(1.1, "c")], ask(), False),
    "it has a copy of its own": (MOVES, [writes(), writes(name="b")], ask(), False),
}


@pytest.mark.parametrize("case", HEADS)
def test_a_head_is_waited_for_where_that_saves_more_than_it_takes(case):
    terms, working, one, waits = HEADS[case]
    order = Order(MOST)
    assert order.comes(one, working, terms, 0.0) == ([] if waits else [one])
    assert (one in order.line) == waits


def test_who_waits_goes_with_the_first_token_and_at_the_latest_when_it_no_longer_pays():
    order, first = Order(MOST), reads()
    waiting = [ask("b"), ask("c"), ask("d", head_seconds=300.0, seconds=301.0)]
    for each in waiting:
        assert order.comes(each, [first], SHARES, 0.0) == []
    assert order.look([first], SHARES, 5.9) == []
    assert order.look([first], SHARES, 6.0) == waiting[:2]
    assert order.look([first], SHARES, 19.9) == []
    assert order.look([first], SHARES, 20.0) == waiting[2:]
    assert not order.line


def test_all_go_once_the_head_is_read_and_one_at_a_time_where_its_reader_is_gone():
    """The first to have come reads it then, and the others wait for that."""
    order, first, waiting = Order(MOST), reads(), [ask(name) for name in "bcd"]
    for each in waiting:
        order.comes(each, [first], SHARES, 0.0)
    assert order.look([writes()], SHARES, 1.0) == waiting
    assert waiting[0].beside is Shares.READ
    order, waiting = Order(MOST), [ask(name) for name in "bcd"]
    for each in waiting:
        order.comes(each, [first], SHARES, 0.0)
    assert order.look([], SHARES, 1.0) == waiting[:1]
    assert [each.waits_for for each in waiting[1:]] == waiting[:1] * 2
    assert [each.more for each in waiting[1:]] == [0, 0], "the line before is not counted"
    order.leaves(waiting[1])
    order.leaves(waiting[1])
    assert order.look([], SHARES, 2.0) == waiting[2:]


def test_where_a_head_serves_one_at_a_time_each_goes_with_the_end_of_the_one_before():
    """Who had to read a copy of its own leaves it for another."""
    order, waiting = Order(MOST), [ask(name) for name in "bcde"]
    for each in waiting:
        assert order.comes(each, [writes()], MOVES, 0.0) == []
    b, c, d, e = waiting
    assert order.look([], MOVES, 1.0) == [b]
    assert order.look([Busy(b, False, said=0.9)], MOVES, 4.0) == []
    order.ended(b, 4.1)
    assert order.look([], MOVES, 4.1) == [c]
    assert order.look([Busy(c, False, said=1.1)], MOVES, 7.2) == [d], "it may take too long"
    assert [each.has_copy for each in waiting] == [True, True, False, False]
    assert e.waits_for is d, "who takes a second, as b did"
    order.answered(c, was_there=False)
    assert order.comes(ask("f"), [], MOVES, 9.0) == [e]
    assert not e.has_copy, "the server has dropped them"


ON = {
    "it has called tools": (True, [], ask(), 5.0),
    "it has not": (False, [], ask(), 0.0),
    "nobody knows": (None, [], ask(), 0.0),
    "it has come back after such an answer": (None, [0.8], ask(), 1.6),
    "at once": (False, [0.1], ask(), 1.0),
    "after tools that take long": (True, [9.0], ask(), 18.0),
    "longer than anybody waits": (True, [12.0], ask(), 20.0),
    "it waits for its own subagent": (True, [], ask(root="a"), 0.0),
}


@pytest.mark.parametrize("case", ON)
def test_a_copy_stays_with_a_conversation_that_goes_on(case):
    """Who has none waits until that is over, or reads its own as soon as no copy is idle."""
    calls, pauses, one, free = ON[case]
    order, now = Order(100.0 if free < MOST else MOST), 0.0
    for pause in (*pauses, None):
        turn = ask("a")
        assert order.comes(turn, [], MOVES, now) == [turn]
        order.ended(turn, now, calls=calls)
        now += pause or 0.0
    assert order.comes(one, [], MOVES, now) == ([] if free else [one])
    if free:
        assert order.look([], MOVES, now + free - 0.01) == []
        assert order.look([], MOVES, now + free) == [one]
        assert one.has_copy
        other = ask("c")
        assert order.comes(other, [Busy(one)], MOVES, now + free) == []
        order.ended(one, now + free, calls=True)
        assert order.look([], MOVES, now + free) == []
        again = ask("b")
        assert order.comes(again, [], MOVES, now + free) == [again]
        assert order.look([Busy(again, False, said=1.1)], MOVES, now + free + 1.1) == [other]
        assert not other.has_copy


def test_a_head_is_not_waited_for_behind_conversations_that_are_known_to_take_long():
    order, first, second = Order(MOST), ask("a"), ask("c")
    other, another = ask("d"), ask("d")
    order.comes(first, [], MOVES, 0.0)
    order.look([Busy(first, False)], MOVES, 0.0)
    assert order.comes(other, [Busy(first, False)], MOVES, 0.0) == []
    order.leaves(other)
    order.ended(first, 4.0)
    assert order.comes(second, [], MOVES, 6.0) == [second]
    assert order.comes(another, [Busy(second, False)], MOVES, 6.0) == [another]


def seated(order, one, times, places=1):
    """Have ``one`` take a place for as many turns as it has ``times`` (from, to)."""
    for start, end in times:
        turn = ask(**one)
        assert order.comes(turn, [], Terms(places=places), start) == [turn]
        if end is not None:
            order.ended(turn, end)


TURNS = [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)]
"""Pauses of a second: the next turn is due until 7."""
OTHER, SUB, MAIN = {"name": "a"}, {"name": "a", "root": "main"}, {"name": "main"}
PLACES = {
    "its next turn is due": (OTHER, TURNS, ask(), 6.9),
    "no longer": (OTHER, TURNS, ask(), None),
    "its pauses are not known": (OTHER, TURNS[:2], ask(), None),
    "it runs": (OTHER, [(0.0, None)], ask(), 26.0),
    "it runs, of a client that does not name agents": (
        {**OTHER, "names_agents": False},
        [(0.0, None)],
        ask(),
        26.0,
    ),
    "it is due, of a client that does not name agents": (
        {**OTHER, "names_agents": False},
        TURNS,
        ask(),
        None,
    ),
    "who asks does not name agents": (OTHER, TURNS, ask(names_agents=False), None),
    "another owner's": (OTHER, [(0.0, None)], ask(owner=b"you"), None),
    "its own": (OTHER, TURNS, ask("a"), None),
    "its own conversation's, another part of it": (OTHER, TURNS, ask("a", lane=1), None),
    "its own subagent's": (SUB, [(0.0, None)], ask("main"), None),
    "whom it works for": (MAIN, [(0.0, None)], ask("a", root="main"), None),
    "a sibling's": (SUB, TURNS, ask("b", root="main"), 6.9),
}


@pytest.mark.parametrize("case", PLACES)
def test_a_place_stays_with_its_conversation_while_that_goes_on(case):
    one, turns, other, until = PLACES[case]
    order, terms = Order(MOST), Terms(places=1)
    seated(order, one, turns)
    begins = 6.0 if until is not None else 7.1 if case == "no longer" else 5.5
    gone = order.comes(other, [], terms, begins)
    assert gone == ([other] if until is None else [])
    if until is not None:
        assert order.look([], terms, until - 0.01) == []
        assert order.look([], terms, until + 0.11) == [other]


LONG = [{"name": "a", "tokens": 700.0}, {"name": "b", "tokens": 200.0}]
ROOM = {
    "there is room beside both": (LONG, {"tokens": 100.0}, []),
    "there is none": (LONG, {"tokens": 101.0}, ["a", "b"]),
    "beside the one whose turn is due": (LONG[:1], {"tokens": 301.0}, ["a"]),
    "both are another owner's": (LONG, {"tokens": 101.0, "owner": b"you"}, []),
    "alone it has one": ([], {"tokens": 2000.0}, []),
    "it has one": ([*LONG, {"name": "c", "tokens": 90.0}], {"name": "c", "tokens": 900.0}, []),
}


@pytest.mark.parametrize("case", ROOM)
def test_a_memory_that_is_too_short_has_fewer_places_than_slots(case):
    """A thousand tokens; who waits is told of all that it waits for."""
    before, other, waits_for = ROOM[case]
    order, terms = Order(MOST), Terms(places=4, room=1000.0)
    for one in before:
        for start, end in TURNS:
            order.comes(turn := ask(**one), [], terms, start)
            order.ended(turn, end)
    one = ask(**{"name": "c", **other})
    assert order.comes(one, [], terms, 5.5) == ([] if waits_for else [one])
    assert (one.waits_for and one.waits_for.label, one.more) == (
        (waits_for[0], len(waits_for) - 1) if waits_for else (None, 0)
    )
    assert order.look([], terms, 7.1) == ([one] if waits_for else [])


def test_who_has_lost_its_place_to_a_longer_prompt_waits_for_it_by_turns():
    """It is read again once, and not at every turn of the other."""
    order, terms = Order(MOST), Terms(places=4, room=1000.0)
    for one in LONG:
        for start, end in TURNS:
            order.comes(turn := ask(**one), [], terms, start)
            order.ended(turn, end)
    order.comes(grown := ask("a", tokens=900.0), [], terms, 6.0)
    back = ask("b", tokens=200.0)
    assert order.comes(back, [], terms, 6.1) == []
    order.ended(grown, 7.0)
    assert order.look([], terms, 8.9) == []
    assert order.look([], terms, 9.1) == [back]
    assert back.was_taken


def test_a_free_place_is_taken_by_whoever_comes_first():
    order, terms = Order(MOST), Terms(places=2)
    seated(order, {"name": "a"}, [(0.0, None)], 2)
    seated(order, {"name": "b"}, [(0.0, None)], 2)
    third, fourth = ask("c"), ask("d")
    assert order.comes(third, [], terms, 1.0) == order.comes(fourth, [], terms, 1.1) == []
    order.ended(ask("a"), 2.0)
    assert order.look([], terms, 2.0) == [third]
    assert order.look([], terms, 20.9) == []
    assert order.look([], terms, 21.1) == [fourth]


def test_who_comes_back_to_a_place_that_was_taken_tells_whether_it_had_to_be_read_again():
    order, terms, turns = Order(MOST), Terms(places=1), []
    for name, start in (("a", 0.0), ("b", 2.0), ("a", 4.0), ("a", 6.0)):
        turns.append(ask(name))
        assert order.comes(turns[-1], [], terms, start) == turns[-1:]
        order.ended(turns[-1], start + 1.0)
    assert [each.was_taken for each in turns] == [False, False, True, False]


def test_a_pause_from_before_places_were_scarce_counts():
    order, terms, other = Order(MOST), Terms(places=1), ask("b")
    for start in (0.0, 2.0):
        order.comes(one := ask("a", pause=1.0), [], terms, start)
        order.ended(one, start + 1.0)
    assert order.comes(other, [], terms, 3.5) == []
    assert order.look([], terms, 5.0) == [other]
