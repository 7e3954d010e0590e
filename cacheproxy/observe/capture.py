"""The observer that captures: raw exchanges to disk, off the reactor thread.

The reactor only hands an exchange over; one thread redacts, serialises and writes it. The queue is
bounded: if the disk is slow or full, captures are dropped, counted and logged once, and no request
ever waits. ``queue.Queue`` does not fit: it bounds the number, not the bytes.

The folder is private and limited in size, with one file per session and day. Not
``logging.handlers``: their files follow links, and are rotated by their own size and clock. POSIX
only (directory descriptors, O_NOFOLLOW).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from twisted.logger import Logger

from cacheproxy import hookimpl, quick
from cacheproxy.config import ConfigError
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.jsonl import to_line

_log = Logger()
_TOO_LARGE = "an exchange is larger than all that may wait for the disk"
_CALM = 60.0
"""Seconds without a drop, by the exchanges' own times, after which an episode is over."""
_GATHER = 0.2
"""Seconds that the thread waits for more exchanges before it looks again: waking it for each would
cost the reactor more than the writing does."""
_MOST_SESSIONS = 1000
_NOT_BODIES = 1024
"""Bytes counted for an exchange besides its bodies and headers."""
_NAME = re.compile(r"[A-Za-z0-9._]+-[A-Za-z0-9._-]+-(\d{4}-\d\d-\d\d)\.jsonl")
_OURS = b'{"cacheproxy": '
"""First bytes of each of our lines."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_UNSAFE_ID = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_CLIENT = 20
_LONGEST_ID = 64


@dataclass(eq=False)
class Capture:
    """The observer that captures exchanges.

    Its thread starts with the first exchange (twistd forks before that), and ends in ``close``.
    """

    reactor: Any  #: an IReactorFromThreads, on whose thread it logs
    folder: CaptureFolder  #: the folder to write to
    most: int = 1000  #: exchanges that may wait for the disk, at most
    size: int = 32 << 20  #: bytes of their bodies, at most
    written: int = 0  #: number of exchanges on disk
    dropped: int = 0  #: number of dropped exchanges
    _profiles: dict[Session, tuple[str, Profile | None]] = field(default_factory=dict)
    """Profile last written to each session's file: written again where it differs."""
    _queue: SimpleQueue[tuple[Exchange, int] | None] = field(default_factory=SimpleQueue)
    """Exchanges with their bytes; None ends the thread."""
    _came: int = 0  #: bytes queued; grows on one thread, the next on another: no lock is needed
    _went: int = 0  #: bytes written or dropped
    _thread: threading.Thread | None = None  #: the thread that writes
    _closed: bool = False  #: whether no more exchanges are taken
    _closing: threading.Event = field(default_factory=threading.Event)  #: set to end all waiting
    _telling: threading.Lock = field(default_factory=threading.Lock)  #: guards the next two fields
    _episode: int = 0  #: number of exchanges dropped in this episode
    _last_drop: float = 0.0  #: seconds, by the dropped exchange's own time

    @hookimpl
    @quick
    def cacheproxy_exchange_finished(self, exchanges: Sequence[Exchange]) -> None:
        """Queue them for the thread, or drop them; never waits for the disk."""
        for exchange in () if self._closed else exchanges:
            self._hand_over(exchange)

    def _hand_over(self, exchange: Exchange) -> None:
        headers = (*exchange.received.headers, *exchange.response_headers)
        size = _NOT_BODIES + exchange.size + sum(len(name) + len(value) for name, value in headers)
        waiting = self._came - self._went
        if waiting + size > self.size or self._queue.qsize() >= self.most:
            self._drop(exchange.wall, "the disk is too slow" if size <= self.size else _TOO_LARGE)
            return
        self._came += size
        # A waiting exchange needs no parsed JSON of its requests.
        self._queue.put((exchange.unread() if waiting else exchange, size))
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._write_all, name="cacheproxy-capture", daemon=True
            )
            self._thread.start()

    def close(self, timeout: float = 5.0) -> None:
        """Write the queued exchanges, for at most ``timeout`` seconds, and stop. Blocks."""
        if self._closed:
            return
        self._closed = True
        self._closing.set()
        if self._thread is None:
            self.folder.close()
            return
        self._queue.put(None)
        self._thread.join(timeout)
        with contextlib.suppress(Empty), self._telling:
            while self._queue.get_nowait() is not None:
                self.dropped += 1
        self._queue.put(None)  # the thread's own None may have been taken out just now
        if self.dropped:
            self._tell(f"capture: {self.dropped:,} exchanges were not written to it in all")

    def _write_all(self) -> None:
        while (found := self._queue.get()) is not None:
            exchange, size = found
            trouble = self._write(exchange)
            if trouble:
                self._drop(exchange.wall, trouble)
            else:
                self.written += 1
                self._recover(exchange.wall)
            self._went += size
            del found, exchange  # freed before the wait for the next
            if self._queue.empty():
                self._closing.wait(_GATHER)
        self.folder.close()

    def _write(self, exchange: Exchange) -> str:
        """Write one exchange; return the error, without anything of its contents, or ""."""
        try:
            session = exchange.session or Session(exchange.client, "no-session")
            says = day_of(exchange.wall), exchange.profile
            repeats = self._profiles.get(session) == says
            line = to_line(exchange, repeats=repeats)
            removed = self.folder.removed
            self.folder.append(session, exchange.wall, line)
            if self.folder.removed > removed or len(self._profiles) >= _MOST_SESSIONS:
                self._profiles.clear()  # any session may begin a new file next
            self._profiles[session] = says
        except OSError as error:
            return error.strerror or "the disk failed"
        except Exception as error:  # one exchange's error must not end the captures of all others
            return f"an exchange cannot be written as JSON ({type(error).__name__})"
        return ""

    def _drop(self, wall: float, why: str) -> None:
        """Count a dropped exchange, and log the first of an episode."""
        with self._telling:
            self.dropped += 1
            self._episode += 1
            self._last_drop = wall
            if self._episode == 1:
                self._tell(
                    f"capture to {self.folder.path}: {why}. Exchanges are not written to it; the "
                    "requests themselves go on"
                )

    def _recover(self, wall: float) -> None:
        """Log the end of an episode, after a while without drops."""
        if self._episode and wall - self._last_drop >= _CALM:
            with self._telling:
                self._tell(f"the capture works again; {self._episode:,} exchanges were not written")
                self._episode = 0

    def _tell(self, text: str) -> None:
        self.reactor.callFromThread(_log.warn, "{text}", text=text)


class CaptureFolder:
    """Appends lines to the files of a private folder.

    The folder is created if it does not exist. It stays the same one whatever happens to its path:
    it is used through a descriptor. The oldest files are removed if all are larger than ``size``
    bytes, or they are older than ``days`` whole days; ``removed``: number of removed files. Raises
    ConfigError.
    """

    def __init__(self, path: Path, *, size: int = 1 << 30, days: int = 30) -> None:
        self.path = path
        self.removed = 0
        self._size = size
        self._days = days
        self._folder = _open_private(path)
        self._total: int | None = None
        self._day = ""

    def append(self, session: Session, wall: float, line: bytes) -> None:
        """Append ``line`` to the file of ``session`` and the day of ``wall`` (epoch seconds).

        Removes the oldest files first if the limits require it. Raises OSError; then the file is as
        it was before.
        """
        day = day_of(wall)
        if len(line) > self._size:
            raise OSError(errno.EFBIG, "one exchange is larger than the limit for all captures")
        if self._total is None or day != self._day or self._total + len(line) > self._size:
            self._total = self._make_room(day, len(line))
            self._day = day
        self._total += _append_line(self._folder, file_name(session, day), line)

    def close(self) -> None:
        """Close the folder's descriptor."""
        folder, self._folder = self._folder, -1
        if folder >= 0:
            os.close(folder)

    def _make_room(self, day: str, size: int) -> int:
        """Remove too old files, then the oldest until ``size`` fits; return the bytes used."""
        files = sorted(self._files())
        oldest = (date.fromisoformat(day) - timedelta(self._days)).isoformat()
        total = sum(held for *_, held in files)
        for of_day, _, name, held in files:
            if of_day >= oldest and total + size <= self._size:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=self._folder)
            self.removed += 1
            total -= held
        return total

    def _files(self) -> Iterator[tuple[str, int, str, int]]:
        """Yield our own files, known by name and first bytes; no others are removed.

        A file's values are its day, the time of its last write (ns), its name and its bytes.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.scandir(self._folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            match = _NAME.fullmatch(name)
            if match is None:
                continue
            with contextlib.suppress(OSError):
                file = os.open(name, flags, dir_fd=self._folder)
                try:
                    facts = os.fstat(file)
                    if stat.S_ISREG(facts.st_mode) and _OURS.startswith(os.read(file, len(_OURS))):
                        yield match[1], facts.st_mtime_ns, name, facts.st_size
                finally:
                    os.close(file)


def day_of(wall: float) -> str:
    """Return the day of ``wall``, in epoch seconds, for a file's name: ``2026-11-21``."""
    return time.strftime("%Y-%m-%d", time.localtime(wall))


def file_name(session: Session, day: str) -> str:
    """Return ``CLIENT-SESSIONID-DAY.jsonl`` in safe characters; ``day``: ``2026-11-21``.

    An id that had to be changed gets a few characters of its hash, so that two ids stay two.
    """
    client = _UNSAFE.sub("_", session.client)[:_LONGEST_CLIENT].lstrip(".") or "client"
    identity = _UNSAFE_ID.sub("_", session.id)[:_LONGEST_ID] or "none"
    if identity != session.id:
        digest = hashlib.sha256(session.id.encode("utf-8", "surrogatepass")).hexdigest()
        identity += f".{digest[:8]}"
    return f"{client}-{identity}-{day}.jsonl"


def _open_private(path: Path) -> int:
    """Return a descriptor of the folder at ``path``: owned by us, closed to others, and no link."""
    try:
        for each in (*reversed(path.parents), path):
            with contextlib.suppress(FileExistsError):
                each.mkdir(0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise ConfigError(
                f"capture {path} is a symbolic link: name the folder itself"
            ) from None
        raise ConfigError(f"capture {path}: {error.strerror}: name another folder") from None
    facts = os.fstat(folder)
    if facts.st_uid == os.geteuid() and not facts.st_mode & 0o077:
        return folder
    os.close(folder)
    if facts.st_uid != os.geteuid():
        raise ConfigError(f"capture {path} belongs to another user: name another folder")
    # Its mode is not changed here: it may be a home or /tmp, named by mistake.
    raise ConfigError(
        f"other users can read capture {path}, and captures hold prompts: name a new folder, or "
        f"run chmod 700 {path}"
    )


def _append_line(folder: int, name: str, line: bytes) -> int:
    """Append ``line`` whole or not at all; return the number of bytes that the file has grown."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(name, flags, 0o600, dir_fd=folder)
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
            raise OSError(errno.EPERM, "not a file of our own")
        if facts.st_mode & 0o077:
            os.fchmod(file, 0o600)
        before = facts.st_size
        if before and os.pread(file, 1, before - 1) != b"\n":
            line = b"\n" + line  # a power cut left half a line: this one stays readable
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(file, left) :]
        except OSError:
            if before:
                os.ftruncate(file, before)
            else:
                os.unlink(name, dir_fd=folder)
            raise
        return len(line)
    finally:
        os.close(file)
