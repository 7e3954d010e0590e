"""The record of one exchange: a request and its response.

The exchange fills it in while it runs; judge and pricing add the verdict and the cost. Then it is
frozen, and observers get it. A recorded exchange is read into the same record, as far as its file
has the fields.

Each display of an exchange is a table of columns: the log line, the line of a capture, the row of a
page, of the totals, a span's attributes. To show one more fact is one more row in that table.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, replace
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple, NoReturn, Self

from msgspec import structs

from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.session import Session, request_label
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
"""Bytes of a body at most that is parsed here, on the reactor, if it has not been parsed yet."""
_LEAST_LIMIT = 59.0
"""Seconds: no known client has a shorter time-out (Gemini CLI and Crush 0.89: 60)."""
_NOTHING: Mapping[str, Any] = {}
A_PAGE = "it answered with a web page (text/html)"
"""Error of a response that is a web page, not a model's answer."""


class Outcome(StrEnum):
    """How an exchange ended."""

    COMPLETE = "complete"
    CLIENT_LEFT = "client left"
    EMPTY = "empty"  #: The answer is whole, but has no text, no reasoning and no call.
    UPSTREAM_FAILED = "upstream failed"
    REFUSED = "refused"


WHOLE = (Outcome.COMPLETE, Outcome.EMPTY)
"""Outcomes of an answer that came to its end, even an empty one."""


@dataclass
class Exchange:
    """One request and its response.

    Unknown values are None, or empty. Seconds are monotonic, except for ``wall``.
    """

    received: Request  #: the request as the client sent it, with its body unpacked
    wall: float = 0.0
    """Seconds since the epoch, or since a recorder's own start, when the request had been read."""
    number: int = 0  #: the exchange's number, from 1 since the proxy started
    session: Session | None = None  #: its session; None for a request of no known API
    place: Place | None = None  #: its place in the store; None for a request that is no turn
    turn: int = 0
    """The turn's number in its session, from 1; 0 for requests without a prompt and for failed ones
    (a status from 400), for which nothing was evaluated."""
    side: bool = False
    """Whether it is a request of the session that does not extend its conversation (a title, a
    subagent)."""
    reports: tuple[RuleReport, ...] = ()  #: a report of each normalizer
    sent: Request | None = None
    """The request as sent upstream, without the fields that ask for progress; None if none was
    sent."""
    upstream: str = ""  #: the upstream's URL
    server: str = ""  #: the upstream's name, "" if there is but one
    route: str = ""  #: the name of its route, "" if there is but one upstream
    was_at: str = ""  #: the name of the upstream of the turn before
    edited_after: float | None = None  #: seconds from ``wall`` until the rules were done
    sent_after: float | None = None  #: seconds from ``wall`` until it was sent upstream
    head_after: float | None = None  #: seconds from ``wall`` until the response's head came
    first_byte: float | None = None
    """Seconds from ``wall`` to the first byte of the answer; None if there was none. Signs of life,
    and events that only open an answer, do not count."""
    progress: Progress | None = None  #: the server's last report on how far it has read the prompt
    seconds: float = 0.0  #: seconds from ``wall`` to the end; 0 if unknown
    held: bool = False  #: whether its upstream request went on for a retry when its client left
    joined: float | None = None
    """Age in seconds of the upstream request that it took over from a client that had left; None if
    it has a request of its own."""
    queued: float | None = None
    """Seconds that it waited at its server for another request; None if it did not, or still
    waits."""
    queued_for: str | None = None
    """Label of that request's conversation, and how many more have what it waited for."""
    status: int | None = None  #: status sent to the client; None if none was
    response_headers: Headers = ()  #: headers sent to the client
    response_body: bytes | None = None  #: only if an observer needs bodies (a capture)
    bytes_down: int | None = None  #: bytes of the response's body that were sent to the client
    outcome: Outcome | None = None  #: the way in which the exchange ended
    error: str | None = None
    """One line for people, without any text of the request: our own error, or the one that a
    response reports, whatever its status (see ``core.adapt.refusal``)."""
    usage: Usage = NOTHING  #: tokens and seconds as the server measured them
    verdict: Verdict | None = None  #: the verdict on a turn; None for other requests
    profile: Profile | None = None  #: the knowledge of the upstream when the verdict was reached
    parts: Parts | None = None  #: tokens of a counted prompt's parts
    spared: Spared | None = None
    """Tokens and seconds that the proxy spared its server; None if there are none, or it is
    unknown."""
    price: float | None = None
    """The upstream's charge, in its currency; None if there is none, or no price is set."""

    def finish(self) -> Self:
        """Freeze the exchange, and return it: its fields stay as they are from now on."""
        self.__class__ = _Finished  # type: ignore[assignment]
        return self

    @Once
    def client(self) -> str:
        """The client's name: the session's, else by the request.

        Like ``model``, it is read first when the exchange is over.
        """
        return client_of(self.received) if self.session is None else self.session.client

    @property
    def label(self) -> str:
        """The request's name in log lines: see ``request_label``."""
        return request_label(self.received, self.session, self.turn)

    @Once
    def edits(self) -> tuple[tuple[str, int, str], ...]:
        """Of each rule that made edits: its name, their number, and why it made the first."""
        return tuple([(it.rule, len(it.edits), it.edits[0].why) for it in self.reports if it.edits])

    @Once
    def model(self) -> str | None:
        """The model that the request names, if its body has been parsed or is small."""
        model = body_of(self.sent or self.received).get("model")
        return model if isinstance(model, str) and model else None

    @property
    def judgement(self) -> Judgement:
        """The judgement on the cache, as far as it is known."""
        return Judgement.UNKNOWN if self.verdict is None else self.verdict.judgement

    @property
    def reason(self) -> Reason | None:
        """The reason why it lost the cache; None if it did not."""
        return None if self.verdict is None else self.verdict.reason

    @property
    def lost(self) -> int | None:
        """Tokens of the turn before that were evaluated again, if it lost the cache."""
        verdict = self.verdict
        return verdict.lost.tokens if verdict and verdict.reason and verdict.lost else None

    @property
    def has_moved(self) -> bool:
        """Whether it is a turn whose conversation was at another upstream before."""
        return self.turn > 0 and bool(self.was_at) and self.was_at != self.server

    @property
    def has_failed(self) -> bool:
        """Whether the request was refused: nothing was evaluated then."""
        return self.status is not None and self.status >= 400

    @property
    def went_wrong(self) -> bool:
        """Whether it failed on our side or the server's; a client that leaves is no failure."""
        if self.outcome in WHOLE:
            return self.status is None or self.status >= 400
        return self.outcome is not Outcome.CLIENT_LEFT

    @property
    def left_waiting(self) -> bool:
        """Whether its client left a turn, already sent upstream, before the answer began."""
        is_turn = self.turn > 0
        return is_turn and self.outcome is Outcome.CLIENT_LEFT and self.first_byte is None

    @property
    def waited(self) -> str | None:
        """How long its client waited, and the share read, if ``left_waiting``; else None."""
        if not self.left_waiting:
            return None
        read = self.progress
        what = "without a token" if read is None else f"of prefill ({read.share:.0%})"
        held = ", held for a retry" if self.held else ""
        return f"after {self.seconds:.0f} s {what}{held}"

    @property
    def has_given_up(self) -> bool:
        """Whether its client left after so long that a time-out, not its user, ended it."""
        return self.left_waiting and self.seconds >= _LEAST_LIMIT and not self.error

    @property
    def ended(self) -> float:
        """Seconds since the epoch at the exchange's end."""
        return self.wall + self.seconds

    @property
    def size(self) -> int:
        """Bytes of its bodies; a body that was sent unchanged counts once."""
        size, sent = len(self.received.body) + len(self.response_body or b""), self.sent
        if sent is None or sent.body is self.received.body:
            return size
        return size + len(sent.body)

    def with_fields(self, **fields: Any) -> Exchange:
        """Return a copy with other values in some fields; as quick as a copy of a dict."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **fields)
        return made

    def unread(self) -> Exchange:
        """Return a copy with unparsed requests of its own: parsed, one takes ten times its size.

        A plugin's changes to their JSON reach nobody else. The request before, where it was not
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
        """Create what ``dataclasses.replace`` makes of another."""
        self.__dict__.update(Exchange(**fields).__dict__)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __hash__(self) -> int:
        """Return a hash, so that observers may put it into a set: its equality changes no more."""
        return hash((self.number, self.wall))


def body_of(request: Request) -> Mapping[str, Any]:
    """Return the body's JSON object if it has been parsed or is small; else an empty one."""
    if not request.is_read and len(request.body) > _READ_HERE:
        return _NOTHING
    return request.json or _NOTHING


class RecordColumn(NamedTuple):
    """A column of a display of exchanges: one fact."""

    name: str  #: name in the display
    of: str | Callable[[Exchange], Any]
    """Field (``status``, ``usage.prompt``), or a function that returns the value; None if it is
    unknown."""
    unit: str = ""  #: unit of the value: ``tokens``, ``s``, ``ms``, ``bytes``; "" for none


def row_of(columns: Sequence[RecordColumn]) -> Callable[[Exchange], dict[str, Any]]:
    """Return a function that makes an exchange's row: its values by the columns' names, in order.

    All fields are read by one call, since each turn is shown in several tables.
    """
    blank: dict[str, Any] = dict.fromkeys(column.name for column in columns)
    fields = {column.name: column.of for column in columns if isinstance(column.of, str)}
    made = [(column.name, column.of) for column in columns if not isinstance(column.of, str)]
    taken = attrgetter(*fields.values(), "number", "wall")  # of one name: no tuple

    def row(exchange: Exchange) -> dict[str, Any]:
        found = {**blank, **dict(zip(fields, taken(exchange), strict=False))}
        for name, of in made:
            found[name] = of(exchange)
        return found

    return row


def redacted(exchange: Exchange) -> Exchange:
    """Return ``exchange`` without credentials, and without the texts that its verdict quotes.

    ``core.privacy.credentials`` defines what is found in bodies. A body whose coding hid a
    credential is unpacked.
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
    """Return ``body`` without the credentials in it, and its ``headers``."""
    plain = decoded(body, headers)
    hidden = hide(plain, known)
    if hidden is plain:
        return body, headers
    if plain is not body:
        headers = tuple(pair for pair in headers if pair[0].lower() != b"content-encoding")
    return hidden, headers
