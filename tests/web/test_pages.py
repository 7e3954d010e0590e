"""Answers that are written piece by piece."""

import pytest
from twisted.internet.defer import Deferred

from cacheproxy.web.pages import PageError, Streamed, answer

from .asking import Asking


def streamed(*pieces):
    """One who asks for a page that yields these pieces, or raises those that are exceptions."""

    async def yielded():
        for piece in pieces:
            if isinstance(piece, Exception):
                raise piece
            yield await piece if isinstance(piece, Deferred) else piece

    async def page():
        return Streamed(b"text/csv", yielded())

    return Asking(lambda request: answer(request, page))


def test_the_next_piece_waits_until_the_client_has_taken_the_one_before():
    first = Deferred()
    asking = streamed(first, b"second", b"third")
    producer = asking.channel.producer
    producer.pauseProducing()
    first.callback(b"first")
    assert b"first" in asking.written
    assert b"second" not in asking.written
    producer.resumeProducing()
    assert asking.written.endswith(b"third\r\n0\r\n\r\n")
    assert asking.status == 200


def test_what_breaks_later_is_cut_off_and_not_taken_for_all():
    asking = streamed(b"first", PageError("no more", 503))
    assert b"first" in asking.written
    assert not asking.written.endswith(b"0\r\n\r\n")
    assert asking.transport.disconnected or asking.transport.disconnecting


@pytest.mark.parametrize(("error", "status"), [(PageError("no", 503), 503), (PageError("no"), 400)])
def test_what_breaks_at_once_is_said(error, status):
    assert streamed(error).status == status


def test_a_client_that_leaves_ends_it():
    gone = []
    asking = streamed(Deferred(lambda _: gone.append(1)), b"never")
    asking.leave()
    assert gone == [1]
