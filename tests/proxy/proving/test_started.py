"""Whether a server was restarted is told by its pages."""

from __future__ import annotations

import threading

import pytest

from cacheproxy.proxy.servers import proving as module
from tests.proxy.harness import whole

from .pages import (
    NONSENSE,
    Pages,
    page_of,
)
from .turned import proving_at


def test_a_start_is_told_by_the_counters_page_or_by_the_marker(reactor, upstream, logged):
    """The latter where counters do not tell it."""
    pages = Pages(props=whole(b'{"media_marker":"<__media_1__>"}'))
    upstream.reset(pages)
    first = reactor.run(proving_at(reactor, upstream.url).started())
    pages.pages["/props"] = whole(b'{"media_marker":"<__media_2__>"}')
    second = reactor.run(proving_at(reactor, upstream.url).started())
    assert first
    assert second
    assert first != second
    assert pages.paths == ["/props"] * 2
    pages.pages["/metrics"] = page_of(start=17.5)
    told = reactor.run(proving_at(reactor, upstream.url, counts_reuse=True).started())
    assert told == "17.5"
    pages.pages["/metrics"] = page_of(start=None)
    assert reactor.run(proving_at(reactor, upstream.url, counts_reuse=True).started()) == second


@pytest.mark.parametrize("name", ["missing", "no JSON", "numbers", "deep", "closed"])
def test_pages_that_make_no_sense_tell_of_no_start(reactor, upstream, logged, name):
    """No start is better than a wrong one."""
    upstream.reset(Pages(props=NONSENSE[name], metrics=NONSENSE[name]))
    proving = proving_at(reactor, upstream.url, counts_reuse=True)
    assert reactor.run(proving.started()) is None


def test_a_page_of_properties_is_read_in_a_thread(reactor, upstream, monkeypatch):
    """It holds the chat template, and may be as large as it likes."""
    threads = []

    def read(*arguments):
        threads.append(threading.current_thread())

    monkeypatch.setattr(module, "_read_start", read)
    upstream.reset(Pages(props=whole(b'{"media_marker":"m"}')))
    assert reactor.run(proving_at(reactor, upstream.url).started()) is None
    assert len(threads) == 1
    assert reactor.thread not in threads
