r"""What keeper and workers say to each other, as plain values (MessagePack).

Texts may hold lone surrogates (``\ud83d`` in a body's JSON is real), which no UTF-8 has: texts
go as bytes that keep them. New values of edits, which may be any JSON, go as JSON.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cacheproxy.config import Config
from cacheproxy.core.edits import REMOVE, Edit
from cacheproxy.core.exchange import Exchange, Outcome
from cacheproxy.core.normalize import Report
from cacheproxy.core.request import Headers, Request
from cacheproxy.core.session import Session
from cacheproxy.core.usage import Usage
from cacheproxy.crew.frames import Load, Piece

Text = bytes
"""A text as it is sent; see ``text_out``."""
Lane = tuple[Text, ...]


class _Message(msgspec.Struct, array_like=True, tag=True):
    """Anything that is said. A question has an ``id``, which its answer repeats."""


# The keeper says


class Begin(_Message):
    """What a worker is: its ``number`` (from 1), the settings as JSON, our token in Via."""

    number: int
    config: bytes
    via: bytes


class Prepare(_Message):
    """Question: can you work with these settings? Answered with what speaks against it, or ""."""

    config: bytes
    id: int = 0


class Adopt(_Message):
    """Work with these settings from now on."""

    config: bytes


class Stop(_Message):
    """Listen no more, let open answers finish within ``grace`` seconds, and end."""

    grace: float


class Hurry(_Message):
    """Wait no longer."""


class Forget(_Message):
    """The upstream was down: another server may have taken its place. Both sides say it."""


class Fewest(_Message):
    """The worker with the fewest connections has so many."""

    connections: int


class Answer(_Message):
    """The answer to the question ``id``."""

    id: int
    value: Any = None


# A worker says


class Ready(_Message):
    """It listens."""


class Unfit(_Message):
    """It cannot begin, and ends; for people, one line."""

    why: Text


class Finished(_Message):
    """An exchange is over; its bodies are the load.

    First the one that came, then the one that was sent if it is another, then the answer's.
    ``received`` is method, target and headers, ``body`` the length of its body. ``sent``: whether
    it went up; ``other``: as what, if not the same; ``other_body``: the length of its body, None if
    that is the same. ``kept``: of the answer's body, None for none. ``lane``: whose turn it
    is, None if it is none.
    """

    received: tuple[Text, Text, Headers]
    body: int
    sent: bool
    other: tuple[Text, Text, Headers] | None
    other_body: int | None
    reports: list[Any]
    session: tuple[Text, Text] | None
    lane: Lane | None
    turn: int
    upstream: Text
    status: int | None
    outcome: str
    usage: tuple[int | None, int | None, int | None, float | None, float | None]
    wall: float
    times: tuple[float | None, float, float | None, float | None, float | None]
    bytes_down: int
    error: Text | None
    headers: Headers
    kept: int | None


class Said(_Message):
    """A line for the log: Twisted's name of the level, whose it is, and what it says."""

    level: str
    namespace: str
    text: Text


class Standing(_Message):
    """How it stands with a worker.

    ``connections`` are open, ``streams`` of them with an exchange under way. ``failures``: as
    ``Failures.as_dict`` has them. ``dropped``: exchanges that the keeper was too slow for.
    """

    connections: int
    streams: int
    failures: dict[Text, dict[str, int | bool]]
    dropped: int


class Page(_Message):
    """Somebody asks for one of our own pages: a descriptor comes with it."""


class Sent(_Message):
    """A turn goes up, which the rules of the next one will look at; its body is the load."""

    lane: Lane
    version: str
    request: tuple[Text, Text, Headers]


class Recall(_Message):
    """Question: the last turn of a lane, unless it is the one with this ``version``.

    Answered with its version and (method, target, headers), its body being the load; or None.
    """

    lane: Lane
    version: str
    id: int = 0


class Slot(_Message):
    """Question: which slot has the conversation with this prompt? Answered with None for any."""

    conversation: Text
    pieces: list[tuple[int, int]]
    id: int = 0


class Spelled(_Message):
    """The model has called a tool with arguments in this spelling."""

    call: Text
    arguments: Text


class HowSpelled(_Message):
    """Question: how were the arguments of these calls spelled? Answered with texts, or None."""

    calls: list[Text]
    id: int = 0


class Stopping(_Message):
    """It listens no more; so many answers are open."""

    waiting: int


class Ended(_Message):
    """No answer is open any more; so many were broken off. What waits is still said."""

    broken_off: int


FromKeeper = Begin | Prepare | Adopt | Stop | Hurry | Forget | Fewest | Answer
FromWorker = (
    Ready
    | Unfit
    | Finished
    | Said
    | Standing
    | Page
    | Sent
    | Recall
    | Slot
    | Forget
    | Spelled
    | HowSpelled
    | Stopping
    | Ended
    | Answer
)


def text_out(text: str) -> Text:
    """Return ``text`` as it is sent."""
    return text.encode("utf-8", "surrogatepass")


def text_in(text: Text) -> str:
    """Return the text that was sent."""
    return text.decode("utf-8", "surrogatepass")


def config_out(config: Config) -> bytes:
    """Return the settings as they are sent. They may hold a secret."""
    return json.dumps(msgspec.to_builtins(config)).encode()


def config_in(text: bytes) -> Config:
    """Return the settings that were sent."""
    return msgspec.convert(json.loads(text), Config)


def request_out(request: Request) -> tuple[Text, Text, Headers]:
    """Return ``request`` without its body."""
    return text_out(request.method), text_out(request.target), request.headers


def request_in(said: tuple[Text, Text, Headers], body: Load) -> Request:
    """Return the request that was sent in two parts."""
    method, target, headers = said
    return Request(text_in(method), text_in(target), headers, bytes(body))


def exchange_out(exchange: Exchange, lane: Lane | None) -> tuple[Finished, tuple[Piece, ...]]:
    """Return ``exchange`` as a message and its load."""
    received, sent, session, usage = (
        exchange.received,
        exchange.sent,
        exchange.session,
        exchange.usage,
    )
    first = request_out(received)
    other: tuple[Text, Text, Headers] | None = None
    other_body: bytes | None = None
    if sent is not None and sent is not received:
        second = request_out(sent)
        other = None if second == first else second
        other_body = None if sent.body is received.body else sent.body
    kept = exchange.response_body
    message = Finished(
        received=first,
        body=len(received.body),
        sent=sent is not None,
        other=other,
        other_body=None if other_body is None else len(other_body),
        reports=[_report_out(report) for report in exchange.reports],
        session=None if session is None else (text_out(session.client), text_out(session.id)),
        lane=lane,
        turn=exchange.turn,
        upstream=text_out(exchange.upstream),
        status=exchange.status,
        outcome=exchange.outcome.value,
        usage=(
            usage.prompt,
            usage.reused,
            usage.output,
            usage.prompt_seconds,
            usage.output_seconds,
        ),
        wall=exchange.wall,
        times=(
            exchange.first_byte,
            exchange.seconds,
            exchange.edited_after,
            exchange.sent_after,
            exchange.head_after,
        ),
        bytes_down=exchange.bytes_down,
        error=None if exchange.error is None else text_out(exchange.error),
        headers=exchange.response_headers,
        kept=None if kept is None else len(kept),
    )
    return message, (received.body, other_body or b"", kept or b"")


def exchange_in(message: Finished, load: Load) -> Exchange:
    """Return the exchange that was sent, without number, verdict and place."""
    body, after = bytes(load[: message.body]), message.body + (message.other_body or 0)
    received = request_in(message.received, body)
    sent: Request | None = None
    if message.sent and message.other is None and message.other_body is None:
        sent = received
    elif message.sent:
        other = body if message.other_body is None else load[message.body : after]
        sent = request_in(message.other or message.received, other)
    first_byte, seconds, edited_after, sent_after, head_after = message.times
    return Exchange(
        received=received,
        sent=sent,
        reports=tuple(map(_report_in, message.reports)),
        session=None if message.session is None else Session(*map(text_in, message.session)),
        turn=message.turn,
        upstream=text_in(message.upstream),
        status=message.status,
        outcome=Outcome(message.outcome),
        usage=Usage(*message.usage),
        wall=message.wall,
        first_byte=first_byte,
        seconds=seconds,
        bytes_down=message.bytes_down,
        error=None if message.error is None else text_in(message.error),
        edited_after=edited_after,
        sent_after=sent_after,
        head_after=head_after,
        response_headers=message.headers,
        response_body=None if message.kept is None else bytes(load[after : after + message.kept]),
    )


def _report_out(report: Report) -> tuple[Any, ...]:
    edits = [
        (text_out(edit.path), *_new_out(edit.new), text_out(edit.why), edit.span)
        for edit in report.edits
    ]
    error = None if report.error is None else text_out(report.error)
    return text_out(report.rule), edits, error


def _report_in(said: Any) -> Report:
    rule, edits, error = said
    return Report(
        text_in(rule),
        tuple(
            Edit(
                text_in(path), _new_in(kind, new), text_in(why), None if span is None else (*span,)
            )
            for path, kind, new, why, span in edits
        ),
        None if error is None else text_in(error),
    )


def _new_out(new: Any) -> tuple[str, Text]:
    if new is REMOVE:
        return "remove", b""
    if isinstance(new, str):
        return "text", text_out(new)
    return "json", json.dumps(new).encode()


def _new_in(kind: str, new: Text) -> Any:
    if kind == "remove":
        return REMOVE
    return text_in(new) if kind == "text" else json.loads(new)
