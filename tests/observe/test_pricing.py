"""What turns spared, priced when it happens."""

from __future__ import annotations

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Count, Judgement, Reason, Verdict
from cacheproxy.core.route.price import Price
from cacheproxy.observe.pricing import Pricing
from tests.totals.builders import look

from .exchanges import body, exchange

SPARED = Verdict(Judgement.OK, expected=Count(900, "measured"), unedited=Count(0, "estimated"))
ADDED = Verdict(
    Judgement.BREAK,
    Reason.SYSTEM_CHANGED,
    expected=Count(0, "estimated"),
    unedited=Count(900, "measured"),
)

NOTHING = Verdict(Judgement.OK, expected=Count(900, "measured"), unedited=Count(900, "measured"))


def turn(evaluated=10, seconds=None, reused=900, verdict=SPARED, **changes):
    usage = Usage(reused + evaluated, reused, 5, seconds)
    return exchange(body("x"), usage=usage, verdict=verdict, **changes)


@pytest.fixture
def price():
    """A Pricing, as a function that returns what one exchange comes out with."""
    found = []
    pricing = Pricing(found.append)

    def price(each):
        pricing(each)
        return found.pop().spared

    price.looked = pricing.looked
    return price


def test_an_exchange_that_evaluated_enough_is_priced_at_its_own_speed(price):
    price(turn(10_000, 1.0))
    assert price(turn(300, 3.0)).seconds == 9.0


def test_one_that_did_not_is_priced_at_what_its_upstream_showed(price):
    for seconds in (1.0, 2.0, 4.0):
        price(turn(1000, seconds))
    assert price(turn(10, 5.0)).seconds == pytest.approx(900 / 500)
    assert price(turn(10, 5.0, upstream="http://other:1")).seconds is None


def test_where_answers_tell_no_times_counters_do(price):
    """As llama-server's to /v1/messages; from the first look on, that of its whole life."""
    price.looked(look(evaluated=1000.0, prefill=2.0))
    assert price(turn()).seconds == pytest.approx(1.8)
    price.looked(look(evaluated=1010.0, prefill=9.0))  # too few to tell anything
    assert price(turn()).seconds == pytest.approx(1.8)


def test_what_answers_told_is_not_counted_again(price):
    price.looked(look(evaluated=0.0, prefill=0.0))
    price(turn(1000, 1.0))
    price.looked(look(evaluated=1000.0, prefill=1.0))
    price(turn(1000, 4.0))
    assert price(turn()).seconds == pytest.approx(900 / 625)  # of two speeds, not three


def test_at_a_speed_that_nobody_knows_there_is_no_price_and_never_will_be(price):
    found = price(turn())
    assert (found.tokens, found.seconds) == (900, None)
    price(turn(1000, 1.0))
    assert found.seconds is None


def test_what_the_edits_cost_is_less_than_nothing(price):
    found = price(turn(1000, 1.0, reused=0, verdict=ADDED))
    assert (found.tokens, found.seconds) == (-900, -0.9)


@pytest.mark.parametrize("changes", [{"verdict": NOTHING}, {"verdict": None}, {"status": 400}])
def test_where_nothing_was_spared_or_nobody_knows_nothing_is_said(price, changes):
    assert price(turn(**changes)) is None


def test_upstreams_do_not_pile_up(price):
    for number in range(100):
        price(turn(1000, 1.0, upstream=f"http://host:{number}"))
    assert price(turn(upstream="http://host:99")).seconds is not None
    assert price(turn(upstream="http://host:0")).seconds is None


def test_what_an_upstream_charges():
    """Of a turn that was counted, at an upstream with a price."""
    found = []
    pricing = Pricing(found.append)
    pricing.prices = {"cloud": Price(3.0, 15.0, 0.3)}
    for server, changes in (("cloud", {}), ("here", {}), ("cloud", {"turn": 0})):
        pricing(turn(100, server=server, **changes))
    first, *others = (each.price for each in found)
    assert first == pytest.approx((100 * 3.0 + 900 * 0.3 + 5 * 15.0) / 1e6)
    assert others == [None, None]


def test_the_speed_of_an_upstream_is_what_it_showed_lately():
    """None before it showed any."""
    pricing = Pricing(lambda _: None)
    assert pricing.speed("http://localhost:8080") is None
    pricing(turn(1000, 2.0))
    assert pricing.speed("http://localhost:8080") == 500.0
