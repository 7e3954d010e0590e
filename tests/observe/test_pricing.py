"""What turns spared, priced when it happens."""

import sys
from dataclasses import replace

import pytest
from msgspec import structs

from cacheproxy.core.conversation.speeds import PrefillCost
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, TokenCount, Verdict
from cacheproxy.core.route.route import Price
from cacheproxy.observe.pricing import Pricing, Untimed
from tests import transcript

from .exchanges import body, exchange, look, read

SPARED = Verdict(
    Judgement.OK, expected=TokenCount(900, "measured"), unedited=TokenCount(0, "estimated")
)
ADDED = Verdict(
    Judgement.BREAK,
    Reason.SYSTEM_CHANGED,
    expected=TokenCount(0, "estimated"),
    unedited=TokenCount(900, "measured"),
)

NOTHING = Verdict(
    Judgement.OK, expected=TokenCount(900, "measured"), unedited=TokenCount(900, "measured")
)


DEEP = Verdict(
    Judgement.OK, expected=TokenCount(10_000, "measured"), unedited=TokenCount(6000, "estimated")
)


def turn(evaluated=10, seconds=None, reused=900, verdict=SPARED, **changes):
    usage = Usage(reused + evaluated, reused, 5, seconds)
    return exchange(body("x"), usage=usage, verdict=verdict, **changes)


@pytest.fixture
def price():
    """A Pricing, as a function that returns what one exchange comes out with."""
    found = []
    pricing = Pricing(found.extend)

    def price(each):
        pricing([each])
        return found.pop().spared

    price.looked = pricing.looked
    return price


def takes(start, end):
    """The seconds of a server whose tokens cost twice as much after 10,000 others."""
    return 2e-4 * (end - start) + 1e-8 * (end**2 - start**2)


def test_what_was_spared_is_priced_at_the_depth_where_it_stands(price):
    """Not at the speed of a whole prompt, nor at that of a short turn at its end."""
    assert price(turn(10_000, takes(0, 10_000), reused=0)) is None
    found = price(turn(400, takes(10_000, 10_400), reused=10_000, verdict=DEEP))
    assert (found.tokens, found.seconds) == (4000, pytest.approx(takes(6000, 10_000), rel=1e-3))
    found = price(turn(3, reused=10_400, verdict=DEEP))
    assert (found.tokens, found.seconds) == (4400, pytest.approx(takes(6000, 10_400), rel=1e-3))


@pytest.mark.parametrize("own", [0.5, 99.0])
def test_what_the_turn_took_all_the_same_is_not_spared(price, own):
    """A few tokens may take a server as long as many; nothing was lost by that."""
    price(turn(10_000, takes(0, 10_000), reused=0))
    price(turn(5000, takes(10_000, 15_000), reused=10_000))
    found = price(turn(10, own, reused=10_000, verdict=DEEP))
    assert found.seconds == pytest.approx(max(0, takes(6000, 10_010) - own), rel=1e-3)


def test_each_upstream_and_model_has_its_price(price):
    price(turn(1000, 1.0, reused=0))
    small = read(exchange(body("x", model="small"), usage=Usage(1000, 0, 5, 0.1)))
    assert price(small) is None
    assert price(turn()).seconds == pytest.approx(0.9)
    said = body("x", model="small")
    small = read(exchange(said, usage=Usage(910, 900, 5), verdict=SPARED))
    assert price(small).seconds == pytest.approx(0.09)
    assert price(turn(upstream="http://other:1")).seconds is None


def test_where_answers_tell_no_times_counters_do(price):
    """As llama-server's to /v1/messages; from the first look on, that of its whole life."""
    price.looked(look(evaluated=1000.0, prefill=2.0))
    assert price(turn()).seconds == pytest.approx(1.8)
    price.looked(look(evaluated=1010.0, prefill=9.0))  # too few to tell anything
    assert price(turn()).seconds == pytest.approx(1.8)


def test_counters_tell_depths_too_where_they_hold_what_was_answered(price):
    price.looked(look(evaluated=500.0, prefill=9.0))
    price(turn(10_000, reused=0))
    price.looked(look(evaluated=10_500.0, prefill=9.0 + takes(0, 10_000)))
    price(turn(400, reused=10_000))
    price.looked(look(evaluated=10_900.0, prefill=9.0 + takes(0, 10_400)))
    found = price(turn(3, reused=10_400, verdict=DEEP))
    assert found.seconds == pytest.approx(takes(6000, 10_400), rel=1e-3)


def test_what_answers_told_is_not_counted_again(price):
    price.looked(look(evaluated=0.0, prefill=0.0))
    price(turn(1000, 1.0))
    price.looked(look(evaluated=1000.0, prefill=1.0))
    price(turn(1000, 4.0))
    other = read(exchange(body("x", model="other"), usage=Usage(910, 900, 5), verdict=SPARED))
    assert price(other).seconds == pytest.approx(900 / 250)  # of two speeds, not three


def test_at_a_speed_that_nobody_knows_there_is_no_price_and_never_will_be(price):
    found = price(turn())
    assert (found.tokens, found.seconds) == (900, None)
    price(turn(1000, 1.0))
    assert found.seconds is None


LOST = Verdict(Judgement.BREAK, Reason.EVICTED, lost=TokenCount(900, "measured"))


def test_what_the_edits_cost_is_less_than_nothing(price):
    found = price(turn(1000, 1.0, reused=0, verdict=ADDED))
    assert (found.tokens, found.seconds) == (-900, -0.9)


def test_a_turn_that_went_fast_by_chance_was_not_spared_time_by_edits_that_cost_some(price):
    for _ in range(9):
        price(turn(1000, 1.0, reused=0))
    few = structs.replace(ADDED, unedited=TokenCount(100, "measured"))
    found = price(turn(1000, 0.8, reused=0, verdict=few))
    assert (found.tokens, found.seconds) == (-100, 0.0)


@pytest.mark.parametrize("changes", [{"verdict": NOTHING}, {"verdict": None}, {"status": 400}])
def test_where_nothing_was_spared_or_nobody_knows_nothing_is_said(price, changes):
    assert price(turn(**changes)) is None


def test_of_a_models_name_only_the_beginning_is_kept(price):
    """A client chose it."""
    asked = read(exchange(body("x", model="m" * 2_000_000), usage=Usage(1000, 0, 5, 1.0)))
    name = asked.sent.json["model"]
    before = sys.getrefcount(name)
    price(replace(asked))
    assert sys.getrefcount(name) == before


def test_upstreams_do_not_pile_up(price):
    for number in range(100):
        price(turn(1000, 1.0, upstream=f"http://host:{number}"))
    assert price(turn(upstream="http://host:99")).seconds is not None
    assert price(turn(upstream="http://host:0")).seconds is None


def test_what_an_upstream_charges():
    """Of a turn that was counted, at an upstream with a price."""
    found = []
    pricing = Pricing(found.extend)
    pricing.prices = {"cloud": Price(3.0, 15.0, 0.3)}
    for server, changes in (("cloud", {}), ("here", {}), ("cloud", {"turn": 0})):
        pricing([turn(100, server=server, **changes)])
    first, *others = (each.price for each in found)
    assert first == pytest.approx((100 * 3.0 + 900 * 0.3 + 5 * 15.0) / 1e6)
    assert others == [None, None]


@pytest.fixture
def untimed():
    return Untimed()


STREAM = {"stream": True}


def test_counters_are_ahead_of_answers(untimed):
    """They hold a prompt while its answer is still being generated, at whichever look."""
    cost = PrefillCost()
    untimed.counted(1000, 2.0, idle=False)
    untimed.counted(0, 0.0, idle=False)
    untimed.answered(cost, 0, 1000)
    assert cost.seconds(0, 1000) is None
    untimed.counted(0, 0.0, idle=True)
    assert cost.seconds(0, 1000) == 2.0


def test_several_answers_are_as_deep_as_most_of_their_tokens(untimed):
    cost, same = PrefillCost(), PrefillCost()
    for start, tokens in ((0, 3000), (5000, 1000)):
        untimed.answered(cost, start, tokens)
    untimed.counted(4000, 4.0, idle=True)
    same.learn(500, 4000, 4.0)  # 2,500 deep in the middle, as 3,000 at 1,500 and 1,000 at 5,500
    for each in (cost, same):
        each.learn(20_000, 4000, 16.0)
    assert cost.seconds(0, 9000) == same.seconds(0, 9000)


def test_others_requests_are_forgotten_when_the_server_rests(untimed):
    cost = PrefillCost()
    untimed.counted(700, 9.0, idle=False)
    untimed.answered(cost, 0, 1000)
    untimed.counted(1000, 2.0, idle=False)
    untimed.counted(0, 0.0, idle=True)
    assert cost.seconds(0, 1000) is None
    untimed.answered(cost, 0, 1000)
    untimed.counted(1000, 2.0, idle=True)
    assert cost.seconds(0, 1000) == 2.0


def test_what_was_answered_and_never_counted_is_forgotten_at_once(untimed):
    cost = PrefillCost()
    untimed.answered(cost, 0, 1000)
    untimed.counted(300, 9.0, idle=False)
    untimed.counted(700, 9.0, idle=False)
    assert cost.seconds(0, 1000) is None


def test_models_whose_time_is_one_sum_are_told_nothing(untimed):
    costs = [PrefillCost(), PrefillCost()]
    for cost in costs:
        untimed.answered(cost, 0, 1000)
    untimed.counted(2000, 2.0, idle=True)
    assert [cost.seconds(0, 1000) for cost in costs] == [None, None]


def test_all_that_is_said():
    transcript.holds("pricing.txt", globals())
