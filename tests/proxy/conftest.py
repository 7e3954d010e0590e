"""One proxy for all tests of this folder, and an upstream that each test scripts anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.turning import TurningReactor

from .harness import Client, Proxy, Script, Upstream, free_port

RULES = r"""
[[rule]]
name = "stamp"
where = "system"
pattern = 'stamp=\d+'
replacement = "stamp=0"
why = "a stamp changes with every request"

[[rule]]
name = "first-id"
where = "system"
pattern = 'id=(?P<volatile>\w+)'
pin = true
why = "an id changes with every request"

[[rule]]
name = "day"
where = "system"
pattern = 'day=(?P<volatile>\w+)'
pin = true
note = 'It is now \g<volatile>.'
why = "the day of the first turn kept"
"""
MOST_MIB = 8


@pytest.fixture(scope="session")
def _upstream() -> Iterator[Upstream]:
    upstream = Upstream()
    yield upstream
    upstream.close()


@pytest.fixture(scope="session")
def _proxy(_upstream, tmp_path_factory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp("proxy")
    (folder / "config.toml").write_text(RULES)
    arguments = ("--config", "config.toml", "--max-body", str(MOST_MIB), "--hold", "0")
    with Proxy(folder, *arguments, "--upstream", _upstream.url) as proxy:
        yield proxy
        assert "critical: " not in proxy.output
        assert "Traceback" not in proxy.output


def proxy_with(*arguments: str, asks: tuple[str, ...] = (), **environ: str) -> Any:
    """Make a fixture: a proxy with these settings before the shared upstream, for a module.

    ``asks``: paths that are asked first, for it to learn what the upstream serves.
    """

    @pytest.fixture(scope="module")
    def found(_upstream, tmp_path_factory) -> Iterator[Proxy]:
        _upstream.reset()
        folder = tmp_path_factory.mktemp("proxy")
        with Proxy(folder, *arguments, "--upstream", _upstream.url, **environ) as proxy:
            assert all(proxy.ask(path).status == 200 for path in asks)
            yield proxy
            assert "Traceback" not in proxy.output

    return found


@pytest.fixture
def proxy(_proxy, upstream) -> Proxy:
    """The shared proxy, in front of ``upstream``."""
    return _proxy


@pytest.fixture
def upstream(_upstream) -> Iterator[Upstream]:
    """The shared upstream, which answers 200 until ``serve`` says otherwise."""
    _upstream.reset()
    yield _upstream
    for peer in _upstream.peers:
        peer.close()
    assert not _upstream.errors


@pytest.fixture
def serve(upstream) -> Callable[[Script], None]:
    """Set how the upstream answers."""
    return upstream.reset


@pytest.fixture
def respond(serve) -> Callable[[bytes], None]:
    """Set the bytes that the upstream answers with, before it closes."""

    def set_bytes(data: bytes) -> None:
        serve(lambda peer, _: peer.send(data))

    return set_bytes


@pytest.fixture
def connect(proxy) -> Iterator[Callable[..., Client]]:
    """Open a connection to the proxy."""
    clients: list[Client] = []

    def connect(buffer: int | None = None) -> Client:
        clients.append(Client(proxy.address, buffer))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()


@pytest.fixture
def reactor() -> Iterator[TurningReactor]:
    """One with threads, and no timer left."""
    found = TurningReactor()
    found.pool.start()
    yield found
    found.pool.stop()
    assert not found.getDelayedCalls()


@pytest.fixture
def epoll() -> Iterator[Any]:
    """A reactor of the test's own, which it turns."""
    reactor = pytest.importorskip("twisted.internet.epollreactor").EPollReactor()
    reactor.startRunning(installSignalHandlers=False)
    yield reactor
    for descriptor in reactor.removeAll():
        if hasattr(descriptor, "socket"):
            descriptor.socket.close()
    reactor._poller.close()


@pytest.fixture
def start(tmp_path, upstream) -> Iterator[Callable[..., Proxy]]:
    """Start a proxy, which is new to the upstream, before a server's script."""
    running: list[Proxy] = []

    def start(server: Script, *arguments: str, **environ: str) -> Proxy:
        upstream.reset(server)
        running.append(Proxy(tmp_path, "--upstream", upstream.url, *arguments, **environ))
        return running[-1].__enter__()

    yield start
    for proxy in running:
        proxy.__exit__()
        assert "Traceback" not in proxy.output
        assert "critical" not in proxy.output


@pytest.fixture(scope="session")
def orphan(tmp_path_factory) -> Iterator[Proxy]:
    """A proxy whose upstream is down."""
    upstream = f"http://127.0.0.1:{free_port()}"
    with Proxy(tmp_path_factory.mktemp("orphan"), "--upstream", upstream) as proxy:
        yield proxy
