"""The folder for captures: private, limited in size, one file per session and day.

Not ``logging.handlers``: their files follow links, and are rotated by their own size and clock.
POSIX only (directory descriptors, O_NOFOLLOW).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import NamedTuple

from cacheproxy.core.conversation.session import Session

_NAME = re.compile(r"[A-Za-z0-9._]+-[A-Za-z0-9._-]+-(\d{4}-\d\d-\d\d)\.jsonl")
_OURS = b'{"cacheproxy": '
"""What each of our lines starts with."""
_UNSAFE = re.compile(r"[^A-Za-z0-9._]+")
_UNSAFE_ID = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST_CLIENT = 20
_LONGEST_ID = 64


class CaptureError(ValueError):
    """A folder that captures cannot be written to; the message says how to mend it."""


class _File(NamedTuple):
    """A file of captures."""

    name: str  #: in the folder
    day: str  #: that it is of
    size: int  #: bytes
    changed: int  #: when it was written last, in ns


class CaptureFolder:
    """Appends lines to the files of a private folder.

    The folder is made if it is not there. It stays the same one whatever happens to its path: it
    is used through a descriptor. The oldest files go when all are larger than ``size`` bytes, or
    older than ``days`` whole days; ``removed``: how many went. Raises CaptureError.
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

        Drops the oldest files first if the caps ask for it. Raises OSError; then the file is as
        it was before.
        """
        day = day_of(wall)
        if len(line) > self._size:
            raise OSError(errno.EFBIG, "one exchange is larger than the limit for all captures")
        if self._total is None or day != self._day or self._total + len(line) > self._size:
            self._total = self._make_room(day, len(line))
            self._day = day
        self._total += _append(self._folder, file_name(session, day), line)

    def close(self) -> None:
        """Let go of the folder."""
        folder, self._folder = self._folder, -1
        if folder >= 0:
            os.close(folder)

    def _make_room(self, day: str, size: int) -> int:
        """Remove what is too old, then the oldest until ``size`` fits; return what is left."""
        files = sorted(self._files(), key=lambda file: (file.day, file.changed))
        oldest = (date.fromisoformat(day) - timedelta(self._days)).isoformat()
        total = sum(file.size for file in files)
        for file in files:
            if file.day >= oldest and total + size <= self._size:
                break
            with contextlib.suppress(FileNotFoundError):
                os.unlink(file.name, dir_fd=self._folder)
            self.removed += 1
            total -= file.size
        return total

    def _files(self) -> Iterator[_File]:
        """Yield the files that are ours by name and by first bytes; no others are removed."""
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
                        yield _File(name, match[1], facts.st_size, facts.st_mtime_ns)
                finally:
                    os.close(file)


def day_of(wall: float) -> str:
    """Return the day of ``wall``, in epoch seconds, as it stands in names: ``2026-11-21``."""
    return time.strftime("%Y-%m-%d", time.localtime(wall))


def file_name(session: Session, day: str) -> str:
    """Return ``CLIENT-SESSIONID-DAY.jsonl`` in safe characters; ``day``: ``2026-11-21``.

    An id that had to be changed gets a few characters of its hash: two stay two.
    """
    client = _UNSAFE.sub("_", session.client)[:_LONGEST_CLIENT].lstrip(".") or "client"
    identity = _UNSAFE_ID.sub("_", session.id)[:_LONGEST_ID] or "none"
    if identity != session.id:
        digest = hashlib.sha256(session.id.encode("utf-8", "surrogatepass")).hexdigest()
        identity += f".{digest[:8]}"
    return f"{client}-{identity}-{day}.jsonl"


def _open_private(path: Path) -> int:
    """Return a descriptor of the folder at ``path``: ours, nobody else's, and no link."""
    try:
        for each in (*reversed(path.parents), path):
            with contextlib.suppress(FileExistsError):
                each.mkdir(0o700)
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if path.is_symlink():
            raise CaptureError(
                f"capture {path} is a symbolic link: name the folder itself"
            ) from None
        raise CaptureError(f"capture {path}: {error.strerror}: name another folder") from None
    facts = os.fstat(folder)
    if facts.st_uid == os.geteuid() and not facts.st_mode & 0o077:
        return folder
    os.close(folder)
    if facts.st_uid != os.geteuid():
        raise CaptureError(f"capture {path} belongs to another user: name another folder")
    # Not mended here: it may be a home or /tmp, named by mistake.
    raise CaptureError(
        f"other users can read capture {path}, and captures hold prompts: name a new folder, or "
        f"run chmod 700 {path}"
    )


def _append(folder: int, name: str, line: bytes) -> int:
    """Append ``line`` whole or not at all; return how many bytes the file has grown."""
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
            line = b"\n" + line  # a power cut left half a line: do not spoil this one too
        try:
            _write(file, line)
        except OSError:
            if before:
                os.ftruncate(file, before)
            else:
                os.unlink(name, dir_fd=folder)
            raise
        return len(line)
    finally:
        os.close(file)


def _write(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]
