"""Reads a whole body with msgspec: 80 KB that are not ASCII take 100 µs instead of 170.

One call reads the values, from UTF-8 as it is; another cuts the two outermost levels into texts,
from whose lengths their places follow. msgspec knows no places and forgets all duplicates but the
last. So what it says is believed only where the body, walked along it, holds just that, spelled
as programs spell it: ``,`` and ``:`` with one space behind them or none. All else (other spaces,
duplicate names, lone surrogates, NaN) is for ``core.document.reader``, which means the same.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cacheproxy.core.document import reader as jsonreader
from cacheproxy.core.document.spans import Container

MOST_BYTES = 2 << 20
"""Of a body that is read so: no single call may keep other threads waiting. 2 MiB take 2 ms."""
MOST_COMMAS = 30_000
"""The same: to cut up as many takes 2 ms."""
_COUNTED_ABOVE = 128 << 10
"""Bytes below which there are never too many: what would take 2 ms takes 3 here in any way."""
_Raw = msgspec.Raw
_cut = msgspec.json.Decoder(
    dict[str, list[_Raw] | dict[str, _Raw] | str | int | float | bool | None]
).decode
_value = msgspec.json.Decoder().decode
# Where a text at the root has more escapes than this takes 0.1 ms for, jsonreader is faster.
_scalar = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+){0,1000}+"|[^"\s,\[\]{}]+').match
_FAULTS = (msgspec.DecodeError, ValueError, RecursionError)
_OBJECT_ENDS, _ARRAY_ENDS = b"}]"


def read_raw(body: bytes) -> Container | None:
    """Return the object that ``body`` is; None if it has to be read in another way."""
    size = len(body)
    if size > MOST_BYTES or (size > _COUNTED_ABOVE and body.count(b",") > MOST_COMMAS):
        return None
    try:
        root = _object(body, 0, _cut(body), _value(body))
    except _FAULTS:
        return None
    if root is None or root.length != size or root.entries > jsonreader.MOST_ENTRIES:
        return None
    return root


def _object(
    body: bytes, opening: int, cut: dict[str, Any], value: dict[str, Any]
) -> Container | None:
    """Return the object at ``opening``; None if it is not all that stands there.

    ``cut``: its members as texts, or cut up themselves; ``value``: what it says.
    """
    made = Container(is_object=True)
    made.keys, made.values = list(value), list(value.values())
    colon = body.find(b'":', opening) + 2
    space = b" " if body[colon : colon + 1] == b" " else b""
    comma = b"," + space
    at = opening + 1
    for key, part in cut.items():
        if made.starts:
            if not body.startswith(comma, at):
                return None
            at += len(comma)
        name = b'"%b":%b' % (key.encode(), space)
        made.starts.append(at - opening)
        if not body.startswith(name, at):
            return None
        at += len(name)
        made.value_starts.append(at - opening)
        if type(part) is _Raw:
            if not body.startswith(part, at):
                return None
            at += len(part)
        elif type(part) in (list, dict):
            inner = (_array if type(part) is list else _object)(body, at, part, value[key])
            if inner is None:
                return None
            at += inner.length
            made.inner.append(inner)
        else:
            found = _scalar(body, at)
            if found is None:
                return None
            at = found.end()
            made.inner.append(None)
        made.ends.append(at - opening)
    made.length = at + 1 - opening
    made.value = value
    return made if body[at] == _OBJECT_ENDS else None


def _array(body: bytes, opening: int, cut: list[Any], value: list[Any]) -> Container | None:
    """The same for an array."""
    made = Container(is_object=False)
    made.values = made.value = value
    starts, ends = made.starts, made.ends
    gap = 2 if cut and body.startswith(b", ", opening + 1 + len(cut[0])) else 1
    comma = b", "[:gap]
    at = 1
    for part in cut:
        if starts:
            if not body.startswith(comma, opening + at):
                return None
            at += gap
        if not body.startswith(part, opening + at):
            return None
        starts.append(at)
        at += len(part)
        ends.append(at)
    made.length = at + 1
    return made if body[opening + at] == _ARRAY_ENDS else None
