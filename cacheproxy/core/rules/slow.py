"""Whether a pattern takes too long on some text, tried on texts that are made to take long.

Such a text begins as a match does, goes on with what one of the pattern's repetitions takes, very
often, and then has a character that nothing matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from cacheproxy.core.document.search import LateError, SearchPattern
from cacheproxy.core.rules.second_pass import REPEATS, Example, Node, parse

LENGTHS = (100, 10_000, 250_000)
"""Characters of the texts. With the first, time doubles with a character or two; with the last, it
grows with the square."""
_MOST_MATCHES = 1000
"""Matches that are looked at: many of them take long, but no longer each."""
_SPOILED = "\0"
_ALTERNATIVES = 3
_MANY = 10
"""Repetitions that a text has to have for it to take long."""


def slow(pattern: str, lengths: Sequence[int] = LENGTHS) -> int | None:
    """Return at how many characters ``pattern`` takes longer than it may, None if it does not.

    A length is certain; None is not: there may be other texts.
    """
    compiled = SearchPattern(pattern)
    for length in lengths:
        for text in attacks(pattern, length):
            search = compiled.within(length)
            try:
                for _ in islice(search.finditer(text), _MOST_MATCHES):
                    pass
            except LateError:
                return length
    return None


def slow_words(pattern: str) -> str | None:
    """Return that ``pattern`` is slow, and on how long a text; None if it is not."""
    length = slow(pattern)
    if length is None:
        return None
    return f"slow: its pattern takes too long on some texts of {length:,} characters"


def attacks(pattern: str | bytes, length: int) -> Iterator[str]:
    """Yield texts of about ``length`` characters on which ``pattern`` may take long, each once."""
    seen = set()
    tree = list(parse(pattern))
    for before, inner, after in [([], tree, []), *_repeats(tree, [], [])]:
        for alternative in range(_ALTERNATIVES):
            for which in (0, -1):
                example = Example(alternative, 0, which)
                start, again, end = map(example.of, (before, inner, after))
                for head, pump in ((start, again), (start, again[:-1]), ("", start + again)):
                    shape = head, pump, end
                    if pump and shape not in seen:
                        seen.add(shape)
                        times = max(0, length - len(head) - len(end)) // len(pump)
                        yield head + pump * times + _SPOILED + end


def _repeats(
    nodes: Sequence[Node], before: list[Node], after: list[Node]
) -> Iterator[tuple[list[Node], list[Node], list[Node]]]:
    """Yield what each repetition in ``nodes`` repeats, with what comes before it and after."""
    for number, (kind, value) in enumerate(nodes):
        name = str(kind)
        head, tail = [*before, *nodes[:number]], [*nodes[number + 1 :], *after]
        inner: list[Sequence[Node]] = []
        if name in REPEATS:
            inner = [value[2]]
            if value[1] > _MANY:
                yield head, list(value[2]), tail
        elif name == "BRANCH":
            inner = value[1]
        elif name in ("SUBPATTERN", "ASSERT", "ASSERT_NOT"):
            inner = [value[-1]]
        elif name == "ATOMIC_GROUP":
            inner = [value]
        elif name == "GROUPREF_EXISTS":
            inner = [one for one in value[1:] if one]
        for one in inner:
            yield from _repeats(list(one), head, tail)
