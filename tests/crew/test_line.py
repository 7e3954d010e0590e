"""The line between keeper and worker, over real sockets and without a reactor."""

from __future__ import annotations

import os
import socket

import msgspec
import pytest
from twisted.internet.defer import TimeoutError as TookTooLong
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock

from cacheproxy.crew.line import Line, Waiting
from cacheproxy.crew.messages import Answer


class Word(msgspec.Struct, array_like=True, tag=True):
    text: str
    id: int = 0


class Reactor(Clock):
    """Knows who wants to read and to write; ``turn`` lets them, while there is something to do."""

    def __init__(self):
        super().__init__()
        self.readers, self.writers = [], []

    def addReader(self, line):  # noqa: N802
        self.readers.append(line)

    def addWriter(self, line):  # noqa: N802
        if line not in self.writers:
            self.writers.append(line)

    def removeReader(self, line):  # noqa: N802
        if line in self.readers:
            self.readers.remove(line)

    def removeWriter(self, line):  # noqa: N802
        if line in self.writers:
            self.writers.remove(line)

    def turn(self, times=100):
        for _ in range(times):
            for line in (*self.writers, *self.readers):
                line.doWrite() if line in self.writers else None
                line.doRead() if line in self.readers else None


class Ear:
    def __init__(self):
        self.words, self.loads, self.is_lost = [], [], False
        self.descriptors = []

    def heard(self, line, message, load):
        self.words.append(message.text)
        self.loads.append(load)
        if message.text == "descriptor":
            self.descriptors.append(line.descriptor())
        if message.id:
            line.tell(Answer(message.id, message.text.upper()), load)

    def lost(self, line):
        self.is_lost = True


@pytest.fixture
def ends():
    """Both ends of a line, their ears, and the reactor."""
    reactor, ears = Reactor(), (Ear(), Ear())
    lines = [
        Line(reactor, end, Word | Answer, ear, Waiting(3, 1 << 20))
        for end, ear in zip(socket.socketpair(), ears, strict=True)
    ]
    for line in lines:
        line.start()
    yield (*lines, *ears, reactor)
    for line in lines:
        line.close()


def test_what_is_said_is_heard(ends):
    """At once, with its load, in its order."""
    one, _, _, ear, reactor = ends
    one.tell(Word("a"), b"x" * 10, b"y")
    one.tell(Word("b"))
    assert not reactor.writers
    reactor.turn()
    assert ear.words == ["a", "b"]
    assert ear.loads == [b"x" * 10 + b"y", b""]


def test_more_than_the_socket_takes(ends):
    """The rest is sent as it can be, and nothing is lost."""
    one, _, _, ear, reactor = ends
    load = bytes(range(256)) * (3 << 12)
    one.tell(Word("large"), load)
    assert reactor.writers
    reactor.turn(1000)
    assert ear.loads == [load]
    assert not reactor.writers


def test_what_is_urgent_passes_what_is_not(ends):
    """But for a frame that has begun."""
    one, _, _, ear, reactor = ends
    assert one.offer(Word("first"), b"x" * (2 << 20))
    assert one.offer(Word("second"))
    one.tell(Word("urgent"))
    reactor.turn(1000)
    assert ear.words == ["first", "urgent", "second"]


def test_what_is_too_much_is_not_said(ends):
    """By bytes and by number; what has to be said is, and later there is room again."""
    one, _, _, ear, reactor = ends
    assert one.offer(Word("huge"), b"x" * (8 << 20))  # alone it may be as large as it is
    assert not one.offer(Word("too large"), b"x" * (1 << 20))
    one.tell(Word("urgent"))
    reactor.turn(1000)
    assert one.offer(Word("waits"), b"x" * (8 << 20))
    assert one.offer(Word("small"))
    assert one.offer(Word("small"))
    assert not one.offer(Word("one too many"))
    reactor.turn(1000)
    assert one.offer(Word("again"))
    reactor.turn(1000)
    assert ear.words == ["huge", "urgent", "waits", "small", "small", "again"]


def test_a_question_is_answered(ends):
    """With a value and a load; each with its own."""
    one, _, _, _, reactor = ends
    found = []
    for name in ("a", "b"):
        one.ask(Word(name), name.encode(), seconds=1).addCallback(found.append)
    reactor.turn()
    assert found == [("A", b"a"), ("B", b"b")]
    assert not reactor.getDelayedCalls()


def test_a_question_is_not_answered(ends):
    """In time, or at all."""
    one, other, _, _, reactor = ends
    failed = []
    one.ask(Word("late"), seconds=1).addErrback(lambda failure: failed.append(failure.type))
    reactor.advance(1)
    reactor.turn()  # the answer comes, and nobody waits for it
    one.ask(Word("gone"), seconds=1).addErrback(lambda failure: failed.append(failure.type))
    other.close()
    reactor.turn()
    one.ask(Word("later"), seconds=1).addErrback(lambda failure: failed.append(failure.type))
    assert failed == [TookTooLong, ConnectionDone, ConnectionDone]
    assert not reactor.getDelayedCalls()


def test_a_descriptor_goes_along(ends):
    """It leads to the same, and ours is closed."""
    one, _, _, ear, reactor = ends
    inner, outer = os.pipe()
    one.tell(Word("descriptor"), descriptor=outer)
    reactor.turn()
    (found,) = ear.descriptors
    os.write(found, b"hello")
    assert os.read(inner, 10) == b"hello"
    os.close(found)
    assert os.read(inner, 1) == b""
    os.close(inner)


def test_descriptors_keep_their_order(ends):
    """Also while the socket takes no more."""
    one, _, _, ear, reactor = ends
    pipes = [os.pipe() for _ in range(20)]
    one.tell(Word("large"), b"x" * (8 << 20))
    for _, outer in pipes:
        one.tell(Word("descriptor"), descriptor=outer)
    reactor.turn(1000)
    assert len(ear.descriptors) == len(pipes)
    for (inner, _), found in zip(pipes, ear.descriptors, strict=True):
        os.write(found, b"x")
        assert os.read(inner, 10) == b"x"
        os.close(found)
        os.close(inner)


def test_the_other_end_goes(ends):
    """What it said before is heard; nothing more can be said."""
    one, other, _, ear, reactor = ends
    one.tell(Word("last words"))
    one.close()
    other.tell(Word("to nobody"))
    reactor.turn()
    assert ear.words == ["last words"]
    assert ear.is_lost
    assert not other.is_open
    inner, outer = os.pipe()
    other.tell(Word("descriptor"), descriptor=outer)
    assert os.read(inner, 1) == b""
    os.close(inner)
    assert not reactor.readers
    assert not reactor.writers


def test_when_all_is_said(ends):
    """The kernel has it; or nobody ever will."""
    one, other, _, _, reactor = ends
    done = []
    one.offer(Word("large"), b"x" * (8 << 20))
    one.when_empty().addCallback(lambda _: done.append("said"))
    assert not done
    reactor.turn(1000)
    assert done == ["said"]
    one.offer(Word("large"), b"x" * (8 << 20))
    one.when_empty().addCallback(lambda _: done.append("gone"))
    other.close()
    reactor.turn()
    assert done == ["said", "gone"]
