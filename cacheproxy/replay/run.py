"""The passes: the same requests straight to the server, then through the rules, each cold."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from cacheproxy.asking import Site
from cacheproxy.child.proxy import ProxyService
from cacheproxy.core.conversation.conversation import Conversation
from cacheproxy.core.conversation.session import Session
from cacheproxy.core.prompt.request import Request
from cacheproxy.replay.cold import Cold, erase, marked, new_mark
from cacheproxy.replay.plan import Item, Plan, headers_of
from cacheproxy.replay.rules import Fold, Folded, Ruleset
from cacheproxy.replay.wire import Answer, send

OnStep = Callable[[str, int], None]
"""Called with what is being done, and with how many requests were done since the last call."""

AS_CAPTURED, THROUGH = "as captured", "through cacheproxy"


class Via(StrEnum):
    """What applies the rules in the second pass: a proxy in between, or this process."""

    PROXY = "proxy"
    RULES = "rules"


@dataclass(frozen=True, slots=True)
class Place:
    """Whose request it is: its session, its lane there and its turn in it, from 1."""

    session: Session
    lane: int
    turn: int
    is_side: bool

    @property
    def key(self) -> tuple[str, str, int]:
        """What a request shares with those it extends."""
        return (self.session.client, self.session.id, self.lane)


@dataclass(frozen=True, slots=True)
class Turn:
    """One request that was answered. ``asked``: as we sent it; ``sent``: as the server got it."""

    number: int
    place: Place
    asked: Request
    sent: Request
    answer: Answer


@dataclass(frozen=True, slots=True)
class Target:
    """The server, and how it is spoken to. ``edit_remote`` as in the proxy's configuration."""

    url: str
    api_key: str | None = None
    edit_remote: bool = False

    @property
    def site(self) -> Site:
        """The server, for questions of our own."""
        key = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        return Site(self.url, key)


@dataclass(slots=True)
class Run:
    """Sends a plan to a server twice. What was measured stays when it is interrupted."""

    plan: Plan
    target: Target
    ruleset: Ruleset
    cold: Cold = Cold.MARK
    via: Via = Via.PROXY
    captured: list[Turn] = field(default_factory=list)
    through: list[Turn] = field(default_factory=list)

    @property
    def passes(self) -> tuple[list[Turn], list[Turn]]:
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
        target = self.target
        self._pass(self.captured, target.url, Fold((), self.ruleset.hooks), places, progress)
        fold = Fold(self.ruleset.rules, self.ruleset.hooks)
        if self.via is Via.RULES:
            self._pass(self.through, target.url, fold, places, progress)
            return
        progress("starting the proxy", 0)
        with _proxied(target, self.ruleset) as url:
            self._pass(self.through, url, fold, places, progress)

    def _pass(
        self, done: list[Turn], url: str, fold: Fold, places: list[Place], progress: OnStep
    ) -> None:
        """Send all requests to ``url``: the server, or a proxy that does what ``fold`` does."""
        mark = new_mark() if self.cold is Cold.MARK else None
        if mark is None:
            erase(self.target.site)
        name = AS_CAPTURED if done is self.captured else THROUGH
        count = len(self.plan.items)
        for item, place in zip(self.plan.items, places, strict=True):
            progress(f"request {item.number} of {count} {name}", int(bool(done)))
            asked = item.request if mark is None else marked(item.request, mark)
            sent = fold(asked).request
            answer = self._send(url, sent if url == self.target.url else asked)
            done.append(Turn(item.number, place, asked, sent, answer))
        progress(f"done {name}", 1)

    def _send(self, url: str, request: Request) -> Answer:
        model = (request.json or {}).get("model")
        site = Site(url, headers_of(request, self.target.api_key))
        return send(site, request.target, request.body, str(model))


def places_of(plan: Plan, ruleset: Ruleset) -> list[Place]:
    """Return whose each request is, as the proxy tells them apart."""
    fold = Fold(ruleset.rules, ruleset.hooks)
    folded = [fold(item.request) for item in plan.items]
    # which lane is the conversation is known only at the end: a title comes before turn 1
    return [_place(one, fold.store.conversation(one.session)) for one in folded]


def _place(folded: Folded, known: Conversation | None) -> Place:
    if folded.place is None or known is None:
        return Place(folded.session, -1, 1, is_side=known is not None)
    lane, turn = folded.place.lane, folded.place.turn
    return Place(folded.session, lane, turn, lane != known.main)


def chosen(plan: Plan, ruleset: Ruleset, session: str | None, *, side: bool) -> tuple[Item, ...]:
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


@contextmanager
def _proxied(target: Target, ruleset: Ruleset) -> Iterator[str]:
    """Start the proxy with ``ruleset`` in front of the server and yield its URL."""
    with tempfile.TemporaryDirectory(prefix="cacheproxy-replay-") as folder:
        config = Path(folder) / "config.toml"
        config.write_text(ruleset.toml, encoding="utf-8")
        options = ["--config", str(config), *(["--edit-remote"] if target.edit_remote else [])]
        with ProxyService(target.url, *options) as proxy:
            yield proxy.url
