"""The real proxy in a child process, between a scripted upstream and a client of plain sockets.

Nothing here shares code with the proxy: both ends speak HTTP/1.1 by themselves, so that the tests
see the bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Self

from tests.forking import popen

TIMEOUT = 120.0
"""Seconds after which what was to happen never will: far more than it takes on a busy machine."""
_RUN_TWISTD = "import sys; from twisted.scripts.twistd import run; sys.exit(run())"
_BANNER = re.compile(r"^cacheproxy \S+ {3}http://(\S+):(\d+) {2}→ {2}.+$")

Headers = list[tuple[bytes, bytes]]


def environment(folder: Path | str, **more: str) -> dict[str, str]:
    """The environment of a child, without the user's settings, terminal, proxies and plugins."""
    installed = ",".join(entry.name for entry in entry_points(group="cacheproxy"))
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CACHEPROXY_")
        and not name.lower().endswith("_proxy")
        and name not in {"COLUMNS", "LINES"}
    }
    return kept | {
        "HOME": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "PYTHONIOENCODING": "utf-8",
        "CACHEPROXY_BLOCK": installed,
        "CACHEPROXY_STATE_DIR": "none",
        "CACHEPROXY_POLL": "0",
        **more,
    }


def twistd(*arguments: str, options: tuple[str, ...] = ("-n", "--pidfile=")) -> list[str]:
    """The command that runs the proxy with ``arguments``; ``options`` are twistd's own."""
    return [sys.executable, "-c", _RUN_TWISTD, *options, "cacheproxy", *arguments]


class Proxy:
    """A running ``twistd cacheproxy`` on a free port; ``lines`` is what it has printed."""

    command = staticmethod(twistd)
    """What makes the command line of the proxy's options."""

    def __init__(self, folder: Path, *arguments: str, port: int = 0, **environ: str) -> None:
        self.lines: list[str] = []
        self.address = ("", 0)
        self.folder = folder
        self._new_line = threading.Condition()
        self._process = popen(
            self.command("--port", str(port), *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(folder, **environ),
            cwd=folder,
            encoding="utf-8",
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        try:
            found = _BANNER.match(self.wait_for("cacheproxy "))
            assert found, self.lines
            self.address = (found[1], int(found[2]))
            self.wait_for("Ready.")  # the probe's requests are over, too
        except BaseException:
            self._process.kill()
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT)
        except BaseException:
            self._process.kill()
            raise
        self._reader.join(TIMEOUT)
        self._process.stdout.close()

    @property
    def url(self) -> str:
        return "http://{}:{}".format(*self.address)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def output(self) -> str:
        with self._new_line:
            return "\n".join(self.lines)

    def wait_for(self, text: str, since: int = 0) -> str:
        """The first printed line with ``text`` in it, from line ``since`` on."""
        deadline = time.monotonic() + 2 * TIMEOUT
        with self._new_line:
            while True:
                for line in self.lines[since:]:
                    if text in line:
                        return line
                left = deadline - time.monotonic()
                assert left > 0, (text, self.lines)
                assert self._reader.is_alive(), (text, self.lines)
                self._new_line.wait(min(left, 0.5))

    def ask(
        self,
        target: bytes | str = b"/v1/messages",
        body: bytes | None = b"{}",
        *fields: bytes,
        **more: bytes,
    ) -> Answer:
        """The answer to a request, on a connection of its own."""
        with Client(self.address) as client:
            return client.ask(target, body, *fields, **more).answer()

    def page(self, name: str) -> Any:
        """What a page of its own says."""
        return json.loads(self.ask(f"/_cacheproxy/{name}", None, method=b"GET").body)

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def ended(self, seconds: float = TIMEOUT) -> int:
        """Its exit code, once it has ended by itself; ``lines`` is complete then."""
        code = self._process.wait(seconds)
        self._reader.join(TIMEOUT)
        return code

    def mark(self) -> int:
        """Where ``wait_for`` has to begin, to see only what is printed from now on.

        A page of its own has all that has finished logged before it is made.
        """
        with contextlib.suppress(OSError):
            self.ask("/_cacheproxy/exchanges", None, method=b"GET")
        time.sleep(0.02)  # for lines that are on their way
        return len(self.lines)

    def memory(self) -> int:
        """Bytes resident in the proxy's process."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1]) << 10

    def open_files(self) -> list[str]:
        """What the proxy's descriptors lead to."""
        found = []
        for name in Path(f"/proc/{self.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found.append(str(name.readlink()))
        return found

    def _read(self) -> None:
        for line in self._process.stdout:
            with self._new_line:
                self.lines.append(line.rstrip("\n"))
                self._new_line.notify_all()


class Message:
    """A request or a response: what stands in its head."""

    headers: Headers

    def values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key.lower() == name.lower()]


@dataclass
class Received(Message):
    """A request as the upstream got it."""

    line: bytes
    headers: Headers
    body: bytes


class Peer:
    """One socket with a deadline on everything, and the two ways to leave."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sock.settimeout(TIMEOUT)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def chunk(self, data: bytes) -> None:
        """Send one chunk of a chunked body."""
        self.send(chunk(data))

    def finish(self) -> None:
        """Send nothing more (FIN), but go on reading."""
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()

    def reset(self) -> None:
        """Leave with RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def leave(self, how: str) -> None:
        """Leave with ``fin`` or ``rst``."""
        self.reset() if how == "rst" else self.close()

    def peek(self) -> bytes:
        """What has come and is not read yet; it stays there."""
        self.sock.settimeout(0.005)
        try:
            return self.sock.recv(1 << 16, socket.MSG_PEEK)
        except TimeoutError:
            return b""
        finally:
            self.sock.settimeout(TIMEOUT)

    def wait_closed(self, seconds: float = TIMEOUT) -> bool:
        """Whether the other side closes within ``seconds``; what it still sends is dropped."""
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                self.sock.settimeout(left)
                if not self.sock.recv(1 << 16):
                    return True
        except TimeoutError:
            return False
        except OSError:
            return True
        return False

    def read_until(self, end: bytes) -> bytes:
        """What comes up to and with ``end``."""
        while end not in self.rest:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError(self.rest[:200])
            self.rest += data
        found, _, self.rest = self.rest.partition(end)
        return found + end

    def read_exactly(self, size: int) -> bytes:
        found, self.rest = bytearray(self.rest), b""
        while len(found) < size:
            data = self.sock.recv(1 << 16)
            if not data:
                raise EOFError
            found += data
        self.rest = bytes(found[size:])
        return bytes(found[:size])


Script = Callable[[Peer, Received], None]


def head(*fields: bytes, status: bytes = b"200 OK") -> bytes:
    return b"\r\n".join((b"HTTP/1.1 " + status, *fields, b"", b""))


def whole(body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    return head(*fields, b"Content-Length: %d" % len(body), status=status) + body


CHUNKED = head(b"Content-Type: text/event-stream", b"Transfer-Encoding: chunked")
LAST = b"0\r\n\r\n"
"""The end of a chunked body."""


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def answer_ok(peer: Peer, _: Received) -> None:
    peer.send(whole(b'{"ok":true}', b"Content-Type: application/json"))


class Says:
    """A script: sends ``pieces`` one after the other, then leaves with ``fin`` or ``rst``.

    ``waits``: it does not leave; ``closed`` is set when the proxy does.
    """

    def __init__(self, *pieces: bytes, then: str = "fin", waits: bool = False) -> None:
        self.closed = threading.Event()
        self._pieces, self._then, self._waits = pieces, then, waits

    def __call__(self, peer: Peer, _: Received) -> None:
        for number, piece in enumerate(self._pieces):
            time.sleep(0.05 if number else 0)
            peer.send(piece)
        if self._waits:
            if peer.wait_closed():
                self.closed.set()
        else:
            time.sleep(0.05 if self._then == "rst" else 0)  # else it would overtake the data
            peer.leave(self._then)


class Upstream:
    """A server whose every connection runs ``script`` in a thread; ``requests`` has what came."""

    def __init__(self, listener: socket.socket | None = None) -> None:
        self._listener = listener or socket.create_server(("127.0.0.1", 0), backlog=512)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.reset()
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(
        self, script: Script = answer_ok, on_connection: Callable[[Peer], None] | None = None
    ) -> None:
        """Forget what was; answer requests with ``script``, or a connection unread."""
        self.script = script
        self.on_connection = on_connection
        self.requests: queue.Queue[Received] = queue.Queue()
        self.errors: list[BaseException] = []
        self.peers: list[Peer] = []

    def received(self) -> Received:
        """The next request that came through."""
        return self.requests.get(timeout=TIMEOUT)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # closing alone would not wake accept()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(Peer(sock),), daemon=True).start()

    def _serve(self, peer: Peer) -> None:
        script, requests, errors = self.script, self.requests, self.errors
        self.peers.append(peer)
        try:
            if self.on_connection is not None:
                self.on_connection(peer)
                return
            received = read_request(peer)
            requests.put(received)
            script(peer, received)
        except EOFError:
            pass  # the proxy left, as it should when its client does
        except BaseException as error:
            test_is_over = peer.sock.fileno() < 0
            if not isinstance(error, ConnectionError) and not test_is_over:
                errors.append(error)
        finally:
            peer.close()


def read_request(peer: Peer) -> Received:
    line, *fields = peer.read_until(b"\r\n\r\n")[:-4].split(b"\r\n")
    headers = []
    for each in fields:
        name, _, value = each.partition(b": ")
        headers.append((name, value))
    received = Received(line, headers, b"")
    lengths = received.values(b"content-length")
    assert len(lengths) <= 1, headers
    assert not received.values(b"transfer-encoding"), headers
    received.body = peer.read_exactly(int(lengths[0]) if lengths else 0)
    return received


@dataclass
class Answer(Message):
    """A response as the client got it; ``end``: ``whole``, ``fin``, ``rst`` or ``timeout``.

    ``whole`` means that the framing said so. A body framed by the connection's end is ``fin``,
    with ``framed`` False.
    """

    status: int = 0
    reason: bytes = b""
    headers: Headers = field(default_factory=list)
    body: bytes = b""
    end: str = ""
    framed: bool = True
    interim: list[bytes] = field(default_factory=list)


class Client(Peer):
    """One connection to the proxy. ``buffer``: the size of its receive buffer."""

    def __init__(self, address: tuple[str, int], buffer: int | None = None) -> None:
        sock = socket.socket()
        if buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        sock.settimeout(TIMEOUT)
        sock.connect(address)
        super().__init__(sock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(
        self,
        target: bytes | str = b"/v1/messages",
        body: bytes | None = None,
        *fields: bytes,
        method: bytes = b"POST",
        version: bytes = b"HTTP/1.1",
    ) -> Client:
        """Send a request; without a body it has no Content-Length either."""
        target = target.encode() if isinstance(target, str) else target
        length = [] if body is None else [b"Content-Length: %d" % len(body)]
        start = b"%s %s %s" % (method, target, version)
        lines = (start, b"Host: 127.0.0.1", *fields, *length, b"", b"")
        self.send(b"\r\n".join(lines) + (body or b""))
        return self

    def answer(self, *, method: bytes = b"POST", seconds: float = TIMEOUT) -> Answer:
        """Read one response to its end, however it ends."""
        answer = Answer()
        self.sock.settimeout(seconds)
        try:
            self._read_head(answer)
            if method == b"HEAD" or answer.status in (204, 304):
                answer.end = "whole"
                return answer
            for piece in self.pieces(answer):
                answer.body += piece
            answer.end = "whole" if answer.framed else "fin"
        except EOFError:
            answer.end = "fin"
        except TimeoutError:
            answer.end = "timeout"
        except ConnectionError:
            answer.end = "rst"
        return answer

    def begin(self) -> Answer:
        """Read a response's head; its body comes with ``pieces``."""
        answer = Answer()
        self._read_head(answer)
        return answer

    def pieces(self, answer: Answer) -> Iterator[bytes]:
        """Yield the body's chunks as the framing has them; EOFError if it breaks off."""
        if answer.values(b"transfer-encoding"):
            assert answer.values(b"transfer-encoding") == [b"chunked"]
            assert not answer.values(b"content-length")
            while size := int(self.read_until(b"\r\n"), 16):
                yield from self._take(size)
                assert self.read_exactly(2) == b"\r\n"
            assert self.read_until(b"\r\n") == b"\r\n"
        elif answer.values(b"content-length"):
            (length,) = answer.values(b"content-length")
            yield from self._take(int(length))
        else:
            answer.framed = False
            if self.rest:
                piece, self.rest = self.rest, b""
                yield piece
            while data := self.sock.recv(1 << 16):
                yield data

    def _take(self, size: int) -> Iterator[bytes]:
        """Yield ``size`` bytes as they come, so that a cut body is not lost."""
        while size:
            data = self.rest or self.sock.recv(1 << 16)
            if not data:
                raise EOFError
            piece, self.rest = data[:size], data[size:]
            size -= len(piece)
            yield piece

    def _read_head(self, answer: Answer) -> None:
        while True:
            start, *fields = self.read_until(b"\r\n\r\n")[:-4].split(b"\r\n")
            version, status, answer.reason = start.split(b" ", 2)
            assert version in (b"HTTP/1.1", b"HTTP/1.0")
            if not status.startswith(b"1"):
                break
            answer.interim.append(status)
        answer.status = int(status)
        answer.headers = [(name, value) for name, _, value in (f.partition(b": ") for f in fields)]


def free_port() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def eventually(condition: Callable[[], object]) -> None:
    """Wait until ``condition`` holds."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < TIMEOUT, "it did not happen"
        time.sleep(0.005)


@contextlib.contextmanager
def running(command: list[str], **options: Any) -> Iterator[subprocess.Popen[Any]]:
    """A process that does not outlive the block, whatever happens there."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def runs(pid: int) -> bool:
    """Whether process ``pid`` is there, and more than a zombie that nobody reaps."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())


def share_of_a_processor(pid: int, seconds: float = 1.0) -> float:
    """What process ``pid`` uses meanwhile, by what one uses that never rests."""
    with running([sys.executable, "-c", "while True: pass"]) as restless:
        eventually(lambda: _ticks(restless.pid) > 1)
        before = _ticks(pid), _ticks(restless.pid)
        time.sleep(seconds)
        eventually(lambda: _ticks(restless.pid) - before[1] > 10)
        return (_ticks(pid) - before[0]) / (_ticks(restless.pid) - before[1])


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


@contextlib.contextmanager
def sound_upstream():
    """An upstream whose scripts met nothing that they did not expect."""
    found = Upstream()
    yield found
    for peer in found.peers:
        peer.close()
    found.close()
    assert not found.errors
