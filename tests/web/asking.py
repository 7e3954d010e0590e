"""Pages asked for: of a real proxy, or of the real site, channel and request without a network."""

import json

from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure

from cacheproxy.core.privacy.access import Access
from cacheproxy.proxy.downstream.limits import Limits
from cacheproxy.proxy.downstream.site import ProxySite
from cacheproxy.web.pages import OwnPages
from tests.proxy.harness import Client, whole


def get(proxy, target, *fields, method=b"GET", payload=None):
    """The whole answer of a proxy."""
    with Client(proxy.address) as client:
        return client.ask(target, payload, *fields, method=method).answer(method=method)


def turn(proxy, upstream, said, prompt, reused, *fields):
    """One turn, which the upstream says cost ``prompt`` tokens with ``reused`` from cache."""
    usage = {"input_tokens": prompt - reused, "cache_read_input_tokens": reused, "output_tokens": 7}
    answer = json.dumps({"type": "message", "usage": usage}).encode()
    reply = whole(answer, b"Content-Type: application/json")
    upstream.reset(lambda peer, _: peer.send(reply))
    with Client(proxy.address) as client:
        sent = client.ask("/v1/messages", json.dumps(said).encode(), *fields)
        assert sent.answer().status == 200


class Asking:
    """One client's GET for ``page``, a DirectPage; what was written, and whether it is over."""

    isLeaf = True

    def __init__(self, page):
        self.render = OwnPages({b"/x": page}, {}, lambda: None, Clock())
        self.transport = StringTransport()
        site = ProxySite(self, Clock(), Limits(), Access())
        self.channel = site.buildProtocol(None)
        self.channel.makeConnection(self.transport)
        self.channel.dataReceived(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")

    @property
    def written(self):
        return self.transport.value()

    @property
    def status(self):
        """Of the whole answer, or None while there is none."""
        return None if self.channel.requests else int(self.written.split()[1])

    def leave(self):
        self.channel.connectionLost(Failure(ConnectionLost()))
