"""The model server's stand-in: swallows requests, answers at once. A loop over epoll, nothing more.

    python -m bench.upstream          prints its port, serves until it is killed

A request is answered with ``answers.ANSWER``, unless a header asks for more:

    X-Bench: flood N          a stream of N deltas as fast as the connection takes them (0: no end)
    X-Bench: paced N          a stream with a delta every 1/N seconds, each with the time in it
    X-Bench: keep             remember the body; GET /bench/kept returns the last one

Only the length of a body is looked at: it is read into one buffer and forgotten, so that an 80 KB
request costs a few tens of microseconds. ``Connection: close`` is obeyed.
"""

from __future__ import annotations

import gc
import heapq
import re
import select
import socket
import time

from bench.answers import ANSWER, END, FLOOD, LAST_CHUNK, START, chunk, stamped

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_CLOSE = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)
_BENCH = re.compile(rb"\r\nx-bench: *(\w+) ?(\d*)", re.IGNORECASE)
_READ = 1 << 20
_FLOOD_EVENTS = 256
"""Events in one send of a flood."""
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
    b"Transfer-Encoding: chunked\r\n"
)
_NOT_FOUND = b'{"type":"error","error":{"type":"not_found_error","message":"no such path"}}'


def whole(status: str, body: bytes, *, close: bool) -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\n%sContent-Length: %d\r\n\r\n%s" % (
        status.encode(),
        b"Connection: close\r\n" if close else b"",
        len(body),
        body,
    )


ANSWERS = {close: whole("200 OK", ANSWER, close=close) for close in (False, True)}
FLOOD_PIECE = chunk(FLOOD) * _FLOOD_EVENTS


class Connection:
    """One connection: where its request stands, and the stream that goes out on it."""

    def __init__(self, upstream: Upstream, sock: socket.socket) -> None:
        self.sock = sock
        self.upstream = upstream
        self.head = bytearray()
        self.left = 0
        """Bytes of the body that are still to come; -1 in a chunked body."""
        self.kept: bytearray | None = None
        self.reply = b""
        self.bench = (b"", 0)
        self.close = False
        self.out = b""
        self.flood = 0
        self.interval = 0.0
        self.dead = False

    def readable(self, view: memoryview) -> None:
        try:
            count = self.sock.recv_into(view)
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self.end()
        elif self.left > 0:
            self.body(view[:count])
        elif self.left < 0:
            self.chunked(bytes(view[:count]))
        else:
            self.heading(view[:count])

    def heading(self, data: memoryview) -> None:
        self.head += data
        end = self.head.find(b"\r\n\r\n")
        if end < 0:
            return
        head, rest = bytes(self.head[: end + 4]), memoryview(bytes(self.head[end + 4 :]))
        self.head.clear()
        found = _BENCH.search(head)
        self.bench = (found[1].lower(), int(found[2] or 0)) if found else (b"", 0)
        self.close = _CLOSE.search(head) is not None
        self.kept = bytearray() if self.bench[0] == b"keep" else None
        self.reply = ANSWERS[self.close]
        if not head.startswith(b"POST /v1/"):
            self.other(head)
        length = _LENGTH.search(head)
        self.left = int(length[1]) if length else 0
        if not length and _CHUNKED.search(head):
            self.left = -1
            self.chunked(bytes(rest))
        elif self.left:
            if rest:
                self.body(rest)
        else:
            self.answer()

    def other(self, head: bytes) -> None:
        if head.startswith(b"GET /bench/kept"):
            self.reply = whole("200 OK", self.upstream.kept, close=self.close)
        elif head.startswith(b"HEAD"):
            self.reply = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
        else:
            self.reply = whole("404 Not Found", _NOT_FOUND, close=self.close)

    def body(self, data: memoryview) -> None:
        if self.kept is not None:
            self.kept += data[: self.left]
        self.left -= len(data)
        if self.left <= 0:
            self.left = 0
            self.answer()

    def chunked(self, data: bytes) -> None:
        """Only its end is looked for; what it says is kept as it came."""
        self.head += data
        if self.kept is not None:
            self.kept += data
        if self.head.endswith(LAST_CHUNK):
            self.head.clear()
            self.left = 0
            self.answer()
        else:
            del self.head[:-5]

    def answer(self) -> None:
        if self.kept is not None:
            self.upstream.kept = bytes(self.kept)
        kind, number = self.bench
        if kind in (b"flood", b"paced"):
            head = _STREAM_HEAD + (b"Connection: close\r\n\r\n" if self.close else b"\r\n")
            self.out = head + chunk(START)
            if kind == b"flood":
                self.flood = number or 1 << 62
            else:
                self.interval = 1 / number
                self.upstream.schedule(self)
            self.writable()
            return
        self.send(self.reply)
        if self.close and not self.out:
            self.end()

    def send(self, data: bytes) -> None:
        """Send at once what goes; the rest when the connection takes more."""
        if self.out:
            self.out += data
            return
        try:
            sent = self.sock.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.end()
            return
        if sent < len(data):
            self.out = data[sent:]
            self.upstream.poll.modify(self.sock, select.EPOLLIN | select.EPOLLOUT)

    def writable(self) -> None:
        """Send what waits, then one piece more of a flood."""
        waiting, self.out = self.out, b""
        if self.flood and len(waiting) < len(FLOOD_PIECE) // 2:
            events = min(_FLOOD_EVENTS, self.flood)
            self.flood -= events
            waiting += FLOOD_PIECE[: events * (len(FLOOD_PIECE) // _FLOOD_EVENTS)]
            if not self.flood:
                waiting += b"".join(map(chunk, _ends())) + LAST_CHUNK
        self.send(waiting)
        if self.dead or self.out:
            return
        if self.flood:
            self.upstream.poll.modify(self.sock, select.EPOLLIN | select.EPOLLOUT)
        else:
            self.upstream.poll.modify(self.sock, select.EPOLLIN)
            if self.close and not self.interval:
                self.end()

    def tick(self) -> None:
        self.send(chunk(stamped(time.perf_counter_ns())))

    def end(self) -> None:
        if not self.dead:
            self.dead = True
            self.upstream.connections.pop(self.sock.fileno(), None)
            self.sock.close()


def _ends() -> list[bytes]:
    return [piece + b"\n\n" for piece in END.split(b"\n\n") if piece]


class Upstream:
    """The loop. ``kept``: the last body that was asked to be remembered."""

    def __init__(self) -> None:
        self.kept = b""
        self.connections: dict[int, Connection] = {}
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.poll = select.epoll()
        self.poll.register(self.listener, select.EPOLLIN)
        self.due: list[tuple[float, int, Connection]] = []
        self.count = 0

    def schedule(self, connection: Connection) -> None:
        """Streams tick side by side, not all at once: their phases are spread evenly."""
        self.count += 1
        phase = self.count * 0.618 % 1
        first = time.perf_counter() + connection.interval * phase
        heapq.heappush(self.due, (first, self.count, connection))

    def serve(self) -> None:
        view = memoryview(bytearray(_READ))
        accept = self.listener.fileno()
        while True:
            for number, mask in self._events():
                if number == accept:
                    self._accept()
                elif connection := self.connections.get(number):
                    if mask & ~select.EPOLLOUT:
                        connection.readable(view)
                    if mask & select.EPOLLOUT and not connection.dead:
                        connection.writable()
            while self.due and self.due[0][0] <= time.perf_counter():
                at, number, connection = self.due[0]
                if connection.dead:
                    heapq.heappop(self.due)
                else:
                    heapq.heapreplace(self.due, (at + connection.interval, number, connection))
                    connection.tick()

    def _events(self) -> list[tuple[int, int]]:
        """What can be read or written, or nothing when the next tick is due.

        epoll's own timeout is in whole milliseconds, which would make bundles of the ticks.
        """
        if not self.due:
            return self.poll.poll()
        wait = self.due[0][0] - time.perf_counter()
        if wait > 0:
            select.select([self.poll], [], [], wait)
        return self.poll.poll(0)

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except BlockingIOError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections[sock.fileno()] = Connection(self, sock)
        self.poll.register(sock, select.EPOLLIN)


def main() -> None:
    upstream = Upstream()
    print(upstream.port, flush=True)
    gc.freeze()
    gc.disable()
    upstream.serve()


if __name__ == "__main__":
    main()
