"""Which of our own pages are there, for whom, and how they are asked for: of three real proxies."""

import gzip
import json

import pytest

from cacheproxy.core.privacy.access import Access
from tests import transcript
from tests.proxy.harness import Client, Proxy, answer_ok, free_port, whole

pytestmark = pytest.mark.slow

TOKEN = "a-token-for-tests"
SHOWN = (
    *("allow", "location", "content-encoding", "connection"),
    *("cache-control", "content-disposition"),
)


@pytest.fixture(scope="module")
def proxies(upstream, tmp_path_factory):
    """A proxy, one that needs a token, and one whose upstream is down."""
    folder, nobody = tmp_path_factory.mktemp("own"), f"http://127.0.0.1:{free_port()}"
    with (
        Proxy(folder, "--upstream", upstream.url) as plain,
        Proxy(folder, "--upstream", upstream.url, CACHEPROXY_TOKEN=TOKEN) as guarded,
        Proxy(folder, "--upstream", nobody) as alone,
    ):
        yield {"plain": plain, "guarded": guarded, "alone": alone}
        for proxy in (plain, guarded, alone):
            assert "Traceback" not in proxy.output
            assert TOKEN not in proxy.output


def test_each_page_that_is_asked_for(proxies, upstream):
    def ask(who, target, *fields, method="GET", host=True, version="1.1", script=answer_ok):
        """The status of an answer, what its head says, and what its body is."""
        upstream.reset(script)
        lines = [
            f"{method} {target} HTTP/{version}",
            *(["Host: localhost"] if host else []),
            *fields,
        ]
        if method == "POST":
            lines.append("Content-Length: 0")
        with Client(proxies[who].address) as client:
            client.send("\r\n".join([*lines, "", ""]).encode())
            answer = client.answer(method=method.encode())
        assert answer.end == "whole"
        head = {name: answer.values(name.encode()) for name in SHOWN}
        head = {name: values[0].decode() for name, values in head.items() if values}
        line = f"{method} {target} ".encode()
        if any(one.line.startswith(line) for one in upstream.requests.queue):
            head["relayed"] = True
        body = gzip.decompress(answer.body) if "content-encoding" in head else answer.body
        kind = b"".join(answer.values(b"content-type")).decode()
        if kind != "application/json":
            return answer.status, head, kind, bool(body)
        said = json.loads(body or b"{}")
        return answer.status, head, said if set(said) <= {"error", "ready", "ok"} else [*said][:3]

    def fetched(target, *fields):
        with Client(proxies["plain"].address) as client:
            answer = client.ask(target, None, *fields, method=b"GET").answer()
            return gzip.decompress(answer.body) if fields else answer.body

    def etag(target):
        with Client(proxies["plain"].address) as client:
            return client.ask(target, method=b"GET").answer().values(b"etag")[0].decode()

    def cookie():
        """What the token buys: scripts cannot read it, and it is not the token."""
        with Client(proxies["guarded"].address) as client:
            known = b"X-Cacheproxy-Token: " + TOKEN.encode()
            (given,) = client.ask("/_cacheproxy/login", b"", known).answer().values(b"set-cookie")
        pair, *attributes = given.decode().split("; ")
        assert pair.encode() == b"=".join(Access(token=TOKEN).cookie)
        return pair, attributes

    def status(code):
        return lambda peer, _: peer.send(whole(b"{}", status=code))

    names = {"ask": ask, "etag": etag, "fetched": fetched, "cookie": cookie, "status": status}
    transcript.holds("own_pages.txt", names | {"__file__": __file__, "TOKEN": TOKEN})
