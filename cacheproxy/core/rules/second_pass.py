"""Whether a pattern matches its own replacement, tried on examples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

_MOST = 1000
"""Characters of an example: what takes long on a longer one is not found out here."""
_GROUP = re.compile(r"\(\?(?:P<\w+>|<?[=!]|[a-zA-Z-]*:|[a-zA-Z]+\))")
_UNIT = re.compile(
    r"(?:\\(?P<escaped>.)|\[(?P<first>[^\]\\^])[^\]]*\]|(?P<plain>[^\\]))"
    r"(?:\{(?P<times>\d{1,2})[^}]*\})?",
    re.DOTALL,
)
_ESCAPED = {"d": "0", "w": "a", "S": "a", "s": " ", "n": "\n", "A": "", "Z": "", "b": "", "B": ""}
_PLAIN = {".": "a", **dict.fromkeys("()^$?*+|", "")}


def is_settled(apply: Callable[[str], str], pattern: str, texts: Iterable[str]) -> bool:
    """Whether a second pass of ``apply`` changes nothing in any example.

    Examples are ``texts``, and one of what ``pattern`` matches where that is plain to see. False
    is certain; True is not: there may be other texts.
    """
    for text in (*texts, *_example(pattern)):
        if len(text) <= _MOST:
            once = apply(text)
            if len(once) <= _MOST and apply(once) != once:
                return False
    return True


def _example(pattern: str) -> Iterator[str]:
    """Yield a text that ``pattern`` may match: each of its parts once, alternatives as one."""
    yield "".join(map(_spelled, _UNIT.finditer(_GROUP.sub("", pattern))))


def _spelled(unit: re.Match[str]) -> str:
    escaped, first, plain = unit["escaped"], unit["first"], unit["plain"]
    if escaped is not None:
        text = _ESCAPED.get(escaped, escaped)
    elif first is not None:
        text = first
    else:
        text = _PLAIN.get(plain, plain)
    return text * int(unit["times"] or 1)
