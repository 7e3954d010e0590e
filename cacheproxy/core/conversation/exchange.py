"""One request and its response, as one frozen record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from cacheproxy.core.conversation.lanes import Place
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.conversation.spared import Spared
from cacheproxy.core.conversation.usage import Usage
from cacheproxy.core.conversation.verdict import Verdict
from cacheproxy.core.prompt.parts import Parts
from cacheproxy.core.prompt.request import Headers, Request
from cacheproxy.core.rules.fold import RuleReport
from cacheproxy.core.servers.profile import Profile


class Outcome(StrEnum):
    """How an exchange ended."""

    COMPLETE = "complete"
    CLIENT_LEFT = "client left"
    UPSTREAM_FAILED = "upstream failed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Exchange:
    """One request and its response."""

    received: Request  #: the request as it came
    sent: Request | None  #: as it went upstream; None if it never did
    reports: tuple[RuleReport, ...]  #: what each normalizer did
    session: Session | None  #: whose it is; None: it speaks no API that we know
    turn: int
    """Counts from 1 in its session, 0 for requests without a prompt and for those that failed (a
    status from 400): nothing was evaluated."""
    upstream: str  #: the upstream's URL
    status: int | None  #: as sent to the client; None if nothing was
    outcome: Outcome  #: how it ended
    usage: Usage  #: tokens and seconds as the server measured them
    wall: float  #: when the request had been read, seconds since the epoch
    first_byte: float | None
    """Seconds from then to the first byte of the body, monotonic; None: there was none."""
    seconds: float  #: from then to the end, monotonic
    bytes_down: int  #: of the response's body
    error: str | None = None
    """For people, one line, without any text of the request: ours, or where a response came whole
    with a status from 400, what it says (see ``core.refusal``)."""
    number: int = 0  #: counts from 1 since the proxy started
    side: bool = False
    """A request of the session that does not extend its conversation (a title, a subagent)."""
    edited_after: float | None = None  #: seconds from ``wall`` until the rules were through
    sent_after: float | None = None  #: seconds from ``wall`` until it was sent
    head_after: float | None = None  #: seconds from ``wall`` until the response's head came
    response_headers: Headers = ()  #: as sent to the client
    response_body: bytes | None = None  #: only if an observer asked for bodies (a capture)
    verdict: Verdict | None = None  #: of a turn; None for other requests
    profile: Profile | None = None  #: what was known of the upstream when the verdict was reached
    spared: Spared | None = None
    """What it did not have to evaluate thanks to us; None: nothing, or nobody knows."""
    place: Place | None = None  #: where its conversation's store put it; None: no turn
    server: str = ""  #: the upstream's name, "" where there is but one
    route: str = ""  #: the name of the route that it took, "" where there is but one
    was_at: str = ""  #: the name of the upstream that the turn before went to
    price: float | None = None
    """What the upstream charges for it; None: nothing, or nobody has said."""
    parts: Parts | None = None  #: of a turn whose prompt was counted, what its tokens are

    @property
    def has_moved(self) -> bool:
        """Whether it is a turn whose conversation was at another upstream before."""
        return self.turn > 0 and bool(self.was_at) and self.was_at != self.server

    @property
    def has_failed(self) -> bool:
        """Whether it was turned down: nothing was evaluated then."""
        return self.status is not None and self.status >= 400

    @property
    def size(self) -> int:
        """Bytes of its bodies; one that was sent as it came counts once."""
        size, sent = len(self.received.body) + len(self.response_body or b""), self.sent
        if sent is None or sent.body is self.received.body:
            return size
        return size + len(sent.body)

    def unread(self) -> Exchange:
        """Return it with requests of its own, yet unread: what is read takes ten bodies' room.

        What a plugin does to their JSON reaches nobody else. The request before, where it was not
        judged, is the store's, and stays there.
        """
        received, sent = replace(self.received, memo=None), self.sent
        if sent is not None:
            sent = received if sent is self.received else replace(sent, memo=None)
        place = None if self.place is None else self.place._replace(pair=None)
        return replace(self, received=received, sent=sent, place=place)
