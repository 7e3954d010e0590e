"""Open dashboards, one by one: who does not read is waited for, then dropped."""

import json

import pytest
from twisted.internet.defer import Deferred
from twisted.web.server import NOT_DONE_YET

from cacheproxy.core.conversation.usage import Usage
from cacheproxy.web.live import Live
from cacheproxy.web.pages import PageError
from tests.observe.exchanges import body, exchange

from .sample import NOW, Shown


class Asking:
    """A browser's request for the stream, as the channel hands it over."""

    method = b"GET"

    def __init__(self, window=b"1h"):
        self.uri = b"/_cacheproxy/live?window=" + window
        self.written = b""
        self.ended = self.dropped = False
        self.transport = self
        self._finished = []

    def setHeader(self, *_):
        pass

    setResponseCode = unregisterProducer = setHeader  # noqa: N815 - Twisted's

    def registerProducer(self, producer, _):  # noqa: N802 - Twisted's
        self.producer = producer

    def notifyFinish(self):
        self._finished.append(Deferred())
        return self._finished[-1]

    def write(self, data):
        self.written += data

    def finish(self):
        self.ended = True
        self._finished.pop().callback(None)

    def abortConnection(self):  # noqa: N802 - Twisted's
        self.dropped = True
        self._finished.pop().callback(None)

    def take(self):
        """The events since the last call: names and values."""
        taken, self.written = self.written, b""
        found = []
        for event in taken.decode().split("\n\n"):
            if event.startswith("event: "):
                name, _, data = event.partition("\n")
                found.append((name[7:], json.loads(data[6:])))
        return found


@pytest.fixture
def shown():
    shown = Shown()
    shown.live = Live(shown.dashboard, shown.clock)
    shown.observers.append(shown.live)
    return shown


@pytest.fixture
def page(shown):
    """A page that has read what there was."""
    page = open_page(shown)
    page.take()
    return page


def open_page(shown, window=b"1h"):
    page = Asking(window)
    assert shown.live(page) is NOT_DONE_YET
    return page


def half_seconds(shown, count):
    shown.clock.pump([0.5] * count)


def finish(shown, number):
    usage = Usage(prompt=100, reused=90)
    shown.finish(exchange(body("a"), number=number, usage=usage, wall=NOW - 1))


def test_what_finishes_together_is_told_together(shown):
    page = open_page(shown)
    assert [name for name, _ in page.take()] == ["requests", "data"]
    for number in (1, 2, 3):
        finish(shown, number)
    shown.clock.advance(0.5)
    ((name, said),) = page.take()
    assert name == "requests"
    assert [row["number"] for row in said["requests"]] == [3, 2, 1]
    half_seconds(shown, 4)
    ((name, said),) = page.take()
    assert name == "data"
    assert said["overview"]["sums"]["requests"] == 3
    half_seconds(shown, 4)
    assert page.take() == []


def test_figures_come_now_and_then_though_nothing_happens(shown, page):
    """Windows move on, and a browser sees that the proxy lives."""
    half_seconds(shown, 20)
    assert [name for name, _ in page.take()] == ["data"]


def test_the_sums_of_a_day_may_be_half_a_minute_old(shown):
    """What else there is to say comes as before; a page that is opened has all at once."""
    page = open_page(shown, b"24h")
    page.take()
    finish(shown, 1)
    half_seconds(shown, 60)
    told = [said for name, said in page.take() if name == "data"]
    assert [said["overview"]["sums"]["requests"] for said in told] == [0, 0, 1]
    assert len({said["now"] for said in told}) == 3
    finish(shown, 2)
    opened = open_page(shown, b"24h")
    shown.clock.advance(0.5)
    assert opened.take()[-1][1]["overview"]["sums"]["requests"] == 2


def test_many_pages_cost_one_question(shown):
    asked = []
    whole = shown.dashboard.snapshot

    async def counted(window, age):
        asked.append(window)
        return await whole(window, age)

    shown.dashboard.snapshot = counted
    pages = [open_page(shown) for _ in range(50)]
    shown.clock.advance(0.5)
    asked.clear()
    finish(shown, 1)
    half_seconds(shown, 4)
    assert asked == ["1h"]
    for page in pages:
        assert [name for name, _ in page.take()][-2:] == ["requests", "data"]


def test_a_page_that_does_not_read_is_told_all_when_it_does_again(shown, page):
    page.producer.pauseProducing()
    finish(shown, 1)
    half_seconds(shown, 6)
    assert page.take() == []
    page.producer.resumeProducing()
    shown.clock.advance(0.5)
    name, said = page.take()[0]
    assert name == "requests"
    assert said["all"] is True
    assert len(said["requests"]) == 1


def test_a_page_that_never_reads_is_dropped(shown):
    """The others are not."""
    page, other = open_page(shown), open_page(shown)
    page.producer.pauseProducing()
    half_seconds(shown, 39)
    assert not page.dropped
    half_seconds(shown, 3)
    assert page.dropped
    assert not other.dropped
    other.take()
    finish(shown, 1)
    shown.clock.advance(0.5)
    assert other.take()


def test_nobody_watching_nothing_is_asked(shown):
    """The clock has nothing to do once the last page is gone."""
    page = open_page(shown)
    page.finish()
    shown.clock.advance(0.5)
    assert shown.clock.getDelayedCalls() == []
    again = open_page(shown)
    assert again.take()


def test_closing_ends_every_page(shown):
    pages = [open_page(shown), open_page(shown, b"15m")]
    shown.live.close()
    assert all(page.ended for page in pages)
    shown.clock.advance(0.5)
    assert shown.clock.getDelayedCalls() == []


def test_there_are_not_more_pages_than_the_most(shown):
    for _ in range(256):
        open_page(shown)
    with pytest.raises(PageError, match="256"):
        shown.live(Asking())


def test_when_the_data_cannot_be_had_the_next_time_may_go_better(shown, page):
    """A database that is busy ends no stream."""
    whole = shown.source.ask

    def busy(*_, **__):
        raise OSError("busy")

    shown.source.ask = busy
    finish(shown, 1)
    half_seconds(shown, 4)
    assert page.take() == [("trouble", {"why": "busy"})]
    shown.source.ask = whole
    finish(shown, 2)
    half_seconds(shown, 8)
    told = dict(page.take())
    assert [row["number"] for row in told["requests"]["requests"]] == [2, 1]
    assert told["data"]["overview"]["sums"]["requests"] == 2
