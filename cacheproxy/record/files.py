"""Captures on disk: files of captured exchanges, written by cacheproxy or by other programs.

Read are JSON lines (see ``cacheproxy.record.jsonl``), HAR files, either also packed by gzip, xz or
bzip2, and folders of them. An error in a file becomes one line that quotes nothing of it; the valid
entries are used.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from cacheproxy.core.kinds.profile import Profile
from cacheproxy.record.exchange import Exchange
from cacheproxy.record.har import from_har
from cacheproxy.record.jsonl import CapturedError, from_fields, parse

_ENDINGS = (".jsonl", ".har")
_PACKED = {b"\x1f\x8b": gzip.open, b"\xfd7zXZ": lzma.open, b"BZh": bz2.open}
"""Functions that open a packed file, by its first bytes."""
_ALL_ENDINGS = (*_ENDINGS, *(a + b for a in _ENDINGS for b in (".gz", ".xz", ".bz2")))
_MOST_BYTES = 1 << 30
"""Bytes of a packed file at most, unpacked: a small file may unpack to any size."""
_MOST_PROBLEMS = 10
"""Problems reported of one file at most; one line counts the rest."""
_HEAD = 4096
_BOM = b"\xef\xbb\xbf"
# A JSON text over many lines, or one that begins as a HAR does.
_WHOLE = re.compile(rb'\s*\{\s*(?:[\r\n]|"log"\s*:)')

# Files that people pass by mistake, by their first bytes.
_KINDS = (
    (re.compile(rb"PK\x03\x04"), "a zip archive: unpack it first"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "compressed by zstd: unpack it first"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "UTF-16 text: save it as UTF-8"),
    (
        re.compile(rb"\A\d+:\d*:?[a-z_]+"),
        "mitmproxy's own format: convert it with mitmdump -nr FILE --set hardump=FILE.har",
    ),
    (
        re.compile(rb"\xa1\xb2|\xd4\xc3\xb2\xa1|\x0a\x0d\x0d\x0a"),
        "captured packets, not exchanges: record a HAR, or use --capture",
    ),
)
_OTHER = "neither JSON lines of exchanges nor a HAR"


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in a file."""

    file: str  #: the file's name
    line: int | None  #: number of the line, from 1; None for the whole file
    text: str  #: one sentence that names the error

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.text}"


Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def read(paths: Paths) -> tuple[list[Exchange], list[Problem]]:
    """Return the exchanges in the files and folders at ``paths``, and the problems found there.

    Paths are read in the order given; of a folder, ``*.jsonl`` and ``*.har`` by name, packed or
    not. Never raises for a file's state or contents. Holds all exchanges in memory, unlike
    ``read_each``.
    """
    found = list(read_each(paths))
    records = [one for one in found if isinstance(one, Exchange)]
    return records, [one for one in found if isinstance(one, Problem)]


def read_each(paths: Paths) -> Iterator[Exchange | Problem]:
    """Yield what ``read`` returns, one by one."""
    given = [paths] if isinstance(paths, str | os.PathLike) else paths
    for path in given:
        yield from _read_path(Path(path))


def _read_path(path: Path) -> Iterator[Exchange | Problem]:
    try:
        if not path.is_dir():
            yield from _read_file(path)
            return
        files = sorted(one for one in path.iterdir() if one.name.lower().endswith(_ALL_ENDINGS))
    except OSError as error:
        yield Problem(str(path), None, f"cannot be read: {error.strerror or 'input/output error'}")
        return
    if not files:
        yield Problem(str(path), None, f"holds no capture ({', '.join(_ENDINGS)})")
    for file in files:
        yield from _read_path(file)


def _read_file(path: Path) -> Iterator[Exchange | Problem]:
    seen = 0
    with _opened(path) as file:
        for line, found in _exchanges(file):
            if isinstance(found, Exchange):
                yield found
                continue
            seen += 1
            if seen <= _MOST_PROBLEMS:
                yield Problem(str(path), line, found)
    if seen > _MOST_PROBLEMS:
        yield Problem(str(path), None, f"and {seen - _MOST_PROBLEMS} more such lines")


def _opened(path: Path) -> BinaryIO:
    file: BinaryIO = path.open("rb", buffering=1 << 20)
    head = file.peek(8)[:8]  # type: ignore[attr-defined]
    opener = next((one for start, one in _PACKED.items() if head.startswith(start)), None)
    if opener is None:
        return file
    file.close()
    return io.BufferedReader(_Unpacked(opener(path, "rb")), 1 << 20)  # type: ignore[operator]


class _TooLargeError(Exception):
    """A packed file is larger, unpacked, than any capture."""


class _Unpacked(io.RawIOBase):
    """The unpacked contents of a packed file, up to ``_MOST_BYTES``."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._left = _MOST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._source.read(len(buffer))
        self._left -= len(data)
        if self._left < 0:
            raise _TooLargeError
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._source.close()
        super().close()


def _exchanges(file: BinaryIO) -> Iterator[tuple[int | None, Exchange | str]]:
    """Yield the exchanges of an open file, or their errors, each with its line.

    Of a file that cannot be unpacked to its end: those before that place.
    """
    try:
        head = file.peek(_HEAD)[:_HEAD].removeprefix(_BOM)  # type: ignore[attr-defined]
        if not head.strip():
            yield None, "empty"
        elif not head.lstrip().startswith(b"{") and b"\n{" not in head:
            yield None, next((name for start, name in _KINDS if start.match(head)), _OTHER)
        elif _WHOLE.match(head):
            for found in _said(file.read().removeprefix(_BOM), is_har=True):
                yield None, found
        else:
            profile = None
            for number, line in enumerate(file, 1):
                if line.strip():
                    for found in _said(line.removeprefix(_BOM), profile):
                        if isinstance(found, Exchange):
                            profile = found.profile
                        yield number, found
    except _TooLargeError:
        yield None, f"more than {_MOST_BYTES >> 30} GiB once it is unpacked: split it"
    except (EOFError, lzma.LZMAError, gzip.BadGzipFile, zlib.error):
        yield None, "packed, and damaged or cut short"


def _said(
    text: bytes, profile: Profile | None = None, *, is_har: bool = False
) -> Iterator[Exchange | str]:
    """Yield the exchanges of a line or a whole file, or errors; ``profile``: the line's before."""
    try:
        said = parse(text)
        # a HAR may be on one line, and "log" not its first member
        if is_har or (isinstance(said, dict) and isinstance(said.get("log"), dict)):
            yield from from_har(said)
        else:
            yield from_fields(said, profile)
    except CapturedError as error:
        yield str(error)
