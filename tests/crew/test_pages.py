"""Our own pages, asked of workers and made by the keeper."""

from __future__ import annotations

import json

import pytest

from cacheproxy.core.privacy.access import Access
from tests.proxy.harness import Client, eventually, whole
from tests.web.test_live import Watcher

from .conftest import chat

TOKEN = "a-token-for-tests"
CHAT = b"/v1/chat/completions"
KNOWN = b"X-Cacheproxy-Token: " + TOKEN.encode()


def answered(peer, _):
    peer.send(whole(b'{"usage": {"prompt_tokens": 7}}', b"Content-Type: application/json"))


@pytest.fixture
def crew(start):
    """One that asks for a token."""
    return start(script=answered, CACHEPROXY_TOKEN=TOKEN)


def get(crew, target, *fields, method=b"GET", version=b"HTTP/1.1"):
    with Client(crew.proxy.address) as client:
        client.ask(target, None, *fields, method=method, version=version)
        return client.answer(method=method)


def test_they_are_those_of_one_process(start):
    """Whichever worker is asked: status, headers, bodies, and the connection goes on."""
    crew = start()
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        for client in (one, other):
            answer = client.ask("/_cacheproxy/", method=b"GET").answer()
            assert (answer.status, answer.end) == (200, "whole")
            assert answer.values(b"content-type") == [b"text/html; charset=utf-8"]
            assert answer.values(b"content-security-policy")
            assert b"</html>" in answer.body
            assert client.ask("/_cacheproxy/none", method=b"GET").answer().status == 404
            assert client.ask("/_cacheproxy/health", b"{}").answer().status == 405
            answer = client.ask("/_cacheproxy/health", method=b"HEAD").answer(method=b"HEAD")
            assert (answer.status, answer.body) == (200, b"")
            page = json.loads(client.ask("/_cacheproxy/health", method=b"GET").answer().body)
            assert [worker["pid"] for worker in page["workers"]] == crew.pids
            asked = client.ask("/dashboard", method=b"GET").answer()
            assert (asked.status // 100, asked.end) in ((2, "whole"), (3, "whole"))
    old = get(crew, "/_cacheproxy/health", version=b"HTTP/1.0")
    assert old.status == 200


def test_who_is_let_in(crew):
    """The worker sees to that, by the client's own headers; the cookie is the keeper's."""
    page = "/_cacheproxy/exchanges"
    assert get(crew, page).status == 401
    assert get(crew, page, KNOWN).status == 200
    assert get(crew, page, KNOWN, b"Origin: http://evil.example").status == 403
    with Client(crew.proxy.address) as client:
        client.send(b"GET /_cacheproxy/ HTTP/1.1\r\nHost: evil.example\r\n\r\n")
        assert client.answer().status == 421
    answer = get(crew, "/_cacheproxy/login", KNOWN, method=b"POST")
    (given,) = answer.values(b"set-cookie")
    pair = given.partition(b";")[0]
    assert pair == b"=".join(Access(token=TOKEN).cookie)
    assert get(crew, page, b"Cookie: " + pair).status == 200


def test_a_live_page_hears_of_all_workers(start):
    """At once, whoever relays it; it ends with its client, and with the proxy."""
    crew = start(script=answered)
    with crew.through(crew.pids[0]) as one, crew.through(crew.pids[1]) as other:
        watchers = [Watcher(crew.proxy, "1h") for _ in range(4)]
        for watcher in watchers:
            watcher.next("requests")
        for number, client in enumerate((one, other), 1):
            assert client.ask(CHAT, chat(number, "hello")).answer().status == 200
            for watcher in watchers:
                told = watcher.next("requests")
                assert told
        watchers.pop().close()
        crew.proxy.signal(15)
        for watcher in watchers:
            assert watcher.client.wait_closed()
        assert crew.proxy.ended() == 0
    assert "stopping" in crew.proxy.lines


def test_a_client_that_leaves_ends_its_page(start):
    """In the keeper as well."""
    crew = start()
    before = len(crew.proxy.open_files())
    watchers = [Watcher(crew.proxy, "1h") for _ in range(10)]
    assert len(crew.proxy.open_files()) >= before + 10
    for watcher in watchers:
        watcher.close()
    eventually(lambda: len(crew.proxy.open_files()) <= before)
