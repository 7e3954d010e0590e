"""Reduced JSON schemas, for servers that cannot make a grammar of the whole one.

The walk distinguishes keywords, members with schemas and members with values: a parameter named
``pattern``, a ``default``, a ``const`` and the values of an ``enum`` stay. It does not recurse,
however deep a schema is nested. Source: JSON Schema 2020-12 and draft 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from functools import reduce
from operator import getitem
from typing import Any, NamedTuple
from urllib.parse import unquote

from cacheproxy.core.dialects.dialect import Json
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.document.pointer import Path, PathError, index_in, parse_pointer, to_pointer


class Level(IntEnum):
    """How much leaves a schema; each level includes those before it."""

    BOUNDS = 1  #: lengths and numbers of items that are too large
    PATTERNS = 2  #: patterns and formats
    PLAIN = 3  #: references are written out; types have their names; what no grammar says leaves
    TYPED = 4  #: all have one type, as templates want it that write schemas out themselves
    NAMES = 5  #: an object with the names, types and descriptions of its members
    BARE = 6  #: an object
    GONE = 7  #: the schema and what asks for it: for that of an answer alone


_LARGE = 1_000
"""Lengths and numbers of items from which llama.cpp refused some: 2,000, by build."""
_EXACT = 2**53
"""Integers up to which every JSON reader is exact (RFC 8259, section 6)."""
_MOST_WRITTEN_OUT = 200
"""References replaced by their schema, at most; each further one becomes its type alone."""
_DEEPEST = 32
"""Depth of references that lead to references, at most."""
_DEEPEST_EDIT = 16
"""Steps from the root to an edit, at most: deeper, each step would be read anew."""
_TYPE_NAMES = ("string", "integer", "number", "boolean", "object", "array", "null")
_LENGTHS = frozenset({"minLength", "maxLength", "minItems", "maxItems"}) | {
    *("minProperties", "maxProperties", "minContains", "maxContains")
}
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_OF_VALUES: dict[type, str] = dict(
    zip((str, int, float, bool, dict, list, type(None)), _TYPE_NAMES, strict=True)
)
_NOTHING: frozenset[str] = frozenset()
_PATTERNS = frozenset({"pattern", "format"})
_UNSAID = frozenset({"$ref", "$defs", "definitions", "$dynamicRef", "$recursiveRef"}) | {
    *("$anchor", "$dynamicAnchor", "$recursiveAnchor", "$id", "patternProperties"),
    *("propertyNames", "not", "if", "then", "else", "dependencies", "dependentSchemas"),
    *("dependentRequired", "contains", "minContains", "maxContains", "uniqueItems"),
    *("unevaluatedItems", "unevaluatedProperties", "contentSchema", "multipleOf"),
}
"""Keywords that a plain schema lacks: grammars cannot express them, or servers refuse them."""
_MAYBE = frozenset({"additionalProperties", "additionalItems"})
"""Keywords whose value is a schema or a boolean."""
_ONE = _MAYBE | {
    *("items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems"),
    *("unevaluatedProperties", "contentSchema"),
}
_LISTS = frozenset({"anyOf", "oneOf", "allOf", "prefixItems", "items"})
_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions"}) | {
    *("dependentSchemas", "dependencies")
}
_TYPES = {name: name for name in _TYPE_NAMES} | {
    **dict.fromkeys(("str", "text"), "string"),
    **dict.fromkeys(("int", "long"), "integer"),
    **dict.fromkeys(("float", "double", "decimal"), "number"),
    **dict.fromkeys(("dict", "map"), "object"),
    **dict.fromkeys(("list", "tuple", "set"), "array"),
    "bool": "boolean",
    "none": "null",
}
"""Names of types in other languages, in lower case; ``any`` and the like mean no type."""


class _Place(NamedTuple):
    """A schema to be healed."""

    holder: Any  #: the new object or list that it goes into
    key: Any  #: its key or index there
    schema: Any  #: the schema as it came
    within: tuple[str, ...] = ()  #: references that led to it


def healed(schema: Any, level: int) -> Any:
    """Return a copy of ``schema`` reduced to ``level``; below BOUNDS the schema itself."""
    if level < Level.BOUNDS:
        return schema
    if level < Level.NAMES:
        return _walked(schema, level)
    return _outline(_walked(schema, Level.TYPED), named=level == Level.NAMES)


def without_words(schema: Any) -> Any:
    """Return ``schema`` without descriptions, which grammars ignore."""
    return _walked(schema, 0, frozenset({"description"}))


def changes(old: Any, new: Any, at: Path, why: str) -> Iterator[Edit]:
    """Yield the edits that turn ``old``, at the path ``at``, into ``new``; ``why``: their reason.

    Differences deep inside become one edit of a value around them.
    """
    done: set[Path] = set()
    for path, value, adds in _differences(old, new):
        place = path[:_DEEPEST_EDIT]
        if place == path:
            yield Edit(to_pointer((*at, *path)), value, why, adds=adds)
        elif place not in done:
            done.add(place)
            yield Edit(to_pointer((*at, *place)), reduce(getitem, place, new), why)


def _differences(old: Any, new: Any) -> Iterator[tuple[Path, Any, bool]]:
    """Yield each difference: path, value in ``new`` (or REMOVE), and whether it is added."""
    todo: list[tuple[Path, Any, Any]] = [((), old, new)]
    while todo:
        path, old, new = todo.pop()
        if old is new:
            continue
        if isinstance(old, dict) and isinstance(new, dict) and (old.keys() & new.keys() or not new):
            for name in dict.fromkeys((*old, *new)):
                place = (*path, name)
                if name not in new:
                    yield place, REMOVE, False
                elif name not in old:
                    yield place, new[name], True
                else:
                    todo.append((place, old[name], new[name]))
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            todo += [((*path, number), old[number], new[number]) for number in range(len(old))]
        elif isinstance(old, dict | list) or type(old) is not type(new) or old != new:
            yield path, new, False


def resolved(schema: Any, pointer: str) -> Any:
    """Return the value in ``schema`` at ``pointer``, a fragment with its ``#``; None for none."""
    try:
        steps = parse_pointer(unquote(pointer[1:])) if pointer.startswith("#") else ("",)
    except PathError:
        return None
    for step in steps:
        if isinstance(schema, list):
            number = index_in(step, schema)
            schema = None if number is None else schema[number]
        else:
            schema = schema.get(step) if isinstance(schema, dict) else None
    return schema


def _walked(root: Any, level: int, dropped: frozenset[str] = _NOTHING) -> Any:
    """Return a copy of ``root`` for ``level`` (TYPED at most), without the keywords ``dropped``."""
    found = [root]
    todo, left = [_Place(found, 0, root)], _MOST_WRITTEN_OUT
    while todo:
        place = todo.pop()
        holder, key, schema, within = place
        if not isinstance(schema, dict):
            if level < Level.PLAIN:
                continue
            schema = {}
        if level >= Level.PLAIN:
            left -= bool(within)
            schema, within = _written_out(schema, root, within, left)
        if level >= Level.TYPED:
            schema, within = _chosen(schema, root, within, left)
            schema = _typed(schema, "object" if holder is found else "string")
        made: Json = {}
        holder[key] = made
        for name, value in schema.items():
            if name in dropped or (level >= Level.PATTERNS and name in _PATTERNS):
                continue
            if level >= Level.BOUNDS and _is_large(name, value):
                continue
            if level >= Level.PLAIN and (value := _plainly(name, value)) is REMOVE:
                continue
            made[name] = value
            if isinstance(value, dict) and name in _ONE and (value or level < Level.TYPED):
                todo.append(_Place(made, name, value, within))
            elif isinstance(value, dict) and name in _MAPS:
                made[name] = inner = dict(value)
                todo += [_Place(inner, one, value[one], within) for one in value]
            elif isinstance(value, list) and name in _LISTS:
                made[name] = listed = list(value)
                todo += [_Place(listed, at, one, within) for at, one in enumerate(value)]
    return found[0]


def _is_large(name: str, value: Any) -> bool:
    if name in _NUMBERS:
        return not isinstance(value, int | float) or not -_EXACT <= value <= _EXACT
    return name in _LENGTHS and (type(value) is not int or not 0 <= value < _LARGE)


def _written_out(
    schema: Json, root: Any, within: tuple[str, ...], left: int
) -> tuple[Json, tuple[str, ...]]:
    """Return ``schema`` with its reference written out, and the references that led there."""
    while isinstance(reference := schema.get("$ref"), str):
        own = {name: value for name, value in schema.items() if name != "$ref"}
        target = resolved(root, reference)
        if not isinstance(target, dict):
            return own, within
        if reference in within or len(within) == _DEEPEST or left <= 0:
            kind = _plainly("type", target.get("type"))
            return own if kind is REMOVE else {"type": kind, **own}, within
        schema, within = target | own, (*within, reference)
    return schema, within


def _chosen(
    schema: Json, root: Any, within: tuple[str, ...], left: int
) -> tuple[Json, tuple[str, ...]]:
    """Return ``schema`` with the first of its alternatives, and with all of ``allOf``."""
    for _ in range(_DEEPEST):
        name = next((one for one in ("anyOf", "oneOf", "allOf") if one in schema), None)
        if name is None:
            break
        listed = schema[name] if isinstance(schema[name], list) else ()
        parts = [one for one in listed if isinstance(one, dict) and one.get("type") != "null"]
        own = {key: value for key, value in schema.items() if key != name}
        for part in parts if name == "allOf" else parts[:1]:
            own = part | own
        schema, within = _written_out(own, root, within, left)
    return schema, within


def _typed(schema: Json, otherwise: str) -> Json:
    """Return ``schema`` with one type, by its values or ``otherwise``; an array has ``items``."""
    kind = _plainly("type", schema.get("type"))
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is REMOVE:
        values = schema.get("enum") or [schema[name] for name in ("const",) if name in schema]
        kind = _OF_VALUES[type(values[0])] if values else otherwise
        kind = "object" if "properties" in schema else "array" if "items" in schema else kind
    schema = schema | {"type": kind}
    if kind == "array" and not isinstance(schema.get("items"), dict):
        schema |= {"items": {}}
    return schema


def _plainly(name: str, value: Any) -> Any:
    """Return the value of the keyword ``name`` in a plain schema; REMOVE if it leaves."""
    if name in _UNSAID:
        return REMOVE
    if name == "type":
        listed = isinstance(value, list)
        kinds = [kind for kind in map(_type, value if listed else (value,)) if kind]
        return REMOVE if not kinds else kinds if listed else kinds[0]
    if name in _MAYBE:
        fits = isinstance(value, bool | dict)
    elif name == "items":
        fits = isinstance(value, dict) or (isinstance(value, list) and bool(value))
    elif name in _MAPS:
        fits = isinstance(value, dict)
    elif name in _LISTS or name in ("enum", "required"):
        fits = isinstance(value, list) and bool(value)
    else:
        fits = isinstance(value, str) or name not in ("description", "title")
    return value if fits else REMOVE


def _type(name: Any) -> str | None:
    return _TYPES.get(name.lower()) if isinstance(name, str) else None


def _outline(schema: Json, *, named: bool) -> Json:
    """Return the outline of a typed schema; ``named``: with its members."""
    found: Json = {"type": schema["type"]}
    if not named:
        return found
    members: Json = schema.get("properties") or {}
    if "description" in schema:
        found["description"] = schema["description"]
    if found["type"] == "object":
        found["properties"] = {
            name: {key: member[key] for key in ("type", "description") if key in member}
            | ({"items": {}} if member["type"] == "array" else {})
            for name, member in members.items()
        }
    required = schema.get("required")
    if required and all(isinstance(name, str) and name in members for name in required):
        found["required"] = required
    return found
