"""Tool definitions and the choice among them."""

from __future__ import annotations

from cacheproxy.translate.body import Body, list_of, object_of, text_in, wrong
from cacheproxy.translate.reading import Json

SERVER_RUN = ("web_search_", "web_fetch_", "code_execution_", "tool_search_tool_", "mcp_toolset")
"""How the types of the tools begin that Anthropic's servers run themselves."""
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_tools(body: Body) -> list[Json]:
    """Return the function definitions of a Messages ``body``, in their order.

    Schemas keep their own text: templates print it. A description is always there, since some
    templates join it to others. Deferred tools (``defer_loading``) are given from the start: a
    list that grew as they are found would change the head of the prompt.

    Tools that Anthropic's servers run are left out, because nobody behind a chat server runs them;
    clients do without where a model never calls them. Tools that a client runs with a schema
    known to Anthropic's models alone (``bash_…``, ``text_editor_…``) have none to send: as any
    tool without ``input_schema`` they raise TranslationError, which names the place.
    """
    tools = body.value.get("tools")
    found: list[Json] = []
    for index, tool in enumerate(list_of(tools, ("tools",)) if tools is not None else ()):
        path = ("tools", index)
        kind = object_of(tool, path).get("type")
        schema = tool.get("input_schema")
        if schema is None and isinstance(kind, str) and kind.startswith(SERVER_RUN):
            continue
        function: Json = {"name": text_in(tool, "name", path)}
        description = tool.get("description")
        function["description"] = "" if description is None else text_in(tool, "description", path)
        place = (*path, "input_schema")
        if schema is None:
            raise wrong(place, "the schema is missing")
        object_of(schema, place)
        function["parameters"] = body.raw_at(place)
        if isinstance(tool.get("strict"), bool):
            function["strict"] = tool["strict"]
        found.append({"type": "function", "function": function})
    return found


def tool_choice(body: Body) -> Json:
    """Return ``tool_choice`` and ``parallel_tool_calls`` as far as ``body`` says something."""
    choice = body.value.get("tool_choice")
    if choice is None:
        return {}
    kind = object_of(choice, ("tool_choice",)).get("type")
    said: Json = {}
    if kind == "tool":
        name = text_in(choice, "name", ("tool_choice",))
        said["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif isinstance(kind, str) and kind in _CHOICES:
        said["tool_choice"] = _CHOICES[kind]
    else:
        raise wrong(("tool_choice", "type"), 'it is one of "auto", "any", "tool", "none"')
    if isinstance(choice.get("disable_parallel_tool_use"), bool):
        said["parallel_tool_calls"] = not choice["disable_parallel_tool_use"]
    return said
