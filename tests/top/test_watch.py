"""What is asked of a proxy, and what is said where it gives no good answer."""

import json
import threading
from contextlib import contextmanager

import pytest

from cacheproxy.http_client import CommandError, Site
from cacheproxy.proxy.downstream.request import error_body
from cacheproxy.top.watch import Watch, Watched, Watcher
from tests.proxy.harness import TIMEOUT, Upstream, free_port, head, whole

from .told import BREAK, DATA, NOW, conversation

NOT_ALLOWED = "host box is not allowed: add --allow-host box"
PAGE = {"conversations": [conversation()], "count": 1, "next": None}


class Pages:
    """A proxy's pages; ``asked``: the paths that were asked for."""

    def __init__(self, **known):
        self.known = {
            "data": DATA | {"last_break": {"number": 15}},
            "conversations": PAGE,
            "requests": {"requests": [dict(BREAK, number=n) for n in (15, 14, None, 12)]},
            "break/15": {"phrase": "the latest"},
            **known,
        }
        self.asked = []

    def __call__(self, path):
        self.asked.append(path)
        found = self.known.get(path.removeprefix("/_cacheproxy/").partition("?")[0])
        if found is None:
            raise CommandError("there is no such thing")
        return found


def test_breaks_are_asked_for_when_there_is_a_new_one():
    """What is known of a break costs the proxy the most."""
    pages = Pages()
    teller = Watcher(pages, "1h")
    told = teller.all()
    assert [each["number"] for each in told.breaks] == [15, 14, None]
    assert [each["known"] for each in told.breaks] == [{"phrase": "the latest"}, {}, {}]
    assert (told.page, told.one, told.trouble) == (PAGE, None, "")
    pages.asked.clear()
    assert teller.watched(told.data, "", None).breaks == told.breaks
    assert pages.asked == ["/_cacheproxy/conversations?window=1h&search="]
    pages.asked.clear()
    teller.watched(told.data | {"last_break": {"number": 16}}, "", None)
    assert sum("/break/15" in path for path in pages.asked) == 0


def test_what_is_known_of_breaks_is_asked_again_once_other_rules_are_on():
    """One of them may be the cure."""
    pages = Pages(**{"break/15": BREAK["known"]})
    teller = Watcher(pages, "1h")
    data = DATA | {"last_break": {"number": 15}, "rules": []}
    assert teller.watched(data, "", None).breaks[0]["known"]["cure"]["applied"] is False
    cured = {"cure": BREAK["known"]["cure"] | {"applied": True}}
    pages.known["break/15"] = cured
    assert teller.watched(data | {"rules": ["date-1"]}, "", None).breaks[0]["known"] == cured


def test_breaks_before_the_window_are_not_told():
    pages = Pages(requests={"requests": [BREAK, dict(BREAK, at=NOW - 4000)]})
    teller = Watcher(pages, "1h")
    told = teller.all()
    assert [each["at"] for each in told.breaks] == [BREAK["at"]]
    later = {"last_break": None, "overview": {"start": NOW}}
    assert teller.watched(told.data | later, "", None).breaks == ()


def test_names_are_sent_as_they_are():
    pages = Pages(**{"conversations/a%2Fb%20%3F%23": {"conversation": {}}})
    told = Watcher(pages, "24h").watched(DATA | {"last_break": None}, "x&y", "a/b ?#")
    assert told.one == {"conversation": {}}
    assert pages.asked[0] == "/_cacheproxy/conversations?window=24h&search=x%26y"


@contextmanager
def watched(url, pages):
    """A Watch; what it yields waits until what was told is as wanted."""
    changed = threading.Event()
    watch = Watch(Site(url), Watcher(pages, "1h"), changed.set)

    def told(is_wanted):
        while not is_wanted(watch.latest):
            assert changed.wait(TIMEOUT), watch.latest
            changed.clear()
        return watch.latest

    assert watch.latest == Watched(trouble=f"Asking {url} …")
    with watch:
        yield watch, told


@pytest.fixture
def upstream():
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (whole(b"", status=b"401 Unauthorized"), "asks for its token: set CACHEPROXY_TOKEN"),
        (whole(b"", status=b"404 Not Found"), "is not a cacheproxy of this version (HTTP 404)"),
        (
            whole(error_body("/_cacheproxy/live", 421, NOT_ALLOWED), status=b"421 Misdirected"),
            NOT_ALLOWED,
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "(the answer is not HTTP); trying again"),
        (head(b"Connection: close"), "(it has ended the connection); trying again"),
        (whole(b"event: data\ndata: {\n\n"), "trying again"),
    ],
)
def test_what_is_wrong_is_one_line(upstream, answer, said):
    def send(peer, _):
        peer.send(answer)
        peer.close()

    upstream.reset(send)
    with watched(upstream.url, Pages()) as (_, told):
        assert "\n" not in told(lambda found: said in found.trouble).trouble


def test_nobody_there_is_said():
    with watched(f"http://127.0.0.1:{free_port()}", Pages()) as (_, told):
        told(lambda found: "No cacheproxy answers at" in found.trouble)


def tell(upstream, name, value):
    """Have it send an event, and stay connected."""

    def send(peer, _):
        peer.send(head() + f"event: {name}\ndata: {json.dumps(value)}\n\n".encode())
        peer.wait_closed()

    upstream.reset(send)


def test_what_the_proxy_has_to_say_is_said(upstream):
    tell(upstream, "trouble", {"why": "busy"})
    with watched(upstream.url, Pages()) as (_, told):
        told(lambda found: found.trouble == "The proxy says: busy")


def test_what_was_told_stays_where_a_page_cannot_be_had(upstream):
    tell(upstream, "data", Pages().known["data"])
    with watched(upstream.url, Pages()) as (watch, told):
        told(lambda found: found.page == PAGE and not found.trouble)
        watch.look("", "gone/1")
        found = told(lambda found: found.trouble == "there is no such thing")
        assert (found.page, found.one) == (PAGE, None)
        watch.look("", None)
        told(lambda found: not found.trouble)


def test_a_reload_which_ends_the_stream_is_no_trouble(upstream):
    """The proxy is there at once; it is asked again, and nothing is said."""
    data = [Pages().known["data"] | {"now": NOW + number} for number in range(2)]
    troubles = []

    def send(peer, _):
        said = data.pop(0)
        peer.send(
            head(b"Connection: close") + f"event: data\ndata: {json.dumps(said)}\n\n".encode()
        )
        if data:
            peer.close()
        else:
            peer.wait_closed()

    upstream.reset(send)
    with watched(upstream.url, Pages()) as (_, told):
        told(lambda found: troubles.append(found.trouble) or found.data.get("now") == NOW + 1)
        assert not any("ended" in trouble for trouble in troubles)
