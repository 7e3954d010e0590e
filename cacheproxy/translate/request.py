"""A Messages request as a Chat Completions request: path, headers, parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.dialects.chat import CHAT
from cacheproxy.core.dialects.dialects import beside, endpoint_of
from cacheproxy.core.dialects.messages import MESSAGES
from cacheproxy.core.document.document import Document
from cacheproxy.core.document.pointer import Path
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.translate.conversation import chat_messages
from cacheproxy.translate.reading import (
    Json,
    TranslationError,
    document_of,
    needed,
    raw_at,
    text_in,
    write,
    wrong,
)

_GONE = frozenset({b"x-api-key", b"content-length", b"accept-encoding"})
_EFFORTS = {"xhigh": "high", "max": "high"} | {name: name for name in ("low", "medium", "high")}
"""Efforts that all chat servers know, by Anthropic's words for effort."""
_BUDGETS = ((4_096, "low"), (16_384, "medium"))
"""Reasoning tokens at most, and the effort for such a budget; beyond all of them it is "high"."""
_CHOICES = {"auto": "auto", "any": "required", "none": "none"}


def chat_request(request: Request, spellings: Spellings) -> Request:
    """Return the Messages ``request`` as POST ``…/v1/chat/completions``.

    A query (``?beta=true``) is dropped. Raises TranslationError for another path or a bad body.
    """
    if request.dialect is not MESSAGES or not endpoint_of(request.path).purpose.evaluates:
        raise TranslationError(f"only {MESSAGES.path} has a counterpart in chat completions")
    return replace(
        request,
        target=beside(request.path, CHAT),
        headers=chat_headers(request.headers),
        body=write(chat_body(document_of(request), spellings)),
    )


def chat_headers(headers: Headers) -> Headers:
    """Return ``headers`` for a chat server.

    The key in ``x-api-key`` becomes a bearer token, unless there is an Authorization already.
    Anthropic's own headers are dropped. Accept-Encoding is "identity", as the answer is parsed.
    """
    kept = tuple(
        (name, value)
        for name, value in headers
        if name.lower() not in _GONE and not name.lower().startswith(b"anthropic-")
    )
    keys = [value for name, value in headers if name.lower() == b"x-api-key"]
    if keys and not any(name.lower() == b"authorization" for name, _ in kept):
        kept += ((b"Authorization", b"Bearer " + keys[0]),)
    return (*kept, (b"Accept-Encoding", b"identity"))


def chat_body(body: Document, spellings: Spellings) -> Json:
    """Return the chat completions body for a Messages ``body``.

    Translated members: model, max_tokens, temperature, top_p, top_k (local servers know it),
    stop_sequences, tools, tool_choice, metadata.user_id, stream, the JSON schema of
    ``output_config.format`` or ``output_format``, the effort or the budget for reasoning, and
    chat_template_kwargs, which is meant for a local server. ``stream_options`` requests the usage
    of a streamed answer.

    All other members, known or new, are dropped: they control features of Anthropic's servers alone
    (caching, context edits, service tiers, betas).
    """
    value = body.value
    said: Json = {}
    if value.get("model") is not None:
        said["model"] = text_in(value, "model", ())
    said["messages"] = chat_messages(body, spellings)
    tools = chat_tools(body)
    choice = tool_choice(body)
    if tools:  # without them, OpenAI's API refuses a choice
        said["tools"] = tools
        said |= _possible(choice, tools)
    for name in ("max_tokens", "temperature", "top_p", "top_k"):
        if value.get(name) is not None:
            said[name] = _number(body, name)
    stops = value.get("stop_sequences")
    if stops:
        said["stop"] = [
            needed(str, stop, ("stop_sequences", index))
            for index, stop in enumerate(needed(list, stops, ("stop_sequences",)))
        ]
    metadata = value.get("metadata")
    user = metadata.get("user_id") if isinstance(metadata, dict) else None
    if isinstance(user, str) and user:
        said["user"] = user
    said |= _response_format(body) | _effort(value)
    if isinstance(value.get("chat_template_kwargs"), dict):
        said["chat_template_kwargs"] = raw_at(body, ("chat_template_kwargs",))
    stream = value.get("stream")
    if stream is not None:
        if not isinstance(stream, bool):
            raise wrong(("stream",), "true or false is needed here")
        said["stream"] = stream
        if stream:
            said["stream_options"] = {"include_usage": True}
    return said


def _number(body: Document, name: str) -> msgspec.Raw:
    """Return the number ``name`` of ``body`` as spelled; raises TranslationError for no number."""
    value = body.value[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) == float("inf"):
        raise wrong((name,), "a number is needed here")
    return raw_at(body, (name,))


def _effort(value: Json) -> Json:
    """Return ``reasoning_effort`` for the body's effort or reasoning budget, {} without either."""
    config, thinking = value.get("output_config"), value.get("thinking")
    effort = config.get("effort") if isinstance(config, dict) else None
    if isinstance(effort, str) and effort in _EFFORTS:
        return {"reasoning_effort": _EFFORTS[effort]}
    budget = thinking.get("budget_tokens") if isinstance(thinking, dict) else None
    if type(budget) is not int:
        return {}
    return {"reasoning_effort": next((word for most, word in _BUDGETS if budget <= most), "high")}


def _possible(choice: Json, tools: list[Json]) -> Json:
    """Return ``choice``, without its ``tool_choice`` if that names no tool of ``tools``."""
    wanted = choice.get("tool_choice")
    names = [tool["function"]["name"] for tool in tools]
    if isinstance(wanted, dict) and wanted["function"]["name"] not in names:
        return {name: choice[name] for name in choice if name != "tool_choice"}
    return choice


def _response_format(body: Document) -> Json:
    """Return ``response_format`` with the JSON schema that ``body`` sets, {} if it sets none."""
    for path in (("output_config", "format"), ("output_format",)):
        wanted: Any = body.value
        for step in path:
            wanted = wanted.get(step) if isinstance(wanted, dict) else None
        if isinstance(wanted, dict) and wanted.get("type") == "json_schema":
            place: Path = (*path, "schema")
            needed(dict, wanted.get("schema"), place)
            schema = {"name": "answer", "schema": raw_at(body, place), "strict": True}
            return {"response_format": {"type": "json_schema", "json_schema": schema}}
    return {}


def chat_tools(body: Document) -> list[Json]:
    """Return the function definitions of a Messages ``body``, in their order.

    Schemas keep their own text: templates print it. Every tool gets a description, since some
    templates join it to other strings. Deferred tools (``defer_loading``) are sent from the start:
    a list that grows as tools are found would change the head of the prompt.

    Tools of Anthropic's own types without a schema are left out: those that its servers run
    (``web_search_…``), because no chat server runs them, and those whose schema only its models
    know (``bash_…``). Clients cope with a model that never calls them. Any other tool without
    ``input_schema`` raises TranslationError, which names the place.
    """
    tools = body.value.get("tools")
    found: list[Json] = []
    for index, tool in enumerate(needed(list, tools, ("tools",)) if tools is not None else ()):
        path = ("tools", index)
        kind = needed(dict, tool, path).get("type")
        schema = tool.get("input_schema")
        if schema is None and isinstance(kind, str) and kind != "custom":
            continue
        function: Json = {"name": text_in(tool, "name", path)}
        description = tool.get("description")
        function["description"] = "" if description is None else text_in(tool, "description", path)
        place = (*path, "input_schema")
        if schema is None:
            raise wrong(place, "the schema is missing")
        needed(dict, schema, place)
        function["parameters"] = raw_at(body, place)
        if isinstance(tool.get("strict"), bool):
            function["strict"] = tool["strict"]
        found.append({"type": "function", "function": function})
    return found


def tool_choice(body: Document) -> Json:
    """Return ``tool_choice`` and ``parallel_tool_calls``, each only if ``body`` has it."""
    choice = body.value.get("tool_choice")
    if choice is None:
        return {}
    kind = needed(dict, choice, ("tool_choice",)).get("type")
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
