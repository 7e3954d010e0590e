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
from cacheproxy.core.rules.fold import Report
from cacheproxy.core.server.profile import Profile


class Outcome(StrEnum):
    """How an exchange ended."""

    COMPLETE = "complete"
    CLIENT_LEFT = "client left"
    UPSTREAM_FAILED = "upstream failed"
    REFUSED = "refused"


@dataclass(frozen=True)
class Exchange:
    """One request and its response.

    ``received``: the request as it came; ``sent``: as it went upstream (None if it never did).
    ``reports``: what each normalizer did. ``turn``: counts from 1 in its session, 0 for requests
    without a prompt and for those that failed (a status from 400): nothing was evaluated.
    ``status``: as sent to the client, None if nothing was. ``wall``: when the request had been
    read, seconds since the epoch. ``first_byte``, ``seconds``: from then to the first body byte
    and to the end, monotonic. ``bytes_down``: of the response's body.
    ``error``: for people, one line, without any text of the request: ours, or where a response
    came whole with a status from 400, what it says (see ``core.refusal``).
    ``number``: counts from 1 since the proxy started. ``side``: a request of the session that does
    not extend its conversation (a title, a subagent). ``edited_after``, ``sent_after``,
    ``head_after``: seconds from ``wall`` until the rules were through, until it was sent and until
    the response's head came. ``response_headers``: as sent to
    the client. ``response_body``: only if an observer asked for bodies (a capture).
    ``verdict``: of a turn, None for other requests. ``profile``: what was known of the upstream
    when the verdict was reached. ``spared``: what it did not have to evaluate thanks to us, None
    for nothing, or where nobody knows. ``place``: where its conversation's store put it, None for
    no turn. ``server``: the upstream's name, and ``route``: that of the route it took, "" where
    there is but one; ``was_at``: the name of the upstream that the turn before went to. ``price``:
    what the upstream charges for it, None for nothing, or where nobody has said. ``parts``: of a
    turn whose prompt was counted, what its tokens are.
    """

    received: Request
    sent: Request | None
    reports: tuple[Report, ...]
    session: Session | None
    turn: int
    upstream: str
    status: int | None
    outcome: Outcome
    usage: Usage
    wall: float
    first_byte: float | None
    seconds: float
    bytes_down: int
    error: str | None = None
    number: int = 0
    side: bool = False
    edited_after: float | None = None
    sent_after: float | None = None
    head_after: float | None = None
    response_headers: Headers = ()
    response_body: bytes | None = None
    verdict: Verdict | None = None
    profile: Profile | None = None
    spared: Spared | None = None
    place: Place | None = None
    server: str = ""
    route: str = ""
    was_at: str = ""
    price: float | None = None
    parts: Parts | None = None

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
