"""What an order is worth at a llama-server with several slots, on a virtual clock.

Each slot has the prompt of its last request. A request goes to the idle slot whose prompt begins
most like its own, and to the one idle the longest if none does; a prompt of which less than half is
used goes to the RAM cache. So whoever comes between two turns of a conversation takes its slot, and
the conversation reads anew what it had behind the head.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field

import pytest

from cacheproxy.core.kinds.ask import Ask
from cacheproxy.core.kinds.order import Busy, Order, Terms

HEAD, OWN, SLOTS = 7000, 300, 4
LOOKS, BATCH, SIMILAR, RETAINED = 0.05, 2048, 0.1, 0.5


@dataclass
class Slot:
    name: str | None = None
    size: int = 0
    used: float = 0.0
    is_busy: bool = False

    def shared(self, turn):
        """Tokens of its prompt with which that of ``turn`` begins."""
        return min(turn.size, self.size, self.size if self.name == turn.name else HEAD)


@dataclass(eq=False)
class Turn:
    name: str
    size: int
    number: int
    pause: float | None
    ask: Ask | None = None
    slot: Slot | None = None
    left: int = 0
    written: int = 0
    sent: float = 0.0
    begun: float | None = None


@dataclass
class Server:
    """Agents of ``turns``, ``pause`` seconds apart, with answers and results of tools in tokens."""

    order: Order | None
    turns: int
    answer: int
    result: int
    pause: float
    reads: float
    writes: float
    knows: bool
    now: float = 0.0
    evaluated: int = 0
    slots: list[Slot] = field(default_factory=lambda: [Slot() for _ in range(SLOTS)])
    ram: list[Slot] = field(default_factory=list)
    sent: list[Turn] = field(default_factory=list)
    waiting: dict[Ask, Turn] = field(default_factory=dict)
    events: list[tuple[float, int, Turn]] = field(default_factory=list)
    count: itertools.count[int] = field(default_factory=itertools.count)

    def run(self, agents):
        for number in range(agents):
            self.at(number / 10, Turn(f"agent {number}", HEAD + OWN, 1, None))
        while self.events or self.sent or self.waiting:
            until = self.now if self.sent else self.now + (LOOKS if self.waiting else 1e9)
            while self.events and self.events[0][0] <= until:
                until = self.now = max(self.now, self.events[0][0])
                self.comes(heapq.heappop(self.events)[2])
            if self.sent:
                self.work()
            else:
                self.now += LOOKS
            if self.waiting:
                self.go(self.order.look(self.busy(), Terms(moves=True), self.now))
        return self

    def at(self, when, turn):
        heapq.heappush(self.events, (when, next(self.count), turn))

    def comes(self, turn):
        if self.order is None or not (self.sent or self.waiting):
            self.start(turn)
            return
        busy = self.busy()
        turn.ask = self.ask(turn)
        self.waiting[turn.ask] = turn
        self.go(self.order.comes(turn.ask, busy, Terms(moves=True), self.now))

    def ask(self, turn):
        seconds = turn.size / self.reads
        head = None if turn.number > 1 and turn.size > 2 * HEAD else HEAD / self.reads
        more = {"seconds": seconds, "head_seconds": head, "pause": turn.pause}
        return Ask(conversation=turn.name, head="h", share=HEAD / turn.size, **more)

    def busy(self):
        for turn in self.sent:
            turn.ask = turn.ask or self.ask(turn)
        return [
            Busy(
                turn.ask,
                turn.begun is None,
                left=max(0.0, turn.ask.seconds - self.now + turn.sent) if turn.begun is None else 0,
                said=0.0 if turn.begun is None else self.now - turn.begun,
            )
            for turn in self.sent
        ]

    def go(self, asks):
        for one in asks:
            self.start(self.waiting.pop(one))

    def start(self, turn):
        """Put it into a slot; there are more slots than agents."""
        idle = [slot for slot in self.slots if not slot.is_busy]
        slot = max(idle, key=lambda slot: slot.shared(turn))
        if slot.shared(turn) <= SIMILAR * turn.size:
            slot = min(idle, key=lambda slot: slot.used)
        shared = slot.shared(turn)
        if shared <= RETAINED * slot.size:
            self.ram += [Slot(slot.name, slot.size)] if slot.name else []
            best = max(self.ram, key=lambda slot: slot.shared(turn), default=slot)
            if best.shared(turn) > shared:
                shared = best.shared(turn)
                self.ram.remove(best)
        turn.left = turn.size - min(shared, turn.size - 1)
        self.evaluated += turn.left
        turn.slot, turn.sent = slot, self.now
        slot.name, slot.size, slot.is_busy = turn.name, turn.size, True
        self.sent.append(turn)

    def work(self):
        """One batch: tokens of prompts as they came, and one of each answer."""
        batch, writing = BATCH, [turn for turn in self.sent if not turn.left]
        for turn in self.sent:
            took = min(batch, turn.left)
            batch, turn.left = batch - took, turn.left - took
        self.now += (BATCH - batch) / self.reads + (1 / self.writes if writing else 0.0)
        for turn in self.sent:
            if not turn.left and turn.begun is None:
                turn.begun = self.now
        for turn in writing:
            turn.written += 1
            if turn.written >= self.answer:
                self.end(turn)

    def end(self, turn):
        self.sent.remove(turn)
        slot, goes_on = turn.slot, turn.number < self.turns
        slot.is_busy, slot.used, slot.size = False, self.now, turn.size + turn.written
        if self.order is not None and turn.ask is not None:
            self.order.ended(turn.ask, self.now, calls=goes_on if self.knows else None)
        if goes_on:
            size = slot.size + self.result
            self.at(self.now + self.pause, Turn(turn.name, size, turn.number + 1, self.pause))


CROWDS = tuple(itertools.product((2, 4), (1, 2, 4, 8, 20), (8, 60, 400), (100, 1500), (0.05, 3.0)))


@pytest.mark.parametrize("reads", [600.0, 3000.0])
def test_a_crowd_evaluates_no_more_than_without_the_order_however_long_it_goes_on(reads):
    """The last answer comes as soon, but for the seconds in which agents waited for their turn."""
    saved = []
    for agents, turns, answer, result, pause in CROWDS:
        one = turns, answer, result, pause, reads, reads / 20, True
        direct, through = (Server(order, *one).run(agents) for order in (None, Order(20.0)))
        assert through.evaluated <= 1.02 * direct.evaluated, (agents, one)
        assert through.now <= 1.1 * direct.now + 5.0, (agents, one, through.now, direct.now)
        saved.append(through.evaluated / direct.evaluated)
    assert min(saved) < 0.3


def test_nor_does_one_whose_answers_do_not_tell_whether_it_goes_on():
    """Its first turns are read anew now and then, until its pauses are known."""
    for agents, turns in itertools.product((2, 4), (2, 4, 8, 20)):
        one = turns, 60, 300, 0.05, 1000.0, 50.0, False
        direct, through = (Server(order, *one).run(agents) for order in (None, Order(20.0)))
        assert through.evaluated <= 1.1 * direct.evaluated, (agents, turns)
