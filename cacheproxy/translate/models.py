"""GET /v1/models, where client and upstream disagree on the form of the list."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.translate.chat import errors as chat_errors
from cacheproxy.translate.chat import models as chat_models
from cacheproxy.translate.chat.request import messages_headers
from cacheproxy.translate.common.translation import Answer, Stream, TranslationError
from cacheproxy.translate.messages import errors as messages_errors
from cacheproxy.translate.messages import models as messages_models
from cacheproxy.translate.messages.request import chat_headers


@dataclass(frozen=True, slots=True)
class Models:
    """A ``Translation`` of the list: ``headers`` of the request, ``models`` and ``error`` back."""

    headers: Callable[[Headers], Headers]
    models: Callable[[bytes], bytes]
    error: Callable[[int, bytes], Answer]

    def request(self, request: Request) -> Request:
        """Return ``request`` with the headers that the upstream wants."""
        return replace(request, headers=self.headers(request.headers))

    def answer(self, status: int, body: bytes) -> Answer:
        """Return the list, or the error, for the client."""
        return self.error(status, body) if status >= 300 else Answer(status, self.models(body))

    def stream(self) -> Stream:
        """Refuse: no list comes as a stream. Raises TranslationError."""
        raise TranslationError("the server's answer is no list of models")


def for_messages_client() -> Models:
    """Return the translation for a client of Anthropic's API before a chat server."""
    return Models(chat_headers, messages_models.models, messages_errors.error_answer)


def for_chat_client() -> Models:
    """Return the translation for a client of OpenAI's API before a Messages server."""
    return Models(messages_headers, chat_models.models, chat_errors.error_answer)
