"""One exchange between a Messages client and a Chat Completions server."""

from __future__ import annotations

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.answer import WholeAnswer, message
from cacheproxy.translate.asked import Asked
from cacheproxy.translate.body import Body
from cacheproxy.translate.errors import error_answer, is_error
from cacheproxy.translate.reading import read
from cacheproxy.translate.request import chat_request
from cacheproxy.translate.stream import MessageStream
from cacheproxy.translate.translation_error import TranslationError


class MessagesToChat:
    """A client of Anthropic's Messages API before a chat server: ``sent`` is ``request`` for it.

    ``spellings``: what is known of earlier answers' tool calls; shared by all exchanges that
    may belong to one conversation. See ``chat_messages``, ``chat_tools`` and ``chat_body`` for
    what becomes of a request, ``message`` and ``MessageStream`` for answers.

    Raises TranslationError naming the place, for which the client gets 400.
    """

    def __init__(self, request: Request, spellings: Spellings | None = None) -> None:
        self._spellings = spellings if spellings is not None else Spellings()
        body = Body(request.body)
        self.sent = chat_request(request, body, self._spellings)
        self._asked = Asked(
            model=body.value.get("model") or "",
            stops=tuple(body.value.get("stop_sequences") or ()),
            body=self.sent.body,
        )

    def answer(self, status: int, body: bytes) -> WholeAnswer:
        """Return the server's unstreamed answer, or its error, for the client.

        Raises TranslationError where ``body`` makes no sense, for which the client gets 502.
        """
        if status >= 300:
            return error_answer(status, body)
        value = read(body)
        if is_error(value):
            return error_answer(status, body)
        if not isinstance(value, dict):
            raise TranslationError("the server's answer is not a JSON object")
        return WholeAnswer(status, message(value, self._asked, self._spellings))

    def stream(self) -> MessageStream:
        """Return the transform of the server's streamed answer."""
        return MessageStream(self._asked, self._spellings)
