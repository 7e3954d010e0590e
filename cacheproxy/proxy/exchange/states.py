"""The states of an answer and of its delivery, and every step between them that may be taken.

``ANSWER_STEPS`` and ``DELIVERY_STEPS`` are the whole of it: ``Answer.become`` and
``Delivery.become`` raise where a step is not among them. Beside each step stands what asks for it;
*reliability* is docs/reliability.md, a section of it in quotes.

An answer without a delivery is *held*. It may be that in WAITING and PREFILLING alone: as soon as
a byte of it has gone down, nobody else can have it from its beginning.
"""

from __future__ import annotations

from enum import StrEnum


class AnswerState(StrEnum):
    """How far one request at one server has come."""

    WAITING = "waiting"  #: no response head that goes down has come
    PREFILLING = (
        "prefilling"  #: it has; no byte of the answer has gone down, though all may be here
    )
    ANSWERING = "answering"  #: some has gone down, to the one delivery that it belongs to
    DONE = "done"  #: all of it has gone down, or words of ours in its place
    BROKEN = "broken"  #: it failed, at the server or here
    GIVEN_UP = "given up"  #: it was closed, since nobody waits for it, or the server is needed


class DeliveryState(StrEnum):
    """What a client has got."""

    OPEN = "open"  #: nothing
    EARLY = "early"  #: a head of ours, and signs of life
    ANSWERED = "answered"  #: the answer's head: its bytes follow, or all of it is there
    FAILED = "failed"  #: an error instead, or less than all of it
    LEFT = "left"  #: nothing more: it has gone


_A, _D = AnswerState, DeliveryState
ANSWER_STEPS = frozenset(
    {
        # The head has come; an interim response (1xx) is none: RFC 9110, section 15.2.
        (_A.WAITING, _A.PREFILLING),
        # A count of tokens is answered here: reliability, "Translation".
        (_A.WAITING, _A.DONE),
        # No connection, no head, or a head that is none: RFC 9112, section 2.2; 502 and 504 of
        # RFC 9110, section 15.6.
        (_A.WAITING, _A.BROKEN),
        # The client left and it is not held, it was held for nobody, or another server is asked
        # in its place: reliability, "Leaving frees the slot".
        (_A.WAITING, _A.GIVEN_UP),
        # The first byte behind signs of life (comments and pings of the dialect, blanks before
        # JSON: RFC 8259, section 2).
        (_A.PREFILLING, _A.ANSWERING),
        # It has no body (RFC 9112, section 6.3), was translated whole, or is told in other words.
        (_A.PREFILLING, _A.DONE),
        # It ends before its framing says so: RFC 9112, section 8. Nothing of it is told as whole.
        (_A.PREFILLING, _A.BROKEN),
        # As above, for whoever is held; a refusal is kept until its time is over.
        (_A.PREFILLING, _A.GIVEN_UP),
        # The end of its framing and of its dialect (``[DONE]``, ``message_stop``,
        # ``response.completed``).
        (_A.ANSWERING, _A.DONE),
        # Less: the client sees that it is cut off, RFC 9112, section 8.
        (_A.ANSWERING, _A.BROKEN),
        # The client left: it has begun, so it is never held.
        (_A.ANSWERING, _A.GIVEN_UP),
    }
)
ANSWER_OVER = (_A.DONE, _A.BROKEN, _A.GIVEN_UP)
ATTACHABLE = (_A.WAITING, _A.PREFILLING)
"""In which an answer may be without a delivery, and be given one."""

DELIVERY_STEPS = frozenset(
    {
        # No head for long: status 200 before it is known; reliability, "Signs of life".
        (_D.OPEN, _D.EARLY),
        # One head for one answer: RFC 9110, section 15; RFC 9112, section 2.1.
        (_D.OPEN, _D.ANSWERED),
        # An error with its status, in the dialect.
        (_D.OPEN, _D.FAILED),
        # The answer within the stream that has begun.
        (_D.EARLY, _D.ANSWERED),
        # An error within it, as the dialect has it: the status cannot change any more.
        (_D.EARLY, _D.FAILED),
        # It broke off: an error event where the answer had not begun, else the connection closes
        # without the end of its framing (RFC 9112, section 8).
        (_D.ANSWERED, _D.FAILED),
        # The client goes when it likes (RFC 9112, section 9.5), also while an error is sent.
        (_D.OPEN, _D.LEFT),
        (_D.EARLY, _D.LEFT),
        (_D.ANSWERED, _D.LEFT),
        (_D.FAILED, _D.LEFT),
    }
)


class StepError(Exception):
    """A step that the tables do not have: an error of ours."""

    def __init__(self, now: StrEnum, to: str) -> None:
        super().__init__(f"{now} does not become {to}")
