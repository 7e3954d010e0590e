"""Values as JSON text, with finished pieces of text inside."""

from __future__ import annotations

import re
from collections.abc import Iterator
from json.encoder import encode_basestring
from typing import Any

import msgspec

_encode = msgspec.json.Encoder().encode
_LONE = re.compile("[\ud800-\udfff]")
_WORDS = {None: "null", True: "true", False: "false"}


def write(value: Any) -> bytes:
    """Return ``value`` as compact JSON in UTF-8.

    It is made of dicts, lists, strings, ints, bools, None and ``msgspec.Raw``, whose text goes in
    as it is. msgspec refuses strings with lone surrogates: these are written as escapes, by a
    second way that spells everything else alike.
    """
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _escaped("".join(_pieces(value))).encode()


def raw(text: str) -> msgspec.Raw:
    """Return the JSON ``text`` as a value to write; lone surrogates in it become escapes."""
    return msgspec.Raw(_escaped(text))


def _escaped(text: str) -> str:
    return _LONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _pieces(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        before = "{"
        for key, inner in value.items():
            yield f"{before}{encode_basestring(key)}:"
            yield from _pieces(inner)
            before = ","
        yield "}" if value else "{}"
    elif isinstance(value, list):
        before = "["
        for inner in value:
            yield before
            yield from _pieces(inner)
            before = ","
        yield "]" if value else "[]"
    elif isinstance(value, str):
        yield encode_basestring(value)
    elif isinstance(value, msgspec.Raw):
        yield bytes(value).decode()
    else:
        yield _WORDS[value] if value is None or isinstance(value, bool) else str(value)
