"""Patterns that others wrote, searched for with a limit on the time.

Python's own ``re`` cannot be stopped: a pattern that goes back exponentially holds the process for
ever. The package ``regex`` can; what a pattern means stays as ``re`` has it, but for characters
that Unicode classes differently (docs/rules.md).
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
"""Processor time that one pattern may take for one body: far more than any shipped one takes."""
_LONG = 64 << 10
"""Characters of a text beyond which other threads run meanwhile; for shorter ones, to let them in
takes longer than the search."""
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
_REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")
_LARGEST = 100_000
"""Parts of a pattern, which take 30 MB: ``regex`` makes as many of one as must be there."""

# "[[a-z]" means to us what it means to re; what it may mean one day is nobody's mistake.
warnings.filterwarnings("ignore", "Possible (?:nested set|set )", FutureWarning)


class _Collections:
    """The processor time that Python's garbage collector took: no pattern is to blame for it."""

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
    """Return the processor time of this thread in seconds, without what Python's collector took."""
    return thread_time() - _collections.seconds


class SlowPatternError(Exception):
    """A pattern took longer than it may: ``seconds``."""

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
        """Return what searches in a body of ``size`` bytes, all its texts together."""
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
        """``regex`` counts the time of the whole process, and so what other threads do as well."""

    def search(self, text: str) -> regex.Match[str] | None:
        """Return the first match in ``text``."""
        return next(self.finditer(text), None)

    def match(self, text: str, at: int) -> regex.Match[str] | None:
        """Return the match that begins at ``at``."""
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
        """Begin anew where other threads took the time: what is done again is no fault of its."""
        now = worked()
        if now < self._until:
            self._until += now - begun
        self._patience *= 4

    def _left(self) -> tuple[float, float]:
        """Return now and the seconds left, which begin with a text; raises SlowPatternError."""
        now = thread_time() - _collections.seconds
        if not self._until:
            self._until = now + self._seconds
        if now >= self._until:
            raise SlowPatternError(self._seconds)
        return now, (self._until - now) * self._patience


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> regex.Pattern[str]:
    plain = re.compile(pattern)  # no more than this is allowed, and its messages are known
    if _size(_parser.parse(pattern)) > _LARGEST:
        raise re.error(f"more than {_LARGEST:,} characters, with its repetitions written out")
    braces = _BRACES_VERBOSE if plain.flags & re.VERBOSE else _BRACES
    try:
        return regex.compile(braces.sub(_spelled, pattern), regex.VERSION0)
    except regex.error as error:
        raise re.error(str(error)) from None


def _size(part: Any) -> int:
    """Return how many parts a part has, as ``re`` reads it, if all that must be there is copied."""
    if isinstance(part, list | _parser.SubPattern):
        return sum(map(_size, part))
    if not isinstance(part, tuple):
        return 0
    if str(part[0]) in _REPEATS:
        least, _, inner = part[1]
        return max(1, int(least)) * _size(inner)
    return 1 + sum(map(_size, part[1:]))


def _spelled(found: re.Match[str]) -> str:
    """Spell out what ``re`` takes literally and ``regex`` does not: ``{e}``, ``[[:alpha:]]``."""
    if found["brace"]:
        return r"\{"
    if found["set"]:
        inside = _IN_SET.sub(lambda one: one[0] if one[0] != "[" else r"\[", found["set"][1:])
        return f"[{inside}"
    return found[0]
