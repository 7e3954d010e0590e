"""A stream that trickles through the proxy, and how much of it comes while something is done."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from .harness import CHUNKED, Client, Peer, Proxy, Received, Script


class Trickle:
    """An upstream's script: requests for ``/trickle`` get an endless stream, others ``other``."""

    def __init__(self, other: Script) -> None:
        self._other = other
        self._over = threading.Event()

    def __call__(self, peer: Peer, received: Received) -> None:
        if b"/trickle" not in received.line:
            self._other(peer, received)
            return
        peer.send(CHUNKED)
        while not self._over.is_set():
            peer.chunk(b"data: {}\n\n")
            time.sleep(0.005)
        peer.send(b"0\r\n\r\n")

    @contextlib.contextmanager
    def through(self, proxy: Proxy) -> Iterator[Iterator[bytes]]:
        """The stream's pieces, as they come through ``proxy``."""
        with Client(proxy.address) as client:
            pieces = client.pieces(client.ask("/trickle").begin())
            next(pieces)
            try:
                yield pieces
            finally:
                self._over.set()


def pieces_meanwhile(pieces: Iterator[bytes], work: Callable[[], object]) -> int:
    """Do ``work``; return how many pieces came one after the other before it was done.

    Two at most: the stream waited for the work, and what had gathered came at once.
    """
    with ThreadPoolExecutor(1) as pool:
        next(pieces)
        count, doing = 0, pool.submit(work)
        while not doing.done():
            next(pieces)
            count += 1
        doing.result()
    return count
