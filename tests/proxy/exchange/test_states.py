"""The states of answers and deliveries: no step but those of the tables."""

from itertools import permutations, product

import pytest
from twisted.internet.task import Clock

from cacheproxy.proxy.exchange.answer import Answer
from cacheproxy.proxy.exchange.attempt import Attempt
from cacheproxy.proxy.exchange.delivery import Delivery
from cacheproxy.proxy.exchange.states import (
    ANSWER_OVER,
    ANSWER_STEPS,
    ATTACHABLE,
    DELIVERY_STEPS,
    AnswerState,
    DeliveryState,
    StepError,
)
from cacheproxy.proxy.upstream.connection import UpstreamConnection

STEPS = {Answer: (AnswerState, ANSWER_STEPS), Delivery: (DeliveryState, DELIVERY_STEPS)}


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_that_the_table_does_not_have_raises(kind):
    states, steps = STEPS[kind]
    illegal = {pair for pair in product(states, states) if pair not in steps}
    assert illegal
    for now, to in illegal:
        one = kind.__new__(kind)
        one.state = now
        with pytest.raises(StepError, match=f"{now} does not become {to}"):
            one.become(to)
        assert one.state is now


@pytest.mark.parametrize("kind", STEPS)
def test_each_state_is_reached_and_none_twice(kind):
    """So nothing that is over begins again."""
    states, steps = STEPS[kind]
    first, *others = states
    assert {to for _, to in steps} == set(others)
    assert all(
        (two, one) not in steps for one, two in permutations(states, 2) if (one, two) in steps
    )
    if kind is Answer:
        assert not {now for now, _ in steps} & set(ANSWER_OVER)
        assert first in ATTACHABLE


@pytest.mark.parametrize(
    ("state", "has_delivery"),
    [
        *product(AnswerState, [True]),
        *((one, False) for one in AnswerState if one not in ATTACHABLE),
    ],
)
def test_an_answer_has_one_delivery_and_none_once_it_has_begun(state, has_delivery):
    answer, delivery = Answer.__new__(Answer), Delivery.__new__(Delivery)
    answer.state, answer.delivery = state, delivery if has_delivery else None
    answer.attempt = Attempt.__new__(Attempt)
    answer.attempt.connection = UpstreamConnection(b"", b"", b"POST", Clock(), 0)
    with pytest.raises(StepError):
        answer.attach(delivery, None)
