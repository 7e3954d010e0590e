"""The reading of a refusal of tools or schemas: which may be at fault, and how much must leave."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from cacheproxy.core.adapt.adaptation import Refusal, Remembered
from cacheproxy.core.adapt.carriers import Carrier, carriers, kind_of, tools_of
from cacheproxy.core.adapt.schemas import Level, resolved
from cacheproxy.core.prompt.request import Request

KIND: Final = "kind"
"""First half of the key of a kind of tools; the second is its ``type``."""
Facts = dict[Any, Any]
_LOOKED_AT = 600
"""Characters of an error behind which servers quote the request."""
_QUOTES = "; tools ="
"""Text before llama.cpp's quote of all tools."""
_TEMPLATE = r'|executing.{1,200}(?:\bspec\b|param|\("number"|"array")'
"""Errors of templates that write schemas out themselves (gpt-oss, Apertus, Seed-OSS)."""
_ABOUT = re.compile(
    r"grammar|schema|initialize samplers|\bpattern\b|\bregex|\$ref|m(?:in|ax)_value|repetition"
    + _TEMPLATE,
    re.IGNORECASE | re.DOTALL,
)
_LEVELS = (
    (Level.PATTERNS, re.compile(r"\bpattern\b|\bregex|\bformat\b(?!ion)", re.IGNORECASE)),
    (
        Level.BOUNDS,
        re.compile(
            r"m(?:in|ax)_value|repetition|\bm(?:in|ax)(?:Length|Items|imum)|too (?:large|big)"
        ),
    ),
    (
        Level.PLAIN,
        re.compile(
            r"schema error|\$ref|unrecogni[sz]ed|features not supported|unimplemented|must be an? "
            + _TEMPLATE,
            re.IGNORECASE | re.DOTALL,
        ),
    ),
)
"""The least level that may heal, by words of llama.cpp, xgrammar (vLLM) and llguidance."""
_KINDS = re.compile(
    r"(?:un(?:supported|known|recogni[sz]ed)|invalid) tool\b|\btool type\b"
    r"|\btools?\b.{0,40}\b(?:not supported|unsupported)|should be 'function'",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\btools[.\[](\d{1,5})\b")
_POINTER = re.compile(r"schema error at (#[^:\s]*)", re.IGNORECASE)
_QUOTED = re.compile(r"""['"`]([\w.-]{1,128})['"`]""")
_IN_POINTERS = re.compile(r"#/\S*")


def suspected(refusal: Refusal, request: Request, facts: Remembered) -> Facts:
    """Return the next level of each schema that may be at fault, by digest; {} if none may be.

    ``facts``: the levels that the request was sent with.
    """
    if not is_about_schemas(refusal):
        return {}
    told = _pointed_at(refusal, carriers(request), facts)
    said = level_said(refusal)
    found = levels_of(told, said, facts)
    just = {digest: level for digest, level in found.items() if level == said}
    return just or {key: level for key, level in found.items() if level <= Level.TYPED} or found


def levels_of(suspects: Sequence[Carrier], least: int, facts: Remembered) -> Facts:
    """Return the next level, ``least`` or higher, of each of ``suspects`` that has one."""
    found = ((one.digest, one.next_level(facts.get(one.digest, 0), least)) for one in suspects)
    return {digest: level for digest, level in found if level is not None}


def is_about_schemas(refusal: Refusal) -> bool:
    """Whether the refusal may be about a schema."""
    return _ABOUT.search(refusal.words[:_LOOKED_AT]) is not None


def level_said(refusal: Refusal) -> int:
    """Return the least level that may heal by the refusal's words, 0 if they name none."""
    words = _IN_POINTERS.sub("", refusal.words[:_LOOKED_AT])
    return next((level for level, pattern in _LEVELS if pattern.search(words)), 0)


def kinds_refused(refusal: Refusal, request: Request, facts: Remembered) -> Facts:
    """Return the unknown kinds of tools as facts: those that the refusal names, else all."""
    tools, number = tools_of(request), _number_said(refusal)
    kinds = {kind for kind in map(kind_of, tools) if kind and (KIND, kind) not in facts}
    if number is not None and number < len(tools):
        kinds &= {kind_of(tools[number])}
    else:
        words = refusal.words.partition(_QUOTES)[0][:_LOOKED_AT]
        if not _KINDS.search(words):
            return {}
        kinds = kinds & set(_QUOTED.findall(words)) or kinds
    return {(KIND, kind): True for kind in kinds}


def _pointed_at(refusal: Refusal, all_: list[Carrier], facts: Remembered) -> list[Carrier]:
    """Return the carriers that the refusal names by number, name or pointer; else all.

    A name counts only if one of its carriers has not been healed before.
    """
    words = refusal.words[:_LOOKED_AT]
    number, pointer = _number_said(refusal), _POINTER.search(words)
    names = set(_QUOTED.findall(words))
    for told in (
        [one for one in all_ if one.number == number],
        [one for one in all_ if one.name in names],
        [one for one in all_ if pointer is not None and _has(one.schema, pointer[1])],
    ):
        if fresh := [one for one in told if one.digest not in facts]:
            return fresh
    return all_


def _has(schema: Any, pointer: str) -> bool:
    """Whether ``schema`` has a value at ``pointer``, a fragment with its ``#``."""
    return pointer == "#" or resolved(schema, pointer) is not None


def _number_said(refusal: Refusal) -> int | None:
    """Return the index of the tool that the refusal names, None if it names none."""
    if refusal.path[:1] == ("tools",) and len(refusal.path) > 1:
        return refusal.path[1] if isinstance(refusal.path[1], int) else None
    found = _NUMBER.search(refusal.words[:_LOOKED_AT])
    return int(found[1]) if found is not None else None
