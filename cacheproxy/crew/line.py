"""The line between the keeper and one worker: a pair of sockets, one end in each process."""

from __future__ import annotations

import socket
import struct
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IReadWriteDescriptor
from twisted.python.failure import Failure
from zope.interface import implementer

from cacheproxy.crew.frames import FrameReader, Load, Piece, frame
from cacheproxy.crew.messages import Answer

_T = TypeVar("_T")
_BUFFER = 1 << 20
"""Bytes that the kernel may hold, if it lets us have that much."""
_LOOKS = 64
"""Times that the socket is read in a row, before others have their turn."""
_DESCRIPTORS = 16
_RIGHTS = socket.CMSG_SPACE(_DESCRIPTORS * 4) if hasattr(socket, "CMSG_SPACE") else 0
_CLOEXEC: int = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


class Listener(Protocol):
    """Who is told what the other end says."""

    def heard(self, line: Line, message: Any, load: Load) -> None:
        """Take a message that is no answer. The load is there for as long as this takes."""

    def lost(self, line: Line) -> None:
        """The other end is gone."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """How much of what can be done without may wait: messages, and the bytes of their loads."""

    messages: int = 1000
    size: int = 32 << 20


@dataclass(slots=True, eq=False)
class _Out:
    """A frame, or what is left of it. ``bulk``: its size, if it can be done without."""

    pieces: list[Piece]
    descriptor: int | None = None
    bulk: int | None = None
    begun: bool = field(default=False)


@implementer(IReadWriteDescriptor)
class Line:
    """Says messages at once, as far as the socket takes them, and hands on those that come.

    Not a Twisted transport, which would copy each message twice, take a trip through epoll before
    it sends the first byte (24 µs), and let nothing urgent pass what waits. ``said``: the type, or
    union of types, of what the other end says. What is urgent passes what is not.
    """

    def __init__(
        self,
        reactor: Any,
        sock: socket.socket,
        said: Any,
        listener: Listener,
        most: Waiting | None = None,
    ) -> None:
        sock.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            sock.setsockopt(socket.SOL_SOCKET, option, _BUFFER)
        self.is_open = True
        self._reactor = reactor
        self._socket = sock
        self._listener = listener
        self._most = most or Waiting()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(said)
        self._frames = FrameReader()
        self._descriptors: deque[int] = deque()
        self._urgent: deque[_Out] = deque()
        self._bulk: deque[_Out] = deque()
        self._bulk_size = 0
        self._idle: list[Deferred[None]] = []
        self._asked: dict[int, Deferred[Any]] = {}
        self._last = 0

    def start(self) -> None:
        """Listen from now on."""
        self._reactor.addReader(self)

    def tell(self, message: Any, *load: Piece, descriptor: int | None = None) -> None:
        """Say what has to be said. ``descriptor`` goes along; a copy of it, to be closed by us."""
        self._put(self._urgent, _Out(self._frame(message, load), descriptor))

    def offer(self, message: Any, *load: Piece) -> bool:
        """Say what can be done without, in the order in which it is offered.

        Return False, and do not say it, if too much waits already.
        """
        size = sum(map(len, load))
        most = self._most
        too_large = size and self._bulk_size + size > most.size
        if self._bulk and (too_large or len(self._bulk) >= most.messages):
            return False
        self._bulk_size += size
        self._put(self._bulk, _Out(self._frame(message, load), bulk=size))
        return True

    def ask(self, question: Any, *load: Piece, seconds: float) -> Deferred[Any]:
        """Fire with (value, load) of the answer; errbacks with TimeoutError, or ConnectionDone.

        The load is there for as long as the callback takes.
        """
        if not self.is_open:
            gone: Deferred[Any] = Deferred()
            gone.errback(ConnectionDone())
            return gone
        self._last += 1
        number = self._last
        answer: Deferred[Any] = Deferred()
        self._asked[number] = answer
        self.tell(msgspec.structs.replace(question, id=number), *load)
        answer.addTimeout(seconds, self._reactor)
        return answer.addBoth(self._forget, number)

    def read(self) -> None:
        """Hand on all that has come by now."""
        for _ in range(_LOOKS):
            if not self.is_open or not self._look():
                return

    def descriptor(self) -> int | None:
        """Return the descriptor that came with the message; the caller closes it."""
        return self._descriptors.popleft() if self._descriptors else None

    def when_empty(self) -> Deferred[None]:
        """Fire when all that was said is with the kernel, or will never be."""
        done: Deferred[None] = Deferred()
        self._idle.append(done)
        self._tell_idle()
        return done

    def close(self) -> None:
        """Say and hear nothing more."""
        if not self.is_open:
            return
        self.is_open = False
        self._reactor.removeReader(self)
        self._reactor.removeWriter(self)
        self._socket.close()
        while self._descriptors:
            _close(self._descriptors.popleft())
        for answer in tuple(self._asked.values()):
            answer.errback(Failure(ConnectionDone()))
        self._drop_all()

    # Twisted's side

    def fileno(self) -> int:
        """Return the socket's number."""
        return self._socket.fileno()

    def logPrefix(self) -> str:  # noqa: N802 - Twisted's
        """Return what older logs put before a line."""
        return "crew"

    def doRead(self) -> None:
        """Read once."""
        self._look()

    def doWrite(self) -> None:
        """Send on."""
        self._send()

    def connectionLost(self, reason: Failure) -> None:  # noqa: ARG002
        """Take note that the reactor has lost the socket."""
        self._lose()

    def writeConnectionLost(self, reason: Failure) -> None:  # noqa: N802
        """Do nothing: reading tells as well."""

    def readConnectionLost(self, reason: Failure) -> None:  # noqa: N802, ARG002
        """Take note that the other end is gone."""
        self._lose()

    # Ours

    def _frame(self, message: Any, load: tuple[Piece, ...]) -> list[Piece]:
        return frame(self._encoder.encode(message), load)

    def _put(self, queue: deque[_Out], out: _Out) -> None:
        if not self.is_open:
            _close(out.descriptor)
            return
        is_first = not self._urgent and not self._bulk
        queue.append(out)
        if is_first:
            self._send()

    def _send(self) -> None:
        while (queue := self._next()) is not None:
            out = queue[0]
            try:
                sent = self._write(out)
            except BlockingIOError:
                sent = None
            except OSError:  # the other end is gone: what it said before is still to be read
                self._drop_all()
                return
            if sent is not None:
                out.begun = True
                _close(out.descriptor)
                out.descriptor = None
                out.pieces = _after(out.pieces, sent)
            if out.pieces:
                self._reactor.addWriter(self)
                return
            queue.popleft()
            self._bulk_size -= out.bulk or 0
        self._reactor.removeWriter(self)
        self._tell_idle()

    def _drop_all(self) -> None:
        for out in (*self._urgent, *self._bulk):
            _close(out.descriptor)
        self._urgent.clear()
        self._bulk.clear()
        self._bulk_size = 0
        if self.is_open:
            self._reactor.removeWriter(self)
        self._tell_idle()

    def _next(self) -> deque[_Out] | None:
        """Return whose turn it is: a frame that has begun is finished first."""
        if self._bulk and self._bulk[0].begun:
            return self._bulk
        return self._urgent or self._bulk or None

    def _write(self, out: _Out) -> int:
        if out.descriptor is None:
            return self._socket.sendmsg(out.pieces)
        rights = struct.pack("i", out.descriptor)
        return self._socket.sendmsg(out.pieces, [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])

    def _look(self) -> bool:
        """Read once, and hand on; return whether there may be more."""
        try:
            room = self._frames.room()
            count, extra, _, _ = self._socket.recvmsg_into([room], _RIGHTS, _CLOEXEC)
        except BlockingIOError:
            return False
        except OSError:
            count, extra = 0, []
        for level, kind, value in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._descriptors.extend(each for (each,) in struct.iter_unpack("i", value))
        if not count:
            self._lose()
            return False
        for message, load in self._frames.filled(count):
            self._hand_on(self._decoder.decode(message), load)
            if not self.is_open:
                return False
        return True

    def _hand_on(self, message: Any, load: Load) -> None:
        if isinstance(message, Answer):
            answer = self._asked.get(message.id)
            if answer is not None and not answer.called:
                answer.callback((message.value, load))
            return
        self._listener.heard(self, message, load)

    def _forget(self, result: _T, number: int) -> _T:
        self._asked.pop(number, None)
        return result

    def _lose(self) -> None:
        if self.is_open:
            self.close()
            self._listener.lost(self)

    def _tell_idle(self) -> None:
        if not self._urgent and not self._bulk:
            waiting, self._idle = self._idle, []
            for done in waiting:
                done.callback(None)


def _after(pieces: list[Piece], sent: int) -> list[Piece]:
    """Return what is left of ``pieces`` behind the first ``sent`` bytes."""
    for index, piece in enumerate(pieces):
        if sent < len(piece):
            return [memoryview(piece)[sent:], *pieces[index + 1 :]]
        sent -= len(piece)
    return []


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        socket.close(descriptor)
