"""``Dialect``: all facts and functions for one API."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from cacheproxy.core.dialects.answer import Reading
from cacheproxy.core.dialects.content import SYSTEM_ROLES, Segment, texts_in, texts_shown
from cacheproxy.core.dialects.errors import is_overflow
from cacheproxy.core.dialects.reasoning import Putting
from cacheproxy.core.dialects.stream import COMMENT, Whole, event

Json = dict[str, Any]


class Purpose(StrEnum):
    """The purpose of requests to a path, in OpenTelemetry's words as far as these go."""

    CHAT = "chat"
    TEXT = "text_completion"
    EMBEDDINGS = "embeddings"
    COUNT = "count"
    RENDER = "render"
    UNKNOWN = ""

    def __init__(self, value: str) -> None:
        """``evaluates``: whether the server evaluates the prompt, not only counts or renders it."""
        self.evaluates = value not in ("count", "render")


class Endpoint(NamedTuple):
    """One path of an API."""

    end: str  #: end of the path: gateways put prefixes before it (/openai/v1/...)
    purpose: Purpose = Purpose.UNKNOWN  #: purpose of its requests
    provider: str = "openai"  #: owner of the format, in OpenTelemetry's words


class UsageSpelling(NamedTuple):
    """The paths of the counts in a usage object: of several, the first that is there holds."""

    signs: tuple[str, ...]  #: members of which a usage in this spelling has at least one
    prompt: tuple[str, ...]  #: tokens of the prompt
    output: tuple[str, ...]  #: generated tokens
    reused: tuple[str, ...] = ()  #: tokens from the cache; ``a.b`` is b in the object a
    written: tuple[str, ...] = ()  #: tokens put into the cache
    is_rest: bool = False  #: whether ``prompt`` excludes the tokens reused and written (law 6)
    hint: bytes = b""
    """Text in each message that has the counts outside of ``usage``; b"": they are in ``usage``."""
    seconds: tuple[str, ...] = ()  #: nanoseconds of the prompt's evaluation and of the answer's


class EndMarks(NamedTuple):
    """The signs of an answer's end."""

    ends: Callable[[Json], bool]  #: function that returns whether a message is the last
    events: frozenset[str] = frozenset()  #: types of the last event
    done: bytes = b""  #: data of the last event, if that is no JSON
    keys: tuple[tuple[bytes, bytes], ...] = ()
    """Keys by which the last message is known, each with its value in all messages before."""


def openai_error(status: int, message: str) -> Json:
    """Return the body of an error in the format of OpenAI's API."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = "invalid_api_key" if status == 401 else status  # as api.openai.com answers a wrong key
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def openai_deferred_error(status: int, message: str, _: bool) -> bytes:
    """Return the error event that ends a stream of OpenAI's: its SDKs raise it as an ``APIError``.

    No ``[DONE]`` follows: a client that ignores the event must not take the rest for an answer.
    """
    error = openai_error(status, message)["error"]
    if is_overflow(status, message):
        error |= {"type": "invalid_request_error", "code": "context_length_exceeded"}
    return event({"error": error}, named=False)


def same_stream_options(first: Json, second: Json, _: bool) -> bool:
    """Return whether two requests have the same stream options, if the second wants a stream."""
    options = (body.get("stream_options") or None for body in (first, second))
    return second.get("stream") is not True or next(options) == next(options)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """An API. The defaults are those of OpenAI's."""

    name: str  #: name in records and captures
    path: str = ""  #: path of clients' requests for an answer
    endpoints: tuple[Endpoint, ...] = ()  #: all paths of the API
    is_proxied: bool = True  #: False: turns in this API are read in captures alone

    # A request.
    items: str = "messages"  #: member with the messages; "": there are none
    text_types: tuple[str, ...] = ("text",)  #: types of text blocks in messages
    is_itemised: bool = False  #: whether calls, results and reasoning are typed items of the list
    images: str = ""  #: member of a message with its images; "": they are blocks of its content
    is_text: bool = False  #: whether one text, the user's, may replace the messages
    head: str = ""  #: member with the system text; "": that is in the first messages
    head_in_blocks: bool = False  #: whether clients send the system text as blocks
    texts: tuple[str, ...] = ()  #: members with a text beside the messages; ``head`` is added
    leads: bool = True  #: whether leading system messages are the prompt's system text
    limits: tuple[str, ...] = ("max_completion_tokens", "max_tokens")
    """Members that limit an answer's tokens: those in the body, else the last one here."""
    options: str = ""  #: member that has the ``limits``; "": the request itself
    unstored: Json = field(default_factory=dict)  #: members by which no answer is stored
    as_segments: Callable[[Json], list[Segment]] | None = None
    """Reader of a body whose messages differ in form from the other APIs'; None: they do not."""
    as_chat: Callable[[Json], Json | None] | None = None
    """Function that puts a body's prompt into Chat Completions; None: that takes a translation."""
    is_rendered: bool = False  #: whether servers that show a rendered prompt take its bodies
    key: bytes = b"Authorization: Bearer "  #: header line of an API key, up to the key
    version_header: bytes = b""  #: header with the API's version; b"": there is none

    # An answer.
    usage: tuple[UsageSpelling, ...] = ()  #: spellings of the usage
    reports_reused: bool = False  #: whether usage has reused tokens whatever the server's flags
    end: EndMarks | None = None  #: signs of an answer's end; None: not known
    sign: Callable[[bytes], bytes] = lambda _: COMMENT
    """Maker of a sign of life in a silent stream, for clients to which comments are none; gets the
    first bytes of the answer, b"" before there are any."""
    sign_waits: bool = False
    """Whether official SDKs raise on the sign before the answer has begun: then only clients that
    are known get it there."""
    whole: Callable[[], Whole] | None = None  #: maker of a body from a stream; None: not known
    events: Callable[[Json, Json | None], bytes] | None = None
    """Maker of a stream from the whole body of an answer, and from its request if that is known;
    raises ValueError for what is no answer. None: not known."""
    unasked: Callable[[Json, bytes], bytes] | None = None
    """Function of a request and an event of a stream: returns the event without what the request
    did not ask for, b"" if nothing is left."""
    can_regive: Callable[[Json, Json, bool], bool] = same_stream_options
    """Function that returns whether the answer to one request can be given to another, equal but
    for the form it asks for: of both bodies, and whether the server's streams count unasked."""
    deferred_error: Callable[[int, str, bool], bytes] = openai_deferred_error
    """Maker of a stream's end if the server refuses the request after the stream's head was sent:
    of the refusal's status and message, and whether events of the answer were sent."""
    error: Callable[[int, str], Json] = openai_error
    """Maker of an error's body from its status and message."""
    reading: Reading | None = None  #: readers of its answers; None: not known
    reasoning: Putting | None = None  #: function that puts reasoning back; None: it has no place

    def __post_init__(self) -> None:
        """Add ``head`` to ``texts``."""
        if self.head and self.head not in self.texts:
            object.__setattr__(self, "texts", (self.head, *self.texts))

    def body(self, system: str | Sequence[str], messages: list[Json]) -> Json:
        """Return the members of a request with a system text, or its parts, and messages."""
        text: Any = system if isinstance(system, str) else "\n".join(system)
        if text is not system and self.head_in_blocks:
            text = [{"type": "text", "text": part} for part in system]
        if self.head:
            return {self.head: text, self.items: messages}
        return {self.items: [{"role": "system", "content": text}, *messages]}

    def limited(self, body: Json, tokens: int) -> Json:
        """Return the members that limit the answer to ``body`` to so many ``tokens``."""
        if self.options:
            options = body.get(self.options)
            known = options if isinstance(options, dict) else {}
            return {self.options: known | {self.limits[-1]: tokens}}
        return dict.fromkeys(
            [name for name in self.limits if name in body] or self.limits[-1:], tokens
        )

    def may_say(self, body: Json) -> bool:
        """Return whether the limits in ``body`` allow more than one token, and it is no background.

        A background request's answer is fetched later.
        """
        options = body.get(self.options) if self.options else body
        known = options if isinstance(options, dict) else {}
        limits = [known[name] for name in self.limits if type(known.get(name)) is int]
        return not any(0 <= most <= 1 for most in limits) and body.get("background") is not True

    def first_texts(self, body: Json, roles: tuple[str, ...]) -> list[str]:
        """Return the texts of the first message with any whose role is in ``roles``."""
        messages = body.get(self.items)
        if isinstance(messages, str):
            return [messages] if "user" in roles else []
        for message in messages if isinstance(messages, list) else ():
            if isinstance(message, dict) and message.get("role") in roles:
                texts = texts_in(message.get("content"))
                if texts:
                    return texts
        return []

    def opening(self, body: Json) -> list[list[str]]:
        """Return the texts of each place of system text, without blank ones.

        The places are the member for it (``head``; ``system``, as in Ollama's ``/api/generate``, if
        that is empty), and the leading messages of role system or developer.
        """
        found = [texts_shown(body.get(self.head or "system"))]
        messages, texts = body.get(self.items), []
        for message in messages if isinstance(messages, list) else ():
            if not isinstance(message, dict) or message.get("role") not in SYSTEM_ROLES:
                break
            texts += texts_shown(message.get("content"))
        return [texts for texts in (*found, texts) if texts]
