"""The keeper's picture of one worker: it is started, and started anew when it ends."""

from __future__ import annotations

import socket
from typing import Any, Protocol

from twisted.logger import Logger

from cacheproxy.crew.frames import Load
from cacheproxy.crew.line import Line
from cacheproxy.crew.messages import Begin, Ended, FromWorker, Ready, Standing, Stopping, Unfit
from cacheproxy.crew.process import WorkerProcess
from cacheproxy.crew.wire import text_in

_log = Logger()
_PAUSE = 0.2
_LONGEST_PAUSE = 30.0
_LIVED = 10.0
"""Seconds of pause before a worker is started anew: doubled each time that one did not live that
long, so that what fails at once does not keep a processor busy."""


class Boss(Protocol):
    """Who is told."""

    def first_words(self, number: int) -> Begin:
        """Return what a new worker is told."""

    def heard(self, member: Member, message: FromWorker, load: Load) -> None:
        """Take what a worker says, but for what concerns its life."""

    def changed(self, member: Member) -> None:
        """Its life has gone on."""

    def over(self, member: Member, how: str) -> None:
        """Its process has ended, and nothing more is to be heard from it."""


class Member:
    """One worker. ``number`` counts from 1, ``pid`` is 0 while there is no process."""

    def __init__(self, number: int, reactor: Any, boss: Boss) -> None:
        self.number = number
        self.is_ready = False
        self.is_stopping = False
        self.waiting: int | None = None
        self.broken_off: int | None = None
        self.exchanges = 0
        self.starts = 0
        self.why = ""
        self.standing = Standing(0, 0, {}, 0)
        self.line: Line | None = None
        self._reactor = reactor
        self._boss = boss
        self._listening = -1
        self._process: WorkerProcess | None = None
        self._began = 0.0
        self._pause = _PAUSE
        self._how: str | None = None

    @property
    def pid(self) -> int:
        """The number of its process."""
        return self._process.pid if self._process is not None else 0

    @property
    def is_over(self) -> bool:
        """Whether there is no process, and nothing more to be heard of it."""
        return self._process is None

    def start(self, listening: int) -> None:
        """Start it, with the socket that it listens on."""
        self._listening = listening
        self.starts += 1
        self._began = self._reactor.seconds()
        self.is_ready, self.waiting, self.broken_off = False, None, None
        self.why, self._how = "", None
        self.standing = Standing(0, 0, {}, 0)
        self._process = WorkerProcess(self._printed, self._ended)
        try:
            ours, theirs = socket.socketpair()
            self.line = Line(self._reactor, ours, FromWorker, self)
            self._process.start(self._reactor, listening, theirs)
        except OSError as error:
            if self.line is not None:
                self.line.close()
            self._ended(f"could not be started: {error.strerror}")
            return
        self.line.start()
        self.line.tell(self._boss.first_words(self.number))

    def start_again(self) -> None:
        """Start it after a pause."""
        lived = self._reactor.seconds() - self._began
        self._pause = _PAUSE if lived >= _LIVED else min(2 * self._pause, _LONGEST_PAUSE)
        self._reactor.callLater(self._pause, self._start_again)

    def tell(self, message: Any) -> None:
        """Say something to it, if it is there."""
        if self.line is not None:
            self.line.tell(message)

    def kill(self) -> None:
        """End its process at once."""
        if self._process is not None:
            self._process.kill()

    def heard(self, line: Line, message: FromWorker, load: Load) -> None:  # noqa: ARG002
        """Take what it says."""
        if isinstance(message, Ready):
            self.is_ready = True
        elif isinstance(message, Unfit):
            self.why = text_in(message.why)
        elif isinstance(message, Stopping):
            self.waiting = message.waiting
        elif isinstance(message, Ended):
            self.broken_off = message.broken_off
        else:
            self._boss.heard(self, message, load)
            return
        self._boss.changed(self)

    def lost(self, line: Line) -> None:  # noqa: ARG002
        """Nothing more is to be heard of it; its process ends, too."""
        self._see_whether_over()

    def _start_again(self) -> None:
        if not self.is_stopping:
            self.start(self._listening)

    def _printed(self, text: str) -> None:
        _log.warn("worker {number}: {text}", number=self.number, text=text)

    def _ended(self, how: str) -> None:
        self._how = how
        if self.line is not None:
            self.line.read()
        self._see_whether_over()

    def _see_whether_over(self) -> None:
        process, how = self._process, self._how
        if process is None or how is None or (self.line is not None and self.line.is_open):
            return
        self.why = self.why or process.last
        self.is_ready, self._process, self.line = False, None, None
        self._boss.over(self, how)
