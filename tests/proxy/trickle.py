"""A stream that trickles through the proxy, and whether it stands still while something is done."""

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


def standstill(pieces: Iterator[bytes], work: Callable[[], object]) -> float:
    """Do ``work``; return the longest gap between two pieces, by the time that all of it took.

    On a busy machine both grow. Near 1: the stream waited for the work.
    """
    with ThreadPoolExecutor(1) as pool:
        next(pieces)
        longest, began = 0.0, time.monotonic()
        last = began
        doing = pool.submit(work)
        while not doing.done():
            next(pieces)
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        doing.result()
    return longest / (last - began)
