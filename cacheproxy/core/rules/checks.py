"""Checks of the fields that all rules share, and of patterns.

Examples show whether a pattern matches its own replacement or note, or takes long. They are made
from the pattern as parsed by Python's own ``re``, so that each of its alternatives is tried, with
as few repetitions as it requires and with more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any

from cacheproxy.core.document.search import SearchPattern, SlowPatternError
from cacheproxy.core.prompt.client import Client

RULE_FIELDS = ("name", "why", "default", "literals", "needs_previous", "edits")
"""Attributes of every rule."""
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
MOST_NAME = 100
"""Characters of a rule's name at most: it appears in log lines."""
_parser: Any = vars(re)["_parser"]
_MOST = 1000
"""Characters of an example at most: slowness on longer texts is found by ``slow``."""
_MOST_ALTERNATIVES = 8
_MOST_TIMES = 64
_CATEGORIES = {"DIGIT": "09", "WORD": "a0", "SPACE": " \t"}
_OTHERS = "a0 -Z"
"""Characters to choose from for a set that excludes others."""
_AROUND = (("", ""), ("x", ""), ("", "x"), (" ", " "), ("\n", "\n"))
REPEATS = ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT")

Node = tuple[Any, Any]
LENGTHS = (100, 10_000, 250_000)
"""Characters of the texts that ``slow`` tries. On the first, only patterns whose time doubles with
each character or two are slow; on the last, also those whose time grows with the square."""
_MOST_MATCHES = 1000
"""Matches to search for in one text at most: more take longer together, but not each."""
_ALTERNATIVES = 3
_MANY = 10
"""Repetitions at most for a part of a pattern that cannot make it slow."""


class RuleError(ValueError):
    """A rule cannot work: its name, pattern, place or replacement is bad."""


def check_fields(rule: Any, *flags: str) -> None:
    """Raise RuleError unless the fields shared by all rules are valid.

    ``flags``: names of the boolean ones.
    """
    name = rule.name
    if type(name) is not str or len(name) > MOST_NAME or not _NAME.fullmatch(name):
        raise RuleError(f"rule {_shown(name)}: a name must be lower-case words joined by '-'")
    literals = rule.literals  # ASCII alone, since JSON may escape other characters
    if not are_texts(literals) or not all(text and text.isascii() for text in literals):
        raise RuleError(f"rule {name!r}: 'literals' must be a list of plain ASCII texts")
    for field, kind in (("why", str), *((flag, bool) for flag in flags)):
        if type(getattr(rule, field)) is not kind:
            raise RuleError(f"rule {name!r}: '{field}' must be of type {kind.__name__}")
    if rule.client is not None and type(rule.client) is not Client:
        raise RuleError(f"rule {name!r}: 'client' must be a Client")


def are_texts(values: Any) -> bool:
    """Whether ``values`` is a list or tuple of nothing but texts."""
    return isinstance(values, tuple | list) and all(type(text) is str for text in values)


def _shown(name: Any) -> str:
    """Return an invalid name for an error's text, cut off: it is not ours, and may be long."""
    return repr(name[:MOST_NAME]) if type(name) is str else f"of type {type(name).__name__}"


def on_one_line(error: Exception) -> str:
    """Return the text of ``error`` on one line: a pattern quoted in it may have several."""
    return " ".join(str(error).split())


def is_settled(apply: Callable[[str], str], pattern: str, texts: Iterable[str]) -> bool:
    """Whether a second pass of ``apply`` changes nothing in any example.

    The examples are ``texts``, and texts made to match ``pattern``. False is certain; True is not:
    there may be other texts, or ``apply`` took too long.
    """
    try:
        for text in (*texts, *examples(pattern)):
            for before, after in _AROUND:
                once = apply(f"{before}{text}{after}") if len(text) < _MOST else ""
                if len(once) <= _MOST and apply(once) != once:
                    return False
    except SlowPatternError:
        pass
    return True


def check_template(template: str, pattern: str) -> None:
    """Raise ``re.error`` or IndexError for a ``template`` that cannot replace a match."""
    _parser.parse_template(template, re.compile(pattern))


def parse(pattern: str | bytes) -> Iterable[Node]:
    """Return the syntax tree of ``pattern``, as parsed by Python's own ``re``."""
    tree: Iterable[Node] = _parser.parse(pattern)
    return tree


def examples(pattern: str) -> Iterator[str]:
    """Yield texts made to match ``pattern``, each once; a few may not match."""
    tree = parse(pattern)
    seen = set()
    for chosen in product(range(_MOST_ALTERNATIVES), (0, 1), (0, -1)):
        text = Example(*chosen).of(tree)
        if text not in seen:
            seen.add(text)
            yield text


class Example:
    """A maker of one example: by which alternative, extra repetitions, and character it takes."""

    def __init__(self, alternative: int, more: int, which: int) -> None:
        self._alternative = alternative
        self._more = more
        self._which = which
        self._groups: dict[int, str] = {}

    def of(self, nodes: Iterable[Node]) -> str:
        """Return a text for the sequence ``nodes``, about ``_MOST`` characters at most."""
        text = ""
        for node in nodes:
            text += self._one(node, text)
            if len(text) > _MOST:
                break
        return text

    def _one(self, node: Node, text: str) -> str:
        name, value = str(node[0]), node[1]
        if name == "LITERAL":
            return chr(value)
        if name in ("NOT_LITERAL", "IN", "ANY"):
            return self._character([node] if name != "IN" else value)
        if name == "BRANCH":
            options = value[1]
            return self.of(options[self._alternative % len(options)])
        if name == "SUBPATTERN":
            found = self.of(value[-1])
            if value[0] is not None:
                self._groups[value[0]] = found
            return found
        if name in REPEATS:
            least, most, inner = value
            times = min(int(least) + self._more, int(most), _MOST_TIMES)
            return (self.of(inner) * times)[: _MOST + 1] if times else ""  # and no group in it
        if name == "ASSERT":  # text required before this position, or after it
            found = self.of(value[1])
            return "" if value[0] < 0 and text.endswith(found) else found
        if name == "ATOMIC_GROUP":
            return self.of(value)
        if name == "GROUPREF_EXISTS":
            group, if_there, if_not = value
            return self.of((if_there if group in self._groups else if_not) or ())
        return self._groups.get(value, "") if name == "GROUPREF" else ""

    def _character(self, nodes: Sequence[Node]) -> str:
        """Return one of a set's characters."""
        found, excluded = "", str(nodes[0][0]) == "NEGATE"
        for kind, value in nodes:
            name = str(kind)
            if name == "LITERAL":
                found += chr(value)
            elif name == "RANGE":
                found += chr(value[0]) + chr(value[1])
            elif name == "CATEGORY":
                found += _CATEGORIES.get(str(value).removeprefix("CATEGORY_"), "-")
            elif name == "NOT_LITERAL":
                excluded, found = True, chr(value)
        if excluded:
            found = "".join(one for one in _OTHERS if one not in found)
        return (found or "a")[self._which]


def slow(pattern: str, lengths: Sequence[int] = LENGTHS) -> int | None:
    """Return the length of a text on which ``pattern`` exceeds its time, None if none is found.

    A length is certain; None is not: there may be other texts.
    """
    compiled = SearchPattern(pattern)
    for length in lengths:
        for text in attacks(pattern, length):
            search = compiled.within(length)
            try:
                for _ in islice(search.finditer(text), _MOST_MATCHES):
                    pass
            except SlowPatternError:
                return length
    return None


def slow_words(pattern: str) -> str | None:
    """Return a sentence that ``pattern`` is slow, and on how long a text; None if it is not."""
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
                        yield head + pump * times + "\0" + end


def _repeats(
    nodes: Sequence[Node], before: list[Node], after: list[Node]
) -> Iterator[tuple[list[Node], list[Node], list[Node]]]:
    """Yield the nodes inside each repetition in ``nodes``, with those before it and after it."""
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
