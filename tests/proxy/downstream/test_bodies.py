"""Large bodies in flight, without a network: who waits for room, and who goes on when."""

import tracemalloc

import pytest
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from tests.proxy.downstream.test_channel import GET, Writing
from tests.proxy.inmemory import take_turns

MIB = 1 << 20
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
PIECE = b"x" * (100 << 10)


def post(size, *fields, body=b""):
    """The head of a request that announces ``size`` bytes, None: chunks; and what of it follows."""
    framing = b"Transfer-Encoding: chunked" if size is None else b"Content-Length: %d" % size
    lines = (b"POST /v1/messages HTTP/1.1", b"Host: localhost", framing, *fields, b"", body)
    return b"\r\n".join(lines)


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


class Client:
    """A connection; ``name`` is told by its user agent."""

    def __init__(self, house, name):
        self.house, self.name = house, name
        self.transport = Writing()
        self.channel = house.site.buildProtocol(None)
        self.channel.makeConnection(self.transport)

    def send(self, data):
        self.channel.dataReceived(data)
        take_turns(self.house.clock)

    def announce(self, size, *fields, body=b""):
        self.send(post(size, b"User-Agent: %d" % self.name, *fields, body=body))

    def send_all(self, size):
        """Send so much of a body, in pieces."""
        for start in range(0, size, len(PIECE)):
            self.send(PIECE[: size - start])

    def leave(self):
        self.channel.connectionLost(Failure(ConnectionLost()))
        take_turns(self.house.clock)

    def taken(self):
        return b"".join(self.transport.take())


class House:
    """A site with ``most`` bytes of room for bodies; ``asked``: the names of those who asked."""

    isLeaf = True

    def __init__(self, most, **limits):
        self.clock = Clock()
        self.asked, self.requests = [], []
        self.limits = Limits(body=1 << 31, in_flight=most, **limits)
        self.site = ProxySite(self, self.clock, self.limits, Access())
        self._clients = 0

    def client(self):
        self._clients += 1
        return Client(self, self._clients)

    def clients(self, count, size, *fields):
        """So many that have announced a body of ``size`` bytes."""
        made = [self.client() for _ in range(count)]
        for client in made:
            client.announce(size, *fields)
        return made

    def render(self, request):
        self.asked.append(int(request.values(b"user-agent")[0]))
        self.requests.append(request)
        return NOT_DONE_YET

    def answer(self):
        """Answer the request that came first."""
        request = self.requests.pop(0)
        request.send_head(200, b"OK", ((b"Content-Length", b"0"),))
        request.finish()
        take_turns(self.clock)

    @property
    def taken(self):
        return self.site.bodies.taken


@pytest.fixture
def house():
    """A house of 4 MiB that all have left in the end; then nobody's room is taken."""
    made = House(4 * MIB)
    yield made
    for channel in tuple(made.site.channels):
        channel.connectionLost(Failure(ConnectionLost()))
    take_turns(made.clock)
    assert made.taken == 0
    assert not made.site.bodies._waiting
    assert not made.clock.getDelayedCalls()


EXPECT = b"Expect: 100-continue"


def test_who_waits_is_told_to_go_on_in_turn(house):
    """Before that it is not told to send; the answer's end makes room, and so does a leaver."""
    first, second, third, fourth = house.clients(4, 2 * MIB, EXPECT)
    assert [one.taken() for one in (first, second, third, fourth)] == [CONTINUE, CONTINUE, b"", b""]
    first.send_all(2 * MIB)
    second.send_all(MIB)
    assert third.taken() == b""
    house.answer()
    assert (third.taken(), fourth.taken()) == (CONTINUE, b"")
    second.leave()
    assert fourth.taken() == CONTINUE
    for one in (third, fourth):
        one.send_all(2 * MIB)
    assert house.asked == [1, 3, 4]
    assert {len(request.body) for request in house.requests} == {2 * MIB}


def test_of_twenty_that_wait_one_leaves(house):
    """The others go on in their order, each with its own body, as room comes."""
    (first,) = house.clients(1, 4 * MIB)
    waiting = house.clients(20, 3 * MIB)
    for client in waiting:
        client.send(PIECE)  # unasked
    waiting.pop(7).leave()
    assert house.taken == 4 * MIB
    first.leave()
    for client in waiting:
        assert house.taken == 3 * MIB
        client.send_all(3 * MIB - len(PIECE))
        assert len(house.requests[0].body) == 3 * MIB
        house.answer()
    assert house.asked == [client.name for client in waiting]


def test_a_wait_has_no_time_out_and_what_comes_meanwhile_is_bounded(house):
    """The transport is paused; the time for the body begins when there is room."""
    (first,) = house.clients(1, 4 * MIB)
    first.send_all(4 * MIB)
    (second,) = house.clients(1, 2 * MIB)
    second.send(PIECE)
    assert not second.transport.paused
    second.send(PIECE)
    assert second.transport.paused
    house.clock.advance(10_000)
    assert second.taken() == b""
    house.answer()
    assert not second.transport.paused
    house.clock.advance(house.limits.idle - 1)
    second.send(PIECE)
    house.clock.advance(house.limits.idle + 1)
    assert b" 408 " in second.taken()


def test_one_that_is_larger_than_all_goes_alone(house):
    """It waits until nothing is in flight; whoever comes behind it waits for it."""
    (first,) = house.clients(1, 2 * MIB)
    large, small = house.clients(2, 9 * MIB, EXPECT)
    first.leave()
    assert (large.taken(), small.taken()) == (CONTINUE, b"")
    large.leave()
    assert small.taken() == CONTINUE


def test_who_announces_a_gigabyte_and_sends_nothing_gets_none(house):
    """It has room for as long as a client may be silent: 408; then it is the next one's."""
    tracemalloc.start()
    house.clients(1, 1 << 30)
    (second,) = house.clients(1, 2 * MIB, EXPECT)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MIB
    assert second.taken() == b""
    house.clock.advance(house.limits.idle)
    take_turns(house.clock)
    assert second.taken() == CONTINUE


@pytest.mark.parametrize("most", [6 * MIB, 100 * MIB])
def test_a_reload_holds_for_those_that_wait(house, most):
    """The limit as it is now."""
    house.clients(2, 2 * MIB)
    third, fourth = house.clients(2, 2 * MIB, EXPECT)
    house.site.adopt(house, Limits(in_flight=most), Access())
    take_turns(house.clock)
    assert (third.taken(), fourth.taken()) == (CONTINUE, b"" if most < 8 * MIB else CONTINUE)
    house.site.adopt(house, Limits(in_flight=MIB), Access())
    (fifth,) = house.clients(1, 2 * MIB, EXPECT)
    assert fifth.taken() == b""


@pytest.mark.parametrize("pieces", [0, 1, 2])
def test_who_waits_when_the_proxy_stops_is_refused(house, pieces):
    """Nothing of its body was asked for; the one that is being read goes on."""
    (first,) = house.clients(1, 4 * MIB)
    (second,) = house.clients(1, 2 * MIB)
    for _ in range(pieces):
        second.send(PIECE)
    house.site.drain()
    assert b" 503 " in second.taken()
    assert not second.transport.paused  # else what it has sent would reset its connection
    first.send_all(4 * MIB)
    assert house.asked == [1]


def test_a_request_behind_one_that_waits_comes_behind_it(house):
    """Whole, and in order."""
    (first,) = house.clients(1, 4 * MIB)
    second = house.client()
    size = MIB + 1
    pipelined = PIECE * (size // len(PIECE)) + PIECE[: size % len(PIECE)]
    second.announce(size)
    second.send(pipelined[: len(PIECE)])
    first.leave()
    second.send(pipelined[len(PIECE) :] + GET.replace(b"Host", b"User-Agent: 9\r\nHost"))
    assert house.asked == [2]
    house.answer()
    assert house.asked == [2, 9]
    assert house.taken == 0


def test_chunks_need_room_as_they_come(house):
    """Once they are large; those that have room are read on, so no two wait for each other."""
    first, second = house.clients(2, None)
    for client in (first, second):
        for _ in range(20):  # 2 MB
            client.send(chunk(PIECE))
    assert 3 * MIB < house.taken <= 4 * MIB
    (third,) = house.clients(1, None)
    for _ in range(13):
        third.send(chunk(PIECE))
    assert house.taken <= 4 * MIB
    assert third.transport.paused
    for client in (first, second):
        for _ in range(30):  # beyond the limit
            client.send(chunk(PIECE))
        client.send(chunk(b""))
    assert house.asked == [1, 2]
    assert house.taken > 9 * MIB
    house.answer()
    assert third.transport.paused
    house.answer()
    assert not third.transport.paused
    third.send(chunk(PIECE))
    third.send(chunk(b""))
    assert len(house.requests[0].body) == 14 * len(PIECE)


def test_room_for_what_is_unpacked(house):
    """Who has room gets more at once; who has none waits, unless it is small."""
    small, packed = house.clients(2, 9, b"Content-Encoding: gzip")
    large, other = house.clients(2, 2 * MIB)
    for client in (small, packed):
        client.send(b"123456789")
    large.send_all(2 * MIB)
    assert large.channel.make_room(3 * MIB) is None
    assert house.taken == 5 * MIB
    assert small.channel.make_room(MIB) is None
    room = packed.channel.make_room(2 * MIB)
    assert not room.called
    other.leave()
    assert not room.called
    large.leave()
    assert room.called
    assert packed.channel.make_room(2 * MIB) is None
    assert house.taken == 2 * MIB
