"""Carriers of schemas in a request: its tools, and the member that sets the answer's form."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from cacheproxy.core.adapt.schemas import Level, changes, healed
from cacheproxy.core.dialects.dialect import Json
from cacheproxy.core.document.document import Document
from cacheproxy.core.prompt.request import Request

Names = tuple[str, ...]
_OF_TOOLS: tuple[Names, ...] = (("function", "parameters"), ("input_schema",), ("parameters",))
"""Paths of the schema in a tool: Chat Completions and Ollama, Messages, Responses."""
_OF_ANSWERS: tuple[tuple[Names, Names], ...] = (
    (("response_format",), ("json_schema", "schema")),
    (("response_format",), ("schema",)),
    (("text", "format"), ("schema",)),
    (("output_config", "format"), ("schema",)),
    (("output_format",), ("schema",)),
    (("json_schema",), ()),
    (("format",), ()),
)
"""Paths of members that set the answer's form, each with the path of the schema in it."""


class Carrier(NamedTuple):
    """A tool, or the member that sets the answer's form."""

    number: int  #: index of the tool; -1 for the answer's form
    path: Names  #: path of the schema: within the tool, or in the body for the answer's form
    schema: Any  #: the schema as it came; None for an answer's form without one
    digest: str  #: digest of the schema; for an answer's form, also of whether there are tools
    name: str = ""  #: name of the tool
    whole: Names = ()  #: path of the member that sets the answer's form

    def next_level(self, now: int, least: int = 0) -> Level | None:
        """Return the first level with an effect above ``now``, from ``least`` on, or None."""
        if self.number >= 0 or self.schema is not None:
            first = max(now + 1, least)
            before = healed(self.schema, first - 1)
            for level in [one for one in Level if first <= one < Level.GONE]:
                after = healed(self.schema, level)
                if any(True for _ in changes(before, after, (), "")):
                    return level
                before = after
        return Level.GONE if self.number < 0 and now < Level.GONE else None


def carriers(request: Request) -> list[Carrier]:
    """Return the carriers of ``request`` in their order; the digests of tools are cached."""
    document = request.document
    if document is None:
        return []
    found: list[Carrier] = []
    array = document.array("tools")
    if array is not None:
        before, count = array.before
        if "schemas" not in array.notes:  # of those that the request before had they are known
            known: list[str] = before.get("schemas", [])[:count]
            new = enumerate(array.values[len(known) :], len(known))
            array.notes["schemas"] = known + [_noted(document, at, tool) for at, tool in new]
        for number, digest in enumerate(array.notes["schemas"]):
            tool = array.values[number]
            if (path := schema_path(tool)) is not None:
                found.append(Carrier(number, path, _at(tool, path), digest, name_of(tool)))
    answer = _answer(document.value, has_tools=bool(found))
    return found if answer is None else [*found, answer]


def tools_of(request: Request) -> Sequence[Any]:
    """Return the tools of ``request`` as they came."""
    tools = (request.json or {}).get("tools")
    return tools if isinstance(tools, list) else ()


def kind_of(tool: Any) -> str:
    """Return the type of a tool that is no function and has no schema; "" for any other."""
    kind = tool.get("type") if isinstance(tool, dict) else None
    is_other = isinstance(kind, str) and kind != "function" and schema_path(tool) is None
    return str(kind) if is_other else ""


def name_of(tool: Json) -> str:
    """Return the name of a tool or of a ``tool_choice``; its type if it has no name."""
    inner = tool.get(str(tool.get("type")))
    name = inner.get("name") if isinstance(inner, dict) else tool.get("name")
    return name if isinstance(name, str) else str(tool.get("type"))


def schema_path(tool: Any) -> Names | None:
    """Return the path of the schema in ``tool``, None if it has none."""
    for path in _OF_TOOLS:
        holder = _at(tool, path[:-1])
        if isinstance(holder, dict) and path[-1] in holder:
            return path
    return None


def placed(value: Json, path: Names, new: Any) -> Json:
    """Return a copy of ``value`` with ``new`` in place of the value at ``path``."""
    return value | {path[0]: placed(value[path[0]], path[1:], new) if path[1:] else new}


def _at(value: Any, path: Names) -> Any:
    for step in path:
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _noted(document: Document, number: int, tool: Any) -> str:
    """Return the digest of a tool's schema, "" if it has none."""
    path = schema_path(tool)
    try:
        return "" if path is None else _digest(_at(tool, path))
    except RecursionError:  # it is nested too deeply to be spelled anew
        entry = document.entry(("tools", number))
        return _blake2b(document.body[entry.value_start : entry.end])


def _digest(value: Any) -> str:
    return _blake2b(json.dumps(value, sort_keys=True, separators=(",", ":")).encode())


def _blake2b(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()


def _answer(body: Json, *, has_tools: bool) -> Carrier | None:
    """Return the carrier that sets the answer's form: the first with a schema, else the first."""
    found: Carrier | None = None
    for whole, path in _OF_ANSWERS:
        value = _at(body, whole)
        is_text = isinstance(value, dict) and value.get("type") == "text"
        if not value or not isinstance(value, dict | str) or is_text:
            continue
        schema = _at(value, path)
        if isinstance(schema, dict):
            return Carrier(-1, (*whole, *path), schema, _digest([has_tools, value]), whole=whole)
        found = found or Carrier(-1, whole, None, _digest([has_tools, value]), whole=whole)
    return found
