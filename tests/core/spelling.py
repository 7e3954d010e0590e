r"""JSON texts in every spelling, and where their values stand: an oracle of its own.

``json.loads`` says what a text means; ``places`` says where each value stands, by a reader that
shares nothing with the one under test.
"""

import json
import re

from hypothesis import strategies as st

from cacheproxy.core.document.document import Document
from cacheproxy.core.document.pointer import Places
from cacheproxy.core.document.spans import Container, SpelledValue

Path = tuple

ESCAPES = [
    *(r"\"", r"\\", r"\/", r"\b\f\n\r\t", r"\u00e9", r"\u00E9", r"\ud83d\ude00", r"\uD83D\uDE00"),
    *(r"\ud83d", r"\ude00", r"\ud83d\ud83d\ude00", r"\ud83d\u0041", r"\u0000", r"\u2028"),
]
_RAW = ["a", "bc", "é", "😀", "\u2028", "\x7f", "ude00", "{", "]", ",", ":", "/", " "]
NUMBERS = [
    *("0", "-0", "1", "-0.0", "1.0", "1.50", "1e5", "1E+5", "12e-400", "1e999"),
    *("123456789012345678901234567890", "NaN", "Infinity", "-Infinity"),
]

space = st.sampled_from(["", "", "", " ", "\n", "\t", "\r\n  "])
inside_string = st.lists(st.sampled_from(ESCAPES + _RAW), max_size=6).map("".join)
string = inside_string.map('"{}"'.format)
key = st.one_of(st.sampled_from(['"a"', '"b"', '"\\u0061"', '""', '"a/b~"', '"0"']), string)
leaf = st.one_of(
    st.sampled_from([*NUMBERS, "true", "false", "null"]),
    st.integers().map(str),
    string,
    string,
)


def container(brackets: str, item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    padded = st.builds("{}{}{}".format, space, item, space)
    filled = st.lists(padded, min_size=1, max_size=5).map(",".join)
    return st.one_of(filled, filled, space).map(lambda inner: brackets[0] + inner + brackets[1])


def _object(value: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return container("{}", st.builds("{}{}:{}{}".format, key, space, space, value))


value = st.recursive(
    leaf, lambda inner: st.one_of(_object(inner), container("[]", inner)), max_leaves=12
)
document = st.builds("{}{}{}".format, space, _object(value), space)
"""The text of a JSON object."""


def meaning(value: object) -> str:
    """What ``value`` is, in a form that tells 1 from 1.0 from true and joins surrogates."""
    return json.dumps(value)


def meant_by(text: str) -> str:
    return meaning(json.loads(text))


_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}]+")
_SPACE = re.compile(r"\s*", re.ASCII)


def places(text: str) -> dict[Path, tuple[int, int]]:
    """(start, end) of every value in ``text``; of duplicate keys the last counts."""
    found: dict[Path, tuple[int, int]] = {}

    def skip(position: int) -> int:
        return _SPACE.match(text, position).end()

    def read(path: Path, position: int) -> int:
        start = position
        for stale in [known for known in found if known[: len(path)] == path]:
            del found[stale]
        if text[position] in "{[":
            number = 0
            position = skip(position + 1)
            while text[position] not in "]}":
                step: object = number
                if text[start] == "{":
                    end = _STRING.match(text, position).end()
                    step = json.loads(text[position:end])
                    position = skip(skip(end) + 1)
                position = skip(read((*path, step), position))
                if text[position] == ",":
                    position = skip(position + 1)
                number += 1
            position += 1
        elif text[position] == '"':
            position = _STRING.match(text, position).end()
        else:
            position = _SCALAR.match(text, position).end()
        found[path] = (start, position)
        return position

    read((), skip(0))
    return found


_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|.", re.DOTALL
)


def characters(literal: str) -> list[str]:
    """The spelling of each character of a string, given the text between its quotes."""
    return _CHARACTER.findall(literal)


def observed(document: Document, places: Places) -> object:
    """Everything, and what is remembered of it: by member, and the texts at ``places``."""
    root = document.root
    shape = [root.keys, root.starts, root.value_starts, root.ends, root.length, document.start]
    for item in root.items:
        inner = [item] if isinstance(item, SpelledValue) else item.items if item else []
        shape += [(bytes(one.spelled), meaning(one.value)) for one in inner]
        if isinstance(item, Container):
            shape += [item.starts, item.ends, item.length, bytes(item.spelled), item.keys]
    return shape, document.short(), document.texts(places), everything(document)


def everything(document: Document) -> object:
    """All that a document says of a body: meaning, entries at every depth, in their order."""
    found: list[object] = [meaning(document.value)]

    def look(path: Path, value: object) -> None:
        steps = value if isinstance(value, dict) else range(len(value))
        for number, step in enumerate(steps):
            if not number:
                siblings = document.siblings((*path, step))
                found.append([(path, *one[:-1], meaning(one.value)) for one in siblings])
            found.append([*document.entry((*path, step))[:-1]])
            if isinstance(value[step], dict | list):
                look((*path, step), value[step])

    look((), document.value)
    return found


def at(value: object, path: Path) -> object:
    for step in path:
        value = value[step]
    return value
