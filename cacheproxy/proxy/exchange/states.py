"""The states of an answer and of its delivery, and all steps between them that are allowed.

``Answer.become`` and ``Delivery.become`` raise StepError for a step that is not in
``ANSWER_STEPS`` or ``DELIVERY_STEPS``. The comment above each step names its cause or its source;
*reliability* is docs/reliability.md, with the section's name in quotes.

An answer without a delivery is *held*. Only an answer in WAITING or PREFILLING may be held: once a
byte of it has gone down, no other client can get it from its beginning.
"""

from __future__ import annotations

from enum import StrEnum


class AnswerState(StrEnum):
    """Progress of one request at one server."""

    WAITING = "waiting"  #: no response head for the client has come
    PREFILLING = "prefilling"  #: the head has come; no byte has gone down, though all may have come
    ANSWERING = "answering"  #: bytes of the answer have gone down, all to one delivery
    DONE = "done"  #: the whole answer has gone down, or a message of ours in its place
    BROKEN = "broken"  #: the answer failed, at the server or in the proxy
    GIVEN_UP = "given up"  #: the connection was closed: nobody waits, or others need the server


class DeliveryState(StrEnum):
    """What the client has received."""

    OPEN = "open"  #: nothing
    EARLY = "early"  #: a head of ours, and signs of life
    ANSWERED = "answered"  #: the answer's head; the body follows or is complete
    FAILED = "failed"  #: an error, or only a part of the answer
    LEFT = "left"  #: nothing more: the client has left


_A, _D = AnswerState, DeliveryState
ANSWER_STEPS = frozenset(
    {
        # The head has come; an interim response (1xx) is none: RFC 9110, section 15.2.
        (_A.WAITING, _A.PREFILLING),
        # A count of tokens is answered by the proxy: reliability, "Translation".
        (_A.WAITING, _A.DONE),
        # No connection, no head, or an invalid head: RFC 9112, section 2.2; status 502 and 504 of
        # RFC 9110, section 15.6.
        (_A.WAITING, _A.BROKEN),
        # The client left and the answer is not held, no retry came for a held one, or another
        # server gets the request: reliability, "Leaving frees the slot".
        (_A.WAITING, _A.GIVEN_UP),
        # The first byte behind signs of life (comments and pings of the dialect, blanks before
        # JSON: RFC 8259, section 2).
        (_A.PREFILLING, _A.ANSWERING),
        # The answer has no body (RFC 9112, section 6.3), was translated whole, or was replaced by
        # a message of ours.
        (_A.PREFILLING, _A.DONE),
        # The body ends before its framing says so: RFC 9112, section 8. It never passes for whole.
        (_A.PREFILLING, _A.BROKEN),
        # As from WAITING, while held; a whole refusal is retained until its time is over.
        (_A.PREFILLING, _A.GIVEN_UP),
        # The end of the framing, and of the stream in its dialect (``[DONE]``, ``message_stop``,
        # ``response.completed``), has come.
        (_A.ANSWERING, _A.DONE),
        # The body broke off: the client sees that it is incomplete, RFC 9112, section 8.
        (_A.ANSWERING, _A.BROKEN),
        # The client left: an answer that has begun is never held.
        (_A.ANSWERING, _A.GIVEN_UP),
    }
)
ANSWER_OVER = (_A.DONE, _A.BROKEN, _A.GIVEN_UP)
ATTACHABLE = (_A.WAITING, _A.PREFILLING)
"""States in which an answer may be held, and get a new delivery."""

DELIVERY_STEPS = frozenset(
    {
        # No head comes for long: status 200 goes down first; reliability, "Signs of life".
        (_D.OPEN, _D.EARLY),
        # An answer has one head: RFC 9110, section 15; RFC 9112, section 2.1.
        (_D.OPEN, _D.ANSWERED),
        # An error goes down with its status, in the dialect.
        (_D.OPEN, _D.FAILED),
        # The answer goes down in the stream that has begun.
        (_D.EARLY, _D.ANSWERED),
        # A deferred error goes down in the stream: the status cannot change any more.
        (_D.EARLY, _D.FAILED),
        # The answer broke off: an error event if its body had not begun, else the connection
        # closes without the end of its framing (RFC 9112, section 8).
        (_D.ANSWERED, _D.FAILED),
        # The client may leave at any time (RFC 9112, section 9.5), also while an error is sent.
        (_D.OPEN, _D.LEFT),
        (_D.EARLY, _D.LEFT),
        (_D.ANSWERED, _D.LEFT),
        (_D.FAILED, _D.LEFT),
    }
)


class StepError(Exception):
    """A step that is not in the tables: a bug of the proxy."""

    def __init__(self, now: StrEnum, to: str) -> None:
        super().__init__(f"{now} does not become {to}")
