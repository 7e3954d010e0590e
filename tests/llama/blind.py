"""A front of a model server that has its APIs, and no page that tells anything."""

from __future__ import annotations

from cacheproxy.http_client import Site
from tests.proxy.harness import Peer, Received, Upstream, whole


class Blind(Upstream):
    """A running front of ``server``; ``posts``: how many it handed on.

    It stands for a server that only refuses: llama-server itself says what it would render.
    """

    def __init__(self, server: str) -> None:
        super().__init__()
        self.posts = 0
        self._server = server
        self.reset(self._answer)

    def _answer(self, peer: Peer, received: Received) -> None:
        if received.line.startswith(b"POST /v1/"):
            self.posts += 1
            hand_on(peer, received, self._server)
        else:
            peer.send(whole(b"{}", status=b"404 Not Found"))


def hand_on(peer: Peer, received: Received, server: str) -> None:
    """Have ``server`` answer."""
    method, path, _ = received.line.decode().split()
    site = Site(server)
    answer = site.post(path, received.body) if method == "POST" else site.get(path)
    kind, status = b"Content-Type: application/json", b"%d Handed on" % answer.status
    peer.send(whole(answer.body, kind, status=status))
