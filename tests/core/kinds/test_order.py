"""Who waits for whom at one server, in tables; and thousands of schedules on a virtual clock."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cacheproxy.core.kinds.order import Ask, Busy, Order, Terms
from cacheproxy.core.kinds.profile import Shares

MOST, LOOKS = 20.0, 0.05
SHARES, MOVES, ENOUGH = Terms(shares=True), Terms(moves=True), Terms()


def ask(name="b", **more):
    known = {"owner": b"me", "head": "h", "head_seconds": 3.0, "seconds": 4.0, "label": name}
    return Ask(**{**known, "conversation": name, "names_agents": True, **more})


def reads(left=3.5, **more):
    return Busy(ask("a", **more), is_reading=True, left=left)


def writes(ends=None, **more):
    return Busy(ask("a", **more), is_reading=False, left=0.0, ends=ends)


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
    "free once an answer ends, soon": (MOVES, [writes(2.9)], ask(), True),
    "free once an answer ends, late": (MOVES, [writes(3.1)], ask(), False),
    "nobody knows when": (MOVES, [writes()], ask(), False),
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
    order.leaves(waiting[1])
    order.leaves(waiting[1])
    assert order.look([], SHARES, 2.0) == waiting[2:]


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


# Schedules: agents that run by turns at a server of any kind, on a virtual clock.


@dataclass(frozen=True)
class Agent:
    """What one does; seconds. ``main``: the number of the agent that it works for."""

    starts: float
    owner: int
    head: str
    own: float
    answer: float
    pause: float
    turns: int
    main: int | None
    names_agents: bool
    leaves: float
    """For how long it waits until it leaves."""


@dataclass
class Simulation:
    """A server of ``terms`` that reads heads in ``head`` seconds, and a crowd of agents."""

    terms: Terms
    head: float
    known: bool
    agents: tuple[Agent, ...]
    stops: tuple[float, ...]
    now: float = 0.0
    waited: list[float] = field(default_factory=list)
    done: set[int] = field(default_factory=set)
    looks: bool = False

    def run(self):
        self.order = Order(MOST)
        self.events, self.count = [], itertools.count()
        self.working, self.of = {}, {}
        self.read, self.turns = set(), dict.fromkeys(range(len(self.agents)), 0)
        for number, agent in enumerate(self.agents):
            if agent.main is None:
                self.at(agent.starts, self.begin, number)
        for when in self.stops:
            self.at(when, self.stop)
        while self.events:
            self.now, _, do, arguments = heapq.heappop(self.events)
            assert self.now < 1e5, "it never ends"
            do(*arguments)
        assert not self.order.line
        return self

    def at(self, when, do, *arguments):
        heapq.heappush(self.events, (when, next(self.count), do, arguments))

    def begin(self, number):
        """A turn of an agent; a main one's goes with its subagents, which it waits for."""
        agent = self.agents[number]
        seconds = self.head + agent.own
        one = Ask(
            owner=agent.owner,
            conversation=number,
            root=agent.main,
            names_agents=agent.names_agents,
            head=agent.head,
            head_seconds=self.head if self.known and self.turns[number] == 0 else None,
            seconds=seconds if self.known else None,
        )
        self.of[one] = number
        self.go(self.order.comes(one, self.busy(), self.terms, self.now))
        if one in self.order.line:
            if agent.leaves < math.inf:
                self.at(self.now + agent.leaves, self.leave, one)
            self.look_soon()

    def busy(self):
        return [
            Busy(
                one,
                self.now < read,
                left=max(0.0, read - self.now) if self.known else None,
                ends=ends,
            )
            for one, (read, ends) in self.working.items()
        ]

    def look(self):
        self.looks = False
        self.go(self.order.look(self.busy(), self.terms, self.now))
        for one in self.order.line:
            other = one.waits_for
            assert other.owner == one.owner
            assert not one.is_kin(other) or self.terms.places is None
            assert other.head == one.head or self.terms.places is not None
        self.look_soon()

    def look_soon(self):
        if self.order.line and not self.looks:
            self.looks = True
            self.at(self.now + LOOKS, self.look)

    def go(self, asks):
        for one in asks:
            agent = self.agents[self.of[one]]
            self.waited.append(self.now - one.since)
            assert self.now - one.since <= MOST + 2 * LOOKS
            cached = self.terms.shares and one.head in self.read
            read = self.now + agent.own + (0.0 if cached else self.head)
            ends = agent.answer + read - self.now if self.known else None
            self.working[one] = read, ends
            self.at(read, self.read.add, one.head)
            if agent.answer < math.inf:
                self.at(read + agent.answer, self.end, one)

    def end(self, one):
        if self.working.pop(one, None) is None:
            return  # the server had stopped
        self.order.ended(one, self.now)
        number = self.of[one]
        agent, self.turns[number] = self.agents[number], self.turns[number] + 1
        subs = [at for at, each in enumerate(self.agents) if each.main == number]
        if self.turns[number] == 1 and subs:
            for sub in subs:
                self.at(self.now, self.begin, sub)
        elif self.turns[number] < agent.turns:
            self.at(self.now + agent.pause, self.begin, number)
        else:
            self.over(number)
        self.go(self.order.look(self.busy(), self.terms, self.now))

    def over(self, number):
        self.done.add(number)
        main = self.agents[number].main
        if main is None:
            return
        subs = {at for at, each in enumerate(self.agents) if each.main == main}
        if subs <= self.done and self.turns[main] < self.agents[main].turns:
            self.at(self.now, self.begin, main)
        elif subs <= self.done:
            self.over(main)

    def leave(self, one):
        if one in self.order.line:
            self.order.leaves(one)
            number = self.of[one]
            subs = {at for at, each in enumerate(self.agents) if each.main == number}
            if not self.turns[number]:
                self.done |= subs  # they never begin
            self.over(number)

    def stop(self):
        """The server is gone with all that it worked at; its clients ask again."""
        self.read.clear()
        for one in tuple(self.working):
            del self.working[one]
            self.order.ended(one, self.now)
            self.at(self.now + 1.0, self.begin, self.of[one])
        self.go(self.order.look([], self.terms, self.now))


def seconds(most):
    return st.integers(0, round(most * 10)).map(lambda tenths: tenths / 10)


AGENT = st.builds(
    Agent,
    starts=seconds(3.0),
    owner=st.integers(0, 1),
    head=st.sampled_from(["h", "h.", "i"]),
    own=seconds(2.0),
    answer=st.one_of(seconds(4.0), seconds(60.0), st.just(math.inf)),
    pause=seconds(3.0),
    turns=st.integers(1, 4),
    main=st.one_of(st.none(), st.just(0)),
    names_agents=st.booleans(),
    leaves=st.one_of(st.just(math.inf), seconds(10.0)),
)
MAIN_AGENT = AGENT.map(lambda agent: agent.__class__(**{**vars(agent), "main": None}))
FIFTY = Agent(0.0, 0, "h", 0.2, 1.0, 0.5, 2, None, True, math.inf)
NEVER = Agent(0.0, 0, "h", 0.2, math.inf, 0.5, 2, None, True, math.inf)


SCHEDULES = st.tuples(
    st.builds(Terms, st.booleans(), st.booleans(), st.sampled_from([None, None, 1, 2, 4])),
    st.sampled_from([0.0, 0.5, 3.0, 40.0]),
    st.booleans(),
    st.builds(lambda *each: (each[0], *each[1]), MAIN_AGENT, st.lists(AGENT, max_size=7)),
    st.lists(seconds(30.0), max_size=2).map(tuple),
)


def check(schedule):
    """All answers end but those that never do; each request is sent within a bound of seconds."""
    run = Simulation(*schedule).run()
    never = {at for at, agent in enumerate(run.agents) if agent.answer == math.inf}
    mains = {run.agents[at].main for at in never} - {None}
    subs = {at for at, agent in enumerate(run.agents) if agent.main in never}
    assert never | mains | subs | run.done == {*range(len(run.agents))}
    if len(run.agents) == 1:
        assert not any(run.waited)


@given(SCHEDULES)
@example((SHARES, 3.0, True, (FIFTY,) * 50, ()))
@example((Terms(places=1), 3.0, True, (FIFTY,) * 50, (5.0,)))
@example((Terms(places=1), 3.0, True, (NEVER, *(FIFTY,) * 9), ()))
@example((SHARES, 3.0, True, (NEVER, *(FIFTY,) * 9), (2.0,)))
def test_no_schedule_has_a_deadlock_or_starves_anybody(schedule):
    check(schedule)


@pytest.mark.slow
@given(SCHEDULES)
@settings(max_examples=10_000)
def test_nor_do_ten_thousand(schedule):
    check(schedule)
