"""The reader of JSON bodies: what json.loads says, with every value where it is said to stand."""

import json
import math
from typing import Any

import atheris

with atheris.instrument_imports(include=["cacheproxy.core.document"]):
    from cacheproxy.core.document.document import Document
    from cacheproxy.core.document.reader import NotUnderstoodError

from fuzz.starting import start
from tests.core.spelling import ESCAPES, NUMBERS

TEXTS = ",".join(f'"{one}"' for one in ESCAPES)
SEEDS = [
    f'{{"a": [{", ".join(NUMBERS)}, true, null], "b": {{"c": [[], {{}}]}}}}',
    f'{{"a": 1, "a": [{TEXTS}]}}',
    *(f'{{"model":"m","system":"{one}"}}' for one in ESCAPES),
]


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same, NaN included, and 1, 1.0 and true told apart."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other or (isinstance(one, float) and math.isnan(one) and math.isnan(other)))


def check_places(document: Document, path: tuple[Any, ...], value: Any) -> None:
    """Read every value again from where its entry says that it stands."""
    steps = value.items() if isinstance(value, dict) else enumerate(value)
    for step, inner in steps:
        entry = document.entry((*path, step))
        assert same(json.loads(document.body[entry.value_start : entry.end]), inner)
        if isinstance(inner, dict | list):
            check_places(document, (*path, step), inner)


def one(data: bytes) -> None:
    """Any text that json.loads reads as an object is understood, no other is."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return
    try:
        expected = json.loads(text)
    except (ValueError, RecursionError):
        expected = None
    try:
        document = Document(data)
    except NotUnderstoodError:
        assert not isinstance(expected, dict)
        return
    assert same(document.value, expected)
    check_places(document, (), expected)


if __name__ == "__main__":
    start(one, [seed.encode() for seed in SEEDS])
