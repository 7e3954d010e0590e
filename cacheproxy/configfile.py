"""Rules are written into the user's config file, and removed again.

The file must be valid before, and is only replaced, as a whole, by a valid one.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cacheproxy.config import ENV_PREFIX, ConfigError
from cacheproxy.core.rules.checks import slow_words
from cacheproxy.sources import default_file, load

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class AppendError(Exception):
    """The file was not changed; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Appended:
    """A config file and its rules that were appended."""

    file: Path  #: absolute path
    before: str | None  #: text before; None if the file was created
    after: str  #: text afterwards
    added: tuple[str, ...]  #: pieces that were to be added, those already there included

    @property
    def what(self) -> str:
        """The verb for a report, to stand before the file's name: ``Made`` or ``Written to``."""
        return "Made" if self.before is None else "Written to"

    def take_back(self) -> None:
        """Undo this append; pieces that were there before stay. Raises AppendError."""
        if self.after != self.before:
            self.undo()

    def undo(self) -> None:
        """Restore the file; if it has changed since, only remove the pieces in ``added``.

        Pieces that were there before, word for word, are removed as well. Raises AppendError.
        """
        try:
            with _alone(self.file):
                text = _read(self.file)
                if text != self.after or self.before == self.after:
                    _replace(self.file, self._without(text or ""))
                elif self.before is None:
                    self.file.unlink()
                else:
                    _replace(self.file, self.before)
        except (OSError, UnicodeDecodeError) as error:
            raise AppendError(f"nothing undone: cannot write {self.file}: {error}") from None

    def _without(self, text: str) -> str:
        """Return ``text`` without the pieces in ``added``; raises AppendError if one is missing."""
        for piece in self.added:
            if piece not in text:
                raise AppendError(
                    f"nothing undone: {self.file} was edited since: remove the rule by hand"
                )
            start = text.index(piece)
            gap = text.endswith("\n\n", 0, start)
            text = text[: start - gap] + text[start + len(piece) :]
        return text


def append(tables: Sequence[str], config: str | None, enable: Sequence[str] = ()) -> Appended:
    """Append ``tables`` to the config file, and switch the rules in ``enable`` on. Blocks.

    A lock makes other processes wait meanwhile. Raises AppendError, also for a rule whose pattern
    is slow.

    ``config``: the file's name; None: that in CACHEPROXY_CONFIG, else the user's own file. A new
    file can be read by the user alone. Tables that are there word for word are not appended.
    """
    named = config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    try:
        file = (Path(named).expanduser() if named else default_file()).resolve()
        if file.exists() and not file.is_file():  # e.g. /dev/null must not be replaced
            raise AppendError(
                f"nothing appended: {file} is not a regular file: name one with --config"
            )
    except (OSError, RuntimeError) as error:
        raise AppendError(f"nothing appended: {error}") from None
    with _alone(file):
        return _append(tables, file, enable)


def _append(tables: Sequence[str], file: Path, enable: Sequence[str]) -> Appended:
    """Do the work of ``append`` on ``file``, under its lock."""
    try:
        before = _read(file)
        text = before or ""
        known = {rule.name for rule in load({}, {}, str(file)).rule} if text else set()
        switch = _enabling(text, enable, file)
    except (OSError, RuntimeError, UnicodeDecodeError, ConfigError) as error:
        raise AppendError(f"nothing appended: {error}") from None
    new = [table for table in tables if table not in text]
    for rule in (tomllib.loads(table)["rule"][0] for table in new):
        if rule["name"] in known:
            raise AppendError(f"nothing appended: {file} has another rule called {rule['name']!r}")
        if said := slow_words(rule["pattern"]):
            raise AppendError(f"nothing appended: rule {rule['name']!r} is {said}")
    gap = "" if not (text and new) else "\n" if text.endswith("\n") else "\n\n"
    after = switch + text + gap + "\n".join(new)
    try:
        if new or switch:
            _replace(file, after)
    except OSError as error:
        raise AppendError(f"nothing appended: cannot write {file}: {error.strerror}") from None
    return Appended(file, before, after, tuple(filter(None, [switch, *tables])))


def _read(file: Path) -> str | None:
    """Return the file's text with its own line ends, None for no file. Raises OSError."""
    return file.read_bytes().decode() if file.exists() else None


@contextlib.contextmanager
def _alone(file: Path) -> Iterator[None]:
    """Keep other processes and threads from writing ``file``, by a lock on its folder.

    Not on the file, since that is replaced; and a lock file would stay behind. Where the system
    has no such locks, there is none.
    """
    folder = next((one for one in file.parents if one.is_dir()), None)
    if fcntl is None or folder is None:
        yield
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _enabling(text: str, names: Sequence[str], file: Path) -> str:
    """Return the line that enables ``names`` before ``text``, "" for none; raises AppendError."""
    if not names:
        return ""
    listed = ", ".join(f'"{name}"' for name in names)
    values = tomllib.loads(text)
    if "enable" in values:
        raise AppendError(f"nothing appended: add {listed} to enable in {file}")
    both = [name for name in names if name in values.get("disable", ())]
    if both:
        raise AppendError(f"nothing appended: take {', '.join(both)} out of disable in {file}")
    return f"enable = [{listed}]\n"


def _replace(file: Path, text: str) -> None:
    """Write the whole file, its mode unchanged; raises AppendError for a text that is not valid."""
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
    with replacing(file, text.encode()) as made:
        try:
            load({}, {}, str(made)).rules()
        except ConfigError as error:
            why = str(error).replace(str(made), str(file))
            raise AppendError(f"nothing appended: {why}") from None
        made.chmod(mode)
        if os.name == "posix" and file.exists():  # a file of root's the proxy could not read
            with contextlib.suppress(PermissionError):
                os.chown(made, file.stat().st_uid, file.stat().st_gid)


@contextlib.contextmanager
def replacing(file: Path, data: bytes) -> Iterator[Path]:
    """Yield a new file beside ``file`` with ``data``, for its owner alone; then replace ``file``.

    Raises OSError. After that, or if the body of ``with`` raises, ``file`` is unchanged.
    """
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
    made = Path(name)
    try:
        with os.fdopen(number, "wb") as stream:
            stream.write(data)
        yield made
        made.replace(file)
    finally:
        made.unlink(missing_ok=True)
