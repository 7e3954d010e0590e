"""The passes: the same requests straight to the server, then through the rules, each cold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cacheproxy.asking import Site
from cacheproxy.child.proxy import ChildProxy
from cacheproxy.core.conversation.conversation import Conversation
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request
from cacheproxy_replay import Cold, Via
from cacheproxy_replay.cold import erase, marked, new_mark
from cacheproxy_replay.plan import PlannedRequest, ReplayPlan, headers_of
from cacheproxy_replay.rules import Fold, Folded, Ruleset
from cacheproxy_replay.wire import MeasuredAnswer, send

OnStep = Callable[[str, int], None]
"""Called with what is being done, and with how many requests were done since the last call."""

AS_CAPTURED, THROUGH = "as captured", "through cacheproxy"


@dataclass(frozen=True, slots=True)
class PlaceInSession:
    """Whose request it is."""

    session: Session  #: told as the proxy does
    lane: int  #: its number in the session; -1: it has no prompt
    turn: int  #: its number in the lane, from 1
    is_side: bool  #: not of the session's main lane: a title, a subagent

    @property
    def key(self) -> tuple[str, str, int]:
        """What a request shares with those it extends."""
        return (self.session.client, self.session.id, self.lane)


@dataclass(frozen=True, slots=True)
class MeasuredTurn:
    """One request that was answered."""

    number: int  #: as planned
    place: PlaceInSession  #: whose it is
    asked: Request  #: before the rules
    sent: Request  #: as the server got it
    answer: MeasuredAnswer  #: what came back


@dataclass(slots=True)
class ReplayRun:
    """Sends a plan to a server twice. What was measured stays when it is interrupted."""

    plan: ReplayPlan  #: what is sent
    site: Site  #: the server; its headers have the key
    ruleset: Ruleset  #: what the second pass goes through
    cold: Cold = Cold.MARK  #: how each pass starts
    via: Via = Via.PROXY  #: what applies the rules
    edit_remote: bool = False  #: as in the proxy's configuration
    captured: list[MeasuredTurn] = field(default_factory=list)  #: what the first pass measured
    through: list[MeasuredTurn] = field(default_factory=list)  #: what the second pass measured

    @property
    def passes(self) -> tuple[list[MeasuredTurn], list[MeasuredTurn]]:
        """Both passes, as far as they came."""
        return self.captured, self.through

    def answered_alike(self) -> tuple[int, int]:
        """Return how many requests were answered alike in both passes, and of how many."""
        before = {turn.number: turn.answer for turn in self.captured}
        pairs = [(before[turn.number], turn.answer) for turn in self.through]
        good = [(one, other) for one, other in pairs if one.error is None and other.error is None]
        return sum(one.text == other.text for one, other in good), len(good)

    def run(self, progress: OnStep) -> None:
        """Do both passes. Raises CommandError where it cannot go on."""
        places = places_of(self.plan, self.ruleset)
        self._pass(self.captured, self.site.url, Fold(self.ruleset.plan.only()), places, progress)
        fold = Fold(self.ruleset.plan)
        if self.via is Via.RULES:
            self._pass(self.through, self.site.url, fold, places, progress)
            return
        progress("starting the proxy", 0)
        with self._proxied() as url:
            self._pass(self.through, url, fold, places, progress)

    def _pass(
        self,
        done: list[MeasuredTurn],
        url: str,
        fold: Fold,
        places: list[PlaceInSession],
        progress: OnStep,
    ) -> None:
        """Send all requests to ``url``: the server, or a proxy that does what ``fold`` does."""
        mark = new_mark() if self.cold is Cold.MARK else None
        if mark is None:
            erase(self.site)
        name = AS_CAPTURED if done is self.captured else THROUGH
        count = len(self.plan.items)
        for item, place in zip(self.plan.items, places, strict=True):
            progress(f"request {item.number} of {count} {name}", int(bool(done)))
            asked = item.request if mark is None else marked(item.request, mark)
            sent = fold(asked).request
            answer = self._send(url, sent if url == self.site.url else asked)
            done.append(MeasuredTurn(item.number, place, asked, sent, answer))
        progress(f"done {name}", 1)

    def _send(self, url: str, request: Request) -> MeasuredAnswer:
        model = (request.json or {}).get("model")
        site = Site(url, headers_of(request, self.site.headers))
        return send(site, request.target, request.body, str(model))

    @contextmanager
    def _proxied(self) -> Iterator[str]:
        """Start the proxy with the rules in front of the server and yield its URL."""
        with tempfile.TemporaryDirectory(prefix="cacheproxy-replay-") as folder:
            config = Path(folder) / "config.toml"
            config.write_text(self.ruleset.toml, encoding="utf-8")
            options = ["--config", str(config), *(["--edit-remote"] if self.edit_remote else [])]
            with ChildProxy(self.site.url, *options) as proxy:
                yield proxy.url


def places_of(plan: ReplayPlan, ruleset: Ruleset) -> list[PlaceInSession]:
    """Return whose each request is, as the proxy tells them apart."""
    fold = Fold(ruleset.plan)
    folded = [fold(item.request) for item in plan.items]
    # which lane is the conversation is known only at the end: a title comes before turn 1
    return [_place(one, fold.store.conversation(one.session)) for one in folded]


def _place(folded: Folded, known: Conversation | None) -> PlaceInSession:
    if folded.place is None or known is None:
        return PlaceInSession(folded.session, -1, 1, is_side=known is not None)
    lane, turn = folded.place.lane, folded.place.turn
    return PlaceInSession(folded.session, lane, turn, lane != known.main)


def chosen(
    plan: ReplayPlan, ruleset: Ruleset, session: str | None, *, side: bool
) -> tuple[PlannedRequest, ...]:
    """Return the items of ``session`` (an id, or the start of one), with side requests or not."""
    places = places_of(plan, ruleset)
    return tuple(
        item
        for item, place in zip(plan.items, places, strict=True)
        if (side or not place.is_side) and (session is None or is_named(place.session, session))
    )


def is_named(session: Session, name: str) -> bool:
    """Whether ``name`` is the session's label, or its id, or the start of one."""
    return session.name.startswith(name) or session.id.startswith(name)
