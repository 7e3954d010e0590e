"""What happened: one request and its response, as one record.

The exchange fills it in while it runs; its judge and its price fill in the rest. Then it is frozen,
and observers see it. A recorded exchange is read into the same record, as far as its file knows it.

What is shown of an exchange is a table of columns: the log line, the line of a capture, the row of
a page, of the totals, a span's attributes. To show one more fact is one more row in that table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn, Self

from msgspec import structs

from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import NOTHING, Usage
from cacheproxy.core.conversation.verdict import Judgement, Reason, Spared, Verdict
from cacheproxy.core.http1.content_coding import decoded
from cacheproxy.core.kinds.prefill import Progress
from cacheproxy.core.kinds.profile import Profile
from cacheproxy.core.privacy.credentials import hide
from cacheproxy.core.privacy.redact import carried, redact_headers, redact_target
from cacheproxy.core.prompt.client import client_of
from cacheproxy.core.prompt.prompt import Parts
from cacheproxy.core.prompt.request import Headers, Once, Request
from cacheproxy.core.rules.fold import RuleReport

_READ_HERE = 32 << 10
"""Bytes of a body that is read here, on the reactor, if nobody has read it yet."""
_LEAST_LIMIT = 59.0
"""Seconds: no client is known that gives up sooner (Gemini CLI and Crush 0.89: 60)."""
_NOTHING: Mapping[str, Any] = {}
A_PAGE = "it answered with a web page (text/html)"
"""What is said of an answer that is none of a model's."""


class Outcome(StrEnum):
    """How an exchange ended."""

    COMPLETE = "complete"
    CLIENT_LEFT = "client left"
    EMPTY = "empty"
    """It came whole, and nothing was in it: no text, no reasoning, no call."""
    UPSTREAM_FAILED = "upstream failed"
    REFUSED = "refused"


WHOLE = (Outcome.COMPLETE, Outcome.EMPTY)
"""The answer came to its end, even if it says nothing."""


@dataclass
class Exchange:
    """One request and its response.

    What is not known is None, or empty. Seconds are monotonic, but for ``wall``.
    """

    received: Request  #: the request as it came, with a plain body
    wall: float = 0.0
    """When it had been read, in seconds since the epoch, or since a recorder's own start."""
    number: int = 0  #: counts from 1 since the proxy started
    session: Session | None = None  #: whose it is; None: it speaks no API that we know
    place: Place | None = None  #: where its conversation's store put it; None: no turn
    turn: int = 0
    """Counts from 1 in its session, 0 for requests without a prompt and for those that failed (a
    status from 400): nothing was evaluated."""
    side: bool = False
    """A request of the session that does not extend its conversation (a title, a subagent)."""
    reports: tuple[RuleReport, ...] = ()  #: what each normalizer did
    sent: Request | None = None
    """As it went upstream, but for what asks for progress; None if it never did."""
    upstream: str = ""  #: the upstream's URL
    server: str = ""  #: the upstream's name, "" where there is but one
    route: str = ""  #: the name of the route that it took, "" where there is but one
    was_at: str = ""  #: the name of the upstream that the turn before went to
    edited_after: float | None = None  #: seconds from ``wall`` until the rules were through
    sent_after: float | None = None  #: seconds from ``wall`` until it was sent
    head_after: float | None = None  #: seconds from ``wall`` until the response's head came
    first_byte: float | None = None
    """Seconds from ``wall`` to the first byte of the answer; None: there was none. Signs of life,
    and events that only open an answer, are none."""
    progress: Progress | None = None  #: how far the server was with its prompt, as it said last
    seconds: float = 0.0  #: from ``wall`` to the end; 0: not known
    held: bool = False  #: its upstream request went on for a retry when its client left
    joined: float | None = None
    """Seconds that its upstream request had been going on when it took that over from a client that
    had left; None: it has one of its own."""
    queued: float | None = None
    """Seconds that it was kept back at its server for another request; None: it was not, or is."""
    queued_for: str = ""  #: the label of that one's conversation, "" for none
    status: int | None = None  #: as sent to the client; None if nothing was
    response_headers: Headers = ()  #: as sent to the client
    response_body: bytes | None = None  #: only if an observer asked for bodies (a capture)
    bytes_down: int | None = None  #: of the response's body
    outcome: Outcome | None = None  #: how it ended
    error: str | None = None
    """For people, one line, without any text of the request: ours, or what a response says of its
    own failure, whatever its status (see ``core.adapt.refusal``)."""
    usage: Usage = NOTHING  #: tokens and seconds as the server measured them
    verdict: Verdict | None = None  #: of a turn; None for other requests
    profile: Profile | None = None  #: what was known of the upstream when the verdict was reached
    parts: Parts | None = None  #: of a turn whose prompt was counted, what its tokens are
    spared: Spared | None = None
    """What it did not have to evaluate thanks to us; None: nothing, or nobody knows."""
    price: float | None = None
    """What the upstream charges for it, in its currency; None: nothing, or nobody has said."""

    def finish(self) -> Self:
        """Freeze it, and return it: from now on it stays as it is."""
        self.__class__ = _Finished  # type: ignore[assignment]
        return self

    @Once
    def client(self) -> str:
        """The client's name: that of the session, or as the request names itself.

        As ``model``, it is asked for when the exchange is over.
        """
        return client_of(self.received) if self.session is None else self.session.client

    @Once
    def model(self) -> str | None:
        """The model that was asked for, where its body has been read or is small."""
        model = body_of(self.sent or self.received).get("model")
        return model if isinstance(model, str) and model else None

    @property
    def judgement(self) -> Judgement:
        """What became of the cache, as far as it is known."""
        return Judgement.UNKNOWN if self.verdict is None else self.verdict.judgement

    @property
    def reason(self) -> Reason | None:
        """Why it lost the cache; None where it did not."""
        return None if self.verdict is None else self.verdict.reason

    @property
    def lost(self) -> int | None:
        """Tokens of the turn before that it had evaluated again, where it lost the cache."""
        verdict = self.verdict
        return verdict.lost.tokens if verdict and verdict.reason and verdict.lost else None

    @property
    def has_moved(self) -> bool:
        """Whether it is a turn whose conversation was at another upstream before."""
        return self.turn > 0 and bool(self.was_at) and self.was_at != self.server

    @property
    def has_failed(self) -> bool:
        """Whether it was turned down: nothing was evaluated then."""
        return self.status is not None and self.status >= 400

    @property
    def went_wrong(self) -> bool:
        """Whether it failed, on our side or the server's; a client may leave as it likes."""
        if self.outcome in WHOLE:
            return self.status is None or self.status >= 400
        return self.outcome is not Outcome.CLIENT_LEFT

    @property
    def left_waiting(self) -> bool:
        """Whether its client left a turn that had been sent before the answer began."""
        is_turn = self.turn > 0
        return is_turn and self.outcome is Outcome.CLIENT_LEFT and self.first_byte is None

    @property
    def waited(self) -> str | None:
        """How long such a client waited, and how much was read, for people; None: it did not."""
        if not self.left_waiting:
            return None
        read = self.progress
        what = "without a token" if read is None else f"of prefill ({read.share:.0%})"
        held = ", held for a retry" if self.held else ""
        return f"after {self.seconds:.0f} s {what}{held}"

    @property
    def has_given_up(self) -> bool:
        """Whether it did so after so long that it was a time-out of its own, rather than a user."""
        return self.left_waiting and self.seconds >= _LEAST_LIMIT and not self.error

    @property
    def ended(self) -> float:
        """When it was over, in seconds since the epoch."""
        return self.wall + self.seconds

    @property
    def size(self) -> int:
        """Bytes of its bodies; one that was sent as it came counts once."""
        size, sent = len(self.received.body) + len(self.response_body or b""), self.sent
        if sent is None or sent.body is self.received.body:
            return size
        return size + len(sent.body)

    def with_fields(self, **fields: Any) -> Exchange:
        """Return it with other values in some fields; as quick as a copy of a dict."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **fields)
        return made

    def unread(self) -> Exchange:
        """Return it with requests of its own, yet unread: what is read takes ten bodies' room.

        What a plugin does to their JSON reaches nobody else. The request before, where it was not
        judged, is the store's, and stays there.
        """
        received, sent = replace(self.received, memo=None), self.sent
        if sent is not None:
            sent = received if sent is self.received else replace(sent, memo=None)
        place = None if self.place is None else self.place._replace(pair=None)
        return self.with_fields(received=received, sent=sent, place=place)


class _Finished(Exchange):
    """An exchange that is over. A class of its own: a flag would cost a call for each value."""

    def __init__(self, **fields: Any) -> None:
        """Be what ``dataclasses.replace`` makes of another."""
        self.__dict__.update(Exchange(**fields).__dict__)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __hash__(self) -> int:
        """Observers may keep it in a set: it stays equal to what it is now."""
        return hash((self.number, self.wall))


def body_of(request: Request) -> Mapping[str, Any]:
    """Return the body's JSON object if it has been read before or is small; else an empty one."""
    if not request.is_read and len(request.body) > _READ_HERE:
        return _NOTHING
    return request.json or _NOTHING


class RecordColumn(NamedTuple):
    """One fact of an exchange."""

    name: str  #: as it is called where it is shown
    of: str | Callable[[Exchange], Any]
    """Its field (``status``, ``usage.prompt``), or what returns its value; None: not known."""
    unit: str = ""  #: of the value: ``tokens``, ``s``, ``ms``, ``bytes``; "": it has none


def row_of(columns: Sequence[RecordColumn]) -> Callable[[Exchange], dict[str, Any]]:
    """Return what makes a row of an exchange: its values by the columns' names, in their order.

    All that are fields are taken by one call, since each turn is shown in several tables.
    """
    blank: dict[str, Any] = dict.fromkeys(column.name for column in columns)
    fields = {column.name: column.of for column in columns if isinstance(column.of, str)}
    made = [(column.name, column.of) for column in columns if not isinstance(column.of, str)]
    taken = attrgetter(*fields.values(), "number", "wall")  # of one name it would be no tuple

    def row(exchange: Exchange) -> dict[str, Any]:
        found = {**blank, **dict(zip(fields, taken(exchange), strict=False))}
        for name, of in made:
            found[name] = of(exchange)
        return found

    return row


def redacted(exchange: Exchange) -> Exchange:
    """Return ``exchange`` without credentials, and without what its verdict quotes of the bodies.

    ``core.privacy.credentials`` says what is found in bodies. One whose coding hid a credential
    stands without that coding.
    """
    received, sent, verdict = exchange.received, exchange.sent, exchange.verdict
    given, answered = received.headers, exchange.response_headers
    known = carried(given, received.target) | carried(answered, exchange.upstream)
    body, shown = _hidden(received.body, given, known)
    target, shown = redact_target(received.target, known), redact_headers(shown, known)
    kept = Request(received.method, target, shown, body)
    if sent is not None:
        is_same = sent.body is received.body or sent.body == received.body
        went = body if is_same else _hidden(sent.body, given, known)[0]
        where = target
        if sent.target != received.target:
            where = redact_target(sent.target, known)
        sent = kept if is_same and where == target else Request(kept.method, where, shown, went)
    response_body = exchange.response_body
    if response_body is not None:
        response_body, answered = _hidden(response_body, answered, known)
    if verdict is not None and verdict.where is not None:
        bare = structs.replace(verdict.where, was="", now="")
        verdict = structs.replace(verdict, where=bare)
    return replace(
        exchange,
        received=kept,
        sent=sent,
        upstream=redact_target(exchange.upstream, known),
        response_headers=redact_headers(answered, known),
        response_body=response_body,
        verdict=verdict,
    )


def _hidden(body: bytes, headers: Headers, known: Collection[bytes]) -> tuple[bytes, Headers]:
    """Return ``body`` and its ``headers`` without credentials in the body."""
    plain = decoded(body, headers)
    hidden = hide(plain, known)
    if hidden is plain:
        return body, headers
    if plain is not body:
        headers = tuple(pair for pair in headers if pair[0].lower() != b"content-encoding")
    return hidden, headers
