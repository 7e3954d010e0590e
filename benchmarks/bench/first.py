"""Time to first byte at one request at a time, over one connection that is kept alive."""

from __future__ import annotations

import re
import socket
import time

from bench.bodies import Body

TIMEOUT = 60.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


class Connection:
    """A client's connection to 127.0.0.1:``port``. Raises OSError, EOFError."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._sock: socket.socket | None = None
        self._buffer = memoryview(bytearray(1 << 20))

    def exchange(self, request: bytes) -> tuple[float, bytes]:
        """Send ``request``; return the seconds to the answer's first byte, and the answer.

        The answer is returned as it came, framing included. A connection that was closed after the
        last answer is made anew before the clock starts.
        """
        sock = self._connected()
        begun = time.perf_counter()
        sock.sendall(request)
        count = sock.recv_into(self._buffer)
        seconds = time.perf_counter() - begun
        answer = bytearray(self._buffer[:count])
        while count and not _is_whole(answer):
            count = sock.recv_into(self._buffer)
            answer += self._buffer[:count]
        if not answer:
            raise EOFError("closed without an answer")
        if not count or b"\r\nconnection: close" in answer[:2000].lower():
            self.close()
        return seconds, bytes(answer)

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def _connected(self) -> socket.socket:
        if self._sock is None:
            self._sock = socket.create_connection(("127.0.0.1", self.port), TIMEOUT)
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._sock


def _is_whole(answer: bytearray) -> bool:
    end = answer.find(b"\r\n\r\n") + 4
    if end < 4:
        return False
    found = _LENGTH.search(answer, 0, end)
    if found:
        return len(answer) >= end + int(found[1])
    return b"chunked" in answer[:end].lower() and answer.endswith(b"0\r\n\r\n")


def split(answer: bytes) -> tuple[int, bytes]:
    """Return the status and the body of a whole answer, its chunks joined."""
    head, _, rest = answer.partition(b"\r\n\r\n")
    status = int(head.split(b" ", 2)[1])
    if b"transfer-encoding" not in head.lower():
        return status, rest
    parts = []
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if not length:
            break
        parts.append(rest[:length])
        rest = rest[length + 2 :]
    return status, b"".join(parts)


class Client:
    """Sends one body again and again, another ``cch`` each time; ``more`` as in request_head."""

    def __init__(self, port: int, body: Body, more: str = "") -> None:
        self.port = port
        self._connection = Connection(port)
        self._body = body
        self._head = body.request_head(port, more)
        self._number = 0

    def run(self, requests: int, limit: float) -> list[float]:
        """Send so many requests, or as many as fit in ``limit`` seconds, but five at least.

        Raises RuntimeError when an answer is not 200.
        """
        found = []
        until = time.perf_counter() + limit
        while len(found) < requests and (len(found) < 5 or time.perf_counter() < until):
            self._number += 1
            request = self._head + self._body.content(self._number)
            seconds, answer = self._connection.exchange(request)
            if not answer.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200")):
                raise RuntimeError(f"answer {answer[:200]!r}")
            found.append(seconds)
        return found

    def close(self) -> None:
        self._connection.close()
