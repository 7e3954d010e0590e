"""What passed at an upstream is found again by its time, and by where it was."""

from cacheproxy.core.kinds.status import Look, Slot, UpstreamState
from cacheproxy.observe.verdicts import Passed, PassedTurns
from tests import transcript
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


AFTER = exchange(body("a"), wall=30.0, first_byte=2.0, seconds=9.0)


def test_the_oldest_turns_and_looks_go_first():
    many = passed(*(turn(session=str(number)) for number in range(2000)))
    found = many.since(10.0, AFTER, OURS)
    assert 100 < len(found) < 1000
    assert found[-1].lane == ("agent", "1999", 1)
    for number in range(2000):
        many.looked(look(float(number), state=UpstreamState.DOWN))
    assert not many.was_down(HERE, 0.0, 1000.0)
    assert many.was_down(HERE, 1998.5, 2000.0)


def test_all_that_is_said():
    transcript.holds("verdicts_passed.txt", globals())
