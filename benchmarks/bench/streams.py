"""Many streams at once: how late each chunk is, and how many chunks a second come through.

Both ends share a clock: the upstream writes time.perf_counter_ns() into each event it sends, and
what is read here is compared with the same clock of this process.
"""

from __future__ import annotations

import gc
import select
import socket
import time
from collections.abc import Callable
from typing import Self

from bench.answers import NEEDLE, STAMP
from bench.bodies import Body

START_SECONDS = 30.0
"""In which all streams have to begin."""
_READ = 1 << 18


class Stream:
    """One open stream. ``sample``: seconds that each of its chunks was under way."""

    def __init__(self, sock: socket.socket, request: bytes) -> None:
        self.sock = sock
        self.request = memoryview(request)
        self.begun = False
        self._rest = b""

    def stamps(self, data: bytes) -> list[bytes]:
        """The times of the events that are complete with ``data``."""
        data = self._rest + data
        end = data.rfind(b"\n\n")
        if end < 0:
            self._rest = data
            return []
        self._rest = data[end:]
        return STAMP.findall(data, 0, end)


class Streams:
    """``count`` streams through 127.0.0.1:``port``; use it in a ``with``.

    ``kind``: the value of the X-Bench header, see bench.upstream. Raises RuntimeError when not
    all of them begin in 30 seconds, or when one ends.
    """

    def __init__(self, port: int, body: Body, count: int, kind: str) -> None:
        self._poll = select.epoll()
        self._streams: dict[int, Stream] = {}
        self._view = memoryview(bytearray(_READ))
        head = body.request_head(port, f"X-Bench: {kind}\r\n")
        for number in range(count):
            sock = socket.create_connection(("127.0.0.1", port), 10)
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            stream = Stream(sock, head + body.content(number))
            self._streams[sock.fileno()] = stream
            self._poll.register(sock, select.EPOLLIN | select.EPOLLOUT)

    def __enter__(self) -> Self:
        gc.collect()
        gc.disable()
        return self

    def __exit__(self, *_: object) -> None:
        gc.enable()
        for stream in self._streams.values():
            stream.sock.close()
        self._poll.close()

    def begin(self) -> None:
        """Send the requests and wait until every stream has brought something."""
        waiting = len(self._streams)
        until = time.monotonic() + START_SECONDS
        while waiting:
            if time.monotonic() > until:
                raise RuntimeError(f"{waiting} of {len(self._streams)} streams did not begin")
            for number, mask in self._poll.poll(1):
                stream = self._streams[number]
                if mask & ~select.EPOLLOUT:
                    data = self._read(stream)
                    stream.stamps(data)
                    if not stream.begun:
                        if data[9:12] != b"200":
                            raise RuntimeError(f"answer {data[:200]!r}")
                        stream.begun = True
                        waiting -= 1
                elif stream.request:
                    self._send(number, stream)

    def latencies(self, seconds: float, midway: Callable[[], None]) -> list[float]:
        """Return how many seconds each chunk was under way that came within ``seconds``."""
        found: list[float] = []

        def look(stream: Stream, data: bytes) -> None:
            now = time.perf_counter_ns()
            found.extend((now - int(stamp)) / 1e9 for stamp in stream.stamps(data))

        self._run(0.3, Stream.stamps)  # what was queued up
        self._run(seconds / 2, look)
        midway()
        self._run(0.1, Stream.stamps)
        self._run(seconds / 2, look)
        return found

    def flood(self, seconds: float) -> float:
        """Return the chunks a second that came within ``seconds``, of all streams together."""
        count = 0

        def look(_: Stream, data: bytes) -> None:
            nonlocal count
            count += data.count(NEEDLE)

        self._run(seconds / 4, look)
        count = 0
        begun = time.perf_counter()
        self._run(seconds, look)
        return count / (time.perf_counter() - begun)

    def _run(self, seconds: float, look: Callable[[Stream, bytes], object]) -> None:
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            for number, _ in self._poll.poll(left):
                stream = self._streams[number]
                look(stream, self._read(stream))

    def _send(self, number: int, stream: Stream) -> None:
        try:
            stream.request = stream.request[stream.sock.send(stream.request) :]
        except BlockingIOError:
            return
        if not stream.request:
            self._poll.modify(number, select.EPOLLIN)

    def _read(self, stream: Stream) -> bytes:
        try:
            data = self._view[: stream.sock.recv_into(self._view)].tobytes()
        except BlockingIOError:
            return b""
        if not data:
            raise RuntimeError("a stream ended")
        return data
