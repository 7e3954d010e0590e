"""One captured request sent again, its answer read as it comes, and each way that fails."""

from __future__ import annotations

import time
from contextlib import closing
from http.client import HTTPException, HTTPResponse, IncompleteRead

from cacheproxy.asking import Answer, CommandError, NoAnswerError, Site, explain, reason_of
from cacheproxy.core.conversation.usage import UsageReader
from cacheproxy.core.prompt.request import Request
from cacheproxy.record.exchange import Exchange
from cacheproxy_replay.answer import AnswerReader

_LONGEST_ERROR = 1 << 16
"""Bytes of an answer that is not 200: its error text is near the start."""


def send(site: Site, request: Request, record: Exchange) -> None:
    """POST ``request`` to the server at ``site``; fill in ``record`` as the answer comes.

    Its first byte counts as come with the first generated text, at the end if there is none.
    Raises CommandError if nobody is there.
    """
    try:
        connection = site.connect()
    except NoAnswerError as error:
        raise nobody_at(site, error) from None
    start = time.perf_counter()
    with closing(connection):
        try:
            response = site.begin(connection, "POST", request.target, request.body)
            record.status = response.status
            if response.status == 200:
                _read(response, start, record)
            else:
                said = Answer(response.status, response.read(_LONGEST_ERROR))
                model = str((request.json or {}).get("model"))
                record.error = explain(said, site.url + request.path, model, "--against")
        except (HTTPException, OSError) as error:
            record.status = None
            record.error = f"{site.url} broke off its answer ({reason_of(error)})."
        record.seconds = time.perf_counter() - start


def nobody_at(site: Site, error: NoAnswerError) -> CommandError:
    """Return the error for people where no connection to ``site`` can be made."""
    mend = "start the model server there, or correct --against."
    return CommandError(f"No answer from {site.url} ({error}): {mend}")


def _read(response: HTTPResponse, start: float, record: Exchange) -> None:
    content_type = response.headers.get("Content-Type", "")
    usage, answer, body = UsageReader(content_type), AnswerReader(content_type), b""
    first = None
    while data := response.read1(1 << 16):
        body += data
        usage.feed(data)
        answer.feed(data)
        if first is None and answer.text:
            first = time.perf_counter() - start
    end = time.perf_counter() - start
    if response.length:  # read1 takes a body cut short for a whole one
        raise IncompleteRead(b"", response.length)
    record.usage, record.first_byte = usage.close(), end if first is None else first
    record.response_headers = ((b"Content-Type", content_type.encode("latin-1")),)
    record.response_body = body
