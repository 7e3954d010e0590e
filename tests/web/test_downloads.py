"""Tables of what a window has, from a real proxy."""

from __future__ import annotations

import csv
from io import StringIO

import pytest

from tests.observe.exchanges import body
from tests.proxy.harness import Proxy, eventually
from tests.web.asking import get, turn

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def proxy(upstream, tmp_path_factory):
    with Proxy(tmp_path_factory.mktemp("csv"), "--upstream", upstream.url) as proxy:
        yield proxy


def rows(proxy, name):
    answer = get(proxy, f"/_cacheproxy/{name}.csv?window=15m")
    assert answer.status == 200
    return list(csv.DictReader(StringIO(answer.body.decode(), newline="")))


def test_what_was_asked_is_there_but_none_of_the_words(proxy, upstream):
    turn(proxy, upstream, body("kanarienvogel"), 2000, 0, b"X-Session-Id: s1")
    eventually(lambda: len(rows(proxy, "requests")) == 1)
    assert (rows(proxy, "requests")[0]["prompt"], rows(proxy, "conversations")[0]["turns"]) == (
        "2000",
        "1",
    )
    answer = get(proxy, "/_cacheproxy/requests.csv")
    assert b"kanarienvogel" not in answer.body
    head = get(proxy, "/_cacheproxy/requests.csv", method=b"HEAD")
    assert (head.status, head.body) == (200, b"")
    for each in (answer, head):
        assert each.values(b"content-type")[0].startswith(b"text/csv")
        assert each.values(b"content-disposition") == [b'attachment; filename="requests.csv"']
        assert each.values(b"cache-control") == [b"no-store"]
