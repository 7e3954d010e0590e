"""What is made for twisted.web is mounted among our own pages as it is."""

import pytest
from prometheus_client import Counter
from prometheus_client import twisted as prometheus
from prometheus_client.registry import CollectorRegistry
from prometheus_client.twisted import _exposition
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET
from twisted.web.static import File, NoRangeStaticProducer

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.web.pages import Content, OwnPages, respond
from tests.proxy.inmemory import Transport, take_turns

LARGE = b"0123456789" * 30_000
REQUEST = b"GET /_cacheproxy/there HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Mounted:
    """One connection to a site that has ``resource`` at /_cacheproxy/there."""

    isLeaf = True

    def __init__(self, resource):
        self.clock = Clock()
        self.render = OwnPages({b"/_cacheproxy/there": resource}, {}, lambda: None, self.clock)
        self.site = ProxySite(self, self.clock, Limits(), Access())
        self.transport = Transport()
        self.channel = self.site.buildProtocol(None)
        self.channel.makeConnection(self.transport)

    def ask(self, target, method=b"GET", *fields):
        """The head and the body of the answer."""
        self.transport.clear()
        lines = (b"%s /_cacheproxy/there%s HTTP/1.1" % (method, target), b"Host: localhost")
        self.channel.dataReceived(b"\r\n".join((*lines, *fields, b"", b"")))
        take_turns(self.clock)
        return self.transport.value().partition(b"\r\n\r\n")[::2]


@pytest.fixture
def files(tmp_path):
    (tmp_path / "large.txt").write_bytes(LARGE)
    (tmp_path.parent / "secret.txt").write_bytes(b"secret")
    return Mounted(File(str(tmp_path)))


def test_a_folder_of_files(files):
    """Whole, in part, its head alone; piece by piece, as the client takes it."""
    head, body = files.ask(b"/large.txt")
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"Content-Type: text/plain" in head
    assert (b"\r\nServer:" in head, b"\r\nDate:" in head) == (False, False)
    assert body == LARGE
    head, body = files.ask(b"/large.txt", b"GET", b"Range: bytes=3-5")
    assert (head[:12], body) == (b"HTTP/1.1 206", b"345")
    head, body = files.ask(b"/large.txt", b"HEAD")
    assert (head[:12], body) == (b"HTTP/1.1 200", b"")
    for target in (b"/nosuch", b"/..%2fsecret.txt", b"/../secret.txt"):
        assert files.ask(target)[0].startswith(b"HTTP/1.1 404")
    assert not files.transport.disconnecting


def test_a_client_that_does_not_read_or_leaves_stops_the_file(files):
    """After each piece the transport is full."""
    write = files.transport.write

    def full(data):
        write(data)
        files.channel.pauseProducing()

    files.transport.write = full
    sizes = [len(files.ask(b"/large.txt")[1])]
    for _ in range(2):
        files.channel.resumeProducing()
        take_turns(files.clock)
        sizes.append(len(files.transport.value()))
    assert sizes == sorted(set(sizes))
    assert sizes[-1] < len(LARGE)
    files.channel.connectionLost(Failure(ConnectionLost()))
    take_turns(files.clock)
    assert not files.clock.getDelayedCalls()


class Pulled(Resource):
    """Answers in ten steps of two pieces each, the first before it has said who writes them."""

    isLeaf = True
    steps, stopped = 0, False

    def render_GET(self, request):  # noqa: N802 - Twisted's
        self.request = request
        request.write(b"x")
        request.registerProducer(self, False)
        return NOT_DONE_YET

    def resumeProducing(self):
        self.steps += 1
        self.request.write(b"x")
        self.request.write(b"x")
        if self.steps == 10:
            self.request.unregisterProducer()
            self.request.finish()

    def stopProducing(self):
        self.stopped = True


def test_a_transport_that_is_full_pauses_it_with_each_piece_and_lets_it_go_on_once():
    """As Twisted's do; also before it was asked for anything."""
    pulled = Pulled()
    mounted = Mounted(pulled)
    write, full = mounted.transport.write, []

    def fill(data):
        write(data)
        full.append(data)
        mounted.channel.pauseProducing()

    mounted.transport.write = fill
    mounted.channel.dataReceived(REQUEST)
    for _ in range(20):
        if full:
            full.clear()
            mounted.channel.resumeProducing()
        take_turns(mounted.clock)
    assert pulled.steps == 10
    assert mounted.transport.value().endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("is_told", [True, False])
def test_who_is_asked_for_pieces_is_told_that_the_client_has_gone(is_told):
    """By the transport, unless it had been told to close; asked it is no more."""
    pulled = Pulled()
    mounted = Mounted(pulled)
    mounted.channel.dataReceived(REQUEST)
    if is_told:
        mounted.channel.stopProducing()
    mounted.channel.connectionLost(Failure(ConnectionLost()))
    assert pulled.stopped == is_told
    assert not mounted.clock.getDelayedCalls()


def test_prometheus_clients_own_resource(monkeypatch):
    """A WSGIResource, whose thread and reactor are this one here."""

    class Here:
        def getThreadPool(self):  # noqa: N802 - Twisted's
            return self

        def callInThread(self, work, *arguments):  # noqa: N802 - Twisted's
            work(*arguments)

        callFromThread = callInThread  # noqa: N815 - Twisted's

    monkeypatch.setattr(_exposition, "reactor", Here())
    registry = CollectorRegistry()
    Counter("asked", "How often.", registry=registry).inc(3)
    mounted = Mounted(prometheus.MetricsResource(registry))
    head, body = mounted.ask(b"")
    assert head.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=")
    assert b"asked_total 3.0" in body


def test_a_resource_that_raises_is_a_500_and_the_connection_goes_on():
    """One of somebody else's, too; methods that it does not know are refused."""

    class Broken(Resource):
        isLeaf = True

        def render_GET(self, request):  # noqa: N802 - Twisted's
            raise ValueError("secret")

    mounted = Mounted(Broken())
    head, body = mounted.ask(b"")
    assert head.startswith(b"HTTP/1.1 500")
    assert b"secret" not in body
    assert mounted.ask(b"", b"POST", b"Content-Length: 0")[0].startswith(b"HTTP/1.1 405")


def test_a_file_that_cannot_be_read_on_is_broken_off(files, monkeypatch):
    """Its length had been said."""

    def fail(_):
        raise OSError

    monkeypatch.setattr(NoRangeStaticProducer, "resumeProducing", fail)
    assert files.ask(b"/large.txt") == (b"", b"")
    assert files.transport.disconnecting


def test_a_page_is_at_its_path_alone_and_a_folder_at_all_below():
    """What follows a folder's path is given as it was spelled."""

    def page(request):
        return respond(request, Content(b"text/plain", b"page"))

    def folder(request, rest):
        return respond(request, Content(b"text/plain", b"of:" + rest.encode()))

    mounted = Mounted(page)
    folders = {b"/_cacheproxy/there/of/": folder}
    mounted.render = OwnPages({b"/_cacheproxy/there": page}, folders, lambda: None, Clock())
    found = [mounted.ask(rest)[1] for rest in (b"", b"?x=/y", b"/of/", b"/of/a%2Fb/c?x")]
    assert found == [b"page", b"page", b"of:", b"of:a%2Fb/c"]
    for rest in (b"/of", b"/", b"/x", b"x", b"//of/"):
        head, body = mounted.ask(rest)
        assert (rest, head[:12]) == (rest, b"HTTP/1.1 404")
        assert b"there is no such page" in body
