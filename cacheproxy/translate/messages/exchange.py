"""One exchange between a Messages client and a Chat Completions server."""

from __future__ import annotations

from cacheproxy.core.conversation.spellings import Spellings
from cacheproxy.core.prompt.request import Request
from cacheproxy.translate.common.body import Body
from cacheproxy.translate.common.reading import read
from cacheproxy.translate.common.translation import Answer, TranslationError
from cacheproxy.translate.messages.answer import message
from cacheproxy.translate.messages.asked import Asked
from cacheproxy.translate.messages.errors import error_answer, is_error
from cacheproxy.translate.messages.request import chat_request
from cacheproxy.translate.messages.stream import MessageStream


class MessagesToChat:
    """A ``Translation`` for clients of Anthropic's Messages API before a chat server.

    ``spellings``: what is known of earlier answers' tool calls; shared by all exchanges that
    may belong to one conversation. See ``chat_messages``, ``chat_tools`` and ``chat_body`` for
    what becomes of a request, ``message`` and ``MessageStream`` for answers.
    """

    def __init__(self, spellings: Spellings | None = None) -> None:
        self._spellings = spellings if spellings is not None else Spellings()
        self._asked = Asked()

    def request(self, request: Request) -> Request:
        """Return ``request`` for the server. Raises TranslationError naming the place."""
        body = Body(request.body)
        turned = chat_request(request, body, self._spellings)
        self._asked = Asked(
            model=body.value.get("model") or "",
            stops=tuple(body.value.get("stop_sequences") or ()),
            body=turned.body,
        )
        return turned

    def answer(self, status: int, body: bytes) -> Answer:
        """Return the server's unstreamed answer, or its error, for the client."""
        if status >= 300:
            return error_answer(status, body)
        value = read(body)
        if is_error(value):
            return error_answer(status, body)
        if not isinstance(value, dict):
            raise TranslationError("the server's answer is not a JSON object")
        return Answer(status, message(value, self._asked, self._spellings))

    def stream(self) -> MessageStream:
        """Return the transform of the server's streamed answer."""
        return MessageStream(self._asked, self._spellings)
