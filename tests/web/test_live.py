"""What open dashboards are told, through a real proxy; and the page's own files."""

import hashlib
import json
import re
import threading
from importlib.resources import files

import pytest

from tests.observe.exchanges import body
from tests.proxy.harness import CHUNKED, TIMEOUT, Client, Proxy, Upstream, eventually

from .asking import get, turn

pytestmark = pytest.mark.slow

TOKEN = "a-token-for-tests"
SECRET = "kanarienvogel"
STATIC = files("cacheproxy.web") / "static"


@pytest.fixture(scope="module")
def proxy(upstream, tmp_path_factory):
    """A proxy that keeps no totals."""
    with Proxy(tmp_path_factory.mktemp("live"), "--upstream", upstream.url) as proxy:
        yield proxy
        assert "Traceback" not in proxy.output


@pytest.fixture(scope="module")
def keeping(upstream, tmp_path_factory):
    """A proxy that keeps totals, looks at its upstream, and asks for a token."""
    folder = tmp_path_factory.mktemp("keeping")
    arguments = ("--state-dir", "state", "--poll", "1", "--upstream", upstream.url)
    with Proxy(folder, *arguments, CACHEPROXY_TOKEN=TOKEN) as proxy:
        yield proxy
        assert "Traceback" not in proxy.output
        assert TOKEN not in proxy.output


class Watcher:
    """An open page: ``next`` returns the next event of that name, and when it came."""

    def __init__(self, proxy, window="1h", *fields):
        self.client = Client(proxy.address)
        target = f"/_cacheproxy/live?window={window}"
        self.client.ask(target, None, *fields, method=b"GET")
        self.head = self.client.begin()
        self._pieces = self.client.pieces(self.head)
        self._rest = b""

    def next(self, name):
        while True:
            event, end, rest = self._rest.partition(b"\n\n")
            if not end:
                self._rest += next(self._pieces)
                continue
            self._rest = rest
            found = re.fullmatch(rb"event: (\w+)\ndata: (.*)", event)
            if found and found[1].decode() == name:
                return json.loads(found[2])

    def close(self):
        self.client.close()


@pytest.fixture
def watch(proxy):
    watchers = []

    def watch(*arguments):
        watchers.append(Watcher(proxy, *arguments))
        return watchers[-1]

    yield watch
    for each in watchers:
        each.close()


def test_a_finished_exchange_is_told_to_every_open_page(proxy, upstream, watch):
    """With the figures of each page's window."""
    turn(proxy, upstream, body(SECRET), 1000, 900)
    pages = [watch("1h"), watch("15m"), watch("30d")]
    for page in pages:
        assert page.head.status == 200
        assert page.head.values(b"content-type") == [b"text/event-stream"]
        assert page.head.values(b"cache-control") == [b"no-store"]
        first = page.next("requests")
        assert first["all"] is True
        assert page.next("data")["overview"]["sums"]["requests"] >= 1
    turn(proxy, upstream, body(SECRET), 1000, 900, b"User-Agent: somebody-new/1")
    for page in pages:
        said = page.next("requests")
        assert said["all"] is False
        (row,) = said["requests"]
        assert (row["client"], row["prompt"], row["reused"]) == ("somebody-new", 1000, 900)
    wanted = first["requests"][0]["number"] + 1
    while (found := pages[0].next("data"))["overview"]["sums"]["requests"] < wanted:
        pass
    assert found["unkept"] == "--state-dir none"
    assert SECRET not in json.dumps(found)


def test_a_request_is_told_of_while_it_runs(proxy, upstream, watch):
    """And how far its prompt is, as mlx-lm tells it; after its end nothing more of it."""
    reading, reads, answers = (threading.Event() for _ in range(3))

    def script(peer, _):
        peer.send(CHUNKED)
        assert reading.wait(TIMEOUT)
        peer.chunk(b": keepalive 2048/11000\n\n")
        assert reads.wait(TIMEOUT)
        peer.chunk(b"data: 1\n\n")
        assert answers.wait(TIMEOUT)
        peer.chunk(b"data: [DONE]\n\n")
        peer.send(b"0\r\n\r\n")

    upstream.reset(script)
    page = watch("1h")
    with Client(proxy.address) as asking:
        sent = json.dumps(body(SECRET)).encode()
        asking.ask("/v1/chat/completions", sent, b"User-Agent: agent/1")

        def running(*progress):
            while True:
                found = page.next("data")
                for each in found["prefills"]:
                    if (each["done"], each["total"]) == progress:
                        return found

        running(None, None)
        reading.set()
        found = running(2048, 11_000)
        (prefill,) = found["prefills"]
        assert prefill["session"].startswith("agent/")
        assert prefill["conversation"].startswith(prefill["session"])
        assert prefill["turn"] >= 1
        assert SECRET not in json.dumps(found)
        reads.set()
        running(None, None)
        answers.set()
        assert asking.answer().end == "whole"
    while page.next("data")["prefills"]:
        pass


def test_a_page_that_does_not_read_costs_the_others_nothing(proxy, upstream, watch):
    """What it missed it is sent anew when it reads again."""
    before = proxy.memory()
    slow = [Watcher(proxy) for _ in range(20)]
    reading = watch()
    reading.next("data")
    for _ in range(30):
        turn(proxy, upstream, body(SECRET), 1000, 900)
    while reading.next("requests")["all"]:
        pass
    assert proxy.memory() - before < 30 << 20
    for each in slow:
        each.close()
    turn(proxy, upstream, body(SECRET), 1000, 900)
    assert reading.next("requests")["requests"]


def test_the_upstream_is_told_of_when_it_goes_and_comes(tmp_path):
    """By the looks at it, without any request. Streams are no answers to wait for at the end."""
    upstream = Upstream()
    options = ("--upstream", upstream.url, "--poll", "0.5", "--grace", "600")
    with Proxy(tmp_path, *options) as proxy:
        page = Watcher(proxy)
        while page.next("data")["upstream"]["state"] != "up":
            pass
        upstream.close()
        while page.next("data")["upstream"]["state"] != "down":
            pass
        proxy.signal(15)
        assert proxy.ended() == 0
        page.close()


def test_totals_on_disk_are_shown(keeping, upstream):
    """The token, by header, opens all of it; requests of before the last restart as well."""
    token = b"X-Cacheproxy-Token: " + TOKEN.encode()
    turn(keeping, upstream, body(SECRET), 1000, 900, token)

    def shown():
        answer = get(keeping, "/_cacheproxy/data?window=24h", token)
        data = json.loads(answer.body)
        return not data["unkept"] and data["overview"]["sums"]["requests"] == 1

    eventually(shown)
    page = json.loads(get(keeping, "/_cacheproxy/requests?filter=all", token).body)
    assert [row["prompt"] for row in page["requests"]] == [1000]


def test_the_page_asks_for_nothing_from_elsewhere_and_allows_nothing_inline(proxy):
    """Each file it names is there; its policy lets in no other."""
    answer = get(proxy, "/_cacheproxy/")
    (policy,) = answer.values(b"content-security-policy")
    rules = dict(rule.split(b" ", 1) for rule in policy.split(b"; "))
    assert rules[b"default-src"] == rules[b"frame-ancestors"] == rules[b"base-uri"] == b"'none'"
    assert rules[b"script-src"] == rules[b"style-src"] == rules[b"connect-src"] == b"'self'"
    assert answer.values(b"x-content-type-options") == [b"nosniff"]
    page = answer.body.decode()
    named = re.findall(r'(?:src|href)="([^"#]+)"', page)
    assert len(named) > 5
    for target in named:
        assert target.startswith("/_cacheproxy/")
        assert get(proxy, target).status == 200
    assert not re.search(r"<style|style=|<script>| on\w+=", page)


def test_the_chart_library_is_as_it_was_published():
    """UPlot 1.6.32 of the npm registry, with its licence."""
    for name, digest in {
        "uplot.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
        "uplot.LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    }.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    assert b"v1.6.32" in (STATIC / "uplot.js").read_bytes()[:60]
    assert "1.6.32" in (STATIC / "README").read_text()


def test_the_scripts_write_text_only():
    """Whatever a client calls itself is never markup."""
    own = [each for each in STATIC.glob("*.js") if each.name != "uplot.js"]
    assert len(own) > 10
    script = "\n".join(each.read_text() for each in own)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)
