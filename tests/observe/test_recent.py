"""The last exchanges are remembered, without their bodies."""

from __future__ import annotations

from dataclasses import replace

from cacheproxy.observe.recent import Recent
from tests.observe.exchanges import body, exchange


def kept(*exchanges, most=200):
    recent = Recent(most)
    for one in exchanges:
        recent.cacheproxy_exchange_finished(one)
    return recent


def test_bodies_and_headers_are_not_kept():
    """They are the prompts and the keys."""
    given = replace(
        exchange(body("secret")), response_body=b"secret", response_headers=((b"a", b"secret"),)
    )
    (found,) = kept(given)
    assert "secret" not in repr(found)
    assert found.received.path == "/v1/messages"


def test_only_the_last_ones_are_kept():
    """As many as asked for."""
    recent = kept(*(replace(exchange(body("a")), number=n) for n in range(10)), most=3)
    assert [found.number for found in recent] == [7, 8, 9]


def test_last_is_the_latest_turn():
    """Not what else was asked since."""
    turn, other = exchange(body("a"), number=1), exchange(body("a"), number=2, turn=0)
    recent = kept(turn, other)
    assert recent.find("last").number == 1
    assert recent.find("2").number == 2
    assert recent.find("3") is None
    assert recent.find("nonsense") is None
    assert kept(other).find("last") is None
