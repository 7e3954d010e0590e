"""One captured exchange, as it is kept on disk."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.http1.content_coding import decoded
from cacheproxy.core.privacy.credentials import hide
from cacheproxy.core.privacy.redact import carried, redact_headers, redact_target
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.servers.profile import Profile
from cacheproxy.record.exchange import Exchange, Outcome

_NOT_SAID = Usage()
_AS_IN_EXCHANGE = (
    *("wall", "number", "session", "turn", "side", "upstream", "status", "response_headers"),
    *("response_body", "bytes_down", "outcome", "error", "usage", "sent_after", "head_after"),
    *("first_byte", "seconds", "profile"),
)
"""What is taken from an Exchange as it is."""


@dataclass(frozen=True, slots=True)
class Applied:
    """What one rule did."""

    rule: str  #: its name
    paths: tuple[str, ...] = ()  #: the JSON pointers of its edits
    error: str | None = None  #: why it was left out


@dataclass(frozen=True, slots=True)
class Captured:
    """One exchange as it is kept on disk.

    Credentials go when it is made; ``core.privacy.credentials`` says what is found in bodies.
    Fields that say no more are as in ``Exchange``; None, empty or 0 where it is not known, as in
    all that other programs recorded.
    """

    method: str  #: of the request
    target: str  #: as it came
    headers: Headers = ()  #: as they came
    body: bytes = b""  #: as it came
    wall: float = 0.0  #: seconds since the epoch, or since a recorder's own start
    sent: bytes | None = None  #: the body as it went upstream; None if it never did or is not known
    sent_target: str | None = None  #: None if it was ``target``
    reports: tuple[Applied, ...] = ()  #: what the rules did
    number: int = 0  #: see ``Exchange``
    session: Session | None = None  #: see ``Exchange``
    turn: int = 0  #: see ``Exchange``
    side: bool = False  #: see ``Exchange``
    upstream: str = ""  #: see ``Exchange``
    status: int | None = None  #: see ``Exchange``
    response_headers: Headers = ()  #: see ``Exchange``
    response_body: bytes | None = None  #: see ``Exchange``
    bytes_down: int | None = None  #: see ``Exchange``
    outcome: Outcome | None = None  #: see ``Exchange``
    error: str | None = None  #: see ``Exchange``
    usage: Usage = _NOT_SAID  #: see ``Exchange``
    sent_after: float | None = None  #: see ``Exchange``
    head_after: float | None = None  #: see ``Exchange``
    first_byte: float | None = None  #: see ``Exchange``
    seconds: float | None = None  #: see ``Exchange``
    verdict: Verdict | None = None  #: without its excerpts
    profile: Profile | None = None  #: what was known of the upstream

    def __post_init__(self) -> None:
        """Redact. A body whose coding hid a credential stands without that coding."""
        known = carried(self.headers, self.target) | carried(self.response_headers, self.upstream)
        given, answered = self.headers, self.response_headers
        body, given = _hidden(self.body, given, known)
        sent = self.sent
        if sent is not None:
            same = sent is self.body or sent == self.body
            sent = body if same else _hidden(sent, self.headers, known)[0]
        response_body = self.response_body
        if response_body is not None:
            response_body, answered = _hidden(response_body, answered, known)
        set_field = object.__setattr__
        set_field(self, "target", redact_target(self.target, known))
        if self.sent_target is not None:
            set_field(self, "sent_target", redact_target(self.sent_target, known))
        set_field(self, "upstream", redact_target(self.upstream, known))
        set_field(self, "headers", redact_headers(given, known))
        set_field(self, "response_headers", redact_headers(answered, known))
        set_field(self, "body", body)
        set_field(self, "sent", sent)
        set_field(self, "response_body", response_body)

    @property
    def has_failed(self) -> bool:
        """Whether it was turned down: nothing was evaluated then."""
        return self.status is not None and self.status >= 400

    @property
    def request(self) -> Request:
        """The request as it came, but for its credentials."""
        return Request(self.method, self.target, self.headers, self.body)

    @property
    def sent_request(self) -> Request | None:
        """The request as it went upstream, or None."""
        if self.sent is None:
            return None
        return Request(self.method, self.sent_target or self.target, self.headers, self.sent)

    @classmethod
    def of(cls, exchange: Exchange) -> Captured:
        """Return what is kept of ``exchange``."""
        received, sent, verdict = exchange.received, exchange.sent, exchange.verdict
        if verdict is not None and verdict.where is not None:
            # the excerpts stand in the bodies
            verdict = replace(verdict, where=replace(verdict.where, was="", now=""))
        return cls(
            method=received.method,
            target=received.target,
            headers=received.headers,
            body=received.body,
            sent=sent.body if sent is not None else None,
            sent_target=sent.target if sent and sent.target != received.target else None,
            reports=tuple(
                Applied(report.rule, tuple(edit.path for edit in report.edits), report.error)
                for report in exchange.reports
            ),
            verdict=verdict,
            **{name: getattr(exchange, name) for name in _AS_IN_EXCHANGE},
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
