"""Alarms and their webhook without a network: what is sent, tried again and said."""

import io
import itertools
import re
import sys

import pytest
from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.testing import MemoryReactorClock, StringTransport
from twisted.python.failure import Failure

from cacheproxy.alarm.alarming import Alarming, AlarmWay, UnsentError
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.tables import AlarmTable
from tests.logs import looking
from tests.observe.exchanges import body, exchange
from tests.proxy.inmemory import take_turns

TOKENS = 25_000
LOST = Verdict(Judgement.BREAK, Reason.UNKNOWN, lost=TokenCount(TOKENS, "measured"))
_numbers = itertools.count(1)


def lose(alarming):
    """Have a new conversation lose its cache."""
    said, usage = body("Canary, go."), Usage(TOKENS, 0)
    turn = exchange(said, session=f"{next(_numbers):04}", usage=usage, verdict=LOST)
    alarming.cacheproxy_exchange_finished([turn])


class Wire(StringTransport):
    def resumeProducing(self):
        """Though it is being closed: a real one is not surprised."""


class Network(MemoryReactorClock):
    """Connections of which a test makes what it likes."""

    def answered(self, number, status):
        """Accept a connection and answer without end; return what came, and the transport."""
        protocol, transport = self.tcpClients[number][2].buildProtocol(None), Wire()
        protocol.makeConnection(transport)
        take_turns(self)
        line = f"HTTP/1.1 {status}\r\nLocation: /else\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nno"
        protocol.dataReceived(line.encode())
        return transport.value(), transport


@pytest.fixture
def network(monkeypatch):
    """By its clock the body is sent, too."""
    found = Network()
    turns = task.Cooperator(scheduler=lambda do: found.callLater(0, do))
    monkeypatch.setattr(task, "cooperate", turns.cooperate)
    return found


@pytest.fixture
def alarming(network):
    return Alarming(network, None, AlarmTable(webhook="http://hook/x?key=bird", bell=False))


@pytest.fixture
def troubles():
    """What was said of alarms that cannot be told."""
    found = []
    with looking(lambda event: found.append(event["why"]) if "why" in event else None):
        yield found


REFUSED, SILENT = "refused", "silent"


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (["200 OK"], []),
        (["503 Later", REFUSED, "204 OK"], []),
        (["302 Found"], ["it answered 302, and redirects are not followed"]),
        (["404 Not Found"], ["it answered 404"]),
        (["400 Bad Request"], ["it answered 400"]),
        ([REFUSED] * 3, ["the connection failed (ConnectionRefusedError), three times"]),
        (["429 Later", "500 Oh", "599 Oh"], ["it answered 599, three times"]),
        ([SILENT] * 3, ["no answer in 10 s, three times"]),
    ],
    ids=lambda value: " ".join(value).split(" and ")[0],
)
def test_it_is_tried_three_times_unless_the_answer_is_final(
    alarming, network, troubles, answers, says
):
    """The same bytes, after a second and after five more; of no answer is a body read."""
    lose(alarming)
    came = set()
    for number, (answer, pause) in enumerate(zip(answers, (1.0, 5.0, 99.0), strict=False)):
        assert len(network.tcpClients) == number + 1
        if answer == SILENT:
            network.advance(10.0)
        elif answer == REFUSED:
            network.tcpClients[number][2].clientConnectionFailed(None, Failure(Refused()))
            network.advance(0.3)  # meanwhile another address of the host might have answered
        else:
            data, transport = network.answered(number, answer)
            came.add(data)
            assert transport.disconnecting
        network.advance(pause - 0.01)
        assert len(network.tcpClients) == number + 1
        network.advance(0.01)
    assert len(network.tcpClients) == len(answers)
    assert len(came) <= 1
    assert troubles == says


def test_a_host_that_is_not_known_is_said(alarming, network, troubles):
    def no_address(receiver, *_, **__):
        receiver.resolutionBegan(None)
        receiver.resolutionComplete()

    network.nameResolver.resolveHostName = no_address
    lose(alarming)
    network.pump([1.0, 5.0])
    assert troubles == ["its host is not known, three times"]


def test_what_is_wrong_is_said_once_until_it_works_again(alarming, network, troubles):
    for number, status in enumerate(("404 A", "403 B", "200 C", "404 D")):
        lose(alarming)
        network.answered(number, status)
    assert troubles == ["it answered 404"] * 2


def test_one_that_hangs_keeps_others_waiting_and_the_end_for_three_seconds(
    alarming, network, troubles
):
    """Sixteen wait, the newest: each alarm stands in the log in any case."""
    for _ in range(20):
        lose(alarming)
    assert len(network.tcpClients) == 1
    came = [network.answered(number, "200 OK")[0] for number in range(16)]
    sessions = [int(re.search(rb'"session": "agent/(\d+)"', data)[1]) for data in came]
    assert sessions[1:] == list(range(sessions[0] + 4, sessions[0] + 19))
    assert len(network.tcpClients) == 17
    ended = alarming.finish()
    network.advance(2.9)
    assert not ended.called
    network.advance(0.1)
    assert ended.called
    assert troubles == ["the proxy stops"]


def test_none_is_told_below_the_limit_nor_with_what_is_switched_off(alarming, network):
    alarming.adopt(AlarmTable(webhook="http://hook", bell=False, tokens=TOKENS + 1))
    lose(alarming)
    alarming.adopt(AlarmTable(bell=False))
    lose(alarming)
    assert network.tcpClients == []
    assert alarming.finish().called


@pytest.mark.parametrize(("bell", "is_terminal", "rings"), [(1, 1, 1), (0, 1, 0), (1, 0, 0)])
def test_the_bell_rings_on_a_terminal_alone(alarming, monkeypatch, bell, is_terminal, rings):
    """Python's own stream: twistd has put another in place of ``sys.stdout``."""
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: bool(is_terminal), raising=False)
    monkeypatch.setattr(sys, "__stdout__", screen)
    alarming.adopt(AlarmTable(bell=bool(bell)))
    lose(alarming)
    assert screen.getvalue() == "\a" * rings
    screen.close()
    for gone in (screen, None):
        monkeypatch.setattr(sys, "__stdout__", gone)
        lose(alarming)


def test_one_that_fails_at_once_is_no_end(troubles):
    """Else nothing is told after a URL that cannot be asked, though it was mended since."""
    told = []

    async def tell(alarm):
        told.append(alarm)
        raise (UnsentError("no such place"), ValueError("a URL"))[len(told) - 1]

    way = AlarmWay("webhook", tell)
    way.put("first")
    way.put("second")
    assert (told, troubles) == (["first", "second"], ["no such place"])


def test_it_ends_when_all_is_told():
    begun = []

    async def tell(_):
        begun.append(Deferred())
        await begun[-1]

    way = AlarmWay("webhook", tell)
    assert way.finish().called
    way.put("first")
    finished = way.finish()
    assert not finished.called
    begun[0].callback(None)
    assert finished.called
