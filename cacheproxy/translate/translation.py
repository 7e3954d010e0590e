"""The translation of an exchange between a Messages client and a Chat Completions server.

``chat_of`` returns the chat body of a request in any dialect.
"""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NoReturn

from cacheproxy.core.conversation.conversation import Spellings
from cacheproxy.core.dialects.dialects import VERSION_HEADERS
from cacheproxy.core.dialects.stream import is_error
from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.answer import AnswerContext, WholeAnswer, error_answer, message
from cacheproxy.translate.reading import Json, TranslationError, read, write
from cacheproxy.translate.request import chat_headers, chat_request
from cacheproxy.translate.stream import MessageStream

_UNKNOWN = "1970-01-01T00:00:00Z"
"""Release date if it is unknown: "an epoch value", by Anthropic's API reference."""
_NO_LIST = "the server's answer is no list of models"
_SHOWN = ("messages", "tools", "tool_choice", "chat_template_kwargs", "reasoning_effort", "model")
"""Members that a template sees. ``response_format`` and the like only bind the answer."""


class MessagesToChat:
    """The exchange of a Messages client with a chat server: ``sent`` is ``request`` for the server.

    ``spellings``: arguments of earlier answers' tool calls as the model spelled them; shared by all
    exchanges that may belong to one conversation. ``chat_messages``, ``chat_tools`` and
    ``chat_body`` translate a request, ``message`` and ``MessageStream`` answers.

    Raises TranslationError naming the place, for which the client gets 400.
    """

    def __init__(self, request: Request, spellings: Spellings | None = None) -> None:
        self._spellings = spellings if spellings is not None else Spellings()
        self.sent = chat_request(request, self._spellings)
        asked = request.json or {}
        self._context = AnswerContext(
            model=asked.get("model") or "",
            stops=tuple(asked.get("stop_sequences") or ()),
            body=self.sent.body,
        )

    def answer(self, status: int, body: bytes) -> WholeAnswer:
        """Return the response for the client to the server's unstreamed answer, or to its error.

        Raises TranslationError if ``body`` makes no sense, for which the client gets 502.
        """
        if status >= 300:
            return error_answer(status, body)
        value = read(body)
        if is_error(value):
            return error_answer(status, body)
        if not isinstance(value, dict):
            raise TranslationError("the server's answer is not a JSON object")
        return WholeAnswer(status, message(value, self._context, self._spellings))

    def stream(self) -> MessageStream:
        """Return the transform of the server's streamed answer."""
        return MessageStream(self._context, self._spellings)


def asks_for_list(request: Request) -> bool:
    """Whether ``request`` is for the list of models, and by a client of Anthropic's API."""
    if request.method != "GET" or not request.path.rstrip("/").endswith("/models"):
        return False
    return request.first_header(VERSION_HEADERS) is not None


class ListOfModels:
    """The exchange of an Anthropic client that lists a chat server's models; ``sent``: as above."""

    def __init__(self, request: Request) -> None:
        self.sent = replace(request, headers=chat_headers(request.headers))

    def answer(self, status: int, body: bytes) -> WholeAnswer:
        """Return the list of models, or the error; TranslationError for a body that is no list."""
        return error_answer(status, body) if status >= 300 else WholeAnswer(status, models(body))

    def stream(self) -> NoReturn:
        """Raise TranslationError: a list of models never comes as a stream."""
        raise TranslationError(_NO_LIST)


def models(body: bytes) -> bytes:
    """Return the answer to GET ``/v1/models`` in Anthropic's shape for a chat server's ``body``.

    ``max_input_tokens`` is set if the server reports its context size: llama.cpp (``meta.n_ctx``),
    vLLM (``max_model_len``). Raises TranslationError if ``body`` is no list of models.
    """
    value = read(body)
    listed = value.get("data") if isinstance(value, dict) else None
    if not isinstance(listed, list):
        raise TranslationError(_NO_LIST)
    found = [
        _model_entry(one)
        for one in listed
        if isinstance(one, dict) and isinstance(one.get("id"), str)
    ]
    return write(
        {
            "data": found,
            "has_more": False,
            "first_id": found[0]["id"] if found else None,
            "last_id": found[-1]["id"] if found else None,
        }
    )


def _model_entry(model: Json) -> Json:
    said = {
        "type": "model",
        "id": model["id"],
        "display_name": model["id"],
        "lifecycle": "active",
        "created_at": _date(model.get("created")),
    }
    meta = model.get("meta")
    for room in (meta.get("n_ctx") if isinstance(meta, dict) else None, model.get("max_model_len")):
        if type(room) is int and room > 0:
            said["max_input_tokens"] = room
            break
    return said


def _date(seconds: Any) -> str:
    """Return ``seconds`` since 1970 as RFC 3339 text, the epoch itself if they are no such time."""
    if type(seconds) is not int:
        return _UNKNOWN
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return _UNKNOWN


def chat_of(request: Request) -> dict[str, Any] | None:
    """Return the members of the chat body of ``request`` that a template sees, or None.

    None: it has no conversation that is understood. Probes have the server render the body:
    llama-server's POST ``/apply-template`` and vLLM's POST ``/tokenize`` take messages of Chat
    Completions. A server's own rendering of Messages or Responses may differ in a few characters;
    callers that compare verify it by the token count.
    """
    try:
        body = _chat_body(request)
    except (TranslationError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None
    if body is None or not isinstance(body.get("messages"), list):
        return None
    return {name: body[name] for name in _SHOWN if body.get(name) is not None}


def _chat_body(request: Request) -> dict[str, Any] | None:
    dialect, body = request.dialect, request.json
    if dialect is None:
        return None
    if dialect.as_chat is None:
        value: dict[str, Any] = json.loads(MessagesToChat(request).sent.body)
        value.pop("reasoning_effort", None)  # llama.cpp's own reading of Messages has no effort
        return value
    return None if body is None else dialect.as_chat(body)
