"""What we use of Twisted that it does not promise: this fails first when Twisted changes."""

import re
import socket
from pathlib import Path

import pytest
from twisted.internet import tcp
from twisted.internet.endpoints import TCP4ClientEndpoint
from twisted.internet.protocol import Protocol

import cacheproxy
from cacheproxy.proxy.transport import eager, polling
from cacheproxy.proxy.upstream.endpoints import DirectEndpoint, endpoint_of

_OWN = re.compile(
    r"(?:^ *(?:async )?(?:def |class )?|self\.|[(, ])(_[a-zA-Z]\w*)(?=[(:=]| =|, )", re.MULTILINE
)
"""A private name of ours, where it is defined or set."""


@pytest.fixture
def ends(epoll):
    """A connection of Twisted's, and the socket at its other end."""
    ours, others = socket.socketpair()
    with ours, others:
        connection = tcp.Connection(ours, Protocol(), epoll)
        connection.connected = 1
        others.setblocking(False)
        yield connection, others
        epoll.removeAll()


def test_this_twisted_has_all_of_it():
    assert eager.missing() == []


def test_no_others_are_used():
    """Each private name that no file of ours defines is one that these tests know."""
    others = {"_asdict", "_exit"}  # of the standard library, which documents them
    text = "\n".join(file.read_text() for file in Path(cacheproxy.__file__).parent.rglob("*.py"))
    used = set(re.findall(r"(?:\.|\bimport )(_[a-zA-Z]\w*)", text))
    own = set(_OWN.findall(text))
    known = {*eager._OF_THE_CLASS, eager._OF_THE_INSTANCE, *polling.NAMES}
    assert used - own - others == {name for name in known - own if name.startswith("_")}


def test_what_waits_to_be_written_stands_where_it_is_looked_for(ends):
    """``eager`` may write only where both are empty; ``direct`` close only then."""
    connection, _ = ends
    assert not connection._tempDataBuffer
    assert not connection.dataBuffer
    connection.write(b"later")
    assert connection._tempDataBuffer == [b"later"]


def test_without_it_bytes_are_written_in_twisteds_way(ends, monkeypatch):
    monkeypatch.setattr(eager, "PRIVATES_ARE_THERE", False)
    connection, others = ends
    eager.write(connection, b"hello")
    with pytest.raises(BlockingIOError):
        others.recv(10)
    connection.doWrite()
    assert others.recv(10) == b"hello"


@pytest.mark.parametrize(("known", "kind"), [(True, DirectEndpoint), (False, TCP4ClientEndpoint)])
def test_without_it_connections_are_made_in_twisteds_way(epoll, monkeypatch, known, kind):
    monkeypatch.setattr(eager, "PRIVATES_ARE_THERE", known)
    assert type(endpoint_of(epoll, "127.0.0.1", 1, 1.0, secure=False)) is kind
