"""Nobody starves at one server: agents that run by turns, in thousands of schedules.

A server of any kind, on a virtual clock.
"""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass, field

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cacheproxy.core.kinds.ask import Ask
from cacheproxy.core.kinds.order import Busy, Order, Terms

MOST, LOOKS = 20.0, 0.05
SHARES, MOVES = Terms(shares=True), Terms(moves=True)


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
            tokens=100.0 * seconds,
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
                said=max(0.0, self.now - read),
            )
            for one, read in self.working.items()
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
            self.working[one] = read
            self.at(read, self.read.add, one.head)
            if agent.answer < math.inf:
                self.at(read + agent.answer, self.end, one)

    def end(self, one):
        if self.working.pop(one, None) is None:
            return  # the server had stopped
        number = self.of[one]
        agent, self.turns[number] = self.agents[number], self.turns[number] + 1
        calls = self.turns[number] < agent.turns if self.known else None
        self.order.ended(one, self.now, calls=calls)
        self.order.answered(one, was_there=self.known)
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
    st.builds(
        Terms,
        st.booleans(),
        st.booleans(),
        st.sampled_from([None, None, 1, 2, 4]),
        st.sampled_from([math.inf, 0.0, 150.0, 600.0]),
    ),
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
@example((Terms(places=4, room=640.0), 3.0, True, (NEVER, *(FIFTY,) * 49), (5.0,)))
@example((MOVES, 3.0, True, (FIFTY,) * 50, ()))
@example((MOVES, 3.0, False, (NEVER, *(FIFTY,) * 9), (2.0,)))
@example((SHARES, 3.0, True, (NEVER, *(FIFTY,) * 9), (2.0,)))
def test_no_schedule_has_a_deadlock_or_starves_anybody(schedule):
    check(schedule)


@pytest.mark.slow
@given(SCHEDULES)
@settings(max_examples=10_000)
def test_nor_do_ten_thousand(schedule):
    check(schedule)
