"""The search for patterns of others, within a time limit.

Python's own ``re`` cannot be interrupted: a pattern that backtracks exponentially blocks the
process for ever. The package ``regex`` can be; a pattern means the same as in ``re``, but for
characters that Unicode classifies differently (docs/rules.md).
"""

from __future__ import annotations

import gc
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from time import thread_time
from typing import Any

import regex

SECONDS = 0.1
SECONDS_PER_MIB = 0.25
"""Processor time of one pattern for one body at most: far more than any shipped one needs."""
_LONG = 64 << 10
"""Characters of a text above which other threads run during its search; for a shorter one, the
switch takes longer than the search."""
_SYNTAX = (
    r"\(\?#[^)]*(?:\)|\Z)|\\N\{[^}]*\}|\\."
    r"|(?P<quantifier>\{(?:\d+(?:,\d*)?|,\d*)\})"
    r"|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<brace>\{)"
)
_BRACES = re.compile(_SYNTAX, re.DOTALL)
_BRACES_VERBOSE = re.compile(rf"{_SYNTAX}|#[^\n]*", re.DOTALL)
_IN_SET = re.compile(r"\\.|\[", re.DOTALL)
_parser: Any = vars(re)["_parser"]
_LARGEST = 100_000
"""Parts of a pattern at most, which take 30 MB: ``regex`` copies a part for each repetition that is
required."""

# "[[a-z]" is to mean what it means to re today: the warning of a later meaning helps nobody.
warnings.filterwarnings("ignore", "Possible (?:nested set|set )", FutureWarning)


class _Collections:
    """The processor time of Python's garbage collector, which must not count against a pattern."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._begun = 0.0

    def __call__(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._begun = thread_time()
        else:
            self.seconds += thread_time() - self._begun


_collections = _Collections()
gc.callbacks.append(_collections)


def worked() -> float:
    """Return the processor seconds of this thread, without those of Python's garbage collector."""
    return thread_time() - _collections.seconds


class SlowPatternError(Exception):
    """A pattern exceeded its limit of ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"its pattern took longer than {seconds:.3g} s")


class SearchPattern:
    """A Python regex. ``groups`` and ``groupindex`` are as in ``re``. Raises ``re.error``."""

    def __init__(self, pattern: str) -> None:
        self._regex = _compiled(pattern)
        self.groups: int = self._regex.groups
        self.groupindex: Mapping[str, int] = self._regex.groupindex

    def within(self, size: int = 0) -> Search:
        """Return a Search with the time limit for all texts of a body of ``size`` bytes."""
        return Search(self._regex, size)


class Search:
    """A pattern with a time limit over all its searches; the methods raise SlowPatternError.

    ``size``: bytes of the body.
    """

    def __init__(self, pattern: regex.Pattern[str], size: int = 0) -> None:
        self._regex = pattern
        self._seconds = SECONDS + SECONDS_PER_MIB * size / (1 << 20)
        self._until = 0.0
        self._patience = 1
        """Factor of the time limit for ``regex``, which measures the time of all threads."""

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the first match in ``text``, None if there is none."""
        return next(self.finditer(text), None)

    def match(self, text: str, at: int) -> regex.Match[str] | None:
        """Return the match that begins at ``at``, None if there is none."""
        while True:
            begun, left = self._left()
            lets_in = self._patience > 1 or len(text) > _LONG  # whether other threads run
            try:
                return self._regex.match(text, at, timeout=left, concurrent=lets_in)
            except TimeoutError:
                self._once_more(begun)

    def finditer(self, text: str) -> Iterator[regex.Match[str]]:
        """Yield the matches in ``text``."""
        done = 0
        while True:
            begun, left = self._left()
            lets_in = self._patience > 1 or len(text) > _LONG
            try:
                for found in islice(
                    self._regex.finditer(text, timeout=left, concurrent=lets_in), done, None
                ):
                    done += 1
                    yield found
            except TimeoutError:
                self._once_more(begun)
            else:
                return

    def _once_more(self, begun: float) -> None:
        """Prepare a repetition after a timeout; extend the limit if other threads used the time."""
        now = worked()
        if now < self._until:
            self._until += now - begun
        self._patience *= 4

    def _left(self) -> tuple[float, float]:
        """Return the time and the seconds left; the limit begins with the first call.

        Raises SlowPatternError if none are left.
        """
        now = thread_time() - _collections.seconds
        if not self._until:
            self._until = now + self._seconds
        if now >= self._until:
            raise SlowPatternError(self._seconds)
        return now, (self._until - now) * self._patience


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    plain = re.compile(pattern)  # only patterns of re are allowed; its error messages are known
    if _size(_parser.parse(pattern)) > _LARGEST:
        raise re.error(f"more than {_LARGEST:,} characters, with its repetitions written out")
    braces = _BRACES_VERBOSE if plain.flags & re.VERBOSE else _BRACES
    try:
        return regex.compile(braces.sub(_spelled, pattern), regex.VERSION0)
    except regex.error as error:
        raise re.error(str(error)) from None


def _size(part: Any) -> int:
    """Return the number of parts of a pattern's part, parsed by ``re``, repetitions copied."""
    if isinstance(part, list | _parser.SubPattern):
        return sum(map(_size, part))
    if not isinstance(part, tuple):
        return 0
    if str(part[0]) in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        least, _, inner = part[1]
        return max(1, int(least)) * _size(inner)
    return 1 + sum(map(_size, part[1:]))


def _spelled(found: re.Match[str]) -> str:
    """Return ``found`` escaped if ``re`` takes it literally and ``regex`` does not (``{e}``)."""
    if found["brace"]:
        return r"\{"
    if found["set"]:
        inside = _IN_SET.sub(lambda one: one[0] if one[0] != "[" else r"\[", found["set"][1:])
        return f"[{inside}"
    return found[0]
