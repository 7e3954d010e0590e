"""A Chat Completions request as a Messages request: path, headers, parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec

from cacheproxy.core.document.alike import LARGEST
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.translate.chat.asked import Asked
from cacheproxy.translate.chat.conversation import system_and_messages
from cacheproxy.translate.chat.tools import messages_tools, schemas_of, tool_choice
from cacheproxy.translate.common.body import Body, object_of, text_of, wrong
from cacheproxy.translate.common.reading import Json
from cacheproxy.translate.common.translation import TranslationError
from cacheproxy.translate.common.writing import write

_HERE, _THERE = "/chat/completions", "/messages"
_GONE = frozenset(
    {
        b"accept-encoding",
        b"content-length",
        b"openai-beta",
        b"openai-organization",
        b"openai-project",
    }
)
_BEARER = b"bearer "
_VERSION = b"2023-06-01"
_LIMITS = ("max_completion_tokens", "max_tokens")
_HOTTEST = 1
"""Anthropic's temperatures go from 0 to 1, OpenAI's to 2."""


def messages_request(request: Request, body: Body, max_tokens: int) -> Request:
    """Return ``request``, whose body is ``body``, for POST ``…/v1/messages``.

    A query is dropped. Raises TranslationError for another path or a bad body.
    """
    path = request.path.rstrip("/")
    if not path.endswith(_HERE):
        raise TranslationError("only /v1/chat/completions has a counterpart in Anthropic's API")
    return replace(
        request,
        target=path.removesuffix(_HERE) + _THERE,
        headers=messages_headers(request.headers),
        body=write(messages_body(body, max_tokens, schemas_of(request.body))),
    )


def messages_headers(headers: Headers) -> Headers:
    """Return ``headers`` as a Messages server wants them.

    A bearer token becomes the ``x-api-key``, unless there is one already. OpenAI's own headers go.
    The answer has to be read: it is asked for uncompressed.
    """
    names = {name.lower() for name, _ in headers}
    has_key = b"x-api-key" in names
    said: list[tuple[bytes, bytes]] = []
    for name, value in headers:
        if name.lower() in _GONE:
            continue
        if name.lower() == b"authorization" and value[: len(_BEARER)].lower() == _BEARER:
            if not has_key:
                said.append((b"x-api-key", value[len(_BEARER) :].strip()))
                has_key = True
            continue
        said.append((name, value))
    if b"anthropic-version" not in names:
        said.append((b"anthropic-version", _VERSION))
    return (*said, (b"Accept-Encoding", b"identity"))


def asked_of(value: Json, created: int) -> Asked:
    """Return what the answer needs to know of a chat body that ``messages_body`` has taken."""
    options = value.get("stream_options")
    return Asked(
        model=value.get("model") or "",
        created=created,
        usage=isinstance(options, dict) and options.get("include_usage") is True,
        functions=bool(value.get("functions")) and not value.get("tools"),
    )


def messages_body(body: Body, max_tokens: int, schemas: Sequence[msgspec.Raw] = ()) -> Json:
    """Return the Messages body for a chat ``body``; ``schemas``: see ``messages_tools``.

    Handed on: model, messages, max_completion_tokens or max_tokens (else ``max_tokens``),
    temperature (1 at most), top_p, top_k (local servers know it), stop, tools, tool_choice,
    parallel_tool_calls, functions, function_call, user, stream, the JSON schema of
    response_format, and chat_template_kwargs, which only clients of a local server send.

    Refused, since a client that asks for it cannot do without: n above 1, logprobs, audio answers.
    All else is dropped, known or new: it steers what only OpenAI's servers have (store,
    service_tier, prompt_cache_key), or makes an answer likelier without being part of it (seed,
    penalties, logit_bias, prediction, verbosity, reasoning_effort, a response_format without a
    schema, which OpenAI's API grants only to a prompt that asks for JSON itself).
    """
    value = body.value
    _refuse(value)
    said: Json = {}
    if value.get("model") is not None:
        said["model"] = text_of(value["model"], ("model",))
    said["max_tokens"] = _limit(value, max_tokens)
    system, messages = system_and_messages(body)
    if system:
        said["system"] = system
    tools = messages_tools(body, schemas)
    choice = tool_choice(body)
    if tools:  # without them, Anthropic's API refuses a choice
        said["tools"] = tools
        said |= choice
    if value.get("temperature") is not None:
        number = _number(value["temperature"], "temperature")
        said["temperature"] = _HOTTEST if value["temperature"] > _HOTTEST else number
    for name in ("top_p", "top_k"):
        if value.get(name) is not None:
            said[name] = _number(value[name], name)
    stops = _stops(value.get("stop"))
    if stops:
        said["stop_sequences"] = stops
    user = value.get("user")
    if isinstance(user, str) and user:
        said["metadata"] = {"user_id": user}
    said |= _output_config(body)
    if isinstance(value.get("chat_template_kwargs"), dict):
        said["chat_template_kwargs"] = msgspec.Raw(body.text_at(("chat_template_kwargs",)))
    stream = value.get("stream")
    if stream is not None:
        if not isinstance(stream, bool):
            raise wrong(("stream",), "true or false is needed here")
        said["stream"] = stream
    said["messages"] = messages
    return said


def _refuse(value: Json) -> None:
    if value.get("n") not in (None, 1):
        raise wrong(("n",), "Anthropic's API gives one answer to a request")
    for name in ("logprobs", "top_logprobs"):
        if value.get(name):
            raise wrong((name,), "Anthropic's API does not tell log probabilities")
    modalities = value.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        raise wrong(("modalities",), "Anthropic's API answers in text only")


def _limit(value: Json, otherwise: int) -> Any:
    for name in _LIMITS:
        limit = value.get(name)
        if limit is None:
            continue
        number = _number(limit, name)
        # -1 means "as much as you like" to local servers
        return otherwise if limit < 0 else number
    return otherwise


def _number(value: Any, name: str) -> int | msgspec.Raw:
    """Return the number ``value`` of the member ``name`` as a value to write."""
    if type(value) is int and abs(value) < LARGEST:
        return value
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_finite(value):
        raise wrong((name,), "a number is needed here")
    return msgspec.Raw(repr(float(value)))


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an int too large for a double
        return False


def _stops(stop: Any) -> list[str]:
    if stop is None:
        return []
    if isinstance(stop, str):
        return [stop] if stop else []
    if not isinstance(stop, list):
        raise wrong(("stop",), "a string or an array of strings is needed here")
    texts = [text_of(one, ("stop", index)) for index, one in enumerate(stop)]
    return [text for text in texts if text]


def _output_config(body: Body) -> Json:
    wanted = body.value.get("response_format")
    if not isinstance(wanted, dict) or wanted.get("type") != "json_schema":
        return {}
    path = ("response_format", "json_schema")
    holder = object_of(wanted.get("json_schema"), path)
    if holder.get("schema") is None:
        return {}
    object_of(holder["schema"], (*path, "schema"))
    schema = msgspec.Raw(body.text_at((*path, "schema")))
    return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
