"""One request and its response, as one frozen record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from cacheproxy.core.normalize import Report
from cacheproxy.core.request import Request
from cacheproxy.core.session import Session
from cacheproxy.core.usage import Usage


class Outcome(StrEnum):
    """How an exchange ended."""

    COMPLETE = "complete"
    CLIENT_LEFT = "client left"
    UPSTREAM_FAILED = "upstream failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its response.

    ``received``: the request as it came; ``sent``: as it went upstream (None if it never did).
    ``reports``: what each normalizer did. ``turn``: counts from 1 in its session, 0 for requests
    without a prompt. ``previous_prompt``: prompt tokens of the turn before, if known.
    ``status``: as sent to the client, None if nothing was. ``wall``: when the request had been
    read, seconds since the epoch. ``first_byte``, ``seconds``: from then to the first body byte
    and to the end, monotonic. ``bytes_down``: of the response's body.
    ``error``: for people, one line, without any text of the bodies.
    """

    received: Request
    sent: Request | None
    reports: tuple[Report, ...]
    session: Session | None
    turn: int
    previous_prompt: int | None
    upstream: str
    status: int | None
    outcome: Outcome
    usage: Usage
    wall: float
    first_byte: float | None
    seconds: float
    bytes_down: int
    error: str | None = None
