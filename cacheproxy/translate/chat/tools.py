"""Tool definitions and the choice among them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cacheproxy.core.document.pointer import Path
from cacheproxy.translate.chat.parts import cache_control
from cacheproxy.translate.common.body import Body, list_of, object_of, text_of, wrong
from cacheproxy.translate.common.reading import Json

_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_NO_ARGUMENTS = {"type": "object", "properties": {}}


class _Function(msgspec.Struct):
    parameters: msgspec.Raw = msgspec.Raw()


class _Tool(msgspec.Struct):
    function: _Function


class _Body(msgspec.Struct):
    tools: list[_Tool]


_BODY = msgspec.json.Decoder(_Body)


def schemas_of(data: bytes) -> list[msgspec.Raw]:
    """Return the texts of the schemas of all ``tools`` in a chat body, found in one go.

    None where the tools are not as they should be: ``messages_tools`` looks closer.
    """
    try:
        tools = _BODY.decode(data).tools
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    return [tool.function.parameters for tool in tools]


def messages_tools(body: Body, schemas: Sequence[msgspec.Raw] = ()) -> list[Json]:
    """Return the tool definitions of a chat ``body``, in their order.

    Schemas keep their own text: templates print it. ``schemas``: those texts, where ``schemas_of``
    found them already. A function without parameters gets the schema of an empty object.
    ``functions``, the older form, counts where there are no ``tools``.
    Raises TranslationError for ``custom`` tools, whose input is no JSON.
    """
    found: list[Json] = []
    for name in ("tools", "functions"):
        given = body.value.get(name)
        for index, tool in enumerate(list_of(given, (name,)) if given is not None else ()):
            path: Path = (name, index)
            object_of(tool, path)
            if name == "functions":
                found.append(_tool(body, tool, path, ()))
                continue
            if tool.get("type", "function") != "function":
                raise wrong((*path, "type"), "only functions can be said in Anthropic's API")
            inside = (*path, "function")
            function = object_of(tool.get("function"), inside)
            found.append(_tool(body, function, inside, schemas) | cache_control(tool))
        if found:
            break
    return found


def _tool(body: Body, function: Json, path: Path, schemas: Sequence[msgspec.Raw]) -> Json:
    said: Json = {"name": text_of(function.get("name"), (*path, "name"))}
    description = function.get("description")
    if description is not None:
        said["description"] = text_of(description, (*path, "description"))
    schema = function.get("parameters")
    if schema is not None:
        object_of(schema, (*path, "parameters"))
    said["input_schema"] = _NO_ARGUMENTS
    if schema:
        index = path[1]
        said["input_schema"] = (
            schemas[index]
            if isinstance(index, int) and index < len(schemas)
            else msgspec.Raw(body.text_at((*path, "parameters")))
        )
    if function.get("strict") is True:
        said["strict"] = True
    return said


def tool_choice(body: Body) -> Json:
    """Return ``tool_choice`` as far as ``body`` says something of it.

    A client that knows ``function_call`` alone takes one call at a time.
    """
    value = body.value
    older = not value.get("tools")
    name = "function_call" if older else "tool_choice"
    given = value.get(name)
    if isinstance(given, dict):
        path: Path = (name,)
        if not older:
            if given.get("type") != "function":
                raise wrong((name, "type"), "a choice of this type cannot be said here")
            path = (name, "function")
            given = object_of(given.get("function"), path)
        said = {"type": "tool", "name": text_of(given.get("name"), (*path, "name"))}
    elif isinstance(given, str) and given in _CHOICES:
        said = {"type": _CHOICES[given]}
    elif given is None:
        said = {}
    else:
        raise wrong((name,), 'it is one of "auto", "required", "none", or names a function')
    choice: Json = said
    if said.get("type") != "none" and (older or value.get("parallel_tool_calls") is False):
        choice = {"type": "auto"} | said | {"disable_parallel_tool_use": True}
    return {"tool_choice": choice} if choice else {}
