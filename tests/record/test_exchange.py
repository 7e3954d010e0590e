"""Exchange: filled in while it runs, frozen at its end; rows of some of its columns."""

from dataclasses import FrozenInstanceError, replace

import pytest

from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange
from tests import transcript

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


def test_all_that_is_said():
    transcript.holds("exchange.txt", globals())
