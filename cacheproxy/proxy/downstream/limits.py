"""What a client may send, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bytes: ``body``, ``head`` (all headers), ``target``. Counts: ``headers``, ``connections``.

    Seconds: ``idle`` between requests and between two pieces of a body, ``head_seconds`` from a
    request's first byte to the end of its head, however many bytes come in between.
    """

    body: int = 64 << 20
    head: int = 64 << 10
    target: int = 32 << 10
    headers: int = 1000
    connections: int = 4096
    idle: float = 75.0
    head_seconds: float = 30.0
