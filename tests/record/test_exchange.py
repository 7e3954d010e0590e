"""Exchange: filled in while it runs, frozen at its end; rows of some of its columns."""

from dataclasses import FrozenInstanceError, replace

import pytest

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange, Outcome, RecordColumn, row_of

REQUEST = Request("POST", "/v1/messages", (), b"{}")


def test_it_is_filled_in_and_then_stays_as_it_is():
    filling = Exchange(REQUEST)
    filling.status = 200
    done = filling.finish()
    assert done is filling
    with pytest.raises(FrozenInstanceError, match="status"):
        done.status = 500
    with pytest.raises(FrozenInstanceError, match="status"):
        del done.status
    assert done.status == 200
    assert isinstance(done, Exchange)


def test_what_is_made_of_a_finished_one_is_finished_and_equal_to_its_like():
    done = Exchange(REQUEST, status=200).finish()
    other = replace(done, status=404)
    assert (done.status, other.status) == (200, 404)
    assert replace(other, status=200) == done
    assert {done, other, replace(other, status=200)} == {done, other}
    with pytest.raises(FrozenInstanceError):
        other.status = 200
    with pytest.raises(TypeError):
        replace(done, nonsense=1)


@pytest.mark.parametrize(
    ("outcome", "status", "wrong"),
    [
        (Outcome.COMPLETE, 200, False),
        (Outcome.COMPLETE, 404, True),
        (Outcome.COMPLETE, None, True),
        (Outcome.CLIENT_LEFT, None, False),
        (Outcome.UPSTREAM_FAILED, 200, True),
        (Outcome.REFUSED, 400, True),
    ],
)
def test_a_client_may_leave_as_it_likes_all_else_went_wrong(outcome, status, wrong):
    assert Exchange(REQUEST, outcome=outcome, status=status).went_wrong is wrong


def test_a_row_has_fields_and_what_is_made_of_them_in_the_order_of_its_columns():
    """It may have one field, or none."""
    exchange = Exchange(REQUEST, usage=Usage(100, 90), status=200)
    prompt, status = (
        RecordColumn("prompt", "usage.prompt", "tokens"),
        RecordColumn("code", "status"),
    )
    path = RecordColumn("path", lambda exchange: exchange.received.path)
    found = row_of([prompt, path, status])(exchange)
    assert [*found.items()] == [("prompt", 100), ("path", "/v1/messages"), ("code", 200)]
    assert row_of([status])(exchange) == {"code": 200}
    assert row_of([path])(exchange) == {"path": "/v1/messages"}
    assert row_of([])(exchange) == {}
