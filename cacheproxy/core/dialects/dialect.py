"""What there is to know of one API: a ``Dialect`` answers each question about it."""

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
    """What requests to a path are for, in OpenTelemetry's words as far as these go."""

    CHAT = "chat"
    TEXT = "text_completion"
    EMBEDDINGS = "embeddings"
    COUNT = "count"
    RENDER = "render"
    UNKNOWN = ""

    def __init__(self, value: str) -> None:
        """``evaluates``: a server evaluates what it is sent; it does not only count or render."""
        self.evaluates = value not in ("count", "render")


class Endpoint(NamedTuple):
    """One path of an API."""

    end: str  #: how it ends: gateways put prefixes before it (/openai/v1/...)
    purpose: Purpose = Purpose.UNKNOWN  #: what it is for
    provider: str = "openai"  #: whose format it is, as OpenTelemetry calls them


class UsageSpelling(NamedTuple):
    """Where usage has its counts: for each a path, or several of which the first that is there."""

    signs: tuple[str, ...]  #: one of these members is in a usage that is spelled so
    prompt: tuple[str, ...]  #: tokens of the prompt
    output: tuple[str, ...]  #: generated tokens
    reused: tuple[str, ...] = ()  #: tokens from the cache; ``a.b``: b in the object a
    written: tuple[str, ...] = ()  #: tokens put into the cache
    is_rest: bool = False  #: the prompt's tokens are without those reused and written (law 6)
    hint: bytes = b""
    """What each message contains in which it stands alone; "": it stands in ``usage``."""
    seconds: tuple[str, ...] = ()  #: nanoseconds of the prompt's evaluation and of the answer's


class EndMarks(NamedTuple):
    """What ends an answer."""

    tells: Callable[[Json], bool]  #: whether a message says that it is the last
    events: frozenset[str] = frozenset()  #: the types of the last event
    done: bytes = b""  #: the data of the last event, where that is no JSON
    keys: tuple[tuple[bytes, bytes], ...] = ()
    """Keys by which a message says so, and what they say in all messages before."""


def openai_error(status: int, message: str) -> Json:
    """Return the body of an error as OpenAI's API has it."""
    kind = "invalid_request_error" if status < 500 else "server_error"
    code = "invalid_api_key" if status == 401 else status  # as api.openai.com answers a wrong key
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def openai_deferred_error(status: int, message: str, _: bool) -> bytes:
    """Return the event that ends a stream of OpenAI's: its SDKs raise it as an ``APIError``.

    No ``[DONE]`` follows: who does not know the event must not take what came for an answer.
    """
    error = openai_error(status, message)["error"]
    if is_overflow(status, message):
        error |= {"type": "invalid_request_error", "code": "context_length_exceeded"}
    return event({"error": error}, named=False)


def same_stream_options(first: Json, second: Json, _: bool) -> bool:
    """Return whether two requests want the same in a stream, where the second wants one."""
    options = (body.get("stream_options") or None for body in (first, second))
    return second.get("stream") is not True or next(options) == next(options)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Dialect:
    """An API. What is not said otherwise is as in OpenAI's."""

    name: str  #: as records and captures have it
    path: str = ""  #: the path that its clients ask for an answer
    endpoints: tuple[Endpoint, ...] = ()  #: all of its paths
    is_proxied: bool = True  #: False: its turns are read in captures alone

    # A request.
    items: str = "messages"  #: the member with the messages, or "": it has none
    text_types: tuple[str, ...] = ("text",)  #: the types of blocks of text in messages
    is_itemised: bool = False  #: calls, results and reasoning are items beside messages, by type
    images: str = ""  #: the member of a message with its images; "": they are blocks of its content
    is_text: bool = False  #: one text, the user's, may stand for the messages
    head: str = ""  #: the member with the system text; "": that stands in the first messages
    head_in_blocks: bool = False  #: clients send it as blocks of text
    texts: tuple[str, ...] = ()  #: members with a text beside the messages
    leads: bool = True  #: system messages that stand first are the prompt's system text
    limits: tuple[str, ...] = ("max_completion_tokens", "max_tokens")
    """The members that limit an answer: those that are there, else the last."""
    options: str = ""  #: the member that these stand in; "": the request itself
    unstored: Json = field(default_factory=dict)  #: what has nothing of the answer kept
    as_segments: Callable[[Json], list[Segment]] | None = None
    """Reads a body that has no messages as the other APIs have them."""
    as_chat: Callable[[Json], Json | None] | None = None
    """Says a body's prompt in Chat Completions; None: that takes a translation."""
    is_rendered: bool = False  #: servers that show the rendered prompt take its bodies for that
    key: bytes = b"Authorization: Bearer "  #: the line of a key, up to the key
    version_header: bytes = b""  #: names its version; "": it has none

    # An answer.
    usage: tuple[UsageSpelling, ...] = ()  #: how its usage is spelled
    says_reused: bool = False  #: its usage has to say what was reused, whatever the server's flags
    end: EndMarks | None = None  #: what ends it; None: nobody knows
    sign: Callable[[bytes], bytes] = lambda _: COMMENT
    """Makes what a silent stream may carry, for clients that count no comments as a sign of life,
    out of the first bytes of the answer, b"" before there were any."""
    sign_waits: bool = False
    """Official SDKs raise on it before the answer has begun: there it is for those alone that are
    known to need it."""
    whole: Callable[[], Whole] | None = None  #: makes the body out of a stream; None: nobody knows
    events: Callable[[Json, Json | None], bytes] | None = None
    """Makes a stream out of the whole body of an answer, for a request where that is known; raises
    ValueError where it is no answer."""
    unasked: Callable[[Json, bytes], bytes] | None = None
    """Returns an event of a stream, b"" for none, as it is where a request asks for less."""
    can_regive: Callable[[Json, Json, bool], bool] = same_stream_options
    """Whether the answer to a request, the first body, can be given to one that says the same but
    asks for another form, the second; and whether its server's streams tell usage unasked."""
    deferred_error: Callable[[int, str, bool], bytes] = openai_deferred_error
    """Makes the end of a stream whose server refused the request after the stream's head had gone
    down, out of the refusal's status and message, and whether events of the answer went down."""
    error: Callable[[int, str], Json] = openai_error
    """Makes the body of an error out of its status and a message."""
    reading: Reading | None = None  #: how its answers are read; None: nobody knows
    reasoning: Putting | None = None  #: puts earlier reasoning back; None: there is no place for it

    def body(self, system: str | Sequence[str], messages: list[Json]) -> Json:
        """Return a system text, or its parts, and messages as members of a request."""
        text: Any = system if isinstance(system, str) else "\n".join(system)
        if text is not system and self.head_in_blocks:
            text = [{"type": "text", "text": part} for part in system]
        if self.head:
            return {self.head: text, self.items: messages}
        return {self.items: [{"role": "system", "content": text}, *messages]}

    def limited(self, body: Json, tokens: int) -> Json:
        """Return the members that ``body`` needs so that its answer has at most so many tokens."""
        if self.options:
            options = body.get(self.options)
            known = options if isinstance(options, dict) else {}
            return {self.options: known | {self.limits[-1]: tokens}}
        return dict.fromkeys(
            [name for name in self.limits if name in body] or self.limits[-1:], tokens
        )

    def may_say(self, body: Json) -> bool:
        """Return whether an answer to ``body`` has room for a word, and comes at once."""
        options = body.get(self.options) if self.options else body
        known = options if isinstance(options, dict) else {}
        limits = [known[name] for name in self.limits if type(known.get(name)) is int]
        return not any(0 <= most <= 1 for most in limits) and body.get("background") is not True

    def first_texts(self, body: Json, roles: tuple[str, ...]) -> list[str]:
        """Return the texts of the first message of one of ``roles`` that has any."""
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
        """Return the texts of each place where system text may stand, blank ones left out.

        These are the member for it (``system``, as Ollama's ``/api/generate`` has it, where none is
        known), and the messages of role system or developer that come before all others.
        """
        found = [texts_shown(body.get(self.head or "system"))]
        messages, texts = body.get(self.items), []
        for message in messages if isinstance(messages, list) else ():
            if not isinstance(message, dict) or message.get("role") not in SYSTEM_ROLES:
                break
            texts += texts_shown(message.get("content"))
        return [texts for texts in (*found, texts) if texts]
