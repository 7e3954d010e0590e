"""One request and its answer, and each way it goes wrong."""

import pytest
from cacheproxy_replay.answer import text_of
from cacheproxy_replay.wire import send

from cacheproxy.asking import CommandError, Site
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange
from tests.peer import NOBODY, NOT_REUSED, Peer


def post(url):
    request = Request("POST", "/v1/chat/completions?x=1", (), b'{"model": "m"}')
    record = Exchange(request)
    send(Site(url), request, record)
    return record


def test_a_good_answer_has_usage_text_and_times():
    with Peer(posts=NOT_REUSED) as peer:
        answer = post(peer.url)
    assert (answer.status, answer.error, text_of(answer)) == (200, None, "hi")
    assert (answer.usage.prompt, answer.usage.reused) == (100, None)
    assert 0 < answer.first_byte <= answer.seconds


def test_an_answer_that_is_not_200_is_a_line_without_the_query():
    with Peer(posts=(404, {"error": {"message": "no such model \x1b[1m"}})) as peer:
        answer = post(peer.url)
    assert (answer.status, answer.first_byte) == (404, None)
    where = f"{peer.url}/v1/chat/completions"
    assert answer.error.startswith(f"{where} answered 404 (no such model [1m): ")


def test_an_answer_that_breaks_off_is_an_error_and_not_short():
    with Peer(posts=NOT_REUSED, cut=True) as peer:
        answer = post(peer.url)
    assert (answer.status, "broke off" in answer.error) == (None, True)


def test_nobody_there():
    with pytest.raises(CommandError, match="correct --against"):
        post(NOBODY)
