r"""Settings, requests and exchanges as keeper and workers send them to each other.

Texts may hold lone surrogates (``\ud83d`` in a body's JSON is real), which no UTF-8 has: texts
go as bytes that keep them. New values of edits, which may be any JSON, go as JSON.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cacheproxy.config import Config
from cacheproxy.core.conversation.exchange import Exchange, Outcome
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.document.edits import REMOVE, Edit
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.rules.fold import Report
from cacheproxy.crew.frames import Load, Piece
from cacheproxy.crew.messages import Finished, Lane, Text


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
            usage.written,
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
    """Return the exchange that was sent, without number, verdict, profile and place."""
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
