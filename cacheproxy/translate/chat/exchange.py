"""One exchange between a chat client and a server that speaks Anthropic Messages."""

from __future__ import annotations

from dataclasses import replace

from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.chat.answer import completion
from cacheproxy.translate.chat.asked import Asked
from cacheproxy.translate.chat.errors import error_answer, is_error
from cacheproxy.translate.chat.request import asked_of, messages_request
from cacheproxy.translate.chat.stream import ChunkStream
from cacheproxy.translate.common.body import Body
from cacheproxy.translate.common.translation import Answer, TranslationError

MAX_TOKENS = 8192
"""Tokens of an answer to a client that sets no limit. Messages need one; a server whose context is
small refuses a larger, and an agent is cut short by a smaller."""


class ChatToMessages:
    """A ``Translation`` for clients of OpenAI's Chat Completions before a Messages server.

    ``created``: seconds since 1970, which the answer has to name. ``max_tokens``: for clients
    that set no limit. See ``messages_request``, ``system_and_messages`` and ``messages_tools`` for
    what becomes of a request, ``completion`` and ``ChunkStream`` for answers.
    """

    def __init__(self, created: int, max_tokens: int = MAX_TOKENS) -> None:
        self._max_tokens = max_tokens
        self._asked = Asked(created=created)

    def request(self, request: Request) -> Request:
        """Return ``request`` for the server. Raises TranslationError naming the place."""
        body = Body(request.body)
        turned = messages_request(request, body, self._max_tokens)
        asked = asked_of(body.value, self._asked.created)
        self._asked = replace(asked, body=turned.body)
        return turned

    def answer(self, status: int, body: bytes) -> Answer:
        """Return the server's unstreamed answer, or its error, for the client."""
        if status >= 300:
            return error_answer(status, body)
        try:
            message = Body(body)
        except TranslationError as error:
            raise TranslationError(f"the server's answer: {error}") from None
        if is_error(message.value):
            return error_answer(status, body)
        return Answer(status, completion(message, self._asked))

    def stream(self) -> ChunkStream:
        """Return the transform of the server's streamed answer."""
        return ChunkStream(self._asked)
