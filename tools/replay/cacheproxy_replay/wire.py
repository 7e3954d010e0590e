"""One captured request sent again, its answer read as it comes, and each way that fails."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse, IncompleteRead

from cacheproxy.asking import Answer, CommandError, NoAnswerError, Site, explain, reason_of
from cacheproxy.core.conversation.usage import Usage, UsageReader
from cacheproxy_replay.answer import AnswerReader

_LONGEST_ERROR = 1 << 16
"""Bytes of an answer that is not 200: its error text is near the start."""


@dataclass(frozen=True, slots=True)
class MeasuredAnswer:
    """What came back."""

    status: int  #: of HTTP; 0: the connection broke before, or in, the answer
    usage: Usage  #: as the server counted it
    first: float | None
    """Seconds from the request to the first generated text, to the end if none came; None: it
    failed."""
    seconds: float  #: from the request to the end
    text: str = ""  #: what was generated
    error: str | None = None  #: what went wrong, one line; None: nothing


def send(site: Site, target: str, body: bytes, model: str) -> MeasuredAnswer:
    """POST ``body`` to the server at ``site`` and read the answer as it comes, streamed or not.

    ``model``: as the body names it, for the error text. Raises CommandError if nobody is there.
    """
    try:
        connection = site.connect()
    except NoAnswerError as error:
        raise nobody_at(site, error) from None
    start = time.perf_counter()
    with closing(connection):
        try:
            response = site.begin(connection, "POST", target, body)
            if response.status == 200:
                return _read(response, start)
            said = Answer(response.status, response.read(_LONGEST_ERROR))
            line = explain(said, site.url + target.partition("?")[0], model, "--against")
        except (HTTPException, OSError) as error:
            said, line = Answer(0, b""), f"{site.url} broke off its answer ({reason_of(error)})."
    return MeasuredAnswer(said.status, Usage(), None, time.perf_counter() - start, error=line)


def nobody_at(site: Site, error: NoAnswerError) -> CommandError:
    """Return the error for people where no connection to ``site`` can be made."""
    mend = "start the model server there, or correct --against."
    return CommandError(f"No answer from {site.url} ({error}): {mend}")


def _read(response: HTTPResponse, start: float) -> MeasuredAnswer:
    content_type = response.headers.get("Content-Type", "")
    usage, answer = UsageReader(content_type), AnswerReader(content_type)
    first = None
    while data := response.read1(1 << 16):
        usage.feed(data)
        answer.feed(data)
        if first is None and answer.text:
            first = time.perf_counter() - start
    seconds = time.perf_counter() - start
    if response.length:  # read1 takes a body cut short for a whole one
        raise IncompleteRead(b"", response.length)
    text = answer.close()
    return MeasuredAnswer(200, usage.close(), seconds if first is None else first, seconds, text)
